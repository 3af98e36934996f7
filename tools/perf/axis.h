/* SPDX-License-Identifier: BSD-3-Clause */
/* Axes: from a value to a place in the picture, and where the ticks are. */
#ifndef NIGH_PERF_AXIS_H
#define NIGH_PERF_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#define PERF_TICKS 40

struct perf_axis {
    double low, high; /* values at the ends, low < high; above 0 when logarithmic */
    double from, to;  /* places of the ends */
    bool logarithmic;
    size_t ticks;
    double tick[PERF_TICKS]; /* values */
};

/* An axis of message sizes from `low` to `high` bytes: logarithmic, ticks at powers of two, at most about a dozen. */
void perf_axis_sizes(struct perf_axis *axis, double low, double high, double from, double to);

/* An axis of figures: logarithmic when they span more than a factor of 12, else linear from 0. Ends at ticks. */
void perf_axis_figures(struct perf_axis *axis, double low, double high, double from, double to);

double perf_axis_place(const struct perf_axis *axis, double value);

#endif
