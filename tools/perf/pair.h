/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests between ranks 0 and 1 that have a message size: latency, rate, bandwidth, lend, remote memory. They differ in
 * what a round does; which floors and peers are raced next to it, and how rows come of it, is the same and is here. */
#ifndef NIGH_PERF_PAIR_H
#define NIGH_PERF_PAIR_H

#include "tools/perf/node.h"
#include "tools/perf/pattern.h"
#include "tools/perf/pipe.h"
#include "tools/perf/rounds.h"
#include "tools/perf/run.h"

/* What the work is raced against. */
enum perf_floor {
    PERF_FLOOR_NONE,
    PERF_FLOOR_HANDOFF,   /* L */
    PERF_FLOOR_ROUNDTRIP, /* 2 L: there and back */
    PERF_FLOOR_ONEWAY, /* L for what fits into a line beside a header, else the pipeline's one way or a bare ring's */
    PERF_FLOOR_STREAM,   /* the pipeline's stream */
    PERF_FLOOR_RATE,     /* lines a second */
    PERF_FLOOR_IN_PLACE, /* the receiver copies straight out of the sender's shared memory: stream */
    PERF_FLOOR_HIDDEN,   /* another core copies while rank 0 computes, %: none where each CPU has a rank */
    PERF_FLOOR_ACKED,    /* one message through the pipeline and one line back, ns */
};

/* One rank's state while one size is measured. */
struct perf_pair {
    struct perf_rank *me;
    struct perf_node node;
    const struct perf_pair_test *test;
    size_t bytes, stride;     /* of a message; from one to the next */
    uint32_t window, windows; /* messages in a window, windows in a repetition */
    bool stale;
    struct perf_pipe_load buffers; /* private memory */
    bool shares;                   /* it is that of the floors */
    uint8_t *out, *in; /* window messages each; in private memory or in the heap, as the test wants */
    uint64_t number;   /* of the next message */
    uint64_t key;      /* of the peer's region: remote memory */
    void *more;        /* the test's own */
};

struct perf_pair_test {
    const char *name, *unit;
    const char *sizes; /* unless --sizes says otherwise */
    bool out_in_heap, in_in_heap;
    bool more_is_better; /* where the unit does not say it */
    bool sampled;        /* run() samples single messages */
    enum perf_floor floor;
    uint32_t work;    /* PERF_FLOOR_HIDDEN: see struct perf_hidden_kind */
    bool lib_reaches; /* libnigh's row has this floor, too, and not the plugin's row */
    const char *note; /* for each row, or NULL */
    uint32_t (*window)(size_t bytes);
    uint32_t (*windows)(size_t bytes);     /* in one repetition; NULL: 1 */
    void (*begin)(struct perf_pair *pair); /* after connecting, in ranks 0 and 1; may be NULL */
    perf_piece_fn run;                     /* its argument is the pair */
    perf_piece_fn run_lib;                 /* the same through libnigh (tools/perf/lib.h), or NULL */
    void (*end)(struct perf_pair *pair);   /* may be NULL */
};

/* All sizes of one test. 0, or a negative errno that has been said. */
int perf_pair_run(struct perf_run *run, const struct perf_pair_test *test);

/* Rewrites message `slot` of the window for sending as number `number` (not when stale: then once). */
static inline void perf_pair_fill(struct perf_pair *pair, uint32_t slot, uint64_t number)
{
    if (!pair->stale)
        perf_fill(pair->out + slot * pair->stride, pair->bytes, perf_seed(pair->me->rank, number));
}

/* Says that byte `wrong` of the message `number` from `rank` is, and ends this rank. */
void perf_pair_wrong(const struct perf_pair *pair, size_t wrong, uint32_t rank, uint64_t number)
    __attribute__((noreturn));

/* Ends the rank when message `slot` of `in` is not what `rank` sent as `number`. */
static inline void perf_pair_check(const struct perf_pair *pair, uint32_t slot, uint32_t rank,
                                   uint64_t number)
{
    uint64_t seed = perf_seed(rank, pair->stale ? slot : number);
    size_t wrong = perf_check(pair->in + slot * pair->stride, pair->bytes, seed);

    if (wrong != pair->bytes)
        perf_pair_wrong(pair, wrong, rank, number);
}

static inline uint32_t perf_pair_peer(const struct perf_pair *pair)
{
    return 1 - pair->me->rank;
}

#endif
