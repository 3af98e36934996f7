/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does while a message goes, and how much of the message it hid: shared by the test and by its floor. */
#ifndef NIGH_PERF_COMPUTE_H
#define NIGH_PERF_COMPUTE_H

#include "tools/perf/clock.h"

/* Work that the compiler can neither drop nor shorten, as each step needs the one before; it leaves
 * the caches alone. */
static inline void perf_compute(uint64_t steps)
{
    static volatile uint64_t kept;
    uint64_t x = kept | 1;

    for (uint64_t i = 0; i < steps; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    kept = x;
}

static inline double perf_compute_ns(uint64_t steps)
{
    uint64_t start = perf_ticks();

    perf_compute(steps);
    return perf_ns(start, perf_ticks());
}

/* Steps that take about so long now. */
static inline uint64_t perf_compute_steps(double ns)
{
    enum { TRIAL = 20000 };

    return (uint64_t)(ns * TRIAL / perf_compute_ns(TRIAL));
}

/* Percent of the shorter of a message and work, each alone, that went by unseen when both were done together. */
static inline double perf_hidden_share(double alone, double work, double together)
{
    return 100 * (alone + work - together) / (alone < work ? alone : work);
}

#endif
