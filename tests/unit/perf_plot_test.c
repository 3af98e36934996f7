/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows become the right lines at the right places, and the file is a well-formed picture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/perf/axis.h"
#include "tools/perf/chart.h"
#include "tools/perf/plot.h"

static struct perf_result row_of(const char *test, uint64_t bytes, double value, double floor, double handoff)
{
    struct perf_result row;

    perf_result_init(&row, test, "eager", "ns");
    row.bytes = bytes;
    row.ranks = 2;
    row.value = value;
    row.floor = floor;
    row.handoff_ns = handoff;
    return row;
}

static const struct perf_chart_line *line_named(const struct perf_chart *chart, const char *name)
{
    for (size_t i = 0; i < chart->lines; i++)
        if (strcmp(chart->line[i].name, name) == 0)
            return &chart->line[i];
    fail_msg("no line \"%s\" in \"%s\"", name, chart->title);
    return NULL;
}

static void lines_are_sorted_by_size(void **state)
{
    struct perf_result rows[] = {row_of("latency", 4096, 400, 300, 50), row_of("latency", 8, 60, 50, 51),
                                 row_of("latency", 512, 120, NAN, 52)};
    const struct perf_chart_line *line;
    struct perf_chart *charts;

    (void)state;
    rows[1].peer_count = 1;
    rows[1].peers[0] = (struct perf_peer_value){"openmpi", 126, NAN};
    assert_int_equal(perf_chart_make(rows, 3, &charts), 1);
    assert_string_equal(charts[0].title, "latency, 2 ranks");
    assert_int_equal(charts[0].lines, 3);
    line = line_named(charts, "nigh");
    assert_int_equal(line->points, 3);
    assert_float_equal(line->bytes[0], 8, 0);
    assert_float_equal(line->value[0], 60, 0);
    assert_float_equal(line->value[2], 400, 0);
    assert_int_equal(line_named(charts, "floor")->points, 2);
    assert_float_equal(line_named(charts, "openmpi")->value[0], 126, 0);
    free(charts);
}

static void two_states_are_two_lines(void **state)
{
    struct perf_result rows[] = {row_of("latency", 8, 60, 50, 50), row_of("latency", 8, 300, 250, 250),
                                 row_of("latency", 64, 70, 55, 53), row_of("latency", 64, 310, 260, 246)};
    struct perf_chart *charts;

    (void)state;
    assert_int_equal(perf_chart_make(rows, 4, &charts), 1);
    assert_int_equal(charts[0].lines, 4);
    assert_float_equal(line_named(charts, "nigh (L 50 ns)")->value[1], 70, 0);
    assert_float_equal(line_named(charts, "nigh (L 246 ns)")->value[1], 310, 0);
    assert_int_equal(line_named(charts, "floor (L 246 ns)")->state, 1);
    free(charts);
}

static void one_size_makes_no_panel(void **state)
{
    struct perf_result rows[] = {row_of("wake", 0, 60, 50, 50), row_of("latency", 8, 300, 250, 50)};
    struct perf_chart *charts;

    (void)state;
    assert_int_equal(perf_chart_make(rows, 2, &charts), 0);
    free(charts);
    assert_int_equal(perf_plot_write("none.svg", rows, 2), -ENODATA);
    assert_int_equal(access("none.svg", F_OK), -1);
}

/* The machine was in another state for each size: a point each, and no gap. */
static void a_state_for_each_size_makes_a_panel(void **state)
{
    struct perf_result rows[] = {row_of("latency", 8, 60, 50, 50), row_of("latency", 64, 310, 260, 246)};
    struct perf_chart *charts;

    (void)state;
    assert_int_equal(perf_chart_make(rows, 2, &charts), 1);
    assert_int_equal(line_named(charts, "nigh (L 50 ns)")->points, 1);
    assert_int_equal(line_named(charts, "nigh (L 246 ns)")->points, 1);
    free(charts);
}

static void places_on_a_logarithmic_axis(void **state)
{
    struct perf_axis axis;

    (void)state;
    perf_axis_sizes(&axis, 8, 4096, 100, 1000);
    assert_int_equal(axis.ticks, 10);
    assert_float_equal(axis.tick[0], 8, 0);
    assert_float_equal(axis.tick[9], 4096, 0);
    assert_float_equal(perf_axis_place(&axis, 8), 100, 1e-9);
    assert_float_equal(perf_axis_place(&axis, 64), 400, 1e-9);
    assert_float_equal(perf_axis_place(&axis, 4096), 1000, 1e-9);
}

