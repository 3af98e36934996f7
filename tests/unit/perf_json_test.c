/* SPDX-License-Identifier: BSD-3-Clause */
/* A row as JSON, read back by a parser: names, figures, and null for what does not exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/perf/json.h"
#include "tools/perf/report.h"

static struct perf_result example(void)
{
    struct perf_result row;

    perf_result_init(&row, "latency", "eager", "ns");
    row.bytes = 4096;
    row.ranks = 2;
    row.value = 300.25;
    row.p99 = 420;
    row.floor = 250;
    row.ratio = 1.2;
    row.handoff_ns = 52;
    row.rounds = 400;
    row.dropped = 3;
    return row;
}

static json_t *read_back(const struct perf_result *row, bool compare)
{
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof(text), "w");
    json_error_t error;
    json_t *object;

    assert_non_null(f);
    assert_int_equal(perf_json_write(f, row, compare), 0);
    fclose(f);
    object = json_loads(text, 0, &error);
    if (!object)
        fail_msg("%s: %s", error.text, text);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    return object;
}

static double real_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void a_row_comes_back(void **state)
{
    struct perf_result row = example();
    json_t *object = read_back(&row, false);

    (void)state;
    assert_string_equal(json_string_value(json_object_get(object, "test")), "latency");
    assert_string_equal(json_string_value(json_object_get(object, "path")), "eager");
    assert_string_equal(json_string_value(json_object_get(object, "unit")), "ns");
    assert_int_equal(json_integer_value(json_object_get(object, "bytes")), 4096);
    assert_int_equal(json_integer_value(json_object_get(object, "ranks")), 2);
    assert_int_equal(json_integer_value(json_object_get(object, "dropped")), 3);
    assert_float_equal(real_of(object, "value"), 300.25, 1e-3);
    assert_float_equal(real_of(object, "p99"), 420, 1e-3);
    assert_float_equal(real_of(object, "floor"), 250, 1e-3);
    assert_float_equal(real_of(object, "ratio"), 1.2, 1e-3);
    assert_float_equal(real_of(object, "handoff_ns"), 52, 1e-3);
    assert_null(json_object_get(object, "peers"));
    json_decref(object);
}

static void what_does_not_exist_is_null(void **state)
{
    static const char *const keys[] = {"value", "low",        "high", "p99", "floor",
                                       "ratio", "handoff_ns", "path", "note"};
    struct perf_result row;
    json_t *object;

    (void)state;
    perf_result_init(&row, "idle", "", "%");
    row.value = INFINITY;
    object = read_back(&row, false);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!json_is_null(json_object_get(object, keys[i])))
            fail_msg("%s is not null", keys[i]);
    }
    json_decref(object);
}

static void peers_are_an_object_when_compared(void **state)
{
    struct perf_result row = example();
    json_t *object = read_back(&row, true), *peers = json_object_get(object, "peers");

    (void)state;
    assert_true(json_is_object(peers));
    assert_int_equal(json_object_size(peers), 0);
    json_decref(object);
    row.peer_count = 2;
    snprintf(row.peers[0].name, sizeof(row.peers[0].name), "openmpi");
    row.peers[0].value = 400;
    row.peers[0].ratio = 0.75;
    snprintf(row.peers[1].name, sizeof(row.peers[1].name), "ucx");
    row.peers[1].value = NAN;
    object = read_back(&row, true);
    peers = json_object_get(object, "peers");
    assert_float_equal(real_of(peers, "openmpi"), 400, 1e-3);
    assert_true(json_is_null(json_object_get(peers, "ucx")));
    assert_float_equal(real_of(json_object_get(object, "ratios"), "openmpi"), 0.75, 1e-3);
    assert_true(json_is_null(json_object_get(json_object_get(object, "ratios"), "ucx")));
    json_decref(object);
}

static void a_full_disk_is_an_error(void **state)
{
    struct perf_result row = example();
    FILE *full = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(full);
    assert_int_equal(perf_json_write(full, &row, false), -EIO);
    fclose(full);
}

static void figures_are_scaled_for_people(void **state)
{
    char room[PERF_FIGURE_BYTES];

    (void)state;
    assert_string_equal(perf_figure_text(93.14, "ns", room), "93.14 ns");
    assert_string_equal(perf_figure_text(12345, "ns", room), "12.35 us");
    assert_string_equal(perf_figure_text(2.5e7, "ns", room), "25.00 ms");
    assert_string_equal(perf_figure_text(0.5, "GB/s", room), "0.500 GB/s");
    assert_string_equal(perf_figure_text(256, "bytes", room), "256 bytes");
    assert_string_equal(perf_figure_text(1 << 20, "bytes", room), "1024 KiB");
    assert_string_equal(perf_figure_text(NAN, "ns", room), "-");
}

static void write_table(char *text, size_t size, const struct perf_result *rows, size_t count)
{
    FILE *f = fmemopen(text, size, "w");

    assert_non_null(f);
    perf_report_write(f, rows, count);
    fclose(f);
}

static void the_table_has_a_dash_where_there_is_no_floor(void **state)
{
    struct perf_result rows[2] = {example(), example()};
    char text[4096], *second;

    (void)state;
    rows[1].floor = rows[1].ratio = NAN;
    rows[0].peer_count = 1;
    rows[0].peers[0] = (struct perf_peer_value){"openmpi", 400, 0.751};
    snprintf(rows[1].note, sizeof(rows[1].note), "no floor here");
    write_table(text, sizeof(text), rows, 2);
    assert_non_null(strstr(text, "openmpi\n"));
    assert_non_null(strstr(text, "  250.0 ns   1.20  52.00 ns  400.0 ns (0.75)\n"));
    second = strchr(strchr(text, '\n') + 1, '\n') + 1;
    assert_non_null(strstr(second, "  -      -  52.00 ns                -\n"));
    assert_non_null(strstr(text, "no floor here\n"));
    assert_non_null(strstr(text, "800 rounds; 6 dropped because L moved\n"));
}

/* One column for all rows, and one for each of two that differ at their ends. */
static void a_long_name_is_a_column(void **state)
{
    static const char long_name[] = "openmpi+nigh:GLIBC_TUNABLES=glibc.malloc.hugetlb=";
    struct perf_result rows[2] = {example(), example()};
    char text[4096], heading[256];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        rows[i].peer_count = 2;
        for (unsigned k = 0; k < 2; k++) {
            snprintf(rows[i].peers[k].name, sizeof(rows[i].peers[k].name), "%s%u", long_name, k);
            rows[i].peers[k].value = 400 + k;
        }
    }
    write_table(text, sizeof(text), rows, 2);
    snprintf(heading, sizeof(heading), "  %s0  %s1\n", long_name, long_name);
    assert_non_null(strstr(text, heading));
    assert_non_null(strstr(text, " 401.0 ns\n"));
    assert_null(strstr(text, " -\n"));
}

