/* SPDX-License-Identifier: BSD-3-Clause */
/* What nigh-info concludes about NCCL from facts that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/info/nccl.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NIGH     "{'entry': 'nigh', 'file': '/n.so', 'name': 'nigh', 'error': null, 'tables': [12, 11, 10]}"
#define OTHER    "{'entry': 'other', 'file': '/o.so', 'name': 'Other', 'error': null, 'tables': [11]}"
#define NOTHING  "{'entry': 'x', 'file': null, 'name': null, 'error': 'no such file', 'tables': []}"
#define UNUSABLE "{'entry': 'nigh', 'file': '/n.so', 'name': 'nigh', 'error': 'no memory', 'tables': [10]}"

/* What is well in all respects; the caller's reference of `opened`. */
static struct info_nccl good(json_t **opened, const char *plugins)
{
    char text[1024];
    struct info_nccl facts = {.net = "nigh",
                              .plugin = "nigh",
                              .ref_count = "1",
                              .host_id = "a",
                              .ours = "/lib/nigh/libnccl-net-nigh.so",
                              .version = 22809,
                              .directory = "/run/nigh",
                              .directory_mode = 0700,
                              .shared = INFO_SHARED_MOUNT,
                              .cma = true};

    snprintf(text, sizeof(text), "[%s]", plugins);
    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    *opened = json_loads(text, 0, NULL);
    assert_non_null(*opened);
    facts.opened = *opened;
    return facts;
}

static const json_t *check_of(const json_t *section, const char *name)
{
    size_t i;
    json_t *check;

    json_array_foreach(json_object_get(section, "checks"), i, check)
    {
        if (strcmp(json_string_value(json_object_get(check, "name")), name) == 0)
            return check;
    }
    fail_msg("there is no check \"%s\"", name);
    return NULL;
}

/* One fact differs from what is good. */
struct change {
    const char *plugins;
    void (*make)(struct info_nccl *facts);
    bool found, used;
    const char *name, *state, *text;
};

static void expect(const struct change *change)
{
    json_t *opened, *section;
    struct info_nccl facts = good(&opened, change->plugins);
    const json_t *check;
    const char *state, *text;

    if (change->make)
        change->make(&facts);
    section = info_nccl_judge(&facts);
    assert_non_null(section);
    check = check_of(section, change->name);
    state = json_string_value(json_object_get(check, "state"));
    text = json_string_value(json_object_get(check, "text"));
    if (strcmp(state, change->state) || !strstr(text, change->text))
        fail_msg("%s is %s: \"%s\"; expected %s: \"%s\"", change->name, state, text, change->state,
                 change->text);
    if (json_is_true(json_object_get(section, "found")) != change->found ||
        json_is_true(json_object_get(section, "used")) != change->used)
        fail_msg("%s (%s): found or used is wrong", change->name, change->text);
    json_decref(section);
    json_decref(opened);
}

#define CHANGE(name, statement)               \
    static void name(struct info_nccl *facts) \
    {                                         \
        statement;                            \
    }

CHANGE(no_net, facts->net = NULL)
CHANGE(capital_net, facts->net = "NIGH")
CHANGE(other_net, facts->net = "other")
CHANGE(socket_net, facts->net = "Socket")
CHANGE(no_plugin, facts->plugin = NULL)
CHANGE(none_plugin, facts->plugin = "none")
CHANGE(not_counted, facts->ref_count = NULL)
CHANGE(counted_zero, facts->ref_count = "0")
CHANGE(not_counted_27, (facts->ref_count = NULL, facts->version = 22707))
CHANGE(not_counted_30, (facts->ref_count = NULL, facts->version = 23007))
CHANGE(not_counted_unknown, (facts->ref_count = NULL, facts->version = 0))
CHANGE(old_library, facts->version = 22105)
CHANGE(not_inside, facts->disable_intra = "1")
CHANGE(inside, facts->disable_intra = "0")
CHANGE(no_host, facts->host_id = NULL)
CHANGE(no_directory, facts->directory = NULL)
CHANGE(lost_directory, facts->directory_error = ENOENT)
CHANGE(open_directory, facts->directory_mode = 0755)
CHANGE(foreign_directory, facts->directory_foreign = true)
CHANGE(private_directory, facts->shared = INFO_SHARED_PRIVATE)
CHANGE(plain_directory, facts->shared = INFO_SHARED_HERE)
CHANGE(no_cma, (facts->cma = false, facts->cma_reason = "seccomp says no"))