static void figures_choose_their_scale(void **state)
{
    struct perf_axis axis;

    (void)state;
    perf_axis_figures(&axis, 3, 29, 400, 50);
    assert_false(axis.logarithmic);
    assert_float_equal(axis.low, 0, 0);
    assert_float_equal(axis.high, 30, 1e-9);
    assert_float_equal(perf_axis_place(&axis, 15), 225, 1e-9);
    perf_axis_figures(&axis, 55, 900000, 400, 50);
    assert_true(axis.logarithmic);
    assert_float_equal(axis.low, 50, 1e-9);
    assert_float_equal(axis.high, 1e6, 1e-3);
    assert_in_range(axis.ticks, 10, PERF_TICKS);
}

static char *contents(const char *file)
{
    FILE *f = fopen(file, "r");
    char *text = NULL;
    size_t size = 0;

    assert_non_null(f);
    assert_true(getdelim(&text, &size, '\0', f) > 0);
    fclose(f);
    return text;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void the_file_is_a_picture_of_the_rows(void **state)
{
    struct perf_result rows[] = {row_of("latency", 8, 60, 50, 50), row_of("latency", 4096, 400, 300, 50)};
    char name[] = "plotXXXXXX";
    int fd = mkstemp(name);
    char *text;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    rows[0].peer_count = rows[1].peer_count = 1;
    rows[0].peers[0] = (struct perf_peer_value){"a<b&c", 100, NAN};
    rows[1].peers[0] = (struct perf_peer_value){"a<b&c", 500, NAN};
    assert_int_equal(perf_plot_write(name, rows, 2), 0);
    text = contents(name);
    unlink(name);
    assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
    assert_string_equal(text + strlen(text) - 7, "</svg>\n");
    assert_int_equal(count_of(text, "<polyline "), 3);
    assert_int_equal(count_of(text, "<text "), count_of(text, "</text>"));
    assert_int_equal(count_of(text, "<g "), count_of(text, "</g>"));
    assert_non_null(strstr(text, ">a&lt;b&amp;c</text>"));
    assert_non_null(strstr(text, ">nigh</text>"));
    assert_non_null(strstr(text, ">floor</text>"));
    assert_int_equal(count_of(text, "nan"), 0);
    free(text);
}

static void rows_without_a_figure_are_named_with_their_reason(void **state)
{
    struct perf_result rows[] = {row_of("latency", 8, NAN, NAN, NAN), row_of("latency", 4096, 400, 300, 50),
                                 row_of("latency", 8192, 600, 500, 50)};
    char name[] = "plotXXXXXX";
    int fd = mkstemp(name);
    char *text;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    strcpy(rows[0].note, "no figure: it rained");
    for (size_t count = 1; count <= 3; count++) { /* alone, beside one point, below a panel */
        assert_int_equal(perf_plot_write(name, rows, count), 0);
        text = contents(name);
        assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
        assert_int_equal(count_of(text, ">latency 8: no figure: it rained</text>"), 1);
        assert_int_equal(count_of(text, "<g "), count == 3);
        free(text);
    }
    unlink(name);
}

static void a_file_that_cannot_be_made_is_an_error(void **state)
{
    struct perf_result rows[] = {row_of("latency", 8, 60, 50, 50), row_of("latency", 4096, 400, 300, 50)};

    (void)state;
    assert_int_equal(perf_plot_write("no-such-folder/plot.svg", rows, 2), -ENOENT);
    assert_int_equal(perf_plot_write("/dev/full", rows, 2), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_sorted_by_size),
        cmocka_unit_test(two_states_are_two_lines),
        cmocka_unit_test(one_size_makes_no_panel),
        cmocka_unit_test(a_state_for_each_size_makes_a_panel),
        cmocka_unit_test(places_on_a_logarithmic_axis),
        cmocka_unit_test(figures_choose_their_scale),
        cmocka_unit_test(the_file_is_a_picture_of_the_rows),
        cmocka_unit_test(rows_without_a_figure_are_named_with_their_reason),
        cmocka_unit_test(a_file_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests_name("perf_plot", tests, NULL, NULL);
}
