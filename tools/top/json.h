/* SPDX-License-Identifier: BSD-3-Clause */
/* The view as JSON, for programs. */
#ifndef NIGH_TOOLS_TOP_JSON_H
#define NIGH_TOOLS_TOP_JSON_H

#include "tools/top/job.h"
#include <jansson.h>

/* New objects; NULL where memory is short. */
json_t *top_json(const struct top_job *job);
json_t *top_json_jobs(const struct top_crop *crop);

#endif
