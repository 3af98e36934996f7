/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/query_device.c - NIGH_QUERY_DEVICES and NIGH_QUERY_DEVICE_PATHS. The driver is started where the program has loaded
 * it: what a report shows is what a registration would find. */
#include "cuda_ipc/about.h"
#include "plugin/context.h"
#include "plugin/device_way.h"
#include "plugin/query.h"
#include "plugin/refuse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const enum nigh_device_memory kinds[] = {NIGH_DEVICE_PLAIN, NIGH_DEVICE_MAPPED, NIGH_DEVICE_POOLED,
                                                NIGH_DEVICE_MANAGED};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* How many devices there are, or an error, logged. */
static int start(struct nigh_context *context, const char *call)
{
    const char *why = NULL;
    int rc;

    nigh_log_use(&context->log);
    rc = context->config.cuda ? nigh_device_start(context, &why) : 0;
    if (rc == -ENOTSUP)
        return nigh_refuse(context, rc, "query: %s: %s", call, why);
    if (rc == -ECHILD)
        return nigh_refuse(context, rc,
                           "query: %s: a forked child has no CUDA: ask in a process that was executed", call);
    if (rc)
        return rc == -ENOMEM ? rc : -EIO;
    return context->config.cuda && context->devices.cuda ? context->devices.cuda->driver->devices : 0;
}

/* ---- devices ------------------------------------------------------------------------------------------- */

static void device_row(struct nigh_cuda *cuda, int ordinal, struct nigh_query_device *row)
{
    const struct nigh_cuda_device *device = &cuda->devices[ordinal];
    struct nigh_cuda_about about;

    nigh_cuda_about(cuda, ordinal, &about);
    row->size = sizeof(*row);
    row->number = (uint32_t)ordinal;
    memcpy(row->uuid, device->uuid.bytes, sizeof(row->uuid));
    row->flags = (device->mig ? NIGH_DEVICE_MIG : 0) | (device->mps ? NIGH_DEVICE_MPS : 0) |
                 (device->window ? NIGH_DEVICE_WINDOW : 0);
    pthread_mutex_lock(&cuda->lock);
    row->offered = device->offered & ~device->refused;
    row->worked = device->worked & ~(1u << NIGH_CUDA_STAGED);
    row->reason = device->why;
    pthread_mutex_unlock(&cuda->lock);
    row->memory_bytes = about.memory_bytes;
    memcpy(row->bus, about.bus, sizeof(row->bus));
    memcpy(row->name, about.name, sizeof(row->name));
    if (row->reason)
        snprintf(row->text, sizeof(row->text), "%s",
                 nigh_device_reason_text((enum nigh_device_reason)row->reason));
}

int nigh_query_devices(struct nigh_context *context, void *out, uint64_t *bytes)
{
    int count = start(context, "NIGH_QUERY_DEVICES"), rc;
    struct nigh_query_device *rows;

    if (count < 0)
        return count;
    rows = calloc((size_t)count + 1, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    for (int i = 0; i < count; i++)
        device_row(context->devices.cuda, i, &rows[i]);
    rc = nigh_query_answer(rows, (uint64_t)count * sizeof(*rows), out, bytes);
    free(rows);
    return rc;
}

/* ---- paths --------------------------------------------------------------------------------------------- */

static void path_row(struct nigh_query_device_path *row, int ordinal, enum nigh_device_memory memory,
                     const struct nigh_arena_device *to, const struct nigh_device_path *path)
{
    row->size = sizeof(*row);
    row->from = (uint32_t)ordinal;
    row->to = to ? to->number : NIGH_DEVICE_NONE;
    row->memory = memory;
    row->way = path->way;
    row->reason = path->reason;
    if (to)
        memcpy(row->to_uuid, to->uuid, sizeof(row->to_uuid));
    snprintf(row->path, sizeof(row->path), "%s", nigh_device_way_name(path->way));
    snprintf(row->text, sizeof(row->text), "%s", nigh_device_reason_text(path->reason));
}

int nigh_query_device_paths(struct nigh_endpoint *endpoint, void *out, uint64_t *bytes)
{
    int count = start(endpoint->context, "NIGH_QUERY_DEVICE_PATHS"), rc;
    struct nigh_query_device_path *rows, *row;
    struct nigh_arena_devices told;
    uint32_t ends;

    if (count < 0)
        return count;
    rc = nigh_device_told(endpoint, &told);
    if (rc)
        return rc;
    ends = told.count ? told.count : 1;
    rows = row = calloc((size_t)count * ends * KINDS + 1, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    for (int from = 0; from < count; from++)
        for (uint32_t to = 0; to < ends; to++)
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                const struct nigh_arena_device *end = told.count ? &told.at[to] : NULL;
                struct nigh_device_path path = nigh_device_way(endpoint, from, kinds[kind], &told, end);

                path_row(row++, from, kinds[kind], end, &path);
            }
    rc = nigh_query_answer(rows, (uint64_t)(row - rows) * sizeof(*rows), out, bytes);
    free(rows);
    return rc;
}
