/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows for programs: one JSON object a line, so that a run that was cut short is still readable. */
#ifndef NIGH_PERF_JSON_H
#define NIGH_PERF_JSON_H

#include "tools/perf/result.h"

#include <stdio.h>

/* Writes one row and a newline, and flushes. Absent figures are null. With `compare` the object has "peers",
 * an object of name: value. 0; -ENOMEM; -EIO the stream refused. */
int perf_json_write(FILE *out, const struct perf_result *row, bool compare);

#endif
