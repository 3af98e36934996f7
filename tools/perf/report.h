/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows for people: a table whose columns line up, with "-" where there is no figure. */
#ifndef NIGH_PERF_REPORT_H
#define NIGH_PERF_REPORT_H

#include "tools/perf/result.h"

#include <stddef.h>
#include <stdio.h>

#define PERF_FIGURE_BYTES 24

/* Writes the table; rows with notes get them as numbered lines below it. */
void perf_report_write(FILE *out, const struct perf_result *rows, size_t count);

/* A figure with its unit, scaled for reading ("1.23 us", "24.1 GB/s", "-" when absent). Returns room. */
const char *perf_figure_text(double value, const char *unit, char room[PERF_FIGURE_BYTES]);

#endif
