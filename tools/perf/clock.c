/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing and calibrating the clock. */
#include "tools/perf/clock.h"

#include "tools/perf/stats.h"

#include <stdio.h>
#include <string.h>

struct perf_clock nigh_perf_clock = {0, 1.0, 0.0};

/* The kernel tests the counters of all CPUs against each other at boot and stops using the TSC when they
 * disagree. Under a paravirtual clock it does not list the TSC as its source, but the flags still tell. */
static int counter_is_sound(void)
{
#if defined(__x86_64__)
    char line[4096];
    int found = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");

    if (!f) {
        fprintf(stderr, "nigh-perf: /proc/cpuinfo cannot be read: times are taken by clock_gettime, which is "
                        "coarser: mount /proc\n");
        return 0;
    }
    while (!found && fgets(line, sizeof(line), f))
        if (strncmp(line, "flags", 5) == 0) {
            found = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
            break;
        }
    fclose(f);
    return found;
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

static double calibrate_once(void)
{
    uint64_t system0, system1, ticks0, ticks1;

    system0 = perf_clock_system();
    ticks0 = perf_ticks();
    do {
        system1 = perf_clock_system();
        ticks1 = perf_ticks();
    } while (system1 - system0 < 4000000);
    return (double)(system1 - system0) / (double)(ticks1 - ticks0);
}

/* A mean, the only one here: some counters move in steps of 10 ns, so that no single reading tells the cost. */
static double overhead(void)
{
    enum { READINGS = 1000 };
    double ns[9];

    for (int i = 0; i < 9; i++) {
        uint64_t from = perf_ticks(), to = from;

        for (int r = 0; r < READINGS; r++)
            to = perf_ticks();
        ns[i] = perf_ns(from, to) / READINGS;
    }
    return perf_median(ns, 9);
}

void perf_clock_init(void)
{
    double rate[5];

    nigh_perf_clock.counter = counter_is_sound();
    nigh_perf_clock.ns_per_tick = 1.0;
    if (nigh_perf_clock.counter) {
        for (int i = 0; i < 5; i++)
            rate[i] = calibrate_once();
        nigh_perf_clock.ns_per_tick = perf_median(rate, 5);
    }
    nigh_perf_clock.overhead_ns = overhead();
}
