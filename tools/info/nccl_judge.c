/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/nccl_judge.c - from the facts to what a user has to change. */
#include "tools/info/nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_BYTES = 3000 };

static const char ok[] = "ok", note[] = "note", problem[] = "problem";

/* What is being found out. */
struct judgement {
    const struct info_nccl *facts;
    const json_t *picked; /* the plugin that NCCL would use; NULL: none */
    json_t *checks;
    bool problems;
};

static void __attribute__((format(printf, 5, 6)))
add(struct judgement *judgement, const char *name, const char *value, const char *state, const char *format,
    ...)
{
    char text[TEXT_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    judgement->problems |= state == problem;
    json_array_append_new(judgement->checks, json_pack("{ss ss? ss ss}", "name", name, "value", value,
                                                       "state", state, "text", text));
}

static const char *member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool is_nigh(const json_t *plugin)
{
    const char *name = plugin ? member(plugin, "name") : NULL;

    return name && strcmp(name, "nigh") == 0;
}

/* The first that NCCL can open, or (`net`) the one of that name. */
static const json_t *pick(const struct info_nccl *facts, const char *net)
{
    for (size_t i = 0; i < json_array_size(facts->opened); i++) {
        const json_t *plugin = json_array_get(facts->opened, i);
        const char *name = member(plugin, "name");

        if (name && (!net || strcasecmp(net, name) == 0))
            return plugin;
    }
    return NULL;
}

static void tables_of(const json_t *plugin, char *text, size_t room)
{
    const json_t *tables = json_object_get(plugin, "tables");
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(tables) && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%sv%d", i ? ", " : "",
                                 (int)json_integer_value(json_array_get(tables, i)));
}

static bool has_table(const json_t *plugin, int version)
{
    const json_t *tables = json_object_get(plugin, "tables");

    for (size_t i = 0; i < json_array_size(tables); i++)
        if (json_integer_value(json_array_get(tables, i)) == version)
            return true;
    return false;
}

/* Which of the plugin's tables this NCCL takes. */
static void judge_table(struct judgement *judgement, const json_t *found)
{
    int version = judgement->facts->version, table = version >= 23000 ? 12 : version >= 22800 ? 11 : 10;
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    if (version == 0)
        return;
    if (version < 22700)
        add(judgement, "table", text, note,
            "NCCL before 2.27 may know none of the plugin's: use a newer one");
    else if (has_table(found, table))
        add(judgement, "table", text, ok, "this NCCL uses table v%d", table);
    else
        add(judgement, "table", text, note, "this NCCL uses an older table than v%d, which the plugin lacks",
            table);
}

/* The first reason why an entry cannot be opened. */
static const char *first_error(const struct info_nccl *facts)
{
    for (size_t i = 0; i < json_array_size(facts->opened); i++) {
        const char *error = member(json_array_get(facts->opened, i), "error");

        if (error)
            return error;
    }
    return "it names nothing";
}

static void judge_plugin(struct judgement *judgement)
{
    const struct info_nccl *facts = judgement->facts;
    const json_t *found = pick(facts, "nigh"), *other = pick(facts, NULL);
    const char *name = "NCCL_NET_PLUGIN", *value = facts->plugin;
    char tables[64];

    if (found) {
        tables_of(found, tables, sizeof(tables));
        add(judgement, name, value, ok, "NCCL opens %s, with tables %s", member(found, "file"), tables);
    } else if (value && strcasecmp(value, "none") == 0) {
        add(judgement, name, value, problem, "NCCL opens no plugin: set it to %s", facts->ours);
    } else if (other) {
        add(judgement, name, value, problem, "NCCL opens %s, the net \"%s\": set it to %s",
            member(other, "file"), member(other, "name"), facts->ours);
    } else {
        add(judgement, name, value, problem, "NCCL finds no plugin (%s): set it to %s", first_error(facts),
            facts->ours);
    }
    if (found)
        judge_table(judgement, found);
    if (found && member(found, "error"))
        add(judgement, "plugin", member(found, "file"), problem, "it cannot begin: %s",
            member(found, "error"));
}

static void judge_net(struct judgement *judgement)
{
    const char *value = judgement->facts->net;

    if (!value)
        add(judgement, "NCCL_NET", NULL, note,
            "not set: where the plugin cannot be loaded NCCL goes on over sockets and says nothing: set it "
            "to "
            "nigh");
    else if (strcasecmp(value, "nigh") == 0)
        add(judgement, "NCCL_NET", value, ok, "a plugin that cannot be loaded is an error");
    else
        add(judgement, "NCCL_NET", value, problem, "NCCL uses the net of this name: set it to nigh");
}

