/* SPDX-License-Identifier: BSD-3-Clause */
/* --compare inside of the rounds: each peer is a piece, so its rounds alternate with nigh's and with the floors', in
 * the same states of the machine. While a peer's round runs all of nigh's ranks sleep: they sit on the same CPUs. */
#ifndef NIGH_PERF_COMPARE_H
#define NIGH_PERF_COMPARE_H

#include "tools/perf/peers.h"
#include "tools/perf/rounds.h"
#include "tools/perf/run.h"

struct perf_compare;

/* Starts `ranks` ranks of each of the peers of --compare that are installed (the others are named on stderr once); *out is
 * NULL when there is none. In the launcher. 0, or -ENOMEM. */
int perf_compare_open(struct perf_compare **out, const struct perf_options *options, const char *test,
                      uint32_t ranks);
void perf_compare_close(struct perf_compare *compare);

/* The case that the next job measures; what it points to must stay until the job has ended. NULL compare: nothing. */
void perf_compare_case(struct perf_compare *compare, const struct perf_case *c);

/* In the ranks: one piece per peer; returns how many were written. Each does as many repetitions as nigh's piece, after
 * as many as nigh's do not count; `plan` is read in every round. */
uint32_t perf_compare_pieces(struct perf_compare *compare, const struct perf_plan *plan,
                             struct perf_piece *piece, uint32_t max);

#endif
