/* SPDX-License-Identifier: BSD-3-Clause */
/* The method. A run is many short rounds; each round runs every piece once (floors and work alike) between two probes
 * of the handoff time L. What is compared was therefore measured within a millisecond of each other, and rounds in
 * which the machine changed are known. */
#ifndef NIGH_PERF_ROUNDS_H
#define NIGH_PERF_ROUNDS_H

#include "tools/perf/job.h"

typedef double (*perf_piece_fn)(struct perf_rank *me, void *arg, uint32_t count);

/* One thing that is measured. All ranks call run() at the same place; it does `count` repetitions and rank 0's return
 * value, in the piece's unit, counts. It must leave all ranks ready for the next piece. */
struct perf_piece {
    const char *name;
    perf_piece_fn run;
    void *arg;
    uint32_t count;    /* repetitions in a round; 0: as many as take about PERF_PIECE_NS */
    uint32_t messages; /* in one repetition; 0: 1 */
};

#define PERF_PIECE_NS 400000.0
/* Rounds of one state that a figure needs: with 16, of which 8 were left where L moved, streams of 4 MiB were at 0.79
 * to 0.96 of a floor of which they were at 0.90 in hundreds. */
#define PERF_STATE_ENOUGH 40
#define PERF_PATIENCE     8 /* times the plan's seconds, after which a machine that never rests is left alone */

struct perf_plan {
    struct perf_piece *piece; /* up to PERF_COLUMNS; column i of the table is piece i */
    uint32_t pieces;
    uint32_t peers;   /* of them, the last ones */
    uint32_t beside;  /* those before the peers that are reported as peers are, but run as the work is */
    uint32_t sampled; /* the piece whose single messages are sampled for p99, PERF_COLUMN_NONE */
    double seconds;
    uint32_t
        least_rounds; /* taken even when time is up, and enough of one state; 0: 16, and PERF_STATE_ENOUGH */
    /* All pieces time as many messages as the first one does, and all send so many before (or half as many as are
     * timed, when that is more). 0: each finds its own count. */
    uint64_t warm;
    bool no_handoff; /* ranks 0 and 1 share a core: L means nothing there */
    bool hasty;      /* a choice between pieces, not a figure: does not wait until L rests */
};

/* Which piece runs in the place `place` of a round: each once. */
uint32_t perf_rounds_column(const struct perf_plan *plan, uint32_t round, uint32_t place);

/* Repetitions that come before the timed ones of a piece in each round. Peers do theirs by themselves. */
uint32_t perf_rounds_warm(const struct perf_plan *plan, const struct perf_piece *piece);

/* Whether the rounds in `t`, which took `ns`, will do: the plan's seconds and rounds are over and one
 * state of the machine has lasted for PERF_STATE_ENOUGH of them, or they have taken PERF_PATIENCE times
 * the seconds, or the table is full. */
bool perf_rounds_enough(const struct perf_table *t, const struct perf_plan *plan, double ns);

/* Runs the plan in all ranks and leaves the rounds in me->shared->table. May be called again; the last run's rounds
 * stay. */
void perf_rounds_run(struct perf_rank *me, struct perf_plan *plan);

/* In rank 0, from a piece: one message's figure. Kept for the sampled piece as long as there is room. */
void perf_rounds_sample(struct perf_rank *me, double value);

#endif
