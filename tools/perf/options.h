/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command line of nigh-perf asks for. */
#ifndef NIGH_PERF_OPTIONS_H
#define NIGH_PERF_OPTIONS_H

#include "tools/perf/run.h"

struct perf_command {
    struct perf_options options;
    const struct perf_test *test[64]; /* in the order in which they were named */
    size_t tests;
};

/* Fills *command, which has the defaults; says what is wrong and ends the process where it does not understand. */
void perf_options_parse(struct perf_command *command, int argc, char **argv);

#endif
