/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/turn.h - the lock of a context, which NCCL's service thread and its progress thread take turns by. The progress thread takes it
 * in every call and never waits for it, so it is one exchange and one store, and whoever waits polls: no call holds it for long.
 */
#ifndef NIGH_HOSTS_NCCL_TURN_H
#define NIGH_HOSTS_NCCL_TURN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct nigh_nccl_turn {
    atomic_bool taken; /* acquired by take() and wait(), released by give() */
};

/* False: another thread has it. */
static inline bool nigh_nccl_turn_take(struct nigh_nccl_turn *turn)
{
    return !atomic_load_explicit(&turn->taken, memory_order_relaxed) &&
           !atomic_exchange_explicit(&turn->taken, true, memory_order_acquire);
}

static inline void nigh_nccl_turn_wait(struct nigh_nccl_turn *turn)
{
    while (!nigh_nccl_turn_take(turn))
        sched_yield();
}

static inline void nigh_nccl_turn_give(struct nigh_nccl_turn *turn)
{
    atomic_store_explicit(&turn->taken, false, memory_order_release);
}

#endif
