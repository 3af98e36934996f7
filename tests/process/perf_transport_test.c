/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf's tests of the transport from the outside: each gives rows with figures, a floor where there is one, and a
 * wrong byte fails the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/perf.h"

#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void latency(void **state)
{
    (void)state;
    measure("latency --sizes 0-8,40,512,4K,128K --seconds 0.6", 9, A_FLOOR);
}

static void stale_latency(void **state)
{
    (void)state;
    measure("latency --stale --sizes 8,64K --seconds 0.2", 2, A_FLOOR);
}

static void rate(void **state)
{
    (void)state;
    measure("rate --sizes 8,512 --seconds 0.3", 2, A_FLOOR);
}

/* Each row of the library follows one of the plugin, which is its floor; tests that have no such
 * form are as they were. */
static void through_the_library(void **state)
{
    int status;
    char *text;
    unsigned latency, rate, lend;

    (void)state;
    text = perf("", "latency rate lend --layer lib --sizes 8,64K --seconds 0.4 --json -", &status);
    assert_int_equal(status, 0);
    latency = rows_of(text, "latency-lib");
    rate = rows_of(text, "rate-lib");
    lend = rows_of(text, "lend-lib");
    if (latency < 2 || rate < 2 || lend != 0)
        fail_msg("%u, %u and %u rows in: %s", latency, rate, lend, text);
    assert_int_equal(rows_of(text, "latency"), latency);
    assert_int_equal(rows_of(text, "rate"), rate);
    rows_in(text, A_FLOOR);
    free(text);
    text = perf("", "latency --layer nothing 2>&1", &status);
    assert_int_equal(status, 64);
    assert_non_null(strstr(text, "neither plugin nor lib"));
    free(text);
}

static void bandwidth(void **state)
{
    (void)state;
    measure("bandwidth --sizes 4K,128K --seconds 0.3", 2, A_FLOOR);
    measure("heap --sizes 128K --seconds 0.2", 1, A_FLOOR);
}

static void lend(void **state)
{
    (void)state;
    measure("lend --sizes 8,1M --seconds 0.3", 2, A_FLOOR);
}

static void remote_memory(void **state)
{
    (void)state;
    measure("rma --sizes 8,64K --seconds 0.5", 5, MIXED); /* a get has no floor, put and atomic have */
}

static void sleeping(void **state)
{
    (void)state;
    measure("wake --seconds 0.3", 1, A_FLOOR);
    measure("idle --seconds 0.3", 2, NO_FLOOR);
}

/* Of each interface, each way to wait: beside the bare futex and the pidfd. Without libfabric its one row says why. */
static void deaths(void **state)
{
    int status;
    unsigned rows;
    char *text;

    (void)state;
    text = perf("", "death --sizes 64K --seconds 0.1 --json -", &status);
    assert_int_equal(status, 0);
    rows = rows_of(text, "death");
    if (rows != 5 + (strstr(text, "no figure: ") ? 1 : 2) || !strstr(text, "\"table, asleep\"") ||
        !strstr(text, "\"libnigh, polling\"") || !strstr(text, "\"pidfd\":") || !strstr(text, "\"floor\":"))
        fail_msg("%u rows in: %s", rows, text);
    free(text);
    text = perf("NIGH_JOB=1f NIGH_RANK=0 NIGH_SIZE=1", "death 2>&1", &status);
    assert_int_equal(status, 1);
    assert_non_null(strstr(text, "does not work under nigh-run"));
    free(text);
}

static void jobs(void **state)
{
    (void)state;
    measure("memory --np 4", 4, NO_FLOOR);
    measure("connect --np 5 --seconds 0.3", 1, NO_FLOOR);
}

static void matching(void **state)
{
    (void)state;
    measure("match --seconds 0.6", 6, A_FLOOR);
}

/* Circles of 2 and of 3, beside other work, and ranks that wait rightly: not one of those may be told otherwise. */
static void deadlocks(void **state)
{
    int status;
    char *text;

    (void)state;
    text = perf("NIGH_STALL=0.05", "deadlock --np 3 --seconds 0.3 --beside 2 --json -", &status);
    assert_int_equal(status, 0);
    assert_int_equal(rows_of(text, "deadlock"), 2);
    assert_int_equal(rows_of(text, "deadlock-false"), 1);
    assert_non_null(strstr(text, "\"ranks\":3"));
    if (!strstr(text, "verdicts in ") || strstr(text, "verdicts in 0 ") || !strstr(text, "\"value\":0.0,"))
        fail_msg("a false alarm, or nothing that could have been one, in: %s", text);
    assert_int_equal(rows_in(text, NO_FLOOR), 3);
    free(text);
    text = perf("NIGH_STALL=0", "deadlock 2>&1", &status);
    assert_int_equal(status, 1);
    assert_non_null(strstr(text, "NIGH_STALL=0 libnigh looks for none"));
    free(text);
    text = perf("", "deadlock --beside -1 2>&1", &status);
    assert_int_equal(status, 64);
    assert_non_null(strstr(text, "not a number from 0"));
    free(text);
}

