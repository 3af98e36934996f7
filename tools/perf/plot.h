/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows as a picture: one panel per test, message size to the right on a logarithmic axis, nigh, its floor and the peers
 * as lines; below, the rows that have no figure, and why. SVG, because it needs no library and scales. */
#ifndef NIGH_PERF_PLOT_H
#define NIGH_PERF_PLOT_H

#include "tools/perf/result.h"

#include <stddef.h>

/* Writes the picture. -ENODATA when no test has rows at two sizes and no row says why it has no figure; -ENOMEM; -errno
 * of the file. */
int perf_plot_write(const char *file, const struct perf_result *rows, size_t count);

#endif
