/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal view. */
#ifndef NIGH_TOOLS_TOP_SCREEN_H
#define NIGH_TOOLS_TOP_SCREEN_H

#include "tools/top/job.h"

/* Shows the job until the user quits; reads it anew each `seconds`. Exit status. */
int top_screen(struct top_job *job, double seconds);

/* Reads the job, looking for ranks that have come since where it lacks some. Also --once. */
void top_refresh(struct top_job *job);

#endif
