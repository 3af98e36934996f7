/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting rows into panels and lines. */
#include "tools/perf/chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATES    4
#define STATE_GAP 1.4 /* L further apart than this are two lines */

/* The machine's states in one panel, by their L. */
struct states {
    size_t count;
    double handoff[STATES]; /* the smallest L of each, ascending */
};

static int is_floor(const struct perf_result *row)
{
    return strncmp(row->test, "floor-", 6) == 0;
}

static void title_of(const struct perf_result *row, char *title, size_t size)
{
    if (is_floor(row))
        snprintf(title, size, "floors, %s", row->unit);
    else
        snprintf(title, size, "%s, %u ranks", row->test, (unsigned)row->ranks);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void find_states(const struct perf_result *rows, size_t count, const char *title, struct states *out)
{
    double *l = malloc((count + 1) * sizeof(*l));
    char here[80];
    size_t n = 0;

    out->count = 0;
    for (size_t i = 0; l && i < count; i++) {
        title_of(&rows[i], here, sizeof(here));
        if (strcmp(here, title) == 0 && isfinite(rows[i].handoff_ns))
            l[n++] = rows[i].handoff_ns;
    }
    if (n > 0)
        qsort(l, n, sizeof(*l), ascending);
    for (size_t i = 0; i < n; i++)
        if ((i == 0 || l[i] > l[i - 1] * STATE_GAP) && out->count < STATES)
            out->handoff[out->count++] = l[i];
    free(l);
}

static uint32_t state_of(const struct states *states, double handoff)
{
    uint32_t s = 0;

    while (s + 1 < states->count && handoff >= states->handoff[s + 1])
        s++;
    return s;
}

static struct perf_chart_line *line_of(struct perf_chart *chart, const char *name, enum perf_chart_kind kind,
                                       uint32_t state)
{
    struct perf_chart_line *line = chart->line;

    for (; line < chart->line + chart->lines; line++)
        if (line->kind == kind && line->state == state && strcmp(line->name, name) == 0)
            return line;
    if (chart->lines == PERF_CHART_LINES)
        return NULL;
    chart->lines++;
    snprintf(line->name, sizeof(line->name), "%s", name);
    line->kind = kind;
    line->state = state;
    return line;
}

static void insert(struct perf_chart_line *line, double bytes, double value)
{
    size_t at = line->points;

    if (at == PERF_CHART_POINTS)
        return;
    for (; at > 0 && line->bytes[at - 1] > bytes; at--) {
        line->bytes[at] = line->bytes[at - 1];
        line->value[at] = line->value[at - 1];
    }
    line->bytes[at] = bytes;
    line->value[at] = value;
    line->points++;
}

static void add_point(struct perf_chart *chart, const struct states *states, const struct perf_result *row,
                      const char *name, enum perf_chart_kind kind, double value)
{
    uint32_t state = states->count > 1 && isfinite(row->handoff_ns) ? state_of(states, row->handoff_ns) : 0;
    char full[80];
    struct perf_chart_line *line;

    if (!isfinite(value) || value <= 0)
        return;
    if (states->count > 1)
        snprintf(full, sizeof(full), "%s (L %.0f ns)", name, states->handoff[state]);
    else
        snprintf(full, sizeof(full), "%s", name);
    line = line_of(chart, full, kind, state);
    if (!line)
        return;
    snprintf(line->who, sizeof(line->who), "%s", name);
    insert(line, (double)row->bytes, value);
}

static void add_row(struct perf_chart *chart, const struct states *states, const struct perf_result *row)
{
    if (row->bytes == 0)
        return; /* no place on a logarithmic axis */
    if (is_floor(row)) {
        add_point(chart, states, row, row->test + 6, PERF_CHART_VALUE, row->value);
        return;
    }
    add_point(chart, states, row, "nigh", PERF_CHART_VALUE, row->value);
    add_point(chart, states, row, "floor", PERF_CHART_FLOOR, row->floor);
    for (uint32_t i = 0; i < row->peer_count; i++)
        add_point(chart, states, row, row->peers[i].name, PERF_CHART_PEER, row->peers[i].value);
}

static void add_rows(struct perf_chart *chart, const struct perf_result *rows, size_t count)
{
    struct states states;
    char title[80];

    find_states(rows, count, chart->title, &states);
    for (size_t i = 0; i < count; i++) {
        title_of(&rows[i], title, sizeof(title));
        if (strcmp(title, chart->title) == 0)
            add_row(chart, &states, &rows[i]);
    }
}

/* Of all lines together: where each size was measured in another state of the machine, each line has one point. */
static int has_two_sizes(const struct perf_chart *chart)
{
    for (size_t i = 0; i < chart->lines; i++)
        if (chart->line[i].bytes[0] != chart->line[0].bytes[0] ||
            chart->line[i].bytes[chart->line[i].points - 1] != chart->line[0].bytes[0])
            return 1;
    return 0;
}

static int known(const struct perf_chart *charts, size_t n, const char *title)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(charts[i].title, title) == 0)
            return 1;
    return 0;
}

/* A chart per title, in the order in which the titles first come. */
static size_t titles(const struct perf_result *rows, size_t count, struct perf_chart *charts)
{
    char title[80];
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        title_of(&rows[i], title, sizeof(title));
        if (known(charts, n, title))
            continue;
        snprintf(charts[n].title, sizeof(charts[n].title), "%s", title);
        snprintf(charts[n++].unit, sizeof(charts[0].unit), "%s", rows[i].unit);
    }
    return n;
}

int perf_chart_make(const struct perf_result *rows, size_t count, struct perf_chart **charts)
{
    struct perf_chart *all = calloc(count + 1, sizeof(*all));
    size_t n, kept = 0;

    if (!all)
        return -ENOMEM;
    n = titles(rows, count, all);
    for (size_t i = 0; i < n; i++) {
        add_rows(&all[i], rows, count);
        if (!has_two_sizes(&all[i]))
            continue;
        if (kept != i)
            all[kept] = all[i];
        kept++;
    }
    *charts = all;
    return (int)kept;
}
