/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables with values that are none: open() names the variable, the value and what it may be, and leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bad {
    const char *name, *value, *limit; /* limit: what the line must say of it */
};

static const struct bad bads[] = {
    {"NIGH_HEAP", "much", "a number from 65536 to"},
    {"NIGH_HEAP", "1", "a number from 65536 to"},
    {"NIGH_HEAP", "99999999999999999999", "a number from 65536 to"},
    {"NIGH_HEAP", "64MM", "a number from 65536 to"},
    {"NIGH_HEAP", "-1", "a number from 65536 to"},
    {"NIGH_POOL", "1e9", "a number from 262144 to 137438953472"},
    {"NIGH_POOL", "17", "a number from 262144 to 137438953472"},
    {"NIGH_SPAN", " 1M", "a number from 131072 to"},
    {"NIGH_SPAN", "9999999T", "a number from 131072 to"},
    {"NIGH_RING", "63", "a number from 64 to 65536"},
    {"NIGH_RING", "100", "a power of two"},
    {"NIGH_RING", "128x", "a number from 64 to 65536"},
    {"NIGH_EAGER", "4095", "a number from 4096 to 1073741824"},
    {"NIGH_EAGER", "lots", "a number from 4096 to 1073741824"},
    {"NIGH_BODY", "39", "a number from 40 to 2088"},
    {"NIGH_BODY", "2089", "a number from 40 to 2088"},
    {"NIGH_HEAP_FROM", "0", "a number from 1 to"},
    {"NIGH_HEAP_FROM", "0x", "a number from 1 to"},
    {"NIGH_SPIN", "4294967296", "a number from 0 to 4294967295"},
    {"NIGH_SPIN", "5us", "a number from 0 to 4294967295"},
    {"NIGH_PEERS_MAX", "0", "a number from 1 to 65536"},
    {"NIGH_PEERS_MAX", "65537", "a number from 1 to 65536"},
    {"NIGH_PATH", "teleport", "eager|chunked|heap|cma"},
    {"NIGH_PATH", "cm", "eager|chunked|heap|cma"},
    {"NIGH_LOG", "verbose", "error|warn|info"},
    {"NIGH_LOG", "2", "error|warn|info"},
    {"NIGH_THREADS", "yes", "single|multiple"},
    {"NIGH_WAIT_FD", "true", "0|1"},
    {"NIGH_HUGE", "2", "0|1"},
    {"NIGH_DOMAINS", "rack", "auto|none|l3|node|package"},
    {"NIGH_CUDA", "on", "auto|off|require"},
    {"NIGH_CUDA", "requires", "auto|off|require"},
    {"NIGH_PLACE", "1/x/2", "L3/NODE/PACKAGE"},
    {"NIGH_PLACE", "65535/0/0", "each a number up to 65534"},
};

static int open_with_defaults(struct nigh_context **out)
{
    struct nigh_open options = fault_options(0);

    options.heap_bytes = options.pool_bytes = 0; /* a host's values go before variables */
    return fault_ops()->open(&options, out);
}

static int refuse(void *data)
{
    const struct bad *bad = data;
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;

    setenv(bad->name, bad->value, 1);
    WANT_INT(open_with_defaults(&context), -EINVAL);
    WANT(context == NULL);
    WANT_INT(fault_lines(), 1);
    WANT_SAID(bad->name);
    WANT_SAID(bad->value);
    WANT_SAID(bad->limit);
    WANT_HELD(before);
    unsetenv(bad->name);
    fault_hush();
    WANT_INT(open_with_defaults(&context), 0);
    fault_close(context);
    WANT_HELD(before);
    WANT_INT(fault_lines(), 0);
    return 0;
}

static void test_values_that_do_not_parse(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
        struct bad bad = bads[i];

        fault_apart(refuse, &bad);
    }
}

/* Every variable that the module tells of stands in the list above, or in a case of its own below. */
static void test_no_variable_is_left_out(void **state)
{
    static const char others[] = "NIGH_RANK NIGH_SIZE NIGH_JOB NIGH_DIR NIGH_TUNE ";
    char name[64];

    (void)state;
    for (const char *at = fault_ops()->config_help; (at = strstr(at, "NIGH_")) != NULL; at += strlen(name)) {
        char spaced[72];
        bool listed;

        snprintf(name, sizeof(name), "%.*s", (int)strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), at);
        snprintf(spaced, sizeof(spaced), "%s ", name);
        listed = strstr(others, spaced) != NULL;
        for (unsigned i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
            listed = listed || strcmp(bads[i].name, name) == 0;
        if (!listed)
            fail_msg("%s has no bad value in this test", name);
    }
}

