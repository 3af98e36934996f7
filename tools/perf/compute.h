/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of a wanted length, by nigh-perf's clock: shared by the tests of overlap and by their floor. */
#ifndef NIGH_PERF_COMPUTE_H
#define NIGH_PERF_COMPUTE_H

#include "tools/perf/clock.h"
#include "tools/perf/work.h"

static inline double perf_compute_ns(uint64_t steps)
{
    uint64_t start = perf_ticks();

    perf_compute(steps);
    return perf_ns(start, perf_ticks());
}

/* Steps that take about so long now. */
static inline uint64_t perf_compute_steps(double ns)
{
    return (uint64_t)(ns * PERF_WORK_TRIAL / perf_compute_ns(PERF_WORK_TRIAL));
}

#endif
