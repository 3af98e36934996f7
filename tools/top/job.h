/* SPDX-License-Identifier: BSD-3-Clause */
/* A job as it is seen from outside: its ranks, each with its last two readings. */
#ifndef NIGH_TOOLS_TOP_JOB_H
#define NIGH_TOOLS_TOP_JOB_H

#include "tools/top/find.h"

enum top_state {
    TOP_RUNNING,   /* messages move */
    TOP_COMPUTING, /* uses a CPU, and no messages move */
    TOP_IDLE,      /* neither: sleeps outside of nigh */
    TOP_WAITING,   /* sleeps in nigh, and its host has not said for what */
    TOP_BLOCKED,   /* says for what */
    TOP_STOPPED,   /* by a signal or a debugger */
    TOP_LEFT,      /* has left the job, its process goes on */
    TOP_DEAD,
    TOP_STATES
};

struct top_reading {
    uint64_t at_ns;
    bool noted; /* the note could be read */
    struct nigh_note note;
    struct nigh_arena_counters counts;
    bool asleep, there, holds; /* there: the process; holds: it, the arena */
    struct top_process process;
};

struct top_rank {
    struct top_found found;
    struct top_reading before, now;
    enum top_state state;
    bool stuck;  /* waits for nobody but others that are stuck */
    bool proven; /* and nothing has moved for long enough to say so */
};

struct top_job {
    uint64_t id;
    uint32_t ranks; /* as its ranks say */
    struct top_rank *rank;
    size_t count; /* that were found here */
    uint64_t looked_ns;
};

/* The ranks of `id` in a crop: takes those that the job lacks over, so that it may be called again and again.
 * -ENOMEM. */
int top_job_join(struct top_job *job, struct top_crop *crop);
void top_job_free(struct top_job *job);

/* Reads all ranks, and says what they do. */
void top_job_read(struct top_job *job);
/* Nobody of it is left. */
bool top_job_is_over(const struct top_job *job);
/* Its place in job->rank, or job->count. */
size_t top_job_at(const struct top_job *job, uint32_t rank);

/* Per second, between the last two readings, of a counter at the same place in both. */
double top_rate(const struct top_rank *rank, const uint64_t *now);
uint64_t top_now_ns(void);

#endif
