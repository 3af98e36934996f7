/* SPDX-License-Identifier: BSD-3-Clause */
/* The view as text: what --once prints and the screen shows. */
#ifndef NIGH_TOOLS_TOP_PRINT_H
#define NIGH_TOOLS_TOP_PRINT_H

#include "tools/top/job.h"
#include <stdio.h>

/* A line a job, for somebody who has to choose. */
void top_print_jobs(FILE *out, const struct top_crop *crop);
/* A line a rank; then the ways that messages take, who is stuck, and whom somebody waits for in vain. */
void top_print(FILE *out, const struct top_job *job);

#endif
