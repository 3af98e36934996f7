/* SPDX-License-Identifier: BSD-3-Clause */
/* Scripts under nigh-run that run programs one behind the other: each meets those of its own turn,
 * whatever the others' ranks are at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/support/capture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run_well(const char *line, const char *said)
{
    struct capture run;

    capture_run(&run, line);
    if (run.status || !strstr(run.err, said))
        fail_msg("%s: status %d\n%s%s", line, run.status, run.out, run.err);
    capture_free(&run);
}

static void test_one_that_is_early(void **state)
{
    char folder[] = "/tmp/nigh-turns-XXXXXX", line[400], file[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/spoken", folder);
    snprintf(line, sizeof(line), "$RUN --bind none -n 2 sh -c '$BIN/turn early %s && $BIN/turn late %s'",
             file, file);
    run_well(line, "have not come to nigh_finalize within 0.2 s");
    unlink(file);
    rmdir(folder);
}

static void test_many(void **state)
{
    (void)state;
    run_well("$RUN --bind none -n 9 sh -c 'for i in 1 2 3 4 5; do $BIN/turn meet || exit 1; done'", "");
}

/* Their turns are counted when they begin. */
static void test_ones_that_do_not_leave(void **state)
{
    (void)state;
    run_well("$RUN --bind none -n 3 sh -c '$BIN/turn die; $BIN/turn die; $BIN/turn meet'", "");
}

static void test_one_inside_another(void **state)
{
    (void)state;
    run_well("$RUN --bind none -n 2 sh -c '$BIN/turn nest && $BIN/turn meet'",
             "is already open on this machine");
}

/* One that was in the job for a moment and had no memory for the rest is in the same turn when it tries again. */
static void test_one_that_stumbles(void **state)
{
    (void)state;
    if (FAULT_SANITIZED) {
        print_message("[  SKIPPED ] sanitizers end a process that has no address space for them\n");
        skip();
    }
    run_well("env NIGH_TIMEOUT=60 $RUN --bind none -n 3 sh -c '$BIN/turn stumble && $BIN/turn meet'",
             "no memory for the tables");
}

/* A script's own ids are its own affair. */
static void test_a_job_of_its_own(void **state)
{
    char line[200];

    (void)state;
    snprintf(line, sizeof(line),
             "$RUN --bind none -n 2 sh -c 'NIGH_JOB=%x $BIN/turn meet && NIGH_JOB=%x $BIN/turn meet && "
             "$BIN/turn meet'",
             0x10000000u + (unsigned)getpid(), 0x20000000u + (unsigned)getpid());
    run_well(line, "");
}

/* Programs that print where nothing is open must not print into the file of the turns. */
static void test_closed_descriptors(void **state)
{
    (void)state;
    run_well("$RUN --bind none -n 2 sh -c 'for i in 1 2; do $BIN/turn print <&- >&- 2>&- || exit $?; done; "
             "$BIN/turn meet'",
             "");
    run_well("$RUN --bind none -n 2 sh -c '$BIN/turn print <&- >&- 2>&-' <&- >&- 2>&-", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_is_early),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_ones_that_do_not_leave), cmocka_unit_test(test_one_inside_another),
        cmocka_unit_test(test_one_that_stumbles),      cmocka_unit_test(test_a_job_of_its_own),
        cmocka_unit_test(test_closed_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
