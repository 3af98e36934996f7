/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/core.c - the one struct, and what a call does that may not take the short way into it. */
#include "lib/core.h"
#include "lib/block.h"
#include "lib/error.h"

#include <errno.h>
#include <time.h>

#define SPINS 10000 /* about 200 us */

struct nigh_core nigh_core = {
    .guard = NIGH_GUARD_CLOSED,
    .log_level = NIGH_LOG_WARN,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .door = PTHREAD_MUTEX_INITIALIZER,
};

NIGH_PUBLIC __thread struct nigh_site nigh_site __attribute__((tls_model("initial-exec")));

int nigh_enter_guarded(struct nigh_call call)
{
    if (nigh_core.guard & NIGH_GUARD_FORKED)
        return nigh_fail(
            call, -ECHILD,
            "this process was forked from the one that called nigh_init and is no rank: leave nigh "
            "to the parent, or exec a program here");
    if (nigh_core.guard & NIGH_GUARD_CLOSED)
        return nigh_fail(call, -ENOTCONN, "%s",
                         nigh_core.was_open ? "called after nigh_finalize" : "called before nigh_init");
    if (nigh_core.guard & NIGH_GUARD_THREADS)
        nigh_lock();
    return nigh_block_alone(call);
}

/* nigh's own thread has a lock while it copies half a MiB; to sleep for it, and be woken, would take longer. */
static void take(pthread_mutex_t *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return;
        nigh_pause();
    }
    pthread_mutex_lock(lock);
}

/* `spare` is looked at outside of the lock: nothing changes it while calls are allowed. */
void nigh_lock(void)
{
    if (!nigh_core.spare) {
        pthread_mutex_lock(&nigh_core.lock);
        return;
    }
    take(&nigh_core.door);
    take(&nigh_core.lock);
    pthread_mutex_unlock(&nigh_core.door);
}

void nigh_leave_guarded(void)
{
    if (nigh_core.guard & NIGH_GUARD_THREADS)
        pthread_mutex_unlock(&nigh_core.lock);
}

uint64_t nigh_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