static int empty(void *data)
{
    struct nigh_context *context;

    (void)data;
    for (unsigned i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
        setenv(bads[i].name, "", 1);
    setenv("NIGH_DIR", "", 1);
    setenv("NIGH_TUNE", "", 1);
    WANT_INT(open_with_defaults(&context), 0);
    fault_close(context);
    WANT_INT(fault_lines(), 0);
    return 0;
}

static void test_empty_is_not_set(void **state)
{
    (void)state;
    fault_apart(empty, NULL);
}

/* ---- this process's place ---------------------------------------------------------------------------------------- */

struct place {
    const char *rank, *size, *job;
    const char *name, *value; /* what must be named */
};

static int misplaced(void *data)
{
    const struct place *place = data;
    struct fault_held before = fault_held();
    struct nigh_open options = fault_options(0);
    struct nigh_context *context = NULL;

    if (place->rank)
        setenv("NIGH_RANK", place->rank, 1);
    if (place->size)
        setenv("NIGH_SIZE", place->size, 1);
    if (place->job)
        setenv("NIGH_JOB", place->job, 1);
    options.flags = NIGH_OPEN_DETECT;
    WANT_INT(fault_ops()->open(&options, &context), -EINVAL);
    WANT(context == NULL);
    WANT_INT(fault_lines(), 1);
    WANT_SAID(place->name);
    WANT_SAID(place->value);
    WANT_HELD(before);
    return 0;
}

static void test_places_that_are_none(void **state)
{
    static struct place places[] = {
        {"2", "2", "5", "NIGH_RANK", "2"},       {"x", "2", "5", "NIGH_RANK", "x"},
        {"-1", "2", "5", "NIGH_RANK", "-1"},     {"0", "0", "5", "NIGH_SIZE", "0"},
        {"0", "two", "5", "NIGH_SIZE", "two"},   {"0", "2", "job", "NIGH_JOB", "job"},
        {"0", "2", "0", "NIGH_JOB", "0"},        {"0", NULL, "5", "NIGH_SIZE", "not set"},
        {"0", "2", NULL, "NIGH_JOB", "not set"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        fault_apart(misplaced, &places[i]);
}

/* ---- files and directories that variables name
 * -------------------------------------------------------------------- */

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "%s/nigh-fault-XXXXXX", "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof(file), "%s/tune.conf", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

struct named {
    const char *name, *value;
    int error;
    const char *said[3];
};

static int named(void *data)
{
    const struct named *named = data;
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;

    setenv(named->name, named->value, 1);
    WANT_INT(fault_open(0, &context), named->error);
    WANT(context == NULL);
    WANT_INT(fault_lines(), 1);
    for (unsigned i = 0; i < 3 && named->said[i]; i++)
        WANT_SAID(named->said[i]);
    WANT_HELD(before);
    return 0;
}

static void write_file(const char *text, mode_t mode)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_tuning_files(void **state)
{
    struct named broken = {"NIGH_TUNE", file, -EINVAL, {file, "NIGH_TUNE", "mend it"}};
    struct named missing = {"NIGH_TUNE", file, -EINVAL, {file, "No such file", "NIGH_TUNE"}};
    struct named no_file = {"NIGH_TUNE", folder, -EINVAL, {folder, "NIGH_TUNE", NULL}};
    char *much = malloc(1 << 20);

    (void)state;
    fault_apart(named, &missing);
    fault_apart(named, &no_file);
    write_file("this is no tuning file\n", 0600);
    fault_apart(named, &broken);
    assert_non_null(much);
    memset(much, '#', (1 << 20) - 1);
    much[(1 << 20) - 1] = 0;
    write_file(much, 0600);
    fault_apart(named, &broken);
    free(much);
}

static void test_directories(void **state)
{
    struct named open_to_others = {"NIGH_DIR", folder, -EACCES, {folder, "700", NULL}};
    struct named a_file = {"NIGH_DIR", file, -ENOTDIR, {file, NULL, NULL}};
    struct named nothing = {"NIGH_DIR", "/nowhere/at/all", -ENOTDIR, {"/nowhere/at/all", NULL, NULL}};
    char long_name[300];
    struct named too_long = {"NIGH_DIR", long_name, -ENAMETOOLONG, {"NIGH_DIR", "300", NULL}};

    (void)state;
    memset(long_name, 'd', sizeof(long_name));
    long_name[0] = '/';
    long_name[sizeof(long_name) - 1] = 0;
    too_long.said[1] = "299 bytes";
    assert_int_equal(chmod(folder, 0755), 0);
    fault_apart(named, &open_to_others);
    assert_int_equal(chmod(folder, 0770), 0);
    fault_apart(named, &open_to_others);
    assert_int_equal(chmod(folder, 0700), 0);
    write_file("", 0600);
    fault_apart(named, &a_file);
    fault_apart(named, &nothing);
    fault_apart(named, &too_long);
}

/* ---- no topology
 * --------------------------------------------------------------------------------------------------- */

static int without_topology(void *data)
{
    struct fault_held before = fault_held();
    struct nigh_query_machine facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);
    struct fault_pair pair;

    setenv("HWLOC_XMLFILE", data, 1);
    fault_pair_open(&pair);
    fault_pair_talk(&pair);
    WANT_INT(fault_ops()->query(pair.context[0], NULL, NIGH_QUERY_MACHINE, &facts, &bytes), 0);
    WANT(facts.cpus > 0);
    if (!strstr(facts.topology_reason, "HWLOC_XMLFILE"))
        fault_fail(__FILE__, __LINE__, "the topology's reason is \"%s\"", facts.topology_reason);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return 0;
}

static void test_no_topology(void **state)
{
    (void)state;
    write_file("<this is not a machine", 0600);
    /* With hwloc's plugin for libxml2, where it is installed, and with what hwloc has of its own. */
    for (int own = 0; own < 2; own++) {
        setenv("HWLOC_LIBXML", own ? "0" : "1", 1);
        fault_apart(without_topology, file);
        fault_apart(without_topology, (char *)"/nowhere/machine.xml");
    }
    unsetenv("HWLOC_LIBXML");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_that_do_not_parse),
        cmocka_unit_test(test_no_variable_is_left_out),
        cmocka_unit_test(test_empty_is_not_set),
        cmocka_unit_test(test_places_that_are_none),
        cmocka_unit_test_setup_teardown(test_tuning_files, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_directories, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_topology, make_folder, remove_folder),
    };

    /* Whatever the harness has set is not this test's affair. */
    unsetenv("NIGH_RANK");
    unsetenv("NIGH_SIZE");
    unsetenv("NIGH_JOB");
    unsetenv("NIGH_TUNE");
    unsetenv("NIGH_DIR");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
