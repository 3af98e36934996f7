/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf's tests of collectives from the outside: each operation in each way to time it, beside peers where there are
 * some, with more ranks than CPUs, and with results that are wrong. No figure is judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/perf.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS     "broadcast reduce allreduce gather scatter allgather alltoall reduce_scatter scan exscan "
#define OPERATIONS 11

static void each_operation(void **state)
{
    (void)state;
    measure("barrier " OTHERS "--sizes 8 --seconds 0.05", OPERATIONS, A_FLOOR);
    measure("broadcast --sizes 72K --seconds 0.05", 1, A_FLOOR);
    measure("alltoall --sizes 4K --seconds 0.05", 1, A_FLOOR);
    measure("reduce --sizes 512 --behind-barrier --stale --seconds 0.05", 1, A_FLOOR);
}

/* The first two CPUs that this process may use. */
static void on_two_cpus(const char *arguments, unsigned least_rows)
{
    char all[512];
    cpu_set_t may;
    int cpu[2] = {-1, -1}, found = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(may), &may), 0);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &may))
            cpu[found++] = i;
    if (found == 2)
        snprintf(all, sizeof(all), "%s --cpus %d,%d", arguments, cpu[0], cpu[1]);
    else
        snprintf(all, sizeof(all), "%s --cpus %d", arguments, cpu[0]);
    measure(all, least_rows, NO_FLOOR);
}

/* The floors spin, so there are none. */
static void more_ranks_than_cpus(void **state)
{
    (void)state;
    on_two_cpus("barrier " OTHERS "--np 5 --sizes 64 --seconds 0.05", OPERATIONS);
    on_two_cpus("allreduce alltoall --np 3 --sizes 32K --behind-barrier --seconds 0.05", 2);
}

static void through_the_library(void **state)
{
    int status;
    char *text = perf("", "barrier allgather --layer lib --sizes 8 --seconds 0.1 --json -", &status);
    unsigned rows;

    (void)state;
    assert_int_equal(status, 0);
    rows = rows_of(text, "allgather");
    if (rows == 0 || rows_of(text, "allgather-lib") != rows || rows_of(text, "barrier-lib") == 0)
        fail_msg("not a row of the library for each in: %s", text);
    rows_in(text, A_FLOOR);
    free(text);
}

static void overlap(void **state)
{
    int status;
    char *text = perf("", "barrier allreduce --nb --sizes 64K --seconds 0.1 --json -", &status);

    (void)state;
    assert_int_equal(status, 0);
    if (rows_of(text, "barrier-overlap") == 0 || rows_of(text, "allreduce-overlap") == 0 ||
        !strstr(text, "\"unit\":\"%\"") || strstr(text, "\"unit\":\"ns\""))
        fail_msg("no shares in: %s", text);
    free(text);
}

static void overlap_through_the_library(void **state)
{
    int status;
    char *text = perf("", "barrier " OTHERS "--layer lib --nb --sizes 4K --seconds 0.05 --json -", &status);

    (void)state;
    assert_int_equal(status, 0);
    if (rows_of(text, "barrier-overlap-lib") == 0 || rows_of(text, "allreduce-overlap-lib") == 0 ||
        rows_of(text, "exscan-overlap-lib") == 0)
        fail_msg("no shares of the library in: %s", text);
    free(text);
}

/* False: there is no such peer here, and a line says so. */
static bool compare(const char *arguments, const char *const *expected, unsigned rows)
{
    char all[512], *text;
    unsigned found = 0;
    int status;
    bool is;

    snprintf(all, sizeof(all), "%s --compare openmpi --json - 2>&1", arguments);
    text = perf("", all, &status);
    assert_int_equal(status, 0);
    is = !strstr(text, "without openmpi");
    if (!is)
        printf("skipped: %s", text);
    for (; is && *expected; expected++)
        found += rows_of(text, *expected);
    if (is &&
        (found < rows || strstr(text, "nigh-perf: openmpi: ") || strstr(text, "\"peers\":{\"openmpi\":null")))
        fail_msg("nigh-perf %s: %u of %u rows in: %s", all, found, rows, text);
    free(text);
    return is;
}

/* All operations of one job of the peer, as one is soon started; beside nigh's own in each way to time them. */
static void beside_a_peer(void **state)
{
    static const char *const all[] = {"barrier",        "bcast",   "reduce",    "allreduce",
                                      "gather",         "scatter", "allgather", "alltoall",
                                      "reduce_scatter", "scan",    "exscan",    NULL};
    static const char *const one[] = {"reduce_scatter", NULL};
    static const char ops[] =
        "collective --np 3 --sizes 64 --seconds 0.1 --ops barrier,bcast,reduce,allreduce,"
        "gather,scatter,allgather,alltoall,reduce_scatter,scan,exscan";
    char arguments[512];

    (void)state;
    setenv("NIGH_PEER_SOURCES", getenv("NIGH_SRCDIR"), 0);
    snprintf(arguments, sizeof(arguments), "%s --np 3", ops);
    if (!compare(arguments, all, OPERATIONS))
        skip();
    snprintf(arguments, sizeof(arguments), "%s --nb",
             ops); /* as many ranks as CPUs: each round has many barriers */
    compare(arguments, all, OPERATIONS);
    compare("reduce_scatter --sizes 64 --seconds 0.05", one, 1);
    compare("reduce_scatter --sizes 64 --seconds 0.05 --behind-barrier --stale", one, 1);
}

static void a_wrong_result_fails_the_run(void **state)
{
    static const char *const tests[] = {
        "allreduce --sizes 8 --seconds 0.1 2>&1", "alltoall --sizes 4K --behind-barrier --seconds 0.1 2>&1",
        "broadcast --sizes 4K --nb --seconds 0.1 2>&1", "scan --sizes 8 --stale --seconds 0.1 2>&1"};
    char prefix[1024];

    (void)state;
    snprintf(prefix, sizeof(prefix),
             "NIGH_REAL_PLUGIN=$NIGH_PLUGIN NIGH_PLUGIN=%s/tests/support/.libs/wrongplugin.so",
             getenv("NIGH_BUILDDIR"));
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        int status;
        char *text = perf(prefix, tests[i], &status);

        if (status != 1 || !strstr(text, " is wrong"))
            fail_msg("nigh-perf %s ended with %d and said: %s", tests[i], status, text);
        free(text);
    }
}

static void refused(const char *arguments, int expected, const char *words)
{
    int status;
    char *text = perf("", arguments, &status);

    if (status != expected || !strstr(text, words))
        fail_msg("nigh-perf %s ended with %d and said: %s", arguments, status, text);
    free(text);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    refused("allreduce --nb --behind-barrier 2>&1", 64, "two ways to time a call");
    refused("scan --sizes 12 2>&1", 1, "multiple of 8, not 12");
    refused("gather --sizes 0 2>&1", 1, "multiple of 8, not 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation),
        cmocka_unit_test(more_ranks_than_cpus),
        cmocka_unit_test(through_the_library),
        cmocka_unit_test(overlap),
        cmocka_unit_test(overlap_through_the_library),
        cmocka_unit_test(beside_a_peer),
        cmocka_unit_test(a_wrong_result_fails_the_run),
        cmocka_unit_test(what_cannot_be_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
