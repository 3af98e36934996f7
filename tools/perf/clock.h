/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of the timed parts: the CPU's own counter where the kernel says that it is constant and the same
 * on all CPUs, clock_gettime elsewhere. Reading it must cost far less than a cache line's way between cores.
 */
#ifndef NIGH_PERF_CLOCK_H
#define NIGH_PERF_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Filled by perf_clock_init(), before any fork; read-only afterwards. */
struct perf_clock {
    int counter;        /* 1: the CPU's counter, 0: clock_gettime */
    double ns_per_tick; /* 1.0 with clock_gettime */
    double overhead_ns; /* of two readings in a row */
};

extern struct perf_clock nigh_perf_clock;

/* Chooses and calibrates (about 20 ms). Once, before threads or forks. */
void perf_clock_init(void);

static inline uint64_t perf_clock_system(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t perf_ticks(void)
{
#if defined(__x86_64__)
    if (nigh_perf_clock.counter)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;

    if (nigh_perf_clock.counter) {
        __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now) : : "memory");
        return now;
    }
#endif
    return perf_clock_system();
}

/* Nanoseconds between two readings. */
static inline double perf_ns(uint64_t from, uint64_t to)
{
    return (double)(to - from) * nigh_perf_clock.ns_per_tick;
}

/* The same without the cost of the readings themselves; never below 0. For single short operations. */
static inline double perf_ns_net(uint64_t from, uint64_t to)
{
    double ns = perf_ns(from, to) - nigh_perf_clock.overhead_ns;

    return ns > 0 ? ns : 0;
}

#endif
