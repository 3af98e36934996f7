/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/bench.h - nccl-host --bench: the times of plugins beside each other. */
#ifndef NIGH_TESTS_NCCL_BENCH_H
#define NIGH_TESTS_NCCL_BENCH_H

#include "tests/hosts/nccl/host.h"

enum { BENCH_PLUGINS = 4, BENCH_ROUNDS = 11 };

struct bench_options {
    char *const *paths; /* of plugins; the first is the one that others are compared with */
    int count, version;
    const char *direct; /* nigh.so, or NULL */
    double seconds;     /* for all */
    bool json;          /* rows as nigh-perf --json has them */
};

/* Prints a row for each test. Returns the exit status. */
int bench(const struct bench_options *options);

/* Of at most BENCH_ROUNDS values. */
double bench_median(const double *values, int count);

#endif
