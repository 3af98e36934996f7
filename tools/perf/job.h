/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes that are measured. nigh-perf is its own launcher: it forks the ranks, pins each, gives them a shared
 * mapping for barriers and results, and ends all of them when one fails or time runs out. Under nigh-run (NIGH_RANK,
 * NIGH_SIZE and NIGH_JOB are set) the processes exist already; they then meet in a mapping that rank 0 makes. */
#ifndef NIGH_PERF_JOB_H
#define NIGH_PERF_JOB_H

#include "tools/perf/line.h"
#include "tools/perf/table.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_RANKS 1024
#define PERF_LINES 64

/* Zero at first; all ranks and, when they were forked, the parent see it. */
struct perf_shared {
    struct perf_line arrived;    /* barrier: ranks that are in it */
    struct perf_line generation; /* barrier: how many are over; by the last that arrives */
    struct perf_line go;         /* rank 0: what everybody does next */
    struct perf_line sleep;      /* rank 0: how many sleeps of the others it has ended */
    struct perf_line line[PERF_LINES];
    uint64_t job;                 /* an id that no other job of this machine has */
    uint32_t pid[PERF_RANKS];     /* by each rank */
    double figure[PERF_RANKS][4]; /* by each rank: figures that are one per rank */
    char path[PERF_NAME_BYTES];   /* by rank 0: which path the work took */
    uint32_t floors;              /* by rank 0: columns behind the work that are its floors */
    uint32_t turn;                /* by rank 0: the column that runs, from 1; 0: none */
    struct perf_table table;      /* by rank 0 */
};

/* What a rank knows of itself. */
struct perf_rank {
    uint32_t rank, ranks;
    int cpu;         /* pinned there, -1: not pinned */
    const int *cpus; /* of all ranks: struct perf_job */
    uint32_t cpu_count;
    bool crowded;      /* ranks share cores: waits must yield */
    uint64_t barriers; /* how many it has been through */
    bool in_barrier;   /* between two calls of perf_barrier_poll() */
    uint64_t turns;    /* handoffs so far, the same in all ranks that take part; so are the next */
    uint64_t shared_turns, sleeps, syncs, lines, wakes, pieces[2], halves[2];
    uint64_t messages; /* numbers messages, for their seeds; the same in ranks that exchange them */
    uint64_t lone;     /* the same for messages that stay in this rank */
    struct perf_shared *shared;
    uint8_t *scratch; /* shared by all ranks, zero at first, page aligned */
    size_t scratch_bytes;
};

/* What each rank runs. 0, or a negative errno after it has said on stderr what failed. */
typedef int (*perf_rank_fn)(struct perf_rank *me, void *arg);

struct perf_job {
    uint32_t ranks;
    const int *cpus; /* rank i runs on cpus[i % cpu_count] */
    uint32_t cpu_count;
    bool
        keep_cpus; /* leave each rank on the CPUs that it was started on; cpu_count says how many there are for all */
    size_t scratch_bytes;
    double limit_seconds;       /* after which the ranks are ended and the job has failed */
    const char *what;           /* for the progress line */
    struct perf_shared *shared; /* set by run, gone with end */
    size_t mapped;
};

/* True in a process that nigh-run started. */
bool perf_job_launched(void);

/* Do NIGH_JOB, NIGH_RANK and NIGH_SIZE make sense together, or is none of them set? 0; -EINVAL,
 * after saying what does not. */
int perf_job_check(void);

/* The CPUs of `usable` that no rank of `me`'s job runs on, as "2,3"; empty: none, or no room. */
void perf_job_spare(const struct perf_rank *me, const cpu_set_t *usable, char *list, size_t room);

/* Ranks that nigh-run started; 0 when it did not. */
uint32_t perf_job_size(void);

/* True where results are to be printed: the launcher, or rank 0 under nigh-run. */
bool perf_job_reports(void);

/*
 * Runs fn(rank, arg) in all ranks and waits for them. On success job->shared holds the results until perf_job_end().
 * Errors (each has been said on stderr): -EIO a rank failed or died; -ETIMEDOUT; -ENOMEM, -EAGAIN no mapping or no
 * process. After an error there is nothing to end.
 */
int perf_job_run(struct perf_job *job, perf_rank_fn fn, void *arg);
void perf_job_end(struct perf_job *job);

/* Waits until all ranks of the job are in it. Spins; yields where ranks share cores or after about 20 us. */
void perf_barrier(struct perf_rank *me);

/* The same without waiting: called until it returns true, once all ranks are there. */
bool perf_barrier_poll(struct perf_rank *me);

/* Moves this process to one CPU. 0 or -errno. */
int perf_pin(int cpu);

/* Says "nigh-perf: rank R: ..." on stderr and ends the process with status 1, which ends the job: for wrong data and
 * for calls that must not fail inside of a measurement. */
void perf_fail(const struct perf_rank *me, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#endif
