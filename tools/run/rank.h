/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's process: how it is started and what became of it. */
#ifndef NIGH_TOOLS_RUN_RANK_H
#define NIGH_TOOLS_RUN_RANK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "tools/run/bind.h"
#include "tools/run/options.h"

struct run_rank {
    pid_t pid; /* also the number of its process group; 0: never started */
    bool running;
    int wait_status; /* as of waitpid, once it no longer runs */
    uint64_t ended_ns;
    const struct run_program *program;
};

/* What all ranks are started with. */
struct run_start {
    const struct run_binding *binding;
    uint64_t job;
    char lives[64]; /* where libnigh counts how often each rank has joined, for NIGH_LIVES; "": none */
    char lines[96]; /* for NIGH_LINES: where lines of nigh's own are folded; "": nowhere */
    char *turns;    /* a variable for ranks that run in turns, or NULL */
    uint32_t ranks;
    int64_t stdin_rank;
    int stdin_fd;                /* for that rank */
    struct rlimit descriptors;   /* the limit that nigh-run was started with */
    sigset_t mask;               /* that nigh-run was started with */
    struct sigaction pipe, ttou; /* as nigh-run was started with, before it ignored them */
};

/* What came of an attempt to start a process. */
struct run_start_error {
    const char *step; /* "start", "change to its directory of", ... for "cannot STEP PROGRAM" */
    int number;       /* an errno */
};

/*
 * Start rank `number` in a process group of its own. It dies with the calling thread. outputs[]: its stdout and
 * stderr, -1: the caller's. Returns when the program runs (the exec has happened): 0, or -1 with *error written
 * and no process left.
 */
int run_rank_start(struct run_rank *rank, uint32_t number, const struct run_start *start,
                   const int outputs[2], struct run_start_error *error);

/* Did it end otherwise than by exit(0)? */
bool run_rank_failed(const struct run_rank *rank);

/* The exit status that nigh-run ends with on behalf of this rank. */
int run_rank_status(const struct run_rank *rank);

/* Send a signal to the process group of a rank that runs. */
void run_rank_signal(const struct run_rank *rank, int number);

/* "exited with status 3", "was killed by SIGSEGV (core dumped)". */
void run_rank_text(const struct run_rank *rank, char *text, size_t bytes);

#endif
