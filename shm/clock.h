/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/clock.h - the one clock: monotonic nanoseconds, so that a wall clock that is set moves no deadline; and the CPU's
 * counter, for what is shorter than reading the clock. */
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

/* Counts that go by steadily on one machine, at a rate that the caller finds out; what was loaded before has arrived,
 * and nothing behind has begun. Within one thread only. */
static inline uint64_t nigh_clock_ticks(void)
{
#if defined(__x86_64__)
    uint64_t now;

    __builtin_ia32_lfence();
    now = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return now;
#elif defined(__aarch64__)
    uint64_t now;

    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
    return now;
#else
    return nigh_clock_ns();
#endif
}

#endif
