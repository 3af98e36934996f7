/* SPDX-License-Identifier: BSD-3-Clause */
/* The timings of one piece of one round, of which the middle counts: an interrupt in one of them changes nothing. */
#ifndef NIGH_PERF_TALLY_H
#define NIGH_PERF_TALLY_H

#include "tools/perf/stats.h"

#include <stdint.h>

#define PERF_TALLY 512 /* beyond it every second, fourth, ... value is kept */

struct perf_tally {
    uint32_t kept, seen, stride;
    double value[PERF_TALLY];
};

static inline void perf_tally_start(struct perf_tally *t)
{
    t->kept = t->seen = 0;
    t->stride = 1;
}

static inline void perf_tally_add(struct perf_tally *t, double value)
{
    if (t->seen++ % t->stride != 0)
        return;
    if (t->kept == PERF_TALLY) {
        for (uint32_t i = 0; i < PERF_TALLY / 2; i++)
            t->value[i] = t->value[2 * i];
        t->kept = PERF_TALLY / 2;
        t->stride *= 2;
    }
    t->value[t->kept++] = value;
}

/* Sorts the values. */
static inline double perf_tally_middle(struct perf_tally *t)
{
    return perf_middle(t->value, t->kept);
}

#endif
