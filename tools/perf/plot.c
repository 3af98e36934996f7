/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawing charts as SVG. */
#include "tools/perf/plot.h"

#include "tools/perf/axis.h"
#include "tools/perf/chart.h"
#include "tools/perf/report.h"
#include "tools/perf/sizes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one panel, in units of the picture. */
enum { WIDTH = 960, HEIGHT = 440, LEFT = 84, RIGHT = 270, TOP = 56, BOTTOM = 56, LEGEND_STEP = 22 };

struct panel {
    FILE *out;
    const struct perf_chart *chart;
    struct perf_axis x, y;
};

/* Told apart by people with any of the common colour deficiencies; the first is nigh's. */
static const char *const colours[] = {"#0b5cad", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                      "#7a5195", "#56b4e9", "#8c564b", "#3f8f3f", "#b2182b"};

/* The first line of the same owner: both states of the machine have one colour. */
static size_t first_of(const struct perf_chart *chart, size_t line)
{
    size_t i = 0;

    while (strcmp(chart->line[i].who, chart->line[line].who) != 0)
        i++;
    return i;
}

static const char *colour_of(const struct perf_chart *chart, size_t line)
{
    size_t first = first_of(chart, line), n = 0;

    if (chart->line[line].kind == PERF_CHART_FLOOR)
        return "#6b7280";
    for (size_t i = 0; i < first; i++)
        n += chart->line[i].kind != PERF_CHART_FLOOR && first_of(chart, i) == i;
    return colours[n % (sizeof(colours) / sizeof(colours[0]))];
}

static void text(FILE *out, double x, double y, const char *class, const char *words)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    for (; *words; words++) {
        if (*words == '<')
            fputs("&lt;", out);
        else if (*words == '>')
            fputs("&gt;", out);
        else if (*words == '&')
            fputs("&amp;", out);
        else
            putc(*words, out);
    }
    fputs("</text>\n", out);
}

static void straight(FILE *out, double x1, double y1, double x2, double y2, const char *class)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2,
            class);
}

static void figure_label(char room[PERF_FIGURE_BYTES], double value, const char *unit)
{
    if (strcmp(unit, "ns") != 0)
        snprintf(room, PERF_FIGURE_BYTES, "%g", value);
    else if (value < 1e3)
        snprintf(room, PERF_FIGURE_BYTES, "%g ns", value);
    else if (value < 1e6)
        snprintf(room, PERF_FIGURE_BYTES, "%g us", value / 1e3);
    else
        snprintf(room, PERF_FIGURE_BYTES, "%g ms", value / 1e6);
}

static void draw_axes(struct panel *p)
{
    char room[PERF_FIGURE_BYTES];

    for (size_t i = 0; i < p->y.ticks; i++) {
        double y = perf_axis_place(&p->y, p->y.tick[i]);

        straight(p->out, p->x.from, y, p->x.to, y, "grid");
        figure_label(room, p->y.tick[i], p->chart->unit);
        text(p->out, p->x.from - 10, y + 4, "tick end", room);
    }
    for (size_t i = 0; i < p->x.ticks; i++) {
        double x = perf_axis_place(&p->x, p->x.tick[i]);

        straight(p->out, x, p->y.from, x, p->y.to, "grid");
        text(p->out, x, p->y.from + 20, "tick middle",
             perf_size_text((uint64_t)p->x.tick[i], room, sizeof(room)));
    }
    straight(p->out, p->x.from, p->y.from, p->x.to, p->y.from, "axis");
    straight(p->out, p->x.from, p->y.from, p->x.from, p->y.to, "axis");
    text(p->out, (p->x.from + p->x.to) / 2, p->y.from + 42, "label middle", "bytes of a message");
}

static void line_style(FILE *out, const struct perf_chart_line *line)
{
    if (line->kind == PERF_CHART_VALUE)
        fputs(" stroke-width=\"2.6\"", out);
    else
        fputs(" stroke-width=\"1.6\"", out);
    if (line->kind == PERF_CHART_FLOOR)
        fputs(line->state ? " stroke-dasharray=\"7 4 2 4\"" : " stroke-dasharray=\"7 4\"", out);
    else if (line->state > 0)
        fputs(" stroke-dasharray=\"2 3\"", out);
}

static void draw_line(struct panel *p, size_t index)
{
    const struct perf_chart_line *line = &p->chart->line[index];
    const char *colour = colour_of(p->chart, index);

    fprintf(p->out, "<polyline fill=\"none\" stroke=\"%s\"", colour);
    line_style(p->out, line);
    fputs(" points=\"", p->out);
    for (size_t i = 0; i < line->points; i++)
        fprintf(p->out, "%.1f,%.1f ", perf_axis_place(&p->x, line->bytes[i]),
                perf_axis_place(&p->y, line->value[i]));
    fputs("\"/>\n", p->out);
    for (size_t i = 0; (line->kind != PERF_CHART_FLOOR || line->points == 1) && i < line->points; i++)
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n",
                perf_axis_place(&p->x, line->bytes[i]), perf_axis_place(&p->y, line->value[i]),
                line->kind == PERF_CHART_VALUE ? "3.6" : "2.6", colour);
}