/* Of an MPI alone, as nigh has no figures of its own there: without one it says so. */
static void collectives(void **state)
{
    int status;
    char *text;

    (void)state;
    text = perf("", "collective 2>&1", &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "say which MPIs"));
    free(text);
    setenv("NIGH_PEER_SOURCES", getenv("NIGH_SRCDIR"), 0);
    text = perf("", "collective --compare openmpi --sizes 8,64K --seconds 0.3 --json - 2>&1", &status);
    assert_int_equal(status, 0);
    if (strstr(text, "without openmpi")) {
        printf("skipped: %s", text);
        free(text);
        skip();
    }
    if (!strstr(text, "\"peers\":{\"openmpi\":"))
        fail_msg("no figure of the peer in: %s", text);
    assert_int_equal(rows_of(text, "barrier"), 1);
    assert_int_equal(rows_of(text, "allreduce"), 2);
    assert_int_equal(rows_of(text, "bcast"), 2);
    free(text);
    /* both ways of timing check what came, of each operation */
    text = perf("",
                "collective --compare openmpi --np 3 --sizes 8,4K --seconds 0.3 --json - "
                "--ops reduce,bcast+barrier,gather,allgather,alltoall 2>&1",
                &status);
    assert_int_equal(status, 0);
    assert_int_equal(rows_of(text, "reduce"), 2);
    assert_int_equal(rows_of(text, "bcast+barrier"), 2);
    assert_int_equal(rows_of(text, "gather"), 2);
    assert_int_equal(rows_of(text, "allgather"), 2);
    assert_int_equal(rows_of(text, "alltoall"), 2);
    free(text);
    /* a second job is one of its own, and compared with the first */
    text = perf("",
                "collective --compare openmpi,openmpi:again --ops barrier,gather --sizes 8 --seconds 0.2 "
                "--json - 2>&1",
                &status);
    assert_int_equal(status, 0);
    if (!strstr(text, "\"openmpi:again\":") || !strstr(text, " of the first\""))
        fail_msg("no second job in: %s", text);
    assert_int_equal(rows_of(text, "barrier"), 1);
    assert_int_equal(rows_of(text, "gather"), 1);
    free(text);
    text = perf("", "collective --compare shuffle:again 2>&1", &status);
    assert_int_equal(status, 64);
    assert_non_null(strstr(text, "there is no peer \"shuffle:again\""));
    free(text);
    text = perf("", "collective --ops allreduce,shuffle 2>&1", &status);
    assert_int_equal(status, 64);
    assert_non_null(strstr(text, "there is no collective \"shuffle\"; there are barrier allreduce"));
    free(text);
}

/* A job with a variable of its own: here it has to fail for what this says, and the first does not. */
static void variants(void **state)
{
    int status;
    char *text;

    (void)state;
    setenv("NIGH_PEER_SOURCES", getenv("NIGH_SRCDIR"), 0);
    text = perf(
        "",
        "collective --compare openmpi,openmpi:OMPI_MCA_btl=none:NIGH_UNUSED=1 --ops barrier --seconds 0.2 "
        "2>&1",
        &status);
    if (strstr(text, "without openmpi: ")) {
        printf("skipped: %s", text);
        free(text);
        skip();
    }
    assert_non_null(strstr(text, "without openmpi:OMPI_MCA_btl=none:NIGH_UNUSED=1: "));
    free(text);
    text = perf("", "collective --compare openmpi:1=2 2>&1", &status);
    assert_int_equal(status, 64);
    assert_non_null(strstr(text, "there is no peer \"openmpi:1=2\""));
    free(text);
}

/* Rows of a test in the output that have a floor, be it below nothing. */
static unsigned floors_of(const char *text, const char *test)
{
    char *copy = strdup(text), *rest = copy, *line;
    unsigned floors = 0;

    assert_non_null(copy);
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *row = json_loads(line, 0, NULL);

        assert_non_null(row);
        floors += strcmp(json_string_value(json_object_get(row, "test")), test) == 0 &&
                  json_is_number(json_object_get(row, "floor"));
        json_decref(row);
    }
    free(copy);
    return floors;
}

/* A bare copy by another core is raced where a CPU is nobody's, and only there. */
static void overlap_has_a_floor_where_a_core_has_no_rank(void **state)
{
    cpu_set_t all, few;
    int status, cpu = 0;
    char *text;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&few);
    for (; CPU_COUNT(&few) < 2; cpu++)
        if (CPU_ISSET((size_t)cpu, &all))
            CPU_SET((size_t)cpu, &few);
    assert_int_equal(sched_setaffinity(0, sizeof(few), &few), 0);
    text = perf("", "overlap --seconds 0.2 --json -", &status);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(status, 0);
    assert_int_equal(floors_of(text, "overlap-recv"), 0);
    assert_true(rows_in(text, MIXED) >= 2);
    free(text);
    if (CPU_COUNT(&all) < 3)
        return;
    text = perf("", "overlap --seconds 0.2 --json -", &status);
    assert_int_equal(status, 0);
    /* A machine that never rests has a row without figures. */
    if (!floors_of(text, "overlap-recv") && !strstr(text, "no figure"))
        fail_msg("no floor in: %s", text);
    assert_int_equal(floors_of(text, "overlap"), 0);
    assert_true(rows_in(text, MIXED) >= 2);
    free(text);
}

