/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper: the process between nigh-run's front and the ranks. It starts them, watches them, and decides when
 * the job is over.
 *
 *     front (the process that the user sees) ---control pipe---> keeper ---fork---> ranks
 *
 * Front and keeper watch each other, each in a process group of its own: when the front dies, the control pipe
 * ends and the keeper kills everything; when the keeper dies, the kernel kills the ranks, and what they had
 * started becomes the front's children.
 */
#ifndef NIGH_TOOLS_RUN_KEEPER_H
#define NIGH_TOOLS_RUN_KEEPER_H

#include <signal.h>

#include "tools/run/options.h"

struct run_keeper_start {
    const struct run_options *options;
    int control_fd; /* one byte a signal that the front got; end of file: the front is dead */
    int stdin_fd;   /* for the rank that gets it */
    sigset_t mask;  /* see struct run_start */
    struct sigaction pipe, ttou;
};

/*
 * Run the job to its end; every signal that the front passes on, and SIGCHLD, must be blocked, SIGPIPE and
 * SIGTTOU ignored. The exit status of nigh-run; no descendant of the caller is left (or it has been said which
 * could not be ended). Blocks. Calls run_orphans_end: the caller has no other children.
 */
int run_keeper(const struct run_keeper_start *start);

#endif
