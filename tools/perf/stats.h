/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics that hold for timings: order statistics only. Timings are neither normal nor independent of
 * outliers (interrupts, a moved virtual CPU), so plain means and standard deviations are nowhere in nigh-perf. */
#ifndef NIGH_PERF_STATS_H
#define NIGH_PERF_STATS_H

#include <stddef.h>
#include <stdint.h>

struct perf_interval {
    double low, high;
};

/* Sorts ascending, in place. No NAN allowed. */
void perf_sort(double *v, size_t n);

/* The q-quantile (0 <= q <= 1) of n values sorted ascending, interpolated between neighbours; NAN for n == 0.
 */
double perf_quantile(const double *sorted, size_t n, double q);

/* The median of n values, which are sorted in place; NAN for n == 0. */
double perf_median(double *v, size_t n);

/* The mean of the middle half of n values, which are sorted in place; NAN for n == 0. As deaf to outliers as the
 * median, but not bound to the steps of a coarse clock. For the timings within one round only. */
double perf_middle(double *v, size_t n);

/* The nonparametric 95 % interval of the median of n sorted values: the narrowest pair of order statistics,
 * symmetric in rank, that covers it with at least 95 %. NAN, NAN below 6 values, where no such pair exists.
 */
struct perf_interval perf_median_interval(const double *sorted, size_t n);

/* The same as ranks: *first and *last are 0-based indices; 0, or -ERANGE below 6 values. */
int perf_median_ranks(size_t n, size_t *first, size_t *last);

/* out[i] = work[i] / floor[i] for the rounds in `pick` (indices, n of them). */
void perf_ratios(const double *work, const double *floor, const uint32_t *pick, size_t n, double *out);

#endif
