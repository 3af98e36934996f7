/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of sizes and of CPUs as people write them: "8,4K,1M", "64-4K" (doubling), "0-3,6". */
#ifndef NIGH_PERF_SIZES_H
#define NIGH_PERF_SIZES_H

#include <stddef.h>
#include <stdint.h>

#define PERF_SIZES      64
#define PERF_BYTES_MOST (UINT64_C(1) << 36)

struct perf_sizes {
    size_t count;
    uint64_t bytes[PERF_SIZES];
};

/* One size: a number, with an optional suffix K, M or G (powers of 1024) and an optional "iB" or "B" behind
 * it. -EINVAL not a size, -ERANGE more than PERF_BYTES_MOST. */
int perf_size_parse(const char *text, uint64_t *bytes);

/* A list: sizes and ranges FROM-TO (doubling; the end is included even when doubling misses it), separated by
 * commas. Order is kept. -EINVAL not such a list; -ERANGE a size too large or FROM > TO; -E2BIG more than
 * PERF_SIZES. */
int perf_sizes_parse(const char *text, struct perf_sizes *out);

/* "8", "4K", "1M": the shortest exact form; `room` of at least 24 bytes. Returns room. */
const char *perf_size_text(uint64_t bytes, char *room, size_t size);

/* A list of CPU numbers and ranges, "0-3,6". Returns how many, or -EINVAL, -E2BIG more than max. */
int perf_cpus_parse(const char *text, int *cpus, size_t max);

#endif
