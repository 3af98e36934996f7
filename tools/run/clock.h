/* SPDX-License-Identifier: BSD-3-Clause */
/* Time as nigh-run counts it: nanoseconds of the monotonic clock, alone here because everybody needs it. */
#ifndef NIGH_TOOLS_RUN_CLOCK_H
#define NIGH_TOOLS_RUN_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t run_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
