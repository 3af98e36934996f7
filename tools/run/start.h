/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning of a job: from a command line to running ranks. */
#ifndef NIGH_TOOLS_RUN_START_H
#define NIGH_TOOLS_RUN_START_H

#include "tools/run/keeper.h"
#include "tools/run/output.h"
#include "tools/run/rank.h"

struct run_job {
    const struct run_options *options;
    struct run_rank *ranks; /* options->ranks of them */
    uint32_t running;
    struct run_output output;
    uint64_t started_ns;
    int status; /* of the first failure; 0: none yet */
};

/*
 * Start all ranks, whose fields and `running` it fills; the output must be open. 0, or an enum run_status of a
 * failure that has been reported; ranks that run then are the caller's to end. Closes the caller's stdin.
 */
int run_start(struct run_job *job, const struct run_keeper_start *from);

#endif
