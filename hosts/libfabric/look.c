/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/look.c - see look.h. */
#include "hosts/libfabric/look.h"

#include <stdlib.h>

#define KEPT   64u /* then threads that do not sleep make room for others, and are told once more */
#define GONE_S 1   /* a thread that was woken has run by then; if not, it is woken again as often */

/* One thread that sleeps on the descriptor at times. */
struct nigh_fi_look {
    uint64_t thread;
    uint64_t stamp;  /* the waiter's when it last looked */
    uint64_t due_ns; /* when others first waited for it to look; 0: they do not */
    bool asleep;     /* or about to be */
};

/* A number of this thread's own: kernels and libraries give theirs to later threads again. */
static uint64_t self(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t last;
    static __thread uint64_t number;

    if (number)
        return number;
    pthread_mutex_lock(&lock);
    number = ++last;
    pthread_mutex_unlock(&lock);
    return number;
}

static struct nigh_fi_look *find(const struct nigh_fi_waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->look_count; i++)
        if (waiter->looks[i].thread == self())
            return &waiter->looks[i];
    return NULL;
}

static struct nigh_fi_look *make(struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_look *grown;

    for (uint32_t i = 0; waiter->look_count >= KEPT && i < waiter->look_count; i++)
        if (!waiter->looks[i].asleep)
            return &waiter->looks[i];
    grown = realloc(waiter->looks, (waiter->look_count + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    waiter->looks = grown;
    return &grown[waiter->look_count++];
}

void nigh_fi_look(struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_look *look = waiter->looks ? find(waiter) : NULL;

    if (look)
        *look = (struct nigh_fi_look){.thread = look->thread, .stamp = waiter->stamp};
}

bool nigh_fi_has_looked(struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_look *look = find(waiter);
    bool known = look && look->stamp == waiter->stamp;

    if (!look)
        look = make(waiter);
    if (look)
        *look = (struct nigh_fi_look){.thread = self(), .stamp = waiter->stamp};
    return known;
}

void nigh_fi_looks_no_more(struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_look *look = find(waiter);

    if (look)
        look->asleep = true;
}

void nigh_fi_looks_again(struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_look *look = find(waiter);

    if (look)
        look->asleep = false;
}

/* A thread that was stopped before it slept would sleep for ever once others have gone on without it. From the first of that
 * kind on the descriptor is readable again each second; where it cannot be all wait on. */
bool nigh_fi_is_unseen(struct nigh_fi_waiter *waiter)
{
    bool any = false;

    for (uint32_t i = 0; i < waiter->look_count; i++) {
        struct nigh_fi_look *look = &waiter->looks[i];

        if (!look->asleep || look->stamp == waiter->stamp)
            continue;
        if (!look->due_ns)
            look->due_ns = nigh_fi_now();
        look->asleep = nigh_fi_now() - look->due_ns < GONE_S * UINT64_C(1000000000) ||
                       !nigh_fi_wakeup_repeat(&waiter->wakeup);
        any |= look->asleep;
    }
    return any;
}

void nigh_fi_looks_free(struct nigh_fi_waiter *waiter)
{
    free(waiter->looks);
    waiter->looks = NULL;
    waiter->look_count = 0;
}