static void overlap_of_the_library(void **state)
{
    (void)state;
    measure("overlap --layer lib --seconds 0.2", 4, MIXED);
    assert_int_equal(setenv("NIGH_PROGRESS", "thread", 1), 0);
    measure("overlap --layer lib --seconds 0.2", 4, MIXED);
    unsetenv("NIGH_PROGRESS");
}

static void more_ranks_than_two_look_on(void **state)
{
    (void)state;
    measure("latency --np 3 --sizes 8 --seconds 0.2", 1, A_FLOOR);
}

/* The wrapper changes one byte; without it the same command succeeds (latency, above). */
static void a_wrong_byte_fails_the_run(void **state)
{
    static const char *const tests[] = {"latency --sizes 8 --seconds 0.2 2>&1",
                                        "latency --sizes 4K --seconds 0.2 2>&1"};
    char prefix[1024];

    (void)state;
    snprintf(prefix, sizeof(prefix),
             "NIGH_REAL_PLUGIN=$NIGH_PLUGIN NIGH_PLUGIN=%s/tests/support/.libs/wrongplugin.so",
             getenv("NIGH_BUILDDIR"));
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        int status;
        char *text = perf(prefix, tests[i], &status);

        if (status != 1 || !strstr(text, "is wrong"))
            fail_msg("nigh-perf %s ended with %d and said: %s", tests[i], status, text);
        free(text);
    }
}

static void without_a_plugin_it_says_which_file_is_missing(void **state)
{
    int status;
    char *text;

    (void)state;
    text = perf("NIGH_PLUGIN=no-such-file.so", "latency --sizes 8 2>&1", &status);
    assert_int_equal(status, 1);
    assert_non_null(strstr(text, "no-such-file.so"));
    free(text);
}

/* The same program as ranks of nigh-run: one of them reports. */
static void under_nigh_run_one_rank_reports(void **state)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char command[2048], *text;
    int status;

    (void)state;
    snprintf(
        command, sizeof(command),
        "%s/tools/nigh-run -n 2 %s/tools/nigh-perf latency --layer lib --sizes 8,4K --seconds 0.3 --json -",
        build, build);
    text = output_of(command, &status);
    assert_int_equal(status, 0);
    assert_in_range(rows_in(text, A_FLOOR), 4, 12);
    free(text);
}

static void plots_what_it_measured(void **state)
{
    char name[] = "perfXXXXXX", arguments[256], head[16] = "", *text;
    int fd = mkstemp(name), status;

    (void)state;
    assert_true(fd >= 0);
    snprintf(arguments, sizeof(arguments), "bandwidth --sizes 4K,64K --seconds 0.3 --plot %s", name);
    text = perf("", arguments, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "bandwidth"));
    assert_true(read(fd, head, 4) == 4);
    assert_string_equal(head, "<svg");
    close(fd);
    unlink(name);
    free(text);
}

static void tuning_writes_a_file_that_contexts_read(void **state)
{
    char name[] = "tuneXXXXXX", arguments[256], prefix[128], *text;
    int fd = mkstemp(name), status;
    unsigned rows;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(arguments, sizeof(arguments), "tune --seconds 0.5 --json - --tune-file %s", name);
    text = perf("", arguments, &status);
    assert_int_equal(status, 0);
    rows = rows_in(text, NO_FLOOR);
    free(text);
    if (rows < 3)
        fail_msg("%u rows of 3 races", rows);
    snprintf(prefix, sizeof(prefix), "NIGH_TUNE=%s", name);
    text = perf(prefix, "latency --sizes 64K --seconds 0.2 --json - 2>&1", &status);
    assert_int_equal(status, 0);
    assert_int_not_equal(rows_in(text, A_FLOOR), 0);
    free(text);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency),
        cmocka_unit_test(stale_latency),
        cmocka_unit_test(rate),
        cmocka_unit_test(through_the_library),
        cmocka_unit_test(bandwidth),
        cmocka_unit_test(lend),
        cmocka_unit_test(remote_memory),
        cmocka_unit_test(sleeping),
        cmocka_unit_test(deaths),
        cmocka_unit_test(jobs),
        cmocka_unit_test(matching),
        cmocka_unit_test(overlap_of_the_library),
        cmocka_unit_test(overlap_has_a_floor_where_a_core_has_no_rank),
        cmocka_unit_test(deadlocks),
        cmocka_unit_test(collectives),
        cmocka_unit_test(variants),
        cmocka_unit_test(more_ranks_than_two_look_on),
        cmocka_unit_test(a_wrong_byte_fails_the_run),
        cmocka_unit_test(without_a_plugin_it_says_which_file_is_missing),
        cmocka_unit_test(under_nigh_run_one_rank_reports),
        cmocka_unit_test(plots_what_it_measured),
        cmocka_unit_test(tuning_writes_a_file_that_contexts_read),
    };
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        puts("skip: what is measured lies between two CPUs, and there is one");
        return 77;
    }
    return cmocka_run_group_tests_name("perf_transport", tests, NULL, NULL);
}
