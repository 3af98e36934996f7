/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows as a picture: one panel per test, message size to the right on a logarithmic axis, nigh, its floor and the peers
 * as lines. SVG, because it needs no library and scales. */
#ifndef NIGH_PERF_PLOT_H
#define NIGH_PERF_PLOT_H

#include "tools/perf/result.h"

#include <stddef.h>

/* Writes the picture. -ENODATA when no test has figures at two sizes; -ENOMEM; -errno of the file. */
int perf_plot_write(const char *file, const struct perf_result *rows, size_t count);

#endif
