/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-info as a user meets it: every section, as tables and as JSON, where all is well and where something is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/support/capture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#define INFO "$NIGH_BUILDDIR/tools/nigh-info"

struct expected {
    const char *line;
    int status;
    const char *out[4]; /* parts of stdout */
    const char *lacks;  /* no part of it, or NULL */
    const char *err;    /* a part of stderr, or NULL: must be empty */
};

static void has(const char *line, const char *stream, const char *text, const char *part)
{
    if (part != NULL && strstr(text, part) == NULL)
        fail_msg("%s\n  %s lacks \"%s\":\n%s", line, stream, part, text);
}

static void check(const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct expected *e = &expected[i];
        struct capture run;

        capture_run(&run, e->line);
        if (run.status != e->status)
            fail_msg("%s\n  status %d instead of %d\n  stdout: %s\n  stderr: %s", e->line, run.status,
                     e->status, run.out, run.err);
        for (size_t k = 0; k < 4; k++)
            has(e->line, "stdout", run.out, e->out[k]);
        if (e->lacks != NULL && strstr(run.out, e->lacks) != NULL)
            fail_msg("%s\n  stdout has \"%s\":\n%s", e->line, e->lacks, run.out);
        if (e->err == NULL && run.err[0] != 0)
            fail_msg("%s\n  stderr: %s", e->line, run.err);
        has(e->line, "stderr", run.err, e->err);
        capture_free(&run);
    }
}

#define CHECK(table) check(table, sizeof(table) / sizeof((table)[0]))

static json_t *json_of(const char *line)
{
    struct capture run;
    json_error_t error;
    json_t *root;

    capture_run(&run, line);
    if (run.status != 0)
        fail_msg("%s\n  status %d\n  stderr: %s", line, run.status, run.err);
    root = json_loads(run.out, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("%s\n  line %d: %s\n%s", line, error.line, error.text, run.out);
    capture_free(&run);
    return root;
}

static json_int_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value))
        fail_msg("\"%s\" is no number", name);
    return json_integer_value(value);
}

static const char *string(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        fail_msg("\"%s\" is no string", name);
    return json_string_value(value);
}

static void everything_is_told(void **state)
{
    static const struct expected table[] = {
        {INFO, 0, {"\nMachine\n  CPUs ", "\nLimits\n", "\nEnvironment\n", "\nPaths"}, NULL, NULL},
        {INFO,
         0,
         {"reading others' memory", "RLIMIT_NOFILE", "NIGH_HEAP=BYTES", "to another process\n"},
         NULL,
         NULL},
        {INFO " limits", 0, {"nigh ", "\nLimits\n", "/proc/sys/kernel/pid_max"}, "Machine", NULL},
        {INFO " paths", 0, {"\nPaths", "inline", "chunked", "cma"}, "Limits", NULL},
        {INFO " machine environment", 0, {"\nMachine\n", "\nEnvironment\n"}, "Paths", NULL},
    };

    (void)state;
    CHECK(table);
}

static void what_is_wrong_is_told(void **state)
{
    static const struct expected table[] = {
        {INFO " nonsense", 64, {""}, NULL, "there is no section \"nonsense\"; there are machine, limits"},
        {INFO " --nonsense", 64, {""}, NULL, "unrecognized option '--nonsense'"},
        {INFO " --plugin=/nonexistent/nigh.so",
         1,
         {""},
         NULL,
         "cannot load the module: /nonexistent/nigh.so"},
        {INFO " --plugin=libm.so.6",
         1,
         {""},
         NULL,
         "libm.so.6 is no nigh module: it has no nigh_transport()"},
        {"env NIGH_PLUGIN=libm.so.6 " INFO, 1, {""}, NULL, "libm.so.6 is no nigh module"},
        {"sh -c '" INFO " limits > /dev/full'", 1, {""}, NULL, "cannot write: No space left on device"},
        {"env NIGH_PATH=teleport " INFO " paths",
         1,
         {"open fails (Invalid argument): NIGH_PATH=\"teleport\" is not valid"},
         "inline",
         NULL},
        {"env NIGH_PATH=teleport " INFO " machine limits", 0, {"Machine", "Limits"}, "Paths", NULL},
    };

    (void)state;
    CHECK(table);
}

