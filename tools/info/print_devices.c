/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/print_devices.c - see print_devices.h. */
#include "tools/info/print_devices.h"
#include "tools/info/print.h"

#include <stdbool.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static long long number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* What worked, or that nothing did, and why. */
static void print_handle(FILE *out, const json_t *row)
{
    const char *handle = json_string_value(json_object_get(row, "handle"));

    fprintf(out, "%-18s%s", text_of(row, "memory"), handle ? handle : "no: ");
    fprintf(out, "%s", handle ? "" : text_of(row, "reason"));
}

static void print_device(FILE *out, const json_t *device)
{
    char memory[INFO_BYTES];
    json_t *handle;
    size_t i;

    fprintf(out, "  device %lld: %s, %s, %s, %s%s%s\n", number_of(device, "number"), text_of(device, "name"),
            info_bytes(number_of(device, "memory_bytes"), memory), text_of(device, "bus"),
            text_of(device, "uuid"), json_is_true(json_object_get(device, "mps")) ? ", by MPS" : "",
            json_is_true(json_object_get(device, "mig")) ? ", an instance (MIG)" : "");
    json_array_foreach(json_object_get(device, "handles"), i, handle)
    {
        fprintf(out, "    ");
        print_handle(out, handle);
        fprintf(out, "\n");
    }
}

static void print_messages(FILE *out, const json_t *path)
{
    const char *reason = text_of(path, "messages_reason");

    fprintf(out, "%s%s%s", text_of(path, "messages"), *reason ? ": " : "", reason);
}

/* Messages go as the memory does, mostly. */
static bool is_alike(const json_t *path)
{
    return !strcmp(text_of(path, "messages"), text_of(path, "handle"));
}

static void print_paths(FILE *out, const json_t *paths)
{
    json_t *path;
    size_t i;

    fprintf(out, "  from a device to another process' device, mapped there; messages go so, unless it says "
                 "otherwise:\n");
    json_array_foreach(paths, i, path)
    {
        fprintf(out, "    %lld to %lld  ", number_of(path, "from"), number_of(path, "to"));
        print_handle(out, path);
        if (!is_alike(path)) {
            fprintf(out, "; messages ");
            print_messages(out, path);
        }
        fprintf(out, "\n");
    }
}

void info_print_devices(FILE *out, const json_t *section)
{
    json_t *row;
    size_t i;

    fprintf(out, "\nCUDA devices\n");
    if (json_object_get(section, "error")) {
        fprintf(out, "  %s\n", text_of(section, "error"));
        return;
    }
    if (!json_array_size(json_object_get(section, "devices"))) {
        fprintf(out, "  none: %s\n", text_of(section, "reason"));
        return;
    }
    fprintf(out, "  driver for CUDA %s; handles of memory that another process can open, tried:\n",
            text_of(section, "driver"));
    json_array_foreach(json_object_get(section, "devices"), i, row) print_device(out, row);
    print_paths(out, json_object_get(section, "paths"));
}
