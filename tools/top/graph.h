/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits for whom, and which of them wait for ever. */
#ifndef NIGH_TOOLS_TOP_GRAPH_H
#define NIGH_TOOLS_TOP_GRAPH_H

#include "tools/top/job.h"

#define TOP_STUCK_NS UINT64_C(1000000000) /* a circle that has stood for so long is called a deadlock */

/* Does `rank`, which is blocked, wait for rank number `other`? */
bool top_waits_for(const struct top_rank *rank, uint32_t other);
/* Does it go on only when all of them have done something (a barrier), or as soon as one has (any source)? */
bool top_waits_for_all(const struct top_rank *rank);

/* Sets `stuck` and `proven` of every rank. */
void top_graph_judge(struct top_job *job);

/*
 * A circle of stuck ranks that `from`, a place in job->rank, leads to: places in `at` (room for job->count), in order,
 * each waiting for the next and the last for the first. Returns how many, 0 if `from` is not stuck.
 */
size_t top_graph_circle(const struct top_job *job, size_t from, size_t *at);

#endif
