/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf from the outside: a short run of the floors gives JSON that parses, with figures that a
 * machine can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The output of nigh-perf with these arguments; its exit status in *status. The caller frees it. */
static char *output_of(const char *arguments, int *status)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char command[1024], *text = NULL;
    size_t room = 0, used = 0, n;
    FILE *pipe;

    assert_non_null(build);
    snprintf(command, sizeof(command), "%s/tools/nigh-perf %s", build, arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    do {
        room += 65536;
        text = realloc(text, room + 1);
        assert_non_null(text);
        n = fread(text + used, 1, room - used, pipe);
        used += n;
    } while (used == room);
    text[used] = '\0';
    *status = WEXITSTATUS(pclose(pipe));
    return text;
}

static double figure(json_t *row, const char *key)
{
    json_t *value = json_object_get(row, key);

    if (!json_is_number(value))
        fail_msg("%s of %s is no number", key, json_string_value(json_object_get(row, "test")));
    return json_number_value(value);
}

struct seen {
    unsigned handoff, rate, ring, copy, stream, oneway, wake, change, vm;
};

static void count(const char *test, struct seen *seen)
{
    seen->handoff += strcmp(test, "floor-handoff") == 0;
    seen->rate += strcmp(test, "floor-line-rate") == 0;
    seen->ring += strcmp(test, "floor-ring") == 0;
    seen->copy += strcmp(test, "floor-copy") == 0;
    seen->stream += strcmp(test, "floor-stream") == 0;
    seen->oneway += strcmp(test, "floor-oneway") == 0;
    seen->wake += strcmp(test, "floor-wake") == 0;
    seen->change += strcmp(test, "floor-switch") == 0;
}

/* What no machine does is a defect of the benchmark: a copy that was dropped by the compiler, a unit that is off. */
static void look_at(json_t *row, struct seen *seen)
{
    const char *test = json_string_value(json_object_get(row, "test"));
    const char *unit = json_string_value(json_object_get(row, "unit"));

    assert_non_null(test);
    assert_non_null(unit);
    assert_true(json_is_null(json_object_get(row, "floor")));
    assert_true(json_is_null(json_object_get(row, "ratio")));
    assert_true(json_is_integer(json_object_get(row, "bytes")));
    assert_true(json_is_integer(json_object_get(row, "ranks")));
    count(test, seen);
    if (json_is_string(json_object_get(row, "note")) && json_is_null(json_object_get(row, "value")))
        return; /* refused here, or a machine that never rested: the note says so */
    assert_true(figure(row, "rounds") >= 8);
    if (strcmp(unit, "ns") == 0 && (figure(row, "value") < 1 || figure(row, "value") > 1e8))
        fail_msg("%s: %f ns", test, figure(row, "value"));
    if (strcmp(unit, "GB/s") == 0 && (figure(row, "value") < 0.001 || figure(row, "value") > 2000))
        fail_msg("%s: %f GB/s", test, figure(row, "value"));
    if (strcmp(unit, "M/s") == 0 && (figure(row, "value") < 0.01 || figure(row, "value") > 2000))
        fail_msg("%s: %f M/s", test, figure(row, "value"));
}

static void floors_are_json_of_possible_figures(void **state)
{
    struct seen seen = {0};
    char *text, *rest, *line;
    int status;

    (void)state;
    text = output_of("floors --seconds 1 --sizes 4K,64K --json -", &status);
    assert_int_equal(status, 0);
    rest = text;
    while ((line = strsep(&rest, "\n")) && *line) {
        json_error_t error;
        json_t *row = json_loads(line, 0, &error);

        if (!row)
            fail_msg("%s in: %s", error.text, line);
        look_at(row, &seen);
        json_decref(row);
    }
    free(text);
    assert_true(seen.handoff >= 2);
    assert_true(seen.rate >= 1);
    assert_true(seen.ring >= 4);
    assert_true(seen.copy >= 2);
    assert_true(seen.stream >= 2);
    assert_true(seen.oneway >= 2);
    assert_true(seen.wake >= 1);
    assert_true(seen.change >= 1);
}

static void what_is_asked_wrongly_is_refused(void **state)
{
    static const char *const wrong[] = {"nonsense 2>&1",
                                        "floors --sizes 8X 2>&1",
                                        "floors --np 1 2>&1",
                                        "floors --seconds 0 2>&1",
                                        "floors --cpus x 2>&1",
                                        "2>&1",
                                        "floors --json /no-such-folder/x 2>&1"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int status;
        char *text = output_of(wrong[i], &status);

        if (status == 0)
            fail_msg("nigh-perf %s succeeded", wrong[i]);
        assert_non_null(strstr(text, "nigh-perf"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floors_are_json_of_possible_figures),
        cmocka_unit_test(what_is_asked_wrongly_is_refused),
    };
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        puts("skip: the floors are handoffs between two CPUs, and there is one");
        return 77;
    }
    return cmocka_run_group_tests_name("perf_floors", tests, NULL, NULL);
}
