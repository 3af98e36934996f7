/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/print.c - a table a section: what, how much, why. */
#include "tools/info/print.h"
#include "tools/info/print_devices.h"

#include <string.h>

#define KIB 1024.0

const char *info_bytes(json_int_t bytes, char text[INFO_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / KIB;
    unsigned unit = 0;

    if (bytes < 1024) {
        snprintf(text, INFO_BYTES, "%lld", (long long)bytes);
        return text;
    }
    for (; value >= KIB && unit < 5; value /= KIB)
        unit++;
    snprintf(text, INFO_BYTES, value == (double)(long long)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

const char *info_bytes_exact(json_int_t bytes, char text[INFO_BYTES])
{
    json_int_t unit = 1024;

    while (unit <= bytes / 1024)
        unit *= 1024;
    if (bytes % unit == 0)
        return info_bytes(bytes, text);
    snprintf(text, INFO_BYTES, "%lld", (long long)bytes);
    return text;
}

static const char *string_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text == NULL ? "" : text;
}

static json_int_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* A section that could not be made says why; true then. */
static int is_error(FILE *out, const json_t *section)
{
    if (!json_is_object(section) || json_object_get(section, "error") == NULL)
        return 0;
    fprintf(out, "  %s\n", string_of(section, "error"));
    return 1;
}

static void print_module(FILE *out, const json_t *module)
{
    fprintf(out, "%s %s, ABI %s: %s\n  %s\n", string_of(module, "name"), string_of(module, "version"),
            string_of(module, "abi"), string_of(module, "file"), string_of(module, "description"));
}

static void print_ability(FILE *out, const char *what, const json_t *ability)
{
    fprintf(out, "  %-24s%s: %s\n", what, json_is_true(json_object_get(ability, "usable")) ? "yes" : "no",
            string_of(ability, "reason"));
}

static void print_memory(FILE *out, const json_t *machine)
{
    const json_t *limit = json_object_get(machine, "memory_limit");
    char text[INFO_BYTES];

    fprintf(out, "  %-24s%s", "memory", info_bytes(number_of(machine, "memory_bytes"), text));
    if (json_is_integer(limit))
        fprintf(out, ", limited to %s by the control group", info_bytes(json_integer_value(limit), text));
    fprintf(out, "; pages of %s\n", info_bytes(number_of(machine, "page_bytes"), text));
}

static void print_count(FILE *out, json_int_t count, const char *of, const char *behind)
{
    fprintf(out, "%lld %s%s%s", (long long)count, of, count == 1 ? "" : "s", behind);
}

static void print_cpus(FILE *out, const json_t *machine)
{
    const json_t *quota = json_object_get(machine, "cpu_quota_milli");
    const char *reason = string_of(machine, "topology_reason");

    fprintf(out, "  %-24s%lld may be used, %lld can run at one time", "CPUs",
            (long long)number_of(machine, "cpus"), (long long)number_of(machine, "cpus_runnable"));
    if (json_is_integer(quota))
        fprintf(out, " (the control group's quota is %.2f)", (double)json_integer_value(quota) / 1000);
    fprintf(out, "\n  %-24s", "in");
    print_count(out, number_of(machine, "l3_domains"), "L3 cache", ", ");
    print_count(out, number_of(machine, "numa_nodes"), "NUMA node", ", ");
    print_count(out, number_of(machine, "packages"), "package", "\n");
    if (reason[0] != 0)
        fprintf(out, "  %-24s%s\n", "", reason);
}

static void print_machine(FILE *out, const json_t *machine)
{
    json_int_t gpus = number_of(machine, "gpus");

    fprintf(out, "\nMachine\n");
    if (is_error(out, machine))
        return;
    print_cpus(out, machine);
    print_memory(out, machine);
    print_ability(out, "huge shared pages", json_object_get(machine, "huge_pages"));
    print_ability(out, "reading others' memory", json_object_get(machine, "cma"));
    if (gpus == 0)
        fprintf(out, "  %-24snone\n", "GPUs");
    else
        fprintf(out, "  %-24s%lld\n", "GPUs", (long long)gpus);
}

static const char *amount(const json_t *value, const char *unit, char text[INFO_BYTES])
{
    if (!json_is_integer(value))
        return "unlimited";
    if (strcmp(unit, "bytes") == 0)
        return info_bytes(json_integer_value(value), text);
    snprintf(text, INFO_BYTES, "%lld", (long long)json_integer_value(value));
    return text;
}

static void print_limits(FILE *out, const json_t *limits)
{
    json_t *limit;
    size_t i;

    fprintf(out, "\nLimits\n  %-26s%-12s%-12s%-12s%s\n", "", "", "now", "at most", "of");
    json_array_foreach(limits, i, limit)
    {
        const json_t *hard = json_object_get(limit, "hard");
        const char *unit = string_of(limit, "unit");
        char now[INFO_BYTES], most[INFO_BYTES];

        fprintf(out, "  %-26s", string_of(limit, "name"));
        if (json_object_get(limit, "error") != NULL)
            fprintf(out, "%s\n", string_of(limit, "error"));
        else
            fprintf(out, "%-12s%-12s%-12s%s\n", string_of(limit, "shell"),
                    amount(json_object_get(limit, "soft"), unit, now),
                    hard == NULL ? "" : amount(hard, unit, most), string_of(limit, "use"));
    }
}

static void print_environment(FILE *out, const json_t *environment)
{
    json_t *line, *variable;
    size_t i, k;

    fprintf(out, "\nEnvironment\n");
    json_array_foreach(environment, i, line)
    {
        fprintf(out, "  %-36s%s\n", string_of(line, "syntax"), string_of(line, "meaning"));
        json_array_foreach(json_object_get(line, "variables"), k, variable)
        {
            const char *value = json_string_value(json_object_get(variable, "value"));

            if (value != NULL)
                fprintf(out, "  %-36sset: %s=%s\n", "", string_of(variable, "name"), value);
        }
    }
}

static void print_rows(FILE *out, const char *title, const json_t *rows)
{
    json_t *row;
    size_t i;

    fprintf(out, "  %s\n", title);
    json_array_foreach(rows, i, row)
    {
        char text[INFO_BYTES];

        fprintf(out, "    %10s  %-10s%s\n", info_bytes_exact(number_of(row, "bytes_from"), text),
                string_of(row, "path"), string_of(row, "reason"));
    }
}

static void print_paths(FILE *out, const json_t *paths)
{
    fprintf(out, "\nPaths, by bytes from which they are taken\n");
    if (is_error(out, paths))
        return;
    print_rows(out, "to itself", json_object_get(paths, "itself"));
    print_rows(out, "to another process", json_object_get(paths, "other_process"));
}

static void print_mpis(FILE *out, const json_t *section)
{
    json_t *mpi;
    size_t i;

    fprintf(out, "\nMPI over nigh (nigh-run --mpi NAME)\n");
    if (!json_is_array(json_object_get(section, "mpis"))) {
        fprintf(out, "  none: %s\n", string_of(section, "reason"));
        return;
    }
    fprintf(out, "  %-24s%s/libnigh-fi.so\n", "provider", string_of(section, "providers"));
    json_array_foreach(json_object_get(section, "mpis"), i, mpi)
    {
        fprintf(out, "  %-24s%s%s\n", string_of(mpi, "name"),
                json_is_true(json_object_get(mpi, "able"))         ? "yes, through "
                : json_is_string(json_object_get(mpi, "launcher")) ? "no: "
                                                                   : "",
                string_of(mpi, "reason"));
    }
}

static void print_nccl(FILE *out, const json_t *section)
{
    json_t *check;
    size_t i;

    fprintf(out, "\nNCCL over nigh\n");
    if (is_error(out, section))
        return;
    fprintf(out, "  %-28s%s\n", "plugin", string_of(section, "plugin"));
    fprintf(out, "  %-28s%s\n", "NCCL would use it",
            json_is_true(json_object_get(section, "used"))    ? "yes"
            : json_is_true(json_object_get(section, "found")) ? "no, though it finds it"
                                                              : "no");
    if (json_is_string(json_object_get(section, "library")))
        fprintf(out, "  %-28s%s, libnccl.so.2 of the library path\n", "NCCL", string_of(section, "library"));
    else
        fprintf(out, "  %-28snot in the library path: its version is not known\n", "NCCL");
    json_array_foreach(json_object_get(section, "checks"), i, check)
    {
        const char *value = json_string_value(json_object_get(check, "value"));

        fprintf(out, "  %-28s%s: %s%s%s%s\n", string_of(check, "name"), string_of(check, "state"),
                value ? "(" : "", value ? value : "", value ? ") " : "", string_of(check, "text"));
    }
}

void info_print(FILE *out, const json_t *facts)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out, const json_t *section);
    } sections[] = {{"module", print_module}, {"machine", print_machine},
                    {"limits", print_limits}, {"environment", print_environment},
                    {"paths", print_paths},   {"devices", info_print_devices},
                    {"mpi", print_mpis},      {"nccl", print_nccl}};

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const json_t *section = json_object_get(facts, sections[i].name);

        if (section != NULL)
            sections[i].print(out, section);
    }
}