static void draw_legend(struct panel *p)
{
    double x = p->x.to + 24, y = TOP + 6;

    for (size_t i = 0; i < p->chart->lines; i++, y += LEGEND_STEP) {
        fprintf(p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"", x, y, x + 26,
                y, colour_of(p->chart, i));
        line_style(p->out, &p->chart->line[i]);
        fputs("/>\n", p->out);
        text(p->out, x + 34, y + 4, "legend", p->chart->line[i].name);
    }
}

static void range(const double *values, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        if (*low == 0 || values[i] < *low)
            *low = values[i];
        if (values[i] > *high)
            *high = values[i];
    }
}

static double height_of(const struct perf_chart *chart)
{
    double legend = TOP + LEGEND_STEP * ((double)chart->lines + 1);

    return legend > HEIGHT ? legend : HEIGHT;
}

static void draw_panel(FILE *out, const struct perf_chart *chart, double top)
{
    struct panel p = {.out = out, .chart = chart};
    double x_low = 0, x_high = 0, y_low = 0, y_high = 0;
    char title[128];

    for (size_t i = 0; i < chart->lines; i++) {
        range(chart->line[i].bytes, chart->line[i].points, &x_low, &x_high);
        range(chart->line[i].value, chart->line[i].points, &y_low, &y_high);
    }
    perf_axis_sizes(&p.x, x_low, x_high, LEFT, WIDTH - RIGHT);
    perf_axis_figures(&p.y, y_low, y_high, height_of(chart) - BOTTOM, TOP);
    fprintf(out, "<g transform=\"translate(0,%.0f)\">\n", top);
    snprintf(title, sizeof(title), "%s", chart->title);
    text(out, LEFT, 28, "title", title);
    if (strcmp(chart->unit, "ns") != 0)
        text(out, LEFT - 10, TOP - 12, "label end", chart->unit);
    draw_axes(&p);
    for (size_t i = chart->lines; i > 0; i--)
        draw_line(&p, i - 1); /* nigh, the first, on top */
    draw_legend(&p);
    fputs("</g>\n", out);
}

static bool is_missing(const struct perf_result *row)
{
    return !isfinite(row->value) && *row->note;
}

static size_t missing(const struct perf_result *rows, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += is_missing(&rows[i]);
    return n;
}

/* A line of words for each row without a figure, so that a gap in a picture is not taken for a choice. */
static void draw_missing(FILE *out, const struct perf_result *rows, size_t count, double top)
{
    char words[256], size[24];

    for (size_t i = 0; i < count; i++) {
        if (!is_missing(&rows[i]))
            continue;
        snprintf(words, sizeof(words), "%s %s: %s", rows[i].test,
                 rows[i].bytes ? perf_size_text(rows[i].bytes, size, sizeof(size)) : rows[i].path,
                 rows[i].note);
        text(out, LEGEND_STEP, top += LEGEND_STEP, "legend", words);
    }
}

static void draw(FILE *out, const struct perf_chart *charts, size_t count, const struct perf_result *rows,
                 size_t row_count)
{
    size_t without = missing(rows, row_count);
    double height = without ? (double)(LEGEND_STEP * (without + 1)) : 0, top = 0;

    for (size_t i = 0; i < count; i++)
        height += height_of(&charts[i]);
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n"
        "<style>text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#1f2933}"
        ".title{font-size:17px;font-weight:bold}.label,.legend{font-size:13px}"
        ".tick{font-size:12px;fill:#52606d}.end{text-anchor:end}.middle{text-anchor:middle}"
        ".grid{stroke:#e4e7eb;stroke-width:1}.axis{stroke:#7b8794;stroke-width:1.2}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
        WIDTH, height, WIDTH, height);
    for (size_t i = 0; i < count; i++) {
        draw_panel(out, &charts[i], top);
        top += height_of(&charts[i]);
    }
    draw_missing(out, rows, row_count, top);
    fputs("</svg>\n", out);
}

int perf_plot_write(const char *file, const struct perf_result *rows, size_t count)
{
    struct perf_chart *charts;
    int n = perf_chart_make(rows, count, &charts), rc = 0;
    FILE *out;

    if (n < 0)
        return n;
    if (n == 0 && missing(rows, count) == 0) {
        free(charts);
        return -ENODATA;
    }
    out = fopen(file, "we");
    if (!out) {
        rc = -errno;
        free(charts);
        return rc;
    }
    draw(out, charts, (size_t)n, rows, count);
    if (ferror(out))
        rc = -EIO;
    if (fclose(out) != 0 && rc == 0)
        rc = -errno;
    free(charts);
    return rc;
}