/* A sanitizer maps terabytes of its own, which such a limit does not leave. */
static void a_limit_that_is_too_small_is_told(void **state)
{
#ifdef SANITIZED
    (void)state;
    print_message("sanitizers do not run with a limited address space\n");
    skip();
#else
    static const struct expected table[] = {
        {"sh -c 'ulimit -v 300000; " INFO " limits paths'",
         1,
         {"RLIMIT_AS", "293.0 MiB", "open fails (Cannot allocate memory)", "RLIMIT_AS (ulimit -v) 293.0 MiB"},
         NULL,
         NULL},
    };

    (void)state;
    CHECK(table);
#endif
}

static void the_topology_is_the_described_one(void **state)
{
    json_t *root = json_of("env HWLOC_SYNTHETIC='pack:2 [numa] l3:3 core:2 pu:1' " INFO " --json machine");
    const json_t *machine = json_object_get(root, "machine");

    (void)state;
    assert_int_equal(number(machine, "cpus"), 12);
    assert_int_equal(number(machine, "l3_domains"), 6);
    assert_int_equal(number(machine, "numa_nodes"), 2);
    assert_int_equal(number(machine, "packages"), 2);
    assert_non_null(strstr(string(machine, "topology_reason"), "not by this machine"));
    json_decref(root);
}

static void the_machine_is_the_one_we_run_on(void **state)
{
    json_t *root = json_of(INFO " --json machine");
    const json_t *machine = json_object_get(root, "machine"), *cma = json_object_get(machine, "cma");
    cpu_set_t set;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(number(machine, "cpus"), CPU_COUNT(&set));
    assert_in_range(number(machine, "cpus_runnable"), 1, CPU_COUNT(&set));
    assert_true(number(machine, "memory_bytes") > 1 << 20);
    assert_true(json_is_boolean(json_object_get(cma, "usable")));
    assert_true(strlen(string(cma, "reason")) > 10);
    assert_true(strlen(string(json_object_get(machine, "huge_pages"), "reason")) > 10);
    assert_null(json_object_get(root, "paths"));
    json_decref(root);
    root = json_of("taskset -c $(taskset -cp $$ | sed 's/.*: \\([0-9]*\\).*/\\1/') " INFO " --json machine");
    assert_int_equal(number(json_object_get(root, "machine"), "cpus"), 1);
    assert_int_equal(number(json_object_get(root, "machine"), "l3_domains"), 1);
    json_decref(root);
}

static void limits_are_ours(void **state)
{
    json_t *root = json_of("sh -c 'ulimit -n 77; " INFO " --json limits'"), *limit;
    struct rlimit size;
    size_t i, seen = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &size), 0);
    json_array_foreach(json_object_get(root, "limits"), i, limit)
    {
        const char *name = string(limit, "name");

        if (strcmp(name, "RLIMIT_NOFILE") == 0) {
            assert_int_equal(number(limit, "soft"), 77);
            assert_int_equal(number(limit, "hard"), 77);
            seen++;
        }
        if (strcmp(name, "RLIMIT_FSIZE") == 0) {
            assert_int_equal(json_is_null(json_object_get(limit, "soft")), size.rlim_cur == RLIM_INFINITY);
            seen++;
        }
        if (strcmp(name, "/proc/sys/kernel/pid_max") == 0) {
            assert_in_range(number(limit, "soft"), 300, 1 << 22);
            seen++;
        }
    }
    assert_int_equal(seen, 3);
    json_decref(root);
}

