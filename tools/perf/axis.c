/* SPDX-License-Identifier: BSD-3-Clause */
/* Axes and their ticks. */
#include "tools/perf/axis.h"

#include <math.h>

static void add_tick(struct perf_axis *axis, double value)
{
    if (axis->ticks < PERF_TICKS)
        axis->tick[axis->ticks++] = value;
}

void perf_axis_sizes(struct perf_axis *axis, double low, double high, double from, double to)
{
    double first = floor(log2(low)), last = ceil(log2(high));
    double step = ceil((last - first + 1) / 12);

    if (last <= first)
        last = first + 1;
    *axis = (struct perf_axis){
        .low = exp2(first), .high = exp2(last), .from = from, .to = to, .logarithmic = true};
    for (double power = first; power <= last; power += step)
        add_tick(axis, exp2(power));
}

static void logarithmic(struct perf_axis *axis, double low, double high)
{
    static const double steps[] = {1, 2, 5};
    double decade = pow(10, floor(log10(low)));

    axis->logarithmic = true;
    axis->low = axis->high = 0;
    for (int i = 0; axis->high < high; i++) {
        double value = decade * pow(10, i / 3) * steps[i % 3];
        double next = decade * pow(10, (i + 1) / 3) * steps[(i + 1) % 3];

        if (next <= low)
            continue;
        if (axis->ticks == 0)
            axis->low = value;
        axis->high = value;
        add_tick(axis, value);
    }
}

static void linear(struct perf_axis *axis, double high)
{
    double rough = high / 6, decade = pow(10, floor(log10(rough))), step = decade;

    if (rough > 5 * decade)
        step = 10 * decade;
    else if (rough > 2 * decade)
        step = 5 * decade;
    else if (rough > decade)
        step = 2 * decade;
    axis->low = 0;
    for (int i = 0; i == 0 || axis->high < high; i++) {
        axis->high = step * i;
        add_tick(axis, axis->high);
    }
}

void perf_axis_figures(struct perf_axis *axis, double low, double high, double from, double to)
{
    *axis = (struct perf_axis){.from = from, .to = to};
    if (high > 12 * low)
        logarithmic(axis, low, high);
    else
        linear(axis, high);
}

double perf_axis_place(const struct perf_axis *axis, double value)
{
    double part = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                    : (value - axis->low) / (axis->high - axis->low);

    return axis->from + part * (axis->to - axis->from);
}
