/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-info: what this machine and this process can do, which paths messages take here, and why not the others. */
#include "tools/info/facts.h"
#include "tools/info/print.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tools/standard.h"

const char *argp_program_version = "nigh-info " PACKAGE_VERSION;

enum { KEY_JSON = 256, KEY_PLUGIN };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "Print one JSON object instead of tables", 0},
    {"plugin", KEY_PLUGIN, "FILE", 0, "Load this module (default: NIGH_PLUGIN, else the installed one)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct section {
    const char *name;
    json_t *(*find)(const struct info_plugin *plugin);
} sections[] = {{"machine", info_machine}, {"limits", info_limits},   {"environment", info_environment},
                {"paths", info_paths},     {"devices", info_devices}, {"mpi", info_mpis},
                {"nccl", info_nccl}};

enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct command {
    int json, any;
    int wanted[SECTIONS];
    const char *plugin;
};

static error_t want(struct command *command, const char *name, const struct argp_state *state)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        if (strcmp(sections[i].name, name) == 0) {
            command->wanted[i] = command->any = 1;
            return 0;
        }
    }
    argp_error(
        state,
        "there is no section \"%s\"; there are machine, limits, environment, paths, devices, mpi and nccl",
        name);
    return EINVAL;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case KEY_JSON:
        command->json = 1;
        return 0;
    case KEY_PLUGIN:
        command->plugin = argument;
        return 0;
    case ARGP_KEY_ARG:
        return want(command, argument, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A section that could not be found out is told, and makes the exit status 1. */
static int failed(const json_t *section)
{
    return section == NULL || (json_is_object(section) && json_object_get(section, "error") != NULL);
}

static int show(const struct command *command, const json_t *facts)
{
    if (command->json && json_dumpf(facts, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER) == 0)
        putchar('\n');
    else if (!command->json)
        info_print(stdout, facts);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    perror("nigh-info: cannot write");
    return 1;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[machine|limits|environment|paths|devices|mpi|nccl...]",
        .doc = "Says what this machine and this process can do, how messages travel here, and why not "
               "otherwise.\v"
               "Without a section it prints all. Exit status: 0; 1 the module cannot be loaded, or a section "
               "could "
               "not be found out; 64 wrong usage.",
    };
    struct command command = {0};
    struct info_plugin plugin;
    json_t *facts;
    int status = 0;

    if (!tool_fill_standard())
        return 1; /* nobody would read why */
    argp_parse(&argp, argc, argv, 0, NULL, &command);
    if (info_plugin_load(command.plugin, &plugin) != 0)
        return 1;
    facts = json_object();
    json_object_set_new(facts, "module", info_module(&plugin));
    for (size_t i = 0; i < SECTIONS; i++) {
        if (command.any && !command.wanted[i])
            continue;
        json_object_set_new(facts, sections[i].name, sections[i].find(&plugin));
        status |= failed(json_object_get(facts, sections[i].name));
    }
    status |= show(&command, facts);
    json_decref(facts);
    return status;
}
