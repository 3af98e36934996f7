/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/turn.h - the lock of a context, which NCCL's service thread and its progress thread take turns by. The progress thread takes it
 * in every call and never waits for it, so it is a spin lock: one exchange and one store. Whoever waits lets others run, as its holder may
 * be one of them.
 */
#ifndef NIGH_HOSTS_NCCL_TURN_H
#define NIGH_HOSTS_NCCL_TURN_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* False: another thread has it. */
static inline bool nigh_nccl_turn_take(pthread_spinlock_t *turn)
{
    return pthread_spin_trylock(turn) == 0;
}

static inline void nigh_nccl_turn_wait(pthread_spinlock_t *turn)
{
    while (!nigh_nccl_turn_take(turn))
        sched_yield();
}

static inline void nigh_nccl_turn_give(pthread_spinlock_t *turn)
{
    (void)pthread_spin_unlock(turn);
}

#endif
