/* SPDX-License-Identifier: BSD-3-Clause */
/* What nigh-info makes of a module's answers: of one that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/info/facts.h"
#include "tools/info/print.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct nigh_query_machine machine;
static int answer;

static int query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
                 uint64_t *bytes)
{
    assert_null(context);
    assert_null(endpoint);
    assert_int_equal(what, NIGH_QUERY_MACHINE);
    assert_int_equal(*bytes, sizeof(machine));
    memcpy(out, &machine, sizeof(machine));
    return answer;
}

static struct nigh_ops ops = {.abi = NIGH_ABI,
                              .size = sizeof(ops),
                              .name = "nigh",
                              .version = "9.8.7",
                              .description = "a module that is none",
                              .query = query};
static const struct info_plugin plugin = {.file = "/somewhere/nigh.so", .ops = &ops};

/* The sections as a person sees them; the caller frees. Takes the reference of `section`. */
static char *printed(const char *name, json_t *section)
{
    json_t *facts = json_object();
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    assert_non_null(section);
    json_object_set_new(facts, name, section);
    info_print(out, facts);
    fclose(out);
    json_decref(facts);
    return text;
}

static void check_printed(const char *name, json_t *section, const char *const *parts)
{
    char *text = printed(name, section);

    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL)
            fail_msg("lacks \"%s\":\n%s", *parts, text);
    }
    free(text);
}

static void bytes_are_short_and_true(void **state)
{
    static const struct {
        json_int_t bytes;
        const char *text, *exact;
    } cases[] = {{0, "0", "0"},
                 {41, "41", "41"},
                 {1023, "1023", "1023"},
                 {1024, "1 KiB", "1 KiB"},
                 {1025, "1.0 KiB", "1025"},
                 {1536, "1.5 KiB", "1536"},
                 {1 << 20, "1 MiB", "1 MiB"},
                 {(1 << 20) + 1024, "1.0 MiB", "1049600"},
                 {INT64_C(3) << 40, "3 TiB", "3 TiB"},
                 {INT64_MAX, "8 EiB", "9223372036854775807"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[INFO_BYTES], exact[INFO_BYTES];

        info_bytes(cases[i].bytes, text);
        info_bytes_exact(cases[i].bytes, exact);
        if (strcmp(text, cases[i].text) != 0 || strcmp(exact, cases[i].exact) != 0)
            fail_msg("%lld: \"%s\", \"%s\"", (long long)cases[i].bytes, text, exact);
    }
}

static void the_module_is_named(void **state)
{
    static const char *const parts[] = {"nigh 9.8.7, ABI 1.1: /somewhere/nigh.so\n",
                                        "  a module that is none\n", NULL};

    (void)state;
    check_printed("module", info_module(&plugin), parts);
}

static void the_machine_is_described(void **state)
{
    static const char *const parts[] = {
        "48 may be used, 2 can run at one time (the control group's quota is 2.50)",
        "8 L3 caches, 2 NUMA nodes, 1 package\n",
        "  a guess\n",
        "64 GiB, limited to 1.5 GiB by the control group; pages of 64 KiB",
        "huge shared pages       no: not here",
        "memory  yes: because",
        NULL};

    (void)state;
    answer = 0;
    machine = (struct nigh_query_machine){.size = sizeof(machine),
                                          .cpus = 48,
                                          .cpus_runnable = 2,
                                          .cpu_quota = 2500,
                                          .l3_domains = 8,
                                          .numa_nodes = 2,
                                          .packages = 1,
                                          .page_bytes = 65536,
                                          .memory_bytes = UINT64_C(64) << 30,
                                          .memory_limit = UINT64_C(3) << 29,
                                          .cma = 1,
                                          .cma_reason = "because",
                                          .huge_reason = "not here",
                                          .topology_reason = "a guess"};
    check_printed("machine", info_machine(&plugin), parts);
}

static void no_limit_is_no_number(void **state)
{
    char *text;

    (void)state;
    answer = 0;
    machine = (struct nigh_query_machine){.size = sizeof(machine), .cpus = 4, .cpus_runnable = 4};
    text = printed("machine", info_machine(&plugin));
    assert_null(strstr(text, "control group"));
    free(text);
}

static void a_module_that_does_not_answer_is_told(void **state)
{
    static const char *const parts[] = {
        "\nMachine\n  the module does not answer the question for the machine\n", NULL};
    struct nigh_ops older = ops;
    const struct info_plugin old = {.file = "old", .ops = &older};

    (void)state;
    answer = -EINVAL;
    check_printed("machine", info_machine(&plugin), parts);
    older.size = offsetof(struct nigh_ops, query); /* before it had the slot */
    answer = 0;
    check_printed("machine", info_machine(&old), parts);
}

static void every_form_of_help_is_understood(void **state)
{
    static const char *const parts[] = {"  NIGH_A, NIGH_B                      two of them\n",
                                        "set: NIGH_B=b's value\n",
                                        "  NIGH_C=0|NIGH_D                     values are no names\n",
                                        "  NIGH_E_F=BYTES                      last\n",
                                        "  not a variable",
                                        NULL};
    char *text;

    (void)state;
    ops.config_help = "NIGH_A, NIGH_B  two of them\nNIGH_C=0|NIGH_D  values are no names\nnot a variable\n"
                      "NIGH_E_F=BYTES    last";
    setenv("NIGH_B", "b's value", 1);
    setenv("NIGH_D", "wrong", 1);
    unsetenv("NIGH_A");
    check_printed("environment", info_environment(&plugin), parts);
    text = printed("environment", info_environment(&plugin));
    assert_null(strstr(text, "wrong"));
    assert_null(strstr(text, "NIGH_A="));
    free(text);
    ops.config_help = "";
    text = printed("environment", info_environment(&plugin));
    assert_string_equal(text, "\nEnvironment\n");
    free(text);
}

static void limits_are_told_with_their_use(void **state)
{
    static const char *const parts[] = {"RLIMIT_NOFILE", "ulimit -n", "descriptors",
                                        "/dev/shm",      "pid_max",   NULL};

    (void)state;
    check_printed("limits", info_limits(&plugin), parts);
}

static int open_fails(const struct nigh_open *options, struct nigh_context **out)
{
    (void)out;
    options->log(options->log_data, 0, "there is no room");
    return -ENOMEM;
}

static void a_context_that_does_not_open_is_told(void **state)
{
    static const char *const parts[] = {"  open fails (Cannot allocate memory): there is no room\n", NULL};

    (void)state;
    ops.open = open_fails;
    check_printed("paths", info_paths(&plugin), parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_short_and_true),
        cmocka_unit_test(the_module_is_named),
        cmocka_unit_test(the_machine_is_described),
        cmocka_unit_test(no_limit_is_no_number),
        cmocka_unit_test(a_module_that_does_not_answer_is_told),
        cmocka_unit_test(every_form_of_help_is_understood),
        cmocka_unit_test(limits_are_told_with_their_use),
        cmocka_unit_test(a_context_that_does_not_open_is_told),
    };
    return cmocka_run_group_tests_name("info", tests, NULL, NULL);
}
