/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/context.h - a presence in a job: its arena, its peers, its queues. Private to plugin/; what is done with it
 * stands in the headers of the files that do it. */
#ifndef NIGH_PLUGIN_CONTEXT_H
#define NIGH_PLUGIN_CONTEXT_H

#include "coll/coll.h"
#include "nigh/transport.h"
#include "plugin/completion.h"
#include "plugin/device.h"
#include "plugin/early.h"
#include "plugin/endpoint.h"
#include "plugin/lent.h"
#include "plugin/match.h"
#include "plugin/options.h"
#include "plugin/peers.h"
#include "plugin/region.h"
#include "plugin/share.h"
#include "plugin/slab.h"
#include "plugin/spread.h"
#include "shm/arena.h"
#include "shm/copy.h"
#include "shm/crowd.h"
#include "shm/doorbell.h"
#include "shm/far.h"
#include "shm/life.h"
#include "shm/log.h"
#include "shm/lookout.h"
#include "shm/pool.h"
#include "shm/program.h"
#include <pthread.h>

/* Polled each time; the others are found by hints and by a sweep now and then. 16 lines are one L1 set's worth of
 * latency, about 10 ns of loads that overlap. */
#define NIGH_HOT_MAX 16u

enum { NIGH_GUARD_THREADS = 1, NIGH_GUARD_FORKED = 2 };

/* Who is waited for, as the host's note says. */
struct nigh_waits_for {
    uint32_t peer;
    uint64_t members;
};

struct nigh_context {
    uint16_t guard; /* NIGH_GUARD_*: 0 on the fast path */
    bool meets;     /* no guard, a crowd, no note that says blocked: a post may take what lies there */
    uint32_t hot_count;
    struct nigh_endpoint *hot[NIGH_HOT_MAX];
    uint32_t first_hot; /* of these, where the next pass begins */
    const uint32_t *service_flag;
    const uint64_t *hint_summary;
    struct nigh_endpoint *busy; /* with queued or flowing sends */
    uint64_t copied_by; /* ns: by then the peer has copied what was last sent as a reference, if it looks */
    struct nigh_message *pulls, *pulls_last; /* references being read: the oldest, the newest */
    /* Those that wait for their receive, but not for ever, the oldest, the newest: fetch.h. */
    struct nigh_message *fetches, *fetches_last;
    struct nigh_message
        *copying; /* of which nothing is to be taken for now: others copy, or are to: pulls.h */
    struct nigh_endpoint *asked; /* whose messages from us we may help to copy: help.h */
    uint32_t referred;           /* messages of ours that their receivers read out of this process, or will */
    uint32_t pulls_count;
    uint32_t begun;   /* of the pulls, of which nothing is copied yet as it should have been at once */
    bool helps_not;   /* writing into a process has failed */
    uint8_t gave_way; /* passes since `begun` in which nothing was copied, that others might run: pull.c */
    uint32_t idle_passes; /* since something arrived or a sweep was made */
    uint32_t busy_passes; /* in which something arrived, since a sweep was made */
    uint32_t sleepers;    /* threads in wait() that are or go to sleep */
    bool fd_armed;        /* somebody may be waiting for the descriptor */
    bool looks_for;       /* this pass is a probe's, so it leaves none */
    bool apart;           /* copies of large messages are not made in this pass, but behind it: pull.c */
    bool leaves;          /* this pass may leave unexpected messages in the rings: stay.c */
    bool suspects;        /* an endpoint is to be broken */
    bool blocked;         /* so says the host's note: what moves is counted there */
    bool hands;           /* the poll that makes this pass has had completions for its host before */
    bool probing; /* so says the host's note: it waits for messages that nobody has posted a receive for */
    uint32_t probed_class;
    uint64_t probed;      /* of the unexpected messages so many had come when probe() found nothing */
    bool nudged;          /* a peer has asked for a full pass, and wait() has not told yet */
    uint64_t nudges_seen; /* of the doorbell's */
    uint64_t received;    /* by the short way, for the counters: nigh_count_taken() */
    uint64_t clock;       /* counts what is heard, for the order of use */
    uint64_t
        received_bytes; /* as `received`, and not beside it, or compilers add both at once by way of vectors */
    struct nigh_cq cq;
    struct nigh_matcher matcher;
    struct nigh_slab send_ops, recv_ops, messages;
    struct nigh_arena_counters *counters; /* without what stands in struct nigh_ring_tx */