/* What several rows have to say is told once, and a path that is the test's own name with it. */
static void a_note_is_told_once(void **state)
{
    struct perf_result rows[4] = {example(), example(), example(), example()};
    char text[8192];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        snprintf(rows[i].test, sizeof(rows[i].test), "lend");
        snprintf(rows[i].path, sizeof(rows[i].path), i < 3 ? "lend" : "heap");
        snprintf(rows[i].note, sizeof(rows[i].note), "both ends are checked");
        rows[i].bytes = UINT64_C(8) << (10 * i);
    }
    rows[2].bytes = 0;
    write_table(text, sizeof(text), rows, 4);
    assert_non_null(strstr(text, "\n  lend 8, 8K: both ends are checked\n"));
    assert_non_null(strstr(text, "\n  lend heap 8G: both ends are checked\n"));
    assert_null(strstr(strstr(text, "lend heap 8G: both") + sizeof("lend heap 8G: both"), "both"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_back),
        cmocka_unit_test(what_does_not_exist_is_null),
        cmocka_unit_test(peers_are_an_object_when_compared),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(figures_are_scaled_for_people),
        cmocka_unit_test(the_table_has_a_dash_where_there_is_no_floor),
        cmocka_unit_test(a_long_name_is_a_column),
        cmocka_unit_test(a_note_is_told_once),
    };
    return cmocka_run_group_tests_name("perf_json", tests, NULL, NULL);
}
