/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks that somebody else started (nigh-run) get one shared mapping: rank 0 makes a memfd and hands it to the
 * others through a Unix socket whose name follows from the job's id. */
#ifndef NIGH_PERF_MEET_H
#define NIGH_PERF_MEET_H

#include <stddef.h>
#include <stdint.h>

/* Returns a descriptor of `bytes` bytes of zeros, the same memory in all ranks; the caller closes it. Blocks until rank
 * 0 has it, at most `limit_seconds`; rank 0 returns when all have it. -ETIMEDOUT; -errno of the socket calls. */
int perf_meet(uint64_t job, uint32_t number, uint32_t rank, uint32_t ranks, size_t bytes,
              double limit_seconds);

#endif
