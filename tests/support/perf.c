/* SPDX-License-Identifier: BSD-3-Clause */
/* See perf.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/perf.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

char *output_of(const char *command, int *status)
{
    char *text = NULL;
    size_t room = 0, used = 0, n;
    FILE *pipe = popen(command, "r");

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

char *perf(const char *prefix, const char *arguments, int *status)
{
    char command[2048];

    snprintf(command, sizeof(command), "%s %s/tools/nigh-perf %s", prefix, getenv("NIGH_BUILDDIR"),
             arguments);
    return output_of(command, status);
}

/* A row either has what its test promises or a note that says why not. */
static void look_at(json_t *row, enum expected floor)
{
    const char *test = json_string_value(json_object_get(row, "test"));
    json_t *value = json_object_get(row, "value"), *note = json_object_get(row, "note");

    if (!json_is_number(value)) {
        if (!json_is_string(note))
            fail_msg("%s has neither a value nor a note", test);
        return;
    }
    /* Overlap is a difference of times: where ranks share CPUs with others it can be below nothing. */
    if (!(json_number_value(value) >= 0 ||
          (strncmp(test, "overlap", 7) == 0 && json_number_value(value) < 0)))
        fail_msg("%s: %f", test, json_number_value(value));
    if (floor == A_FLOOR && !(json_number_value(json_object_get(row, "floor")) > 0))
        fail_msg("%s has no floor", test);
    if (floor == A_FLOOR && !(json_number_value(json_object_get(row, "ratio")) > 0))
        fail_msg("%s has no ratio", test);
    if (floor == NO_FLOOR && !json_is_null(json_object_get(row, "floor")))
        fail_msg("%s has a floor that nobody has measured", test);
}

unsigned rows_in(char *text, enum expected floor)
{
    char *line;
    unsigned rows = 0;

    while ((line = strsep(&text, "\n")) && *line) {
        json_error_t error;
        json_t *row = json_loads(line, 0, &error);

        if (!row)
            fail_msg("%s in: %s", error.text, line);
        look_at(row, floor);
        json_decref(row);
        rows++;
    }
    return rows;
}

void measure(const char *arguments, unsigned least_rows, enum expected floor)
{
    char all[512], *text;
    int status;
    unsigned rows;

    snprintf(all, sizeof(all), "%s --json -", arguments);
    text = perf("", all, &status);
    if (status != 0)
        fail_msg("nigh-perf %s ended with %d", all, status);
    rows = rows_in(text, floor);
    if (rows < least_rows)
        fail_msg("nigh-perf %s gave %u rows, not %u", all, rows, least_rows);
    free(text);
}

/* How often a row of this test is in the output. */
unsigned rows_of(const char *text, const char *test)
{
    char pattern[64];
    unsigned rows = 0;

    snprintf(pattern, sizeof(pattern), "\"test\":\"%s\"", test);
    for (const char *at = text; (at = strstr(at, pattern)); at++)
        rows++;
    return rows;
}
