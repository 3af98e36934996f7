/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf --cuda on the fake driver: each kind of memory on either side has rows with a floor, an own copy and the host's; what
 * cannot be measured is refused in a sentence; bytes that do not reach a device are noticed. No figure is judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/perf.h"

#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Behind variables that the fake driver reads. */
static char *on_fake(const char *variables, const char *arguments, int *status)
{
    char prefix[1024];

    snprintf(prefix, sizeof(prefix), "LD_LIBRARY_PATH=%s/tests/support/.libs %s", getenv("NIGH_BUILDDIR"),
             variables);
    return perf(prefix, arguments, status);
}

static void look_at(json_t *row, const char *sides, bool has_own_copy)
{
    json_t *peers = json_object_get(row, "peers"), *value = json_object_get(row, "value");

    assert_string_equal(json_string_value(json_object_get(row, "path")), sides);
    if (!json_is_number(value))
        return; /* rows_in() has looked for the reason */
    assert_true(json_number_value(value) > 0);
    assert_true(json_number_value(json_object_get(peers, "host")) > 0);
    if (!strstr(sides, "host"))
        assert_non_null(strstr(json_string_value(json_object_get(row, "note")), "device memory: "));
    assert_int_equal(json_is_number(json_object_get(peers, "own copy")), has_own_copy);
}

/* `rows`: the tests that must each have one or more. */
static void sides(const char *variables, const char *arguments, const char *path, bool has_own_copy,
                  const char *const *rows)
{
    char all[256], *text, *copy, *rest, *line;
    int status;

    snprintf(all, sizeof(all), "--seconds 0.05 --json - %s", arguments);
    text = on_fake(variables, all, &status);
    if (status != 0)
        fail_msg("nigh-perf %s ended with %d", all, status);
    for (; *rows; rows++)
        if (rows_of(text, *rows) == 0)
            fail_msg("no %s in: %s", *rows, text);
    rest = copy = strdup(text);
    assert_non_null(copy);
    while ((line = strsep(&rest, "\n")) && *line) {
        json_t *row = json_loads(line, 0, NULL);

        assert_non_null(row);
        look_at(row, path, has_own_copy);
        json_decref(row);
    }
    free(copy);
    assert_int_not_equal(rows_in(text, A_FLOOR), 0);
    free(text);
}

static const char *const latency[] = {"latency-cuda", NULL}, *const bandwidth[] = {"bandwidth-cuda", NULL};
static const char *const lends[] = {"lend-cuda", NULL};
static const char *const remote[] = {"put-cuda", "get-cuda", NULL};
static const char *const all_rows[] = {"latency-cuda", "bandwidth-cuda", "lend-cuda",
                                       "put-cuda",     "get-cuda",       NULL};

static void each_kind(void **state)
{
    (void)state;
    sides("", "--cuda --sizes 8", "plain,plain", true, all_rows);
    sides("", "--cuda=vmm --sizes 8,100000 lend", "vmm,vmm", true, lends);
    sides("", "--cuda=vmm:1 --sizes 1000 latency", "vmm:1,vmm:1", true, latency);
    sides("", "--cuda=pool,managed --sizes 100 latency", "pool,managed", true, latency);
    sides("", "--cuda=managed,pool:1 --sizes 24 rma", "managed,pool:1", true, remote);
}

static void the_host_on_one_side(void **state)
{
    (void)state;
    sides("", "--cuda=host,plain --sizes 8 rma", "host,plain", true, remote);
    sides("", "--cuda=host,vmm --sizes 8 latency", "host,vmm", true, latency);
    sides("", "--cuda=vmm,host --sizes 8 bandwidth", "vmm,host", true, bandwidth);
}

/* Of several pieces, the last a short one; of no bytes at all. */
static void long_and_empty(void **state)
{
    (void)state;
    sides("", "--cuda latency --sizes 0,600001", "plain,plain", true, latency);
    sides("", "--cuda latency --sizes 8 --stale", "plain,plain", true, latency);
}

static void devices_that_do_not_reach_each_other(void **state)
{
    (void)state;
    sides("NIGH_FAKE_CUDA_PEERS=2-3", "--cuda=vmm,plain:1 --sizes 8 latency", "vmm,plain:1", false, latency);
}

