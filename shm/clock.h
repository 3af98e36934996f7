/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/clock.h - the one clock: monotonic nanoseconds, so that a wall clock that is set moves no deadline. */
#ifndef NIGH_SHM_CLOCK_H
#define NIGH_SHM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* No system call where the vDSO serves it. Any thread, cannot fail. */
static inline uint64_t nigh_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