    struct nigh_coll coll;
    struct nigh_config config;
    uint64_t incarnation;
    uint64_t asked_ns; /* when all processes were asked for last: nigh_endpoint_ask_all() */
    struct nigh_arena arena;
    struct nigh_program_watch program_watch;
    struct nigh_bell bell;
    struct nigh_pool pool;
    struct nigh_heap *heap;
    struct nigh_shares shares;
    struct nigh_early early;
    struct nigh_rendezvous *rendezvous;
    struct nigh_service *service;
    struct nigh_notifier *notifier; /* from the first wait_fd() on */
    struct nigh_life *life;         /* our words, by which peers hear of our death */
    struct nigh_lookouts *lookouts; /* who hears of theirs; NULL: nobody */
    /* In a crowd: receives that look into their peer's ring at once, and those that wait for what
     * lies behind others. */
    bool at_once;   /* a post has found its message since the last poll */
    bool wants_any; /* by `sought` a receive from anyone was posted */
    bool waits;     /* and one that ends with its message */
    bool stays;     /* a message may have been found to stay */
    uint8_t
        unlooked; /* polls in a row without a pass, as there was such a message or the array was full of what waited */
    uint64_t sought;          /* the matcher's sequence when `wanted` of endpoints was found out, */
    uint32_t sought_of;       /* and how many were posted */
    uint32_t met, met_before; /* posts that have found their message; when it was last looked */
    uint32_t quiet_passes;    /* in a row without news, of a message that stays and others */
    uint32_t news_passes;     /* with news, since it was looked at what lies behind messages that stay */
    struct nigh_crowd crowd;  /* of all attached processes */
    struct nigh_regions regions;
    struct nigh_devices devices;
    struct nigh_lents lents;
    struct nigh_far far; /* slices that are copied for another thread */
    uintptr_t inside;    /* NIGH_GUARD_THREADS: the thread that has the lock, as pthread_self() */
    struct nigh_message *claimed;
    struct nigh_endpoint **by_index; /* peers_max entries */
    uint32_t index_next, *index_free, index_free_count;
    struct nigh_endpoint *all, *aside; /* bare ones that the host has not disconnected: strip.c */
    struct nigh_peers peers;
    uint32_t endpoint_count, aside_count;
    struct nigh_ids unread; /* bare ones that have messages to receive: peers_max + number is their index */
    /* The lines of bare ones' peers: nobody else looks at them. */
    _Alignas(NIGH_LINE) struct nigh_pair vacant;
    uint32_t shuttles; /* bytes of ours that have memory */
    struct nigh_spread spread;
    bool has_matcher;
    struct nigh_waits_for waits_for;
    uint32_t deaths_untold; /* peers that died with no wildcard receive posted to tell it */
    struct nigh_log_sink log;
    uint32_t refusals; /* told of; refuse.h */
    bool refused_child;

    pthread_mutex_t lock;                        /* NIGH_GUARD_THREADS */
    struct nigh_context *next_open, **link_open; /* all contexts of the process, for fork */
};

int nigh_context_open(const struct nigh_open *options, struct nigh_context **out);
int nigh_context_close(struct nigh_context *context);
/* Before it leaves: until silent messages are with the peers that can still read them, 5 s at most. Reads no ring. */
void nigh_context_linger(struct nigh_context *context);

/* The crowd has changed, and what goes by it with it. */
void nigh_context_crowd(struct nigh_context *context);

/* The crowd, the guard or the note has changed. */
static inline void nigh_context_settle(struct nigh_context *context)
{
    context->meets = context->crowd.full && !context->guard && !context->blocked;
}

/* How copies for several receivers are made, unless past the cache, and read: ranks that run in turns find nothing of
 * long ones in their caches, so the order counts. Allgather of 1 MiB over Open MPI, 8 ranks on 2 CPUs of a Zen 3: 0.88
 * and, in quarters, 0.68 of its own; a broadcast of it on a Zen 4 0.50 and 0.64; below, nothing that shows. With `rep
 * movsb` on a Golden Cove it shows from 64 KiB on: Intel MPI's allgather of 512 KiB 0.80 and 0.63, Open MPI's broadcast
 * of 64 KiB 0.70 and 0.62. */
static inline enum nigh_copy_kernel nigh_context_kernel(const struct nigh_context *context, uint64_t bytes)
{
    enum nigh_copy_kernel kernel = nigh_copy_for_long();
    uint64_t from = kernel == NIGH_COPY_MOVSB ? 64 * 1024 : 512 * 1024 + 1;

    return context->crowd.full && bytes >= from ? kernel : NIGH_COPY_PLAIN;
}

/* Out of the program's memory of a peer's, of any length that is not in a ring: by rep movsb, where that is for long ones,
 * streams of 32 KiB to 1 MiB over Open MPI are 1.01 to 1.07 times as fast as in order (docs/rationale/program-memory.md). */
static inline enum nigh_copy_kernel nigh_context_program_kernel(const struct nigh_context *context,
                                                                uint64_t bytes)
{
    return nigh_copy_for_long() == NIGH_COPY_MOVSB ? NIGH_COPY_MOVSB : nigh_context_kernel(context, bytes);
}

static inline void nigh_complete(struct nigh_context *context, const struct nigh_completion *completion)
{
    nigh_cq_push(&context->cq, completion);
}

#endif
