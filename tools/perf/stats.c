/* SPDX-License-Identifier: BSD-3-Clause */
/* Order statistics of timings. */
#include "tools/perf/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void perf_sort(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), compare);
}

double perf_quantile(const double *sorted, size_t n, double q)
{
    double at, part;
    size_t low;

    if (n == 0)
        return NAN;
    at = q * (double)(n - 1);
    low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    part = at - (double)low;
    return sorted[low] + part * (sorted[low + 1] - sorted[low]);
}

double perf_median(double *v, size_t n)
{
    perf_sort(v, n);
    return perf_quantile(v, n, 0.5);
}

double perf_middle(double *v, size_t n)
{
    size_t first = n / 4, last = n - n / 4;
    double sum = 0;

    perf_sort(v, n);
    for (size_t i = first; i < last; i++)
        sum += v[i];
    return n ? sum / (double)(last - first) : NAN;
}

/* The largest k with P(Binomial(n, 1/2) < k) <= 2.5 %: the median lies below the k-th smallest value
 * (1-based) with at most that chance. */
static size_t binomial_rank(size_t n)
{
    long double term = powl(0.5L, (long double)n), below = 0;
    size_t k;

    for (k = 0; k < n; k++) {
        if (below + term > 0.025L)
            return k;
        below += term;
        term *= (long double)(n - k) / (long double)(k + 1);
    }
    return 0;
}

int perf_median_ranks(size_t n, size_t *first, size_t *last)
{
    size_t k;

    /* Exact while 0.5^n is a normal long double on every ABI (double: 2^-1022); the normal approximation of
     * the binomial is off by less than one rank long before. */
    if (n <= 1000)
        k = binomial_rank(n);
    else
        k = (size_t)floor(((double)n - 1.959964 * sqrt((double)n)) / 2);
    if (k == 0)
        return -ERANGE;
    *first = k - 1;
    *last = n - k;
    return 0;
}

struct perf_interval perf_median_interval(const double *sorted, size_t n)
{
    struct perf_interval none = {NAN, NAN}, found;
    size_t first, last;

    if (perf_median_ranks(n, &first, &last) != 0)
        return none;
    found.low = sorted[first];
    found.high = sorted[last];
    return found;
}

void perf_ratios(const double *work, const double *floor, const uint32_t *pick, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = work[pick[i]] / floor[pick[i]];
}
