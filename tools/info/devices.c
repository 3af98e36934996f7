/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/devices.c - CUDA devices as the module tells of them, which handles of their memory work, and between which. All of
 * it in processes of their own: a driver that was loaded stays, and a program that has loaded it cannot fork. */
#include "cuda_ipc/domain.h"
#include "tools/info/child.h"
#include "tools/info/device_trial.h"
#include "tools/info/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRY_MS = 60000, DEVICES_MOST = 256 };

/* As nvidia-smi writes it. */
static void write_uuid(char text[48], const uint8_t *uuid, bool instance)
{
    int at = snprintf(text, 48, instance ? "MIG-" : "GPU-");

    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, 48 - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                       uuid[i]);
}

static json_t *device(struct info_trial *trial, struct nigh_query_device *row)
{
    char uuid[48];

    row->name[sizeof(row->name) - 1] = row->bus[sizeof(row->bus) - 1] = '\0';
    write_uuid(uuid, row->uuid, row->flags & NIGH_DEVICE_MIG);
    return json_pack("{si ss ss ss sI sb sb sb so}", "number", (int)row->number, "name", row->name, "uuid",
                     uuid, "bus", row->bus, "memory_bytes", (json_int_t)row->memory_bytes, "mig",
                     row->flags & NIGH_DEVICE_MIG ? 1 : 0, "mps", row->flags & NIGH_DEVICE_MPS ? 1 : 0,
                     "window", row->flags & NIGH_DEVICE_WINDOW ? 1 : 0, "handles",
                     info_trial_handles(trial, (int)row->number));
}

static json_t *devices(struct info_trial *trial)
{
    struct nigh_query_device *rows = calloc(DEVICES_MOST, sizeof(*rows));
    uint64_t bytes = DEVICES_MOST * sizeof(*rows);
    json_t *list = json_array();

    if (!rows || trial->ops->query(trial->context, NULL, NIGH_QUERY_DEVICES, rows, &bytes))
        bytes = 0;
    for (uint64_t i = 0; i < bytes / sizeof(*rows); i++)
        json_array_append_new(list, device(trial, &rows[i]));
    free(rows);
    return list;
}

static json_t *none(const char *reason)
{
    return json_pack("{sn ss s[] s[]}", "driver", "reason", reason, "devices", "paths");
}

static json_t *tried(struct info_trial *trial)
{
    json_t *found = devices(trial);
    char version[16];

    if (!json_array_size(found)) {
        json_decref(found);
        return none("the module uses none: NIGH_CUDA=off");
    }
    snprintf(version, sizeof(version), "%d.%d", trial->cuda->driver->cuda_version / 1000,
             trial->cuda->driver->cuda_version % 1000 / 10);
    return json_pack("{ss ss so so}", "driver", version, "reason", "", "devices", found, "paths",
                     info_trial_paths(trial));
}

static json_t *look(const void *data)
{
    struct info_trial trial;
    json_t *section;

    if (!info_trial_open(data, &trial))
        section = tried(&trial);
    else
        section = trial.none ? none(trial.problem) : json_pack("{ss}", "error", trial.problem);
    info_trial_end(&trial);
    return section;
}

json_t *info_devices(const struct info_plugin *plugin)
{
    json_t *section;

    if (!NIGH_HAS(plugin->ops, query))
        return json_pack("{ss}", "error", "the module does not answer questions");
    section = info_in_child(look, plugin, TRY_MS);
    return section
               ? section
               : json_pack("{ss}", "error",
                           "the process that was to try the CUDA driver has ended before it said anything");
}
