/* SPDX-License-Identifier: BSD-3-Clause */
/* The layer above the table: what the same messages cost through libnigh, which has a context of its
 * own in the same ranks. A piece beside that of the test, so that both are taken in the same rounds,
 * and the difference is the library. */
#ifndef NIGH_PERF_LIB_H
#define NIGH_PERF_LIB_H

#include "tools/perf/pair.h"

/* Joins a job of libnigh's own in all ranks, with the same plugin; `path` forces a path as for perf_node_open(). */
void perf_lib_open(struct perf_rank *me, const char *plugin, const char *path);
void perf_lib_close(struct perf_rank *me);

/* Pieces; their argument is the pair. Blocking calls, ns one way; isend, irecv and waitall of a window, M/s. */
double perf_lib_latency(struct perf_rank *me, void *pair, uint32_t count);
double perf_lib_rate(struct perf_rank *me, void *pair, uint32_t count);

#endif