static void variables_and_their_values_are_listed(void **state)
{
    json_t *root = json_of("env -u NIGH_RANK NIGH_JOB=17 " INFO " --json environment"), *line, *variable;
    size_t i, k, set = 0, unset = 0, names = 0;

    (void)state;
    json_array_foreach(json_object_get(root, "environment"), i, line)
    {
        assert_true(strlen(string(line, "meaning")) > 5);
        assert_true(json_array_size(json_object_get(line, "variables")) >= 1);
        json_array_foreach(json_object_get(line, "variables"), k, variable)
        {
            const json_t *value = json_object_get(variable, "value");

            names++;
            if (strcmp(string(variable, "name"), "NIGH_JOB") == 0)
                set += json_is_string(value) && strcmp(json_string_value(value), "17") == 0;
            if (strcmp(string(variable, "name"), "NIGH_RANK") == 0)
                unset += json_is_null(value);
        }
    }
    assert_int_equal(set, 1);
    assert_int_equal(unset, 1);
    assert_true(names > 10);
    json_decref(root);
}

/* One message of each size class was sent, so each path's row says why it is taken, or why not. */
static void check_rows(const json_t *rows)
{
    json_t *row;
    size_t i, inlined = 0, large = 0, cma = 0;

    json_array_foreach(rows, i, row)
    {
        const char *path = string(row, "path");

        assert_true(strlen(string(row, "reason")) > 5);
        assert_true(number(row, "bytes_from") >= 0);
        inlined += strcmp(path, "inline") == 0 && number(row, "bytes_from") == 0;
        large += number(row, "bytes_from") == 1 << 20;
        cma += strcmp(path, "cma") == 0;
    }
    assert_int_equal(inlined, 1);
    assert_true(large >= 1);
    assert_true(cma >= 1);
}

static void paths_have_reasons(void **state)
{
    json_t *root = json_of(INFO " --json paths");

    (void)state;
    check_rows(json_object_get(json_object_get(root, "paths"), "itself"));
    check_rows(json_object_get(json_object_get(root, "paths"), "other_process"));
    json_decref(root);
}

static void paths_work_through_a_directory_too(void **state)
{
    json_t *root =
        json_of("sh -c 'd=$(mktemp -d) && NIGH_DIR=$d " INFO " --json paths; s=$?; rmdir $d && exit $s'");

    (void)state;
    check_rows(json_object_get(json_object_get(root, "paths"), "other_process"));
    json_decref(root);
}

#define NCCL      "env NCCL_CONF_FILE=/dev/null "
#define PLUGIN    "$NIGH_BUILDDIR/hosts/nccl/.libs/libnccl-net-nigh.so"
#define LOOPBACK  "$NIGH_BUILDDIR/tests/hosts/nccl/.libs/socket_plugin.so"
#define WOULD     "NCCL would use it           yes\n"
#define WOULD_NOT "NCCL would use it           no"

/* By what a user sets, with plugins that are loaded. */
static void nccl_finds_the_plugin_or_not(void **state)
{
    static const struct expected table[] = {
        {NCCL INFO " nccl",
         0,
         {"\nNCCL over nigh\n", WOULD_NOT, "libnccl-net.so: cannot open"},
         "Machine",
         NULL},
        {NCCL "NCCL_NET=nigh NCCL_NET_PLUGIN=" PLUGIN " " INFO " nccl",
         0,
         {WOULD, "v12, v11, v10"},
         NULL,
         NULL},
        {"sh -c 'file=" PLUGIN
         "; NCCL_CONF_FILE=/dev/null NCCL_NET_PLUGIN=nigh LD_LIBRARY_PATH=${file%/*} " INFO " nccl'",
         0,
         {WOULD, "NCCL_NET                    note"},
         NULL,
         NULL},
        {"sh -c 'printf \"NCCL_NET_PLUGIN=" PLUGIN
         "\\nNCCL_NET=nigh\\n\" > nccl_conf.$$; NCCL_CONF_FILE=nccl_conf.$$ " INFO " nccl; rm nccl_conf.$$'",
         0,
         {WOULD, "NCCL_NET                    ok"},
         NULL,
         NULL},
        {NCCL "NCCL_NET=IB NCCL_NET_PLUGIN=" PLUGIN " " INFO " nccl",
         0,
         {WOULD_NOT ", though it finds it", "problem: (IB)"},
         NULL,
         NULL},
        {NCCL "NCCL_NET_PLUGIN=" LOOPBACK " " INFO " nccl",
         0,
         {WOULD_NOT "\n", "the net \"loopback\""},
         NULL,
         NULL},
        {NCCL "NCCL_NET_PLUGIN=" LOOPBACK "," PLUGIN " " INFO " nccl",
         0,
         {WOULD_NOT ", though it finds it"},
         NULL,
         NULL},
        {NCCL "NCCL_NET=nigh NCCL_NET_PLUGIN=" LOOPBACK "," PLUGIN " " INFO " nccl", 0, {WOULD}, NULL, NULL},
        {NCCL "NCCL_NET=nigh NCCL_NET_PLUGIN=" PLUGIN " NIGH_PATH=teleport " INFO " nccl",
         0,
         {WOULD_NOT, "it cannot begin: ", "open fails: Invalid argument"},
         NULL,
         NULL},
        {NCCL "NCCL_NET=nigh NCCL_NET_PLUGIN=" PLUGIN " NIGH_DIR=/nonexistent " INFO " nccl",
         0,
         {WOULD_NOT, "(/nonexistent) No such file or directory"},
         NULL,
         NULL},
    };

    (void)state;
    CHECK(table);
}

