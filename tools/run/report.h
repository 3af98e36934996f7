/* SPDX-License-Identifier: BSD-3-Clause */
/* Wording: sets of ranks as people write them. */
#ifndef NIGH_TOOLS_RUN_REPORT_H
#define NIGH_TOOLS_RUN_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "tools/run/rank.h"

/* Those of `count` that are in a set: "rank 3", "ranks 0-2,5", "no rank"; cut with "..." where `bytes` (at least 32) are too
 * few. */
void run_report_set(bool (*in)(const void *set, uint32_t rank), const void *set, uint32_t count, char *text,
                    size_t bytes);

/* The ranks that run, in the same words. */
void run_report_ranks(const struct run_rank *ranks, uint32_t count, char *text, size_t bytes);

#endif
