/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/notifier.c - see notifier.h. The thread has two sleeps: on `armed` until it is asked, on the doorbell until it is
 * rung. */
#include "shm/notifier.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of `armed`: a number of the arming, which is even, counts up and skips IDLE. */
#define IDLE  0u
#define ENDED 1u

#define STOP_NS 10000000 /* between two rings for a thread that ends */

struct nigh_notifier {
    uint32_t armed; /* a futex */
    uint32_t seen;  /* what the bell was: published by `armed` */
    uint64_t bound; /* of the sleep, ns: the same */
    uint32_t gone;  /* a futex: the thread has ended */
    uint32_t last;  /* number given: the owner's */
    uint64_t most;  /* the bound that was given with it: the same */
    int fd[2];      /* the owner's, the thread's */
    struct nigh_file_id id[2];
    bool told;
    struct nigh_bell *bell;
    pthread_t thread;
};

static void wake(uint32_t *word)
{
    nigh_os.futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL);
}

static void signal_owner(struct nigh_notifier *notifier)
{
    struct iovec byte = {.iov_base = &(char){1}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1};

    /* Where there is no room it is readable already. */
    if (nigh_os_is(notifier->fd[1], &notifier->id[1]))
        (void)nigh_os.sendmsg(notifier->fd[1], &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *run(void *argument)
{
    struct nigh_notifier *notifier = argument;
    uint32_t armed, done = IDLE;

    pthread_setname_np(pthread_self(), "nigh-notifier");
    while ((armed = nigh_load_acquire(&notifier->armed, NOTIFY_TAKE)) != ENDED) {
        /* Of `armed` or a later one, which will do. */
        uint32_t seen = nigh_load_relaxed(&notifier->seen);
        uint64_t bound = nigh_load_relaxed(&notifier->bound);

        if (armed == IDLE || armed == done) {
            nigh_os.futex(&notifier->armed, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, armed, NULL);
        } else if (nigh_bell_read(notifier->bell) != seen ||
                   nigh_bell_sleep(notifier->bell, seen, bound) == -ETIMEDOUT) {
            /* The time is over, or sleeping fails: the owner looks. */
            signal_owner(notifier);
            done = armed;
        }
    }
    /* Relaxed: the owner joins the thread behind it. */
    nigh_store_relaxed(&notifier->gone, 1);
    wake(&notifier->gone);
    return NULL;
}

int nigh_notifier_start(struct nigh_bell *bell, struct nigh_notifier **out)
{
    struct nigh_notifier *notifier = nigh_os.calloc(1, sizeof(*notifier));
    int error;

    if (!notifier)
        return -ENOMEM;
    *notifier = (struct nigh_notifier){.fd = {-1, -1}, .bell = bell};
    error = nigh_os_pair(notifier->fd, notifier->id);
    if (!error)
        error = nigh_thread_spawn(&notifier->thread, run, notifier);
    if (error) {
        nigh_log(
            NIGH_LOG_ERROR,
            "cannot make the descriptor of wait_fd: %s (raise what stands in the way: ulimit -u, ulimit -v, "
            "ulimit -n)",
            strerror(-error));
        nigh_os_close(notifier->fd[0]);
        nigh_os_close(notifier->fd[1]);
        free(notifier);
        return error == -ENFILE ? -EMFILE : error;
    }
    *out = notifier;
    return 0;
}

void nigh_notifier_stop(struct nigh_notifier *notifier)
{
    struct timespec pause = {.tv_nsec = STOP_NS};

    if (!notifier)
        return;
    nigh_store_release(&notifier->armed, ENDED, NOTIFY_ARM);
    wake(&notifier->armed);
    /* More than once: a hostile peer may set the bell back to what the thread has seen. */
    while (!nigh_load_relaxed(&notifier->gone)) {
        nigh_bell_ring(notifier->bell, NIGH_ASLEEP);
        nigh_os.futex(&notifier->gone, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &pause);
    }
    pthread_join(notifier->thread, NULL);
    nigh_os_close_own(notifier->fd[0], &notifier->id[0]);
    nigh_os_close_own(notifier->fd[1], &notifier->id[1]);
    free(notifier);
}

int nigh_notifier_clear(struct nigh_notifier *notifier)
{
    char bytes[64];

    if (!nigh_os_is(notifier->fd[0], &notifier->id[0]) || !nigh_os_is(notifier->fd[1], &notifier->id[1])) {
        if (!notifier->told)
            nigh_log(NIGH_LOG_ERROR,
                     "the program has closed the descriptor of wait_fd, %d, which is nigh's: close those "
                     "that are the program's own (closefrom closes all), or use wait()",
                     notifier->fd[0]);
        notifier->told = true;
        return -EBADF;
    }
    while (nigh_os.read(notifier->fd[0], bytes, sizeof(bytes)) > 0)
        continue;
    return notifier->fd[0];
}

void nigh_notifier_arm(struct nigh_notifier *notifier, uint32_t seen, uint64_t bound_ns)
{
    notifier->last += 2;
    if (notifier->last == IDLE)
        notifier->last += 2;
    nigh_store_relaxed(&notifier->seen, seen);
    nigh_store_relaxed(&notifier->bound, bound_ns);
    nigh_store_release(&notifier->armed, notifier->last, NOTIFY_ARM);
    wake(&notifier->armed);
    /* It may sleep yet for an earlier arming, and for longer. */
    if (bound_ns < notifier->most)
        nigh_bell_ring(notifier->bell, NIGH_ASLEEP);
    notifier->most = bound_ns;
}

void nigh_notifier_disarm(struct nigh_notifier *notifier)
{
    /* Relaxed: who has not seen it signals once more, and the owner looks in vain. */
    nigh_store_relaxed(&notifier->armed, IDLE);
}
