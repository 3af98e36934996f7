/* SPDX-License-Identifier: BSD-3-Clause */
/* Which CPUs the ranks run on: one hardware thread of each core first, so that no rank shares a core while another core
 * is free. */
#ifndef NIGH_PERF_CPUS_H
#define NIGH_PERF_CPUS_H

#include <stdint.h>

/* Writes the CPUs that this process may use, first one of every core, then the second ones; at most `max`. Returns how
 * many, at least 1; -errno when the affinity cannot be read. */
int perf_cpus(int *cpus, uint32_t max);

#endif