static void nccl_is_told_as_json(void **state)
{
    json_t *root = json_of(NCCL "NCCL_NET=nigh NCCL_NET_PLUGIN=" PLUGIN " " INFO " --json nccl");
    const json_t *nccl = json_object_get(root, "nccl"), *opened = json_object_get(nccl, "plugins");

    (void)state;
    assert_true(json_is_true(json_object_get(nccl, "found")));
    assert_true(json_is_true(json_object_get(nccl, "used")));
    assert_int_equal(json_array_size(opened), 1);
    assert_string_equal(string(json_array_get(opened, 0), "name"), "nigh");
    assert_int_equal(json_array_size(json_object_get(json_array_get(opened, 0), "tables")), 3);
    assert_true(json_array_size(json_object_get(nccl, "checks")) > 5);
    json_decref(root);
}

/* ---- devices, on the fake driver ------------------------------------------------------------------------- */

#define CUDA    "env LD_LIBRARY_PATH=$NIGH_BUILDDIR/tests/support/.libs "
#define DEVICES CUDA INFO " devices"

static void devices_are_told(void **state)
{
    static const struct expected table[] = {
        {DEVICES,
         0,
         {"\nCUDA devices\n  driver for CUDA 13.0;",
          "device 1: NIGH Fake GPU, 16 GiB, 0000:11:00.0, GPU-11171e25-2c33-",
          "    cuMemAlloc        cuda-legacy\n    cuMemMap          cuda-vmm\n    cuMemAllocAsync   "
          "cuda-pool\n",
          "messages go so, unless it says otherwise:\n    0 to 0  cuMemAlloc        cuda-legacy\n"},
         "no: ",
         NULL},
        {"env NIGH_FAKE_CUDA_PEERS= " DEVICES,
         0,
         {"    0 to 0  cuMemMap          cuda-vmm\n",
          "    0 to 1  cuMemMap          no: the two devices cannot access each other's memory; messages "
          "staged: the two",
          "    1 to 0  cuMemAlloc        no: the two", "    1 to 0  cuMemAllocAsync   no: the two"},
         NULL,
         NULL},
        {"env NIGH_FAKE_CUDA_MIG=1 NIGH_FAKE_CUDA_MPS=1 " DEVICES,
         0,
         {", MIG-11171e25", ", by MPS, an instance (MIG)\n", "    1 to 1  cuMemMap          cuda-vmm",
          "messages staged: instances of a divided device"},
         NULL,
         NULL},
        {"env NIGH_FAKE_CUDA_FAIL=cuMemExportToShareableHandle=801,cuMemPoolCreate=801 " DEVICES,
         0,
         {"cuMemMap          no: the CUDA driver refuses to export it\n",
          "cuMemAllocAsync   no: cuMemPoolCreate with POSIX descriptors fails: CUDA_ERROR_NOT_SUPPORTED "
          "(801)\n",
          "    0 to 1  cuMemAllocAsync   no: cuMemPoolCreate", "    0 to 1  cuMemAlloc        cuda-legacy"},
         NULL,
         NULL},
        {"env NIGH_FAKE_CUDA_FAIL=cuMemImportFromShareableHandle=801 " DEVICES,
         0,
         {"    cuMemMap          cuda-vmm\n",
          "    0 to 1  cuMemMap          no: the CUDA driver refuses to import it"},
         NULL,
         NULL},
        {"env NIGH_FAKE_CUDA_FAIL=cuInit=999 " DEVICES,
         0,
         {"\nCUDA devices\n  none: the CUDA driver does not start: CUDA_ERROR_UNKNOWN (999)\n"},
         "device 0",
         NULL},
        {"env NIGH_FAKE_CUDA_DEVICES=0 " DEVICES, 0, {"  none: the CUDA driver"}, "device 0", NULL},
        {"env NIGH_CUDA=off " DEVICES,
         0,
         {"  none: the module uses none: NIGH_CUDA=off\n"},
         "device 0",
         NULL},
        {"env NIGH_CUDA=maybe " DEVICES,
         1,
         {"NIGH_CUDA=\"maybe\" is not valid: expected auto|off|require"},
         NULL,
         NULL},
    };

    (void)state;
    CHECK(table);
}

