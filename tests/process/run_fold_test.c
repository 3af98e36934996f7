/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-run makes one line of those that nigh says alike in several ranks, loses none, and lets alone what programs print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/capture.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int times(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

struct expected {
    const char *line;
    int status;
    const char *part; /* of stderr */
    int least, most;  /* a line that is long in coming is held back, but not for ever */
};

static void check(const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct capture run;
        int seen;

        capture_run(&run, expected[i].line);
        seen = times(run.err, expected[i].part);
        if (run.status != expected[i].status || seen < expected[i].least || seen > expected[i].most)
            fail_msg("%s: status %d; expected %d, and %d to %d times \"%s\":\n%s", expected[i].line,
                     run.status, expected[i].status, expected[i].least, expected[i].most, expected[i].part,
                     run.err);
        capture_free(&run);
    }
}

#define CHECK(table) check(table, sizeof(table) / sizeof((table)[0]))

static void test_equal_lines_are_one(void **state)
{
    static const struct expected table[] = {
        {"$RUN --bind none -n 8 $BIN/says equal", 0, "nigh: ranks 0", 1, 1},
        {"$RUN --bind none -n 8 $BIN/says equal", 0, "-1000", 1, 4},
        {"$RUN --bind none -n 64 -x NIGH_POOL=7 $BIN/says", 1, "NIGH_POOL=\"7\" is not valid", 1, 5},
        {"$RUN --bind none -n 3 $BIN/says one", 0, "nigh: rank 1: nigh_send at ", 1, 1},
        {"$RUN --bind none -n 3 $BIN/says apart", 0, ": nigh_send at ", 3, 3},
        {"$RUN --bind none -n 3 $BIN/says twice", 0, ": nigh_send at ", 3, 7},
        {"$RUN -n 1 $BIN/says equal", 0, "nigh: nigh_send at ", 1, 1},
    };

    (void)state;
    CHECK(table);
}

static void test_programs_print_for_themselves(void **state)
{
    static const struct expected table[] = {
        {"$RUN --bind none -n 5 $BIN/says equal", 0, "nigh: of the program\n", 5, 5},
        {"$RUN --bind none --label -n 3 $BIN/says equal", 0, "[2] nigh: rank 2: nigh_send at ", 1, 1},
        {"$RUN --bind none --label -n 3 $BIN/says equal", 0, " nigh: rank ", 3, 3},
    };

    (void)state;
    CHECK(table);
}

/* A rank's standard error may be the rank's own affair: a file, or closed. */
static void test_another_standard_error(void **state)
{
    struct capture run;

    (void)state;
    capture_run(&run, "$RUN --bind none -n 3 sh -c '$BIN/says equal 2>&1 >/dev/null | cat'");
    assert_int_equal(run.status, 0);
    assert_int_equal(times(run.out, ": nigh_send at "), 3);
    assert_int_equal(times(run.err, "nigh_send"), 0);
    capture_free(&run);
    capture_run(&run, "$RUN --bind none -n 3 $BIN/says equal 2>&-");
    assert_int_equal(run.status, 0);
    capture_free(&run);
    capture_run(&run, "$RUN --bind none -n 3 sh -c '$BIN/says equal 2>&-'");
    assert_int_equal(run.status, 0);
    assert_int_equal(times(run.err, "nigh_send"), 0);
    capture_free(&run);
}

/* What a rank says comes before what is said of its end. */
static void test_the_last_words(void **state)
{
    struct capture run;
    const char *words, *end;

    (void)state;
    for (int i = 0; i < 5; i++) {
        capture_run(&run, "$RUN --bind none -n 4 $BIN/says die");
        assert_int_equal(run.status, 137);
        words = strstr(run.err, "nigh_send at ");
        end = strstr(run.err, "nigh-run: rank ");
        if (!words || !end || end < words)
            fail_msg("%s", run.err);
        capture_free(&run);
    }
}

static void test_shown_while_the_job_runs(void **state)
{
    struct capture run;

    (void)state;
    capture_start(&run, "$RUN --bind none -n 4 $BIN/says wait");
    if (!capture_until_said(&run, ": nigh_send at "))
        fail_msg("%s", run.err);
    kill(run.pid, SIGTERM);
    capture_wait(&run, 60);
    assert_int_equal(run.status, 143);
    capture_free(&run);
}

/* Nobody is there, or not the one that it was: the rank says it itself. */
static void test_nobody_folds(void **state)
{
    static const struct expected table[] = {
        {"env NIGH_LINES=1:2:nigh-run-nobody NIGH_JOB=0xf01d NIGH_RANK=0 NIGH_SIZE=1 $BIN/says equal", 0,
         "nigh_send at ", 1, 1},
        {"sh -c 'NIGH_LINES=$(stat -L -c %d:%i /proc/self/fd/2):nigh-run-nobody NIGH_JOB=0xf01d NIGH_RANK=0 "
         "NIGH_SIZE=1 exec "
         "$BIN/says equal'",
         0, "nigh_send at ", 1, 1},
        {"env NIGH_LINES=x NIGH_JOB=0xf01d NIGH_RANK=0 NIGH_SIZE=1 $BIN/says equal", 0, "nigh_send at ", 1,
         1},
        {"$RUN -n 2 -x NIGH_LINES=x true", 125, "nigh-run sets NIGH_LINES itself", 1, 1},
        {"$RUN --bind none -n 2 $RUN -n 1 $BIN/says equal", 0, "nigh: nigh_send at ", 2, 2},
    };

    (void)state;
    CHECK(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_lines_are_one),      cmocka_unit_test(test_programs_print_for_themselves),
        cmocka_unit_test(test_another_standard_error),   cmocka_unit_test(test_the_last_words),
        cmocka_unit_test(test_shown_while_the_job_runs), cmocka_unit_test(test_nobody_folds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
