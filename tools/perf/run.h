/* SPDX-License-Identifier: BSD-3-Clause */
/* One invocation of nigh-perf: what was asked for, and the rows so far. */
#ifndef NIGH_PERF_RUN_H
#define NIGH_PERF_RUN_H

#include "tools/perf/job.h"
#include "tools/perf/peers.h"
#include "tools/perf/result.h"
#include "tools/perf/sizes.h"

#include <stdio.h>

struct perf_options {
    uint32_t ranks;
    bool ranks_given;
    struct perf_sizes sizes; /* empty: each test's own */
    const char *path;        /* force this path; NULL: nigh chooses */
    double seconds;          /* for each test, shared by its sizes */
    const char *json;        /* file, "-" = stdout, NULL = none */
    const char *plot;        /* SVG file, NULL = none */
    bool stale;
    int cpus[PERF_RANKS];
    uint32_t cpu_count;
    const char *peers[PERF_PEERS];
    uint32_t peer_count;
    const char *tune_file; /* where `tune` writes; NULL: where nigh looks */
};

struct perf_run {
    const struct perf_options *options;
    FILE *json; /* NULL: none */
    struct perf_result *rows;
    size_t count, room;
};

/* A test runs jobs and emits rows. 0, or a negative errno after saying on stderr what failed. */
struct perf_test {
    const char *name;
    const char *help;
    int (*run)(struct perf_run *run);
};

/* All tests in the order of the help text; ends with a NULL name. */
extern const struct perf_test nigh_perf_tests[];

/* Keeps a copy of the row for table and plot and writes it as JSON where that is wanted. 0; -ENOMEM, -EIO (said). */
int perf_run_emit(struct perf_run *run, const struct perf_result *row);

/* One row per state of the machine for column `work` of the job's table (see perf_table_rows); says so when no state
 * had enough rounds. With --compare each peer is measured too. `c` may be NULL: no peers. */
int perf_run_rows(struct perf_run *run, const struct perf_job *job, uint32_t work, const uint32_t *floors,
                  uint32_t floor_count, const struct perf_result *like, const struct perf_case *c);

/* A job with the options' CPUs. */
void perf_run_job(const struct perf_run *run, struct perf_job *job, uint32_t ranks, size_t scratch_bytes,
                  const char *what);

/* The sizes that were asked for, else those of `otherwise` (a list as for --sizes). */
const struct perf_sizes *perf_run_sizes(const struct perf_run *run, const char *otherwise,
                                        struct perf_sizes *room);

int perf_test_floors(struct perf_run *run);

#endif