static void devices_are_told_to_programs(void **state)
{
    json_t *root = json_of(CUDA INFO " --json devices"), *row;
    const json_t *section = json_object_get(root, "devices"), *devices = json_object_get(section, "devices"),
                 *paths = json_object_get(section, "paths");
    size_t i;

    (void)state;
    assert_string_equal(string(section, "driver"), "13.0");
    assert_int_equal(json_array_size(devices), 2);
    json_array_foreach(devices, i, row)
    {
        assert_int_equal(number(row, "number"), i);
        assert_int_equal(number(row, "memory_bytes"), INT64_C(16) << 30);
        assert_int_equal(json_array_size(json_object_get(row, "handles")), 3);
        assert_true(json_is_false(json_object_get(row, "mig")) &&
                    json_is_false(json_object_get(row, "window")));
    }
    assert_int_equal(json_array_size(paths), 12);
    json_array_foreach(paths, i, row)
    {
        assert_int_equal(number(row, "from"), i / 6);
        assert_int_equal(number(row, "to"), i % 2);
        assert_string_equal(string(row, "reason"), "");
        assert_string_equal(string(row, "messages"), string(row, "handle"));
        assert_string_equal(string(row, "messages_reason"), "");
        assert_true(strlen(string(row, "memory")) > 5);
    }
    assert_string_equal(string(json_array_get(paths, 2), "handle"), "cuda-vmm");
    json_decref(root);
}

static void without_a_driver_there_are_none(void **state)
{
    static const struct expected table[] = {
        {INFO " devices",
         0,
         {"\nCUDA devices\n  none: there is no libcuda.so.1: no CUDA driver"},
         NULL,
         NULL}};

    (void)state;
    if (dlopen("libcuda.so.1", RTLD_LAZY)) {
        print_message("this machine has a CUDA driver\n");
        skip();
    }
    CHECK(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_told),
        cmocka_unit_test(devices_are_told_to_programs),
        cmocka_unit_test(without_a_driver_there_are_none),
        cmocka_unit_test(everything_is_told),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(a_limit_that_is_too_small_is_told),
        cmocka_unit_test(the_topology_is_the_described_one),
        cmocka_unit_test(the_machine_is_the_one_we_run_on),
        cmocka_unit_test(limits_are_ours),
        cmocka_unit_test(variables_and_their_values_are_listed),
        cmocka_unit_test(paths_have_reasons),
        cmocka_unit_test(nccl_finds_the_plugin_or_not),
        cmocka_unit_test(nccl_is_told_as_json),
        cmocka_unit_test(paths_work_through_a_directory_too),
    };
    return cmocka_run_group_tests_name("info", tests, NULL, NULL);
}
