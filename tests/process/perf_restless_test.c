/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf on a machine whose L never rests (tests/support/restless.c): no round counts, and each row, in every form,
 * says so instead of giving a figure that mixes states of the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/capture.h"

#define WHY "no figure: L moved"

static char program[1024];

/* Runs it with these arguments, which must succeed; the caller frees. */
static void run(struct capture *out, const char *arguments)
{
    char line[1536];

    snprintf(line, sizeof(line), "%s %s", program, arguments);
    capture_run(out, line);
    if (out->status != 0)
        fail_msg("%s\n  status %d\n  stderr: %s", line, out->status, out->err);
}

static void has_no_figure(const char *line, const char *test)
{
    json_error_t error;
    json_t *row = json_loads(line, 0, &error);
    const char *note = json_string_value(json_object_get(row, "note"));

    if (!row)
        fail_msg("%s in: %s", error.text, line);
    assert_string_equal(json_string_value(json_object_get(row, "test")), test);
    assert_true(json_is_null(json_object_get(row, "value")));
    assert_true(json_is_null(json_object_get(row, "floor")));
    assert_int_equal(json_integer_value(json_object_get(row, "rounds")), 0);
    assert_true(json_integer_value(json_object_get(row, "dropped")) >= 16);
    if (!note || !strstr(note, WHY))
        fail_msg("%s does not say why", line);
    json_decref(row);
}

static unsigned rows_without_figures(const char *arguments, const char *test)
{
    struct capture out;
    char *rest, *line;
    unsigned rows = 0;

    run(&out, arguments);
    rest = out.out;
    while ((line = strsep(&rest, "\n")) && *line) {
        has_no_figure(line, test);
        rows++;
    }
    capture_free(&out);
    return rows;
}

static void json_has_null_and_the_reason(void **state)
{
    (void)state;
    assert_int_equal(rows_without_figures("latency --sizes 8,4K --seconds 0.1 --json -", "latency"), 2);
    assert_int_equal(rows_without_figures("wake --seconds 0.1 --json -", "wake"), 1);
}

static void the_table_says_so(void **state)
{
    struct capture out;

    (void)state;
    run(&out, "bandwidth --sizes 4K --seconds 0.1");
    assert_non_null(strstr(out.out, "bandwidth"));
    assert_non_null(strstr(out.out, WHY));
    assert_non_null(strstr(out.out, "  0 rounds; "));
    capture_free(&out);
}

static void the_picture_says_so(void **state)
{
    char name[] = "restlessXXXXXX", arguments[256], text[8192];
    int fd = mkstemp(name);
    struct capture out;
    ssize_t bytes;

    (void)state;
    assert_true(fd >= 0);
    snprintf(arguments, sizeof(arguments), "bandwidth --sizes 4K,64K --seconds 0.1 --plot %s", name);
    run(&out, arguments);
    capture_free(&out);
    bytes = read(fd, text, sizeof(text) - 1);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    assert_int_equal(strncmp(text, "<svg", 4), 0);
    assert_non_null(strstr(text, "bandwidth 4K: " WHY));
    assert_non_null(strstr(text, "bandwidth 64K: " WHY));
    assert_string_equal(text + bytes - 7, "</svg>\n");
    close(fd);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_null_and_the_reason),
        cmocka_unit_test(the_table_says_so),
        cmocka_unit_test(the_picture_says_so),
    };
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        puts("skip: what is measured lies between two CPUs, and there is one");
        return 77;
    }
    snprintf(program, sizeof(program), "%s/tests/support/restless", getenv("NIGH_BUILDDIR"));
    return cmocka_run_group_tests_name("perf_restless", tests, NULL, NULL);
}