static void each_fact_has_its_consequence(void **state)
{
    static const struct change changes[] = {
        {NIGH, NULL, true, true, "NCCL_NET_PLUGIN", "ok", "NCCL opens /n.so, with tables v12, v11, v10"},
        {NOTHING "," NIGH, NULL, true, true, "NCCL_NET_PLUGIN", "ok", "/n.so"},
        {NOTHING, NULL, false, false, "NCCL_NET_PLUGIN", "problem",
         "finds no plugin (no such file): set it to /lib"},
        {NOTHING, no_plugin, false, false, "NCCL_NET_PLUGIN", "problem", "no such file"},
        {"", NULL, false, false, "NCCL_NET_PLUGIN", "problem", "it names nothing"},
        {"", none_plugin, false, false, "NCCL_NET_PLUGIN", "problem", "opens no plugin"},
        {OTHER, NULL, false, false, "NCCL_NET_PLUGIN", "problem", "opens /o.so, the net \"Other\""},
        {OTHER "," NIGH, NULL, true, true, "NCCL_NET", "ok", "is an error"},
        {OTHER "," NIGH, no_net, true, false, "NCCL_NET", "note", "says nothing: set it to nigh"},
        {NIGH "," OTHER, no_net, true, true, "NCCL_NET", "note", "set it to nigh"},
        {NIGH, capital_net, true, true, "NCCL_NET", "ok", ""},
        {NIGH "," OTHER, other_net, true, false, "NCCL_NET", "problem", "set it to nigh"},
        {NIGH, socket_net, true, false, "NCCL_NET", "problem", "set it to nigh"},
        {UNUSABLE, NULL, true, false, "plugin", "problem", "it cannot begin: no memory"},
        {NIGH, NULL, true, true, "NCCL_NET_PLUGIN_REF_COUNT", "ok", "stays loaded"},
        {NIGH, not_counted, true, false, "NCCL_NET_PLUGIN_REF_COUNT", "problem", "NCCL 2.28 loses"},
        {NIGH, counted_zero, true, false, "NCCL_NET_PLUGIN_REF_COUNT", "problem", "set it to 1"},
        {NIGH, not_counted_27, true, true, "NCCL_NET_PLUGIN_REF_COUNT", "ok", "by itself"},
        {NIGH, not_counted_30, true, true, "NCCL_NET_PLUGIN_REF_COUNT", "ok", "by itself"},
        {NIGH, not_counted_unknown, true, true, "NCCL_NET_PLUGIN_REF_COUNT", "note", "2.28 and 2.29"},
        {NIGH, NULL, true, true, "table", "ok", "uses table v11"},
        {NIGH, not_counted_27, true, true, "table", "ok", "uses table v10"},
        {NIGH, not_counted_30, true, true, "table", "ok", "uses table v12"},
        {NIGH, old_library, true, true, "table", "note", "before 2.27"},
        {"{'entry': 'n', 'file': '/n.so', 'name': 'nigh', 'error': null, 'tables': [10]}", not_counted_30,
         true, true, "table", "note", "older table than v12"},
        {NIGH, not_inside, true, false, "NCCL_NET_DISABLE_INTRA", "problem", "unset it"},
        {NIGH, inside, true, true, "NCCL_NET_DISABLE_INTRA", "ok", ""},
        {NIGH, no_host, true, true, "NCCL_HOSTID", "note", "P2P"},
        {NIGH, no_directory, true, true, "NIGH_DIR", "note", "mode 0700"},
        {NIGH, lost_directory, true, false, "NIGH_DIR", "problem", "No such file or directory: mount it"},
        {NIGH, open_directory, true, false, "NIGH_DIR", "problem", "its mode is 0755: chmod 700"},
        {NIGH, foreign_directory, true, false, "NIGH_DIR", "problem", "another user"},
        {NIGH, private_directory, true, false, "NIGH_DIR", "problem", "no other one sees it"},
        {NIGH, plain_directory, true, true, "NIGH_DIR", "ok", "meet in it"},
        {NIGH, NULL, true, true, "NIGH_DIR", "ok", "mounted into this container"},
        {NIGH, no_cma, true, true, "long messages", "note", "copied twice: seccomp says no"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        expect(&changes[i]);
}

static void names_are_tried_as_nccl_does(void **state)
{
    static const struct {
        const char *entry, *first, *second;
    } cases[] = {
        {"nigh", "nigh", "libnccl-net-nigh.so"}, {"/a/b.so", "/a/b.so", NULL},
        {"b.so", "b.so", "libnccl-net-b.so.so"}, {"libnccl-net-nigh.so", "libnccl-net-nigh.so", NULL},
        {"lib", "lib", "libnccl-net-lib.so"},    {"./x", "./x", NULL}};
    char files[2][INFO_NCCL_NAME];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(info_nccl_files(cases[i].entry, files), cases[i].second ? 2 : 1);
        assert_string_equal(files[0], cases[i].first);
        if (cases[i].second)
            assert_string_equal(files[1], cases[i].second);
    }
}

static void a_file_of_settings_is_read(void **state)
{
    char path[] = "/tmp/info_nccl.XXXXXX", value[32];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_true(
        dprintf(
            fd,
            "# NCCL_NET=no\n#NCCL_NET=no\nNCCL_NET_PLUGIN=/a=b\nNCCL_NET=nigh\nNCCL_NET=late\nNCCL_HOSTID=") >
        0);
    close(fd);
    assert_true(info_nccl_file(path, "NCCL_NET", value, sizeof(value)));
    assert_string_equal(value, "nigh");
    assert_true(info_nccl_file(path, "NCCL_NET_PLUGIN", value, sizeof(value)));
    assert_string_equal(value, "/a=b");
    assert_true(info_nccl_file(path, "NCCL_HOSTID", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_false(info_nccl_file(path, "NCCL", value, sizeof(value)));
    unlink(path);
    assert_false(info_nccl_file(path, "NCCL_NET", value, sizeof(value)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fact_has_its_consequence),
        cmocka_unit_test(names_are_tried_as_nccl_does),
        cmocka_unit_test(a_file_of_settings_is_read),
    };
    return cmocka_run_group_tests_name("info_nccl", tests, NULL, NULL);
}
