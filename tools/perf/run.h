/* SPDX-License-Identifier: BSD-3-Clause */
/* One invocation of nigh-perf: what was asked for, and the rows so far. */
#ifndef NIGH_PERF_RUN_H
#define NIGH_PERF_RUN_H

#include "tools/perf/cuda_sides.h"
#include "tools/perf/job.h"
#include "tools/perf/operations.h"
#include "tools/perf/plugin.h"
#include "tools/perf/result.h"
#include "tools/perf/sizes.h"

#include <stdio.h>

#define PERF_OPS 32

struct perf_options {
    uint32_t ranks;
    bool ranks_given;
    struct perf_sizes sizes; /* empty: each test's own */
    const char *path;        /* force this path; NULL: nigh chooses */
    double seconds;          /* for each test, shared by its sizes */
    const char *json;        /* file, "-" = stdout, NULL = none */
    const char *plot;        /* SVG file, NULL = none */
    bool stale;
    bool lib; /* --layer=lib: through libnigh, too */
    int cpus[PERF_RANKS];
    uint32_t cpu_count;
    bool keep_cpus; /* nigh-run has placed the ranks, and --cpus does not say otherwise */
    const char *peers[PERF_PEERS];
    uint32_t peer_count;
    const char *ops[PERF_OPS]; /* collectives, by name; none: the usual ones */
    uint32_t op_count;
    enum perf_how how; /* collectives; USUAL: --behind-barrier and --nb were not given */
    uint32_t beside;   /* busy loops */
    struct perf_cuda_sides cuda;
    const char *tune_file; /* where `tune` writes; NULL: where nigh looks */
};

struct perf_run {
    const struct perf_options *options;
    struct perf_plugin plugin; /* ops is NULL until a test needs it */
    FILE *json;                /* NULL: none */
    struct perf_result *rows;
    size_t count, room;
};

/* A test runs jobs and emits rows. 0, or a negative errno after saying on stderr what failed. */
struct perf_test {
    const char *name;
    const char *help;
    int (*run)(struct perf_run *run);
    int (*run_cuda)(struct perf_run *run); /* with --cuda; NULL: it has no buffers on devices */
};

/* All tests in the order of the help text; ends with a NULL name. */
extern const struct perf_test nigh_perf_tests[];

/* Keeps a copy of the row for table and plot and writes it as JSON where that is wanted. 0; -ENOMEM, -EIO (said). */
int perf_run_emit(struct perf_run *run, const struct perf_result *row);

/* A row without a figure, and why: no state of the machine has lasted (perf_table_rows gave no row). */
int perf_run_restless(struct perf_run *run, const struct perf_table *t, const struct perf_result *like);

/* One row per state of the machine from the job's table (perf_table_rows); says so when no state had enough rounds. */
int perf_run_race(struct perf_run *run, const struct perf_job *job, const struct perf_race *race,
                  const struct perf_result *like);

/* The same for one column with these floors. */
int perf_run_rows(struct perf_run *run, const struct perf_job *job, uint32_t work, const uint32_t *floors,
                  uint32_t floor_count, const struct perf_result *like);

/* A job with the options' CPUs. */
void perf_run_job(const struct perf_run *run, struct perf_job *job, uint32_t ranks, size_t scratch_bytes,
                  const char *what);

/* The sizes that were asked for, else those of `otherwise` (a list as for --sizes). */
const struct perf_sizes *perf_run_sizes(const struct perf_run *run, const char *otherwise,
                                        struct perf_sizes *room);

/* The transport's table, loaded when first asked for. 0, or -errno (said). */
int perf_run_transport(struct perf_run *run, const struct nigh_ops **ops);

/* 0, or -ENODEV after saying that `test` needs so many CPUs. */
int perf_run_need_cpus(const struct perf_run *run, const char *test, uint32_t cpus);

int perf_test_floors(struct perf_run *run);
int perf_test_latency(struct perf_run *run);
int perf_test_rate(struct perf_run *run);
int perf_test_bandwidth(struct perf_run *run);
int perf_test_heap(struct perf_run *run);
int perf_test_lend(struct perf_run *run);
int perf_test_rma(struct perf_run *run);
int perf_test_wake(struct perf_run *run);
int perf_test_idle(struct perf_run *run);
int perf_test_death(struct perf_run *run);
int perf_test_memory(struct perf_run *run);
int perf_test_connect(struct perf_run *run);
int perf_test_match(struct perf_run *run);
int perf_test_overlap(struct perf_run *run);
int perf_test_deadlock(struct perf_run *run);
int perf_test_barrier(struct perf_run *run);
int perf_test_broadcast(struct perf_run *run);
int perf_test_reduce(struct perf_run *run);
int perf_test_allreduce(struct perf_run *run);
int perf_test_gather(struct perf_run *run);
int perf_test_scatter(struct perf_run *run);
int perf_test_allgather(struct perf_run *run);
int perf_test_alltoall(struct perf_run *run);
int perf_test_reduce_scatter(struct perf_run *run);
int perf_test_scan(struct perf_run *run);
int perf_test_exscan(struct perf_run *run);
int perf_test_collective(struct perf_run *run);
int perf_test_tune(struct perf_run *run);

#endif