/* NCCL 2.28 and 2.29 forget the plugin's name when they unload it. */
static void judge_reload(struct judgement *judgement)
{
    const char *name = "NCCL_NET_PLUGIN_REF_COUNT", *value = judgement->facts->ref_count;
    int minor = judgement->facts->version / 100 % 100, version = judgement->facts->version;
    bool set = value && strtol(value, NULL, 0) > 0;

    if (set)
        add(judgement, name, value, ok, "the plugin stays loaded");
    else if (version == 0)
        add(judgement, name, value, note,
            "NCCL 2.28 and 2.29 lose the plugin when their last communicator ends, and the next one runs "
            "over "
            "sockets: set it to 1 for them");
    else if (version / 10000 == 2 && (minor == 28 || minor == 29))
        add(judgement, name, value, problem,
            "NCCL 2.%d loses the plugin when its last communicator ends, and the next one runs over sockets: "
            "set it to 1",
            minor);
    else
        add(judgement, name, value, ok, "this NCCL loads the plugin again by itself");
}

static void judge_within(struct judgement *judgement)
{
    const struct info_nccl *facts = judgement->facts;

    if (facts->disable_intra && strtol(facts->disable_intra, NULL, 0))
        add(judgement, "NCCL_NET_DISABLE_INTRA", facts->disable_intra, problem,
            "it forbids nets inside a machine: unset it");
    else
        add(judgement, "NCCL_NET_DISABLE_INTRA", facts->disable_intra, ok,
            "nets inside a machine are allowed");
    if (facts->host_id)
        add(judgement, "NCCL_HOSTID", facts->host_id, ok, "processes of other values use a net");
    else
        add(judgement, "NCCL_HOSTID", NULL, note,
            "not set: NCCL uses a net between processes with host names or /dev/shm of their own, as in "
            "containers, and P2P or shared memory of its own between others");
}

static void judge_directory(struct judgement *judgement)
{
    const struct info_nccl *facts = judgement->facts;
    const char *value = facts->directory;

    if (!value)
        add(judgement, "NIGH_DIR", NULL, note,
            "not set: processes meet inside one network namespace. Containers with one of their own need a "
            "directory that all of them mount, of mode 0700, and NIGH_DIR set to it");
    else if (facts->directory_error)
        add(judgement, "NIGH_DIR", value, problem, "%s: mount it into this container",
            strerror(facts->directory_error));
    else if (facts->directory_foreign)
        add(judgement, "NIGH_DIR", value, problem,
            "it is of another user: all containers run as the user that it belongs to");
    else if (facts->directory_mode & 077)
        add(judgement, "NIGH_DIR", value, problem, "its mode is %04o: chmod 700 it",
            (unsigned)facts->directory_mode);
    else if (facts->shared == INFO_SHARED_PRIVATE)
        add(judgement, "NIGH_DIR", value, problem,
            "it lies in this container's own file system, where no other one sees it: mount one directory "
            "into "
            "all of them");
    else
        add(judgement, "NIGH_DIR", value, ok,
            facts->shared == INFO_SHARED_MOUNT
                ? "it is mounted into this container: mount it into all of them"
                : "processes of this user meet in it");
}

static void judge_copies(struct judgement *judgement)
{
    if (judgement->facts->cma)
        add(judgement, "long messages", NULL, ok,
            "are copied once where both processes see each other's number");
    else
        add(judgement, "long messages", NULL, note, "are copied twice: %s", judgement->facts->cma_reason);
}

json_t *info_nccl_judge(const struct info_nccl *facts)
{
    struct judgement judgement = {.facts = facts, .checks = json_array()};
    char library[32];

    judgement.picked = pick(facts, facts->net);
    judge_plugin(&judgement);
    judge_net(&judgement);
    judge_reload(&judgement);
    judge_within(&judgement);
    judge_directory(&judgement);
    judge_copies(&judgement);
    snprintf(library, sizeof(library), "%d.%d.%d", facts->version / 10000, facts->version / 100 % 100,
             facts->version % 100);
    return json_pack("{sb sb ss ss? sO so}", "found", pick(facts, "nigh") != NULL, "used",
                     is_nigh(judgement.picked) && !judgement.problems, "plugin", facts->ours, "library",
                     facts->version ? library : NULL, "plugins", facts->opened, "checks", judgement.checks);
}
