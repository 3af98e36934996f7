/* SPDX-License-Identifier: BSD-3-Clause */
/* What nigh-run was asked to do: the command line as a struct, checked. */
#ifndef NIGH_TOOLS_RUN_OPTIONS_H
#define NIGH_TOOLS_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_RANKS_MAX 65535u /* pids of one machine; far above what it can run */

/* Exit statuses of nigh-run's own, the ones that timeout(1) and env(1) use. */
enum run_status {
    RUN_TIMED_OUT = 124,
    RUN_FAILED = 125, /* nigh-run itself: bad arguments, no processes left */
    RUN_NOT_EXECUTABLE = 126,
    RUN_NOT_FOUND = 127,
    RUN_SIGNALLED = 128, /* + the signal's number */
};

enum run_bind { RUN_BIND_CORE, RUN_BIND_L3, RUN_BIND_NUMA, RUN_BIND_NONE };

/* One program of the command line. */
struct run_program {
    uint32_t ranks;
    char **argv;            /* argv[0] is looked up in PATH */
    const char *directory;  /* --wdir, or NULL */
    const char **variables; /* "NAME=VALUE" from -x, in order */
    uint32_t variable_count;
};

struct run_options {
    struct run_program *programs;
    uint32_t program_count;
    uint32_t ranks; /* of all programs */
    enum run_bind bind;
    const char *mpi; /* --mpi, or NULL */
    bool label, keep_going, verbose;
    bool grace_given;
    int64_t stdin_rank;            /* -1: none */
    uint64_t timeout_ns, grace_ns; /* timeout 0: none */
};

/* Read the command line, or print what is wrong with it (or the help) and exit. The struct lives until exit. */
void run_options_read(int argc, char **argv, struct run_options *options);

#endif
