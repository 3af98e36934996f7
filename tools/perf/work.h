/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program does while a message or a collective goes, and how much of it that hid. Without anything of nigh: the
 * programs of the peers include it, too. */
#ifndef NIGH_PERF_WORK_H
#define NIGH_PERF_WORK_H

#include <stdint.h>

#define PERF_WORK_TRIAL 20000 /* steps by which the speed of the moment is found */

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

/* Percent of the shorter of a message and work, each alone, that went by unseen when both were done together. */
static inline double perf_hidden_share(double alone, double work, double together)
{
    return 100 * (alone + work - together) / (alone < work ? alone : work);
}

#endif
