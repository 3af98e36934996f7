/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows sorted into panels and lines: what plot.c draws. Apart from the drawing, so that a test can
 * look at the lines. */
#ifndef NIGH_PERF_CHART_H
#define NIGH_PERF_CHART_H

#include "tools/perf/result.h"

#include <stddef.h>

#define PERF_CHART_LINES  40
#define PERF_CHART_POINTS 64

enum perf_chart_kind { PERF_CHART_VALUE, PERF_CHART_FLOOR, PERF_CHART_PEER };

struct perf_chart_line {
    char name[80];
    char who[40]; /* "nigh", "floor", "openmpi": the name without the state */
    enum perf_chart_kind kind;
    uint32_t state; /* 0: the panel's fastest state of the machine */
    size_t points;
    double bytes[PERF_CHART_POINTS], value[PERF_CHART_POINTS]; /* ascending by bytes */
};

struct perf_chart {
    char title[80];
    char unit[16];
    size_t lines;
    struct perf_chart_line line[PERF_CHART_LINES];
};

/* Makes the panels; *charts is the caller's to free(). Returns how many: tests whose rows have fewer than two sizes
 * make none. Floors share a panel per unit. -ENOMEM. */
int perf_chart_make(const struct perf_result *rows, size_t count, struct perf_chart **charts);

#endif