static void a_table_and_a_plot(void **state)
{
    char name[] = "perfXXXXXX", arguments[256], head[16] = "", *text;
    int fd = mkstemp(name), status;

    (void)state;
    assert_true(fd >= 0);
    snprintf(arguments, sizeof(arguments), "--cuda latency --sizes 8,64 --seconds 0.1 --plot %s", name);
    text = on_fake("", arguments, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "own copy"));
    assert_non_null(strstr(text, "plain,plain"));
    assert_true(read(fd, head, 4) == 4);
    assert_string_equal(head, "<svg");
    close(fd);
    unlink(name);
    free(text);
}

static void refused(const char *variables, const char *arguments, int wanted, const char *sentence)
{
    char all[256], *text;
    int status;

    snprintf(all, sizeof(all), "%s 2>&1", arguments);
    text = on_fake(variables, all, &status);
    if (status != wanted || !strstr(text, sentence))
        fail_msg("%s nigh-perf %s ended with %d, not %d, or did not say \"%s\" but: %s", variables, arguments,
                 status, wanted, sentence, text);
    free(text);
}

static void command_lines(void **state)
{
    static const char *const arguments[] = {"rubbish",          "plain,",   "plain,vmm,pool",
                                            "plain:",           "plain:-1", "plain:x",
                                            "plain:4294967296", "host:0",   ",plain"};
    char all[64];

    (void)state;
    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
        snprintf(all, sizeof(all), "--cuda=%s latency", arguments[i]);
        refused("", all, 64, "each with the number of a device");
    }
    refused("", "--cuda=host", 64, "neither side is on a device");
    refused("", "--cuda latency wake", 64, "wake has no buffers on devices");
    refused("", "--cuda latency --layer lib", 64, "libnigh sends memory of the host");
    refused("", "", 64, "Usage");
}

/* One sentence, and no rank is started. */
static void machines(void **state)
{
    char folder[] = "driverXXXXXX", file[64], variables[64];
    FILE *broken;

    (void)state;
    refused("", "--cuda=plain,vmm:2", 1, "there is no device 2: the CUDA driver shows 2");
    refused("NIGH_FAKE_CUDA_FAIL=cuInit=100", "--cuda", 1, "cuInit fails: ");
    refused("CUDA_VISIBLE_DEVICES=", "--cuda latency", 1, "nigh-perf: --cuda: ");
    refused("NIGH_FAKE_CUDA_FAIL=cuMemCreate=801", "--cuda=plain,vmm", 1,
            "no vmm memory of device 0: cuMemCreate fails: ");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/libcuda.so.1", folder);
    broken = fopen(file, "we");
    assert_non_null(broken);
    fclose(broken);
    snprintf(variables, sizeof(variables), "LD_LIBRARY_PATH=%s", folder);
    refused(variables, "--cuda", 1, "nigh-perf: --cuda: no CUDA driver is installed: ");
    unlink(file);
    rmdir(folder);
    refused("NIGH_CUDA=off", "--cuda latency --sizes 8", 1, "NIGH_CUDA=off");
}

/* The wrapper lets bytes go past a device; without it the same commands succeed (above). */
static void bytes_that_do_not_come(void **state)
{
    static const char *const tests[] = {
        "--cuda latency --sizes 64 --seconds 0.1", "--cuda bandwidth --sizes 64 --seconds 0.1",
        "--cuda=vmm,pool rma --sizes 64 --seconds 0.1", "--cuda=plain,host latency --sizes 64 --seconds 0.1"};
    char variables[1024];

    (void)state;
    snprintf(variables, sizeof(variables),
             "NIGH_REAL_PLUGIN=$NIGH_PLUGIN NIGH_PLUGIN=%s/tests/support/.libs/wrongplugin.so",
             getenv("NIGH_BUILDDIR"));
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        refused(variables, tests[i], 1, "is wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind),          cmocka_unit_test(the_host_on_one_side),
        cmocka_unit_test(long_and_empty),     cmocka_unit_test(devices_that_do_not_reach_each_other),
        cmocka_unit_test(a_table_and_a_plot), cmocka_unit_test(command_lines),
        cmocka_unit_test(machines),           cmocka_unit_test(bytes_that_do_not_come),
    };
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        puts("skip: what is measured lies between two CPUs, and there is one");
        return 77;
    }
    return cmocka_run_group_tests_name("perf_cuda", tests, NULL, NULL);
}
