/* SPDX-License-Identifier: BSD-3-Clause */
/* The measured rounds: a row per round, a column per piece, and the handoff time around each. Fixed in size, because
 * it lies in memory that the ranks share; pages that are not used cost nothing. */
#ifndef NIGH_PERF_TABLE_H
#define NIGH_PERF_TABLE_H

#include "tools/perf/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_ROUNDS      4096
#define PERF_COLUMNS     32
#define PERF_SAMPLES     (1u << 20)
#define PERF_COLUMN_NONE UINT32_MAX

struct perf_table {
    uint32_t rounds;
    uint32_t columns;
    uint32_t peers;       /* the last columns are peers, or what is shown as they are, named after them */
    uint32_t has_handoff; /* 0: L could not be probed (ranks on one core) */
    char name[PERF_COLUMNS][PERF_PEER_BYTES];
    double handoff[PERF_ROUNDS + 1]; /* before round 0, after round 0, ... */
    double value[PERF_COLUMNS][PERF_ROUNDS];
    uint32_t sampled;                 /* column of the samples, PERF_COLUMN_NONE */
    uint32_t samples;                 /* used */
    uint32_t sample_end[PERF_ROUNDS]; /* samples used when the round was over */
    float sample[PERF_SAMPLES];       /* single messages, for p99 */
};

/* Which columns are raced for a row. */
struct perf_race {
    const uint32_t
        *work; /* at least one; of several the best in each state counts and gives the row its path */
    uint32_t work_count;
    const uint32_t *floors; /* the best in each state is the floor; none: the floor stays absent */
    uint32_t floor_count;
};

/*
 * One row per state of the machine, the state with most rounds first. `like` gives names, unit, bytes, ranks and note.
 * Columns of peers become the row's peers; a NAN in one is a round that the peer did not take part in. Returns how many
 * rows (0 when no state has enough rounds), or -ENOMEM.
 */
int perf_table_rows(const struct perf_table *t, const struct perf_race *race, const struct perf_result *like,
                    struct perf_result *rows, uint32_t max);

/* Of the state with most of them; all, where L could not be probed. 0 without a state, or without memory. */
uint32_t perf_table_state_rounds(const struct perf_table *t);

/* Of `columns` the one whose median is best (`more`: largest, else smallest) in the state with most rounds;
 * PERF_COLUMN_NONE without columns or memory. */
uint32_t perf_table_best(const struct perf_table *t, const uint32_t *columns, uint32_t count, int more);

#endif
