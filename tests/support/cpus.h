/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cpus.h - all of a test on one CPU, where two contexts are a crowd. */
#ifndef NIGH_TESTS_CPUS_H
#define NIGH_TESTS_CPUS_H

#include <sched.h>

/* Where the calling thread runs, and the threads and processes that it makes from now on. *before are the CPUs that it
 * had, of which it keeps the first. 0, or -1 with errno. */
static inline int cpus_one(cpu_set_t *before)
{
    cpu_set_t one;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof(*before), before) != 0)
        return -1;
    while (!CPU_ISSET(cpu, before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one);
}

/* Back to those. */
static inline int cpus_all(const cpu_set_t *before)
{
    return sched_setaffinity(0, sizeof(*before), before);
}

#endif
