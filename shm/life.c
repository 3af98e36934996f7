/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/life.c - the list by which the kernel finds the life words. It lies in private memory, so no peer can steer what the
 * kernel follows. The kernel takes one distance from list entry to word for all of them: entries are as far apart as pairs.
 */
#include "shm/life.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An entry of the kernel's list, at the distance of a pair from the next one. */
union entry {
    struct robust_list list;
    uint8_t pair[sizeof(struct nigh_pair)];
};

struct nigh_life {
    struct robust_list_head head;
    union entry *entries;
    size_t bytes;
    struct nigh_pair *pairs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered;
    uint32_t holder; /* the thread's number; 0: the kernel has refused */
};

int nigh_life_open(struct nigh_pair *pairs, uint32_t peers_max, struct nigh_life **out)
{
    struct nigh_life *life = nigh_os.calloc(1, sizeof(*life));

    if (!life)
        return -ENOMEM;
    life->bytes = ((uint64_t)peers_max * sizeof(union entry) + NIGH_PAGE - 1) & ~(uint64_t)(NIGH_PAGE - 1);
    life->pairs = pairs;
    life->entries = nigh_os.mmap(NULL, life->bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (life->entries == MAP_FAILED) {
        nigh_log(NIGH_LOG_ERROR, "no memory for the life words of %u peers: %s", peers_max, strerror(errno));
        free(life);
        return -ENOMEM;
    }
    life->head.list.next = &life->head.list;
    life->head.futex_offset = (long)((uintptr_t)&pairs->life - (uintptr_t)life->entries);
    pthread_mutex_init(&life->lock, NULL);
    pthread_cond_init(&life->changed, NULL);
    *out = life;
    return 0;
}

void nigh_life_close(struct nigh_life *life)
{
    if (!life)
        return;
    pthread_cond_destroy(&life->changed);
    pthread_mutex_destroy(&life->lock);
    nigh_os.munmap(life->entries, life->bytes);
    free(life);
}

void nigh_life_enter(struct nigh_life *life)
{
    uint32_t holder = (uint32_t)syscall(SYS_gettid);

    if (nigh_os.set_robust_list(&life->head, sizeof(life->head))) {
        nigh_log(
            NIGH_LOG_INFO,
            "set_robust_list is refused here (%s): peers hear of this process's death only when its memory "
            "is given back; let the sandbox allow it",
            strerror(errno));
        holder = 0;
    }
    pthread_mutex_lock(&life->lock);
    life->holder = holder;
    life->entered = true;
    pthread_cond_signal(&life->changed);
    pthread_mutex_unlock(&life->lock);
}

static uint32_t holder_of(struct nigh_life *life)
{
    uint32_t holder;

    pthread_mutex_lock(&life->lock);
    while (!life->entered)
        pthread_cond_wait(&life->changed, &life->lock);
    holder = life->holder;
    pthread_mutex_unlock(&life->lock);
    return holder;
}

/* The kernel follows the list whenever the process is killed, so each store leaves it whole. */
void nigh_life_hold(struct nigh_life *life, uint32_t index)
{
    struct robust_list *entry = &life->entries[index].list;
    uint32_t holder;

    if (entry->next)
        return;
    holder = holder_of(life);
    if (!holder)
        return;
    /* Relaxed: the peer is told of the pair by a system call, later. */
    nigh_store_relaxed(&life->pairs[index].life, holder | FUTEX_WAITERS);
    entry->next = life->head.list.next;
    nigh_store_release(&life->head.list.next, entry, LIFE_HOLD);
}

void nigh_life_release(struct nigh_life *life)
{
    nigh_store_release(&life->head.list.next, &life->head.list, LIFE_HOLD);
}
