/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/progress.h - the one place that polls the plugin, gives each completion to its operation, and sleeps.
 *
 * With threads (NIGH_GUARD_THREADS) whoever is inside holds the lock, except while it sleeps. One thread at a time
 * sleeps in the plugin (the *waiting* thread), the others on a condition; whoever has polled wakes them all, because
 * what it was given may be what they wait for.
 */
#ifndef NIGH_LIB_PROGRESS_H
#define NIGH_LIB_PROGRESS_H

#include "lib/comm.h"
#include "lib/request.h"

#define NIGH_POLL_ROOM 64 /* a usual window at once: 16 cost 1 ns a message more */

/* For nigh_poll() alone. */
void nigh_complete_rarely(const struct nigh_completion *completion);
int nigh_progress_tell(const struct nigh_completion *done, int count);

static inline void nigh_complete(const struct nigh_completion *completion)
{
    struct nigh_operation *operation = (struct nigh_operation *)(uintptr_t)completion->context;

    /* Whatever the program has posted by itself comes here, too. */
    if (nigh_unlikely(!nigh_is_operation(operation) || completion->status != 0 ||
                      operation->flags & NIGH_OP_RARE)) {
        nigh_complete_rarely(completion);
        return;
    }
    if (completion->op == NIGH_OP_RECV) {
        operation->source = nigh_comm_rank_of(operation->comm, completion->source);
        operation->done_tag = (int32_t)completion->tag;
        operation->done_bytes = completion->bytes;
    }
    operation->phase = NIGH_PHASE_DONE;
}

/* The two halves of nigh_poll_up_to(): the caller gives each completion to its operation in between. */
static inline int nigh_poll_into(struct nigh_completion *done, uint32_t most)
{
    return nigh_core.ops->poll_completions(nigh_core.context, done, most);
}

static inline int nigh_poll_told(const struct nigh_completion *done, int count)
{
    return nigh_unlikely(nigh_core.watchers != 0) && count > 0 ? nigh_progress_tell(done, count) : count;
}

/* nigh_poll(), with at most so many completions. */
static inline int nigh_poll_up_to(uint32_t most)
{
    struct nigh_completion done[NIGH_POLL_ROOM];
    int count = nigh_poll_into(done, most);

    for (int i = 0; i < count; i++)
        nigh_complete(&done[i]);
    return nigh_poll_told(done, count);
}

/* Moves everything once. Never sleeps. How many completions there were, besides those that only wake a thread. */
static inline int nigh_poll(void)
{
    return nigh_poll_up_to(NIGH_POLL_ROOM);
}

/* Ends the sleep of all threads. */
void nigh_progress_wake(void);

/* Sleeps until something has been polled, by this thread or another one, or `ns` have passed; the lock is
 * open meanwhile. May return early for no reason. How many completions this thread has polled; -EINTR:
 * perhaps a peer has nudged this rank. */
int nigh_progress_sleep(uint64_t ns);

#endif
