/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of large messages: the sender copies pieces into shared memory, the receiver copies them out, and nothing
 * else happens. Which span, piece and kernels are best depends on the machine and on its state of the moment, so there
 * are several kinds, tried before and raced in every round; the best is the floor. */
#ifndef NIGH_PERF_PIPE_H
#define NIGH_PERF_PIPE_H

#include "shm/copy.h"
#include "tools/perf/rounds.h"

#define PERF_PIPE_KINDS 16
#define PERF_PIPE_BEST  4 /* that are raced next to the work */

struct perf_pipe_kind {
    uint32_t span;  /* bytes of chunks in rotation */
    uint32_t piece; /* bytes of one chunk */
    enum nigh_copy_kernel in, out;
    bool down; /* chunks are used from the highest address down */
    /* No chunks: the message is written in shared memory and the receiver copies it from there. */
    bool in_place;
    /* Both directions go through the same bytes, in turn: what a rank writes it has just read. One
     * message at a time. */
    bool shuttle;
    /* A shuttle of which one word tells how many pieces are there, in place of a flag for each: the
     * receiver copies all. */
    bool counted;
    char name[PERF_NAME_BYTES];
};

/* One size of message for all kinds. */
struct perf_pipe_load {
    size_t bytes;
    uint32_t window;    /* messages per timing of the stream */
    bool stale;         /* do not rewrite the messages */
    uint8_t *from, *to; /* private: window * stride bytes each */
    size_t stride;      /* from message to message */
};

/* A piece's argument. */
struct perf_pipe {
    struct perf_pipe_kind kind;
    const struct perf_pipe_load *load;
    nigh_copy_fn in, out; /* looked up once: a floor pays for nothing twice */
};

/* In which state of the machine kinds are good: both ranks within one L3, or not; or those without chunks. */
enum perf_pipe_group { PERF_PIPE_NEAR, PERF_PIPE_FAR, PERF_PIPE_IN_PLACE };

/* The kinds of one group that are worth a try for messages of `bytes`, the likely best first; at most PERF_PIPE_KINDS.
 * Returns how many. */
uint32_t perf_pipe_kinds(size_t bytes, enum perf_pipe_group group, struct perf_pipe_kind *out);

/* The same, for one message at a time that the other rank answers: at most 6. */
uint32_t perf_pipe_shuttles(size_t bytes, struct perf_pipe_kind *out);

/* Messages in flight that a stream of this size has: 64, as long as they stay within 16 MiB; at least 2. */
uint32_t perf_pipe_window(size_t bytes);

/* Messages before each timed block, whoever's it is: 16 MiB, several rotations of any span; of short ones a thousand,
 * several laps of any ring. */
uint32_t perf_pipe_warm(size_t bytes);

/* Allocates a load's private buffers, page tables included. 0, or -ENOMEM. */
int perf_pipe_load_open(struct perf_pipe_load *load, size_t bytes, uint32_t window, bool stale);
void perf_pipe_load_close(struct perf_pipe_load *load);

/* Pieces: rank 0 streams windows to rank 1 (GB/s); ranks 0 and 1 send one message to and fro (ns, one way). */
double perf_pipe_stream(struct perf_rank *me, void *pipe, uint32_t count);
double perf_pipe_oneway(struct perf_rank *me, void *pipe, uint32_t count);

/*
 * In all ranks: what is to be raced as the floor, pieces of `run`. Half of them are good in either state of the
 * machine, because it may change later; those of the state that it is in now are found by a race of about `seconds`,
 * those of the other are the likely best. Uses the job's table. Returns how many.
 */
uint32_t perf_pipe_choose(struct perf_rank *me, const struct perf_pipe_load *load, perf_piece_fn run,
                          double seconds, struct perf_pipe best[PERF_PIPE_BEST]);

/* All in-place kinds; returns how many. */
uint32_t perf_pipe_in_place(const struct perf_pipe_load *load, struct perf_pipe best[PERF_PIPE_BEST]);

#endif
