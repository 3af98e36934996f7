/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_give.c - see device_give.h. */
#include "plugin/device_give.h"
#include "cuda_ipc/export.h"
#include "cuda_ipc/seen.h"
#include "plugin/context.h"
#include "plugin/device_peer.h"
#include "plugin/device_store.h"
#include "plugin/device_way.h"
#include "shm/os.h"

#include <errno.h>
#include <unistd.h>

/* ---- the export ---- */

static int region_export(struct nigh_region *region, struct nigh_cuda_export **out)
{
    int rc = 0;

    if (!region->export)
        rc = nigh_cuda_export_get(region->device->context->cuda, region->device, &region->export);
    if (rc)
        return rc;
    nigh_cuda_export_use(region->export);
    *out = region->export;
    return 0;
}

/* Of memory that is not registered. What it takes the place of is gone, or was used least. */
static int seen_export(struct nigh_context *context, const void *at, uint64_t bytes,
                       struct nigh_cuda_export **out)
{
    struct nigh_cuda_export *evicted;
    int rc = nigh_cuda_seen_find(&context->devices.seen, context->devices.cuda, at, bytes, out, &evicted);

    if (!evicted)
        return rc;
    nigh_device_peers_drop(context, evicted->number, false);
    nigh_cuda_export_put(evicted);
    return rc;
}

static int export_of(struct nigh_context *context, struct nigh_region *region, const void *at, uint64_t bytes,
                     struct nigh_cuda_export **out)
{
    return region ? region_export(region, out) : seen_export(context, at, bytes, out);
}

static bool is_ours(const struct nigh_endpoint *endpoint)
{
    return endpoint->self || endpoint->pid == getpid();
}

bool nigh_device_gift_is_short(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return bytes <= endpoint->context->config.eager_bytes;
}

int nigh_device_may_give(struct nigh_endpoint *endpoint, const char *call, struct nigh_region *region,
                         uint64_t bytes, const struct nigh_device_buffer *buffer)
{
    struct nigh_context *context = endpoint->context;
    enum nigh_device_reason why = NIGH_DEVICE_WHY_EXPORT_REFUSED;
    struct nigh_cuda_export *export = NULL;
    int rc = nigh_device_may_post(endpoint, call, buffer);

    if (rc || !context->config.cuda_required || is_ours(endpoint))
        return rc;
    rc = export_of(context, region, (const void *)(uintptr_t)buffer->at, bytes, &export);
    if (rc == -ENOMEM || rc == -ECHILD)
        return rc;
    if (!rc && export) {
        why = (enum nigh_device_reason) export->wire->reason;
        rc = export->wire->way == NIGH_CUDA_STAGED ? -ENOTSUP : 0;
        nigh_cuda_export_put(export);
    }
    return rc ? nigh_device_refuse_post(endpoint, call, buffer, why) : 0;
}

/* Memory that is mapped, and that of a pool, is for the devices that its owner has given access to; what runs on another device
 * reaches plain memory only where the program has enabled that. */
static uint64_t reached_by(const struct nigh_device_buffer *buffer)
{
    uint64_t own = (uint64_t)buffer->cuda->ordinal + 1;

    if (buffer->kind == NIGH_CUDA_KIND_MANAGED)
        return 0;
    return buffer->kind == NIGH_CUDA_KIND_PLAIN ? own | NIGH_POINTER_COPIES : own;
}

bool nigh_device_gift_open(struct nigh_endpoint *endpoint, struct nigh_region *region, uint64_t bytes,
                           const struct nigh_device_buffer *buffer, struct nigh_device_gift *gift)
{
    struct nigh_cuda_export *export = NULL;
    int rc;

    if (endpoint->state != NIGH_READY)
        return false;
    if (is_ours(endpoint)) {
        gift->refer = NIGH_REFER_POINTER;
        gift->where = buffer->at;
        gift->number = reached_by(buffer);
        return true;
    }
    if (nigh_device_best(endpoint, buffer->cuda->ordinal, buffer->kind).way == NIGH_DEVICE_STAGED)
        return false;
    rc = export_of(endpoint->context, region, (const void *)(uintptr_t)buffer->at, bytes, &export);
    if (rc || !export)
        return false; /* it fails when it is staged, or does not */
    if (export->wire->way == NIGH_CUDA_STAGED) {
        gift->why = (enum nigh_device_reason) export->wire->reason;
        nigh_cuda_export_put(export);
        return false;
    }
    gift->refer = NIGH_REFER_DEVICE;
    gift->where = buffer->at - export->wire->segment[0].base;
    gift->export = export;
    gift->seen = !region;
    gift->number = export->number;
    return true;
}

void nigh_device_gift_close(struct nigh_device_gift *gift)
{
    if (gift->export)
        nigh_cuda_export_put(gift->export);
    *gift = (struct nigh_device_gift){.export = NULL};
}

void nigh_device_gift_over(struct nigh_endpoint *endpoint, const struct nigh_device_gift *gift)
{
    if (gift->export && gift->seen && !nigh_cuda_seen_keeps(&endpoint->context->devices.seen, gift->export))
        nigh_device_peer_take_back(endpoint, gift->export->number, false);
}

/* ---- to the peer ---- */

static int bring(struct nigh_endpoint *endpoint, struct nigh_cuda_export *export)
{
    int fds[NIGH_CUDA_SEGMENTS_MAX];
    const struct nigh_parcel parcel = {.number = export->number,
                                       .record = export->wire,
                                       .bytes = export->bytes,
                                       .fds = fds,
                                       .count = nigh_cuda_record_fds(export->wire)};
    int rc = nigh_cuda_export_open(export, fds);

    if (rc)
        return rc;
    rc = nigh_device_peer_bring(endpoint, &parcel);
    for (uint32_t i = 0; i < parcel.count; i++)
        nigh_os_close(fds[i]);
    return rc;
}

int nigh_device_gift_ready(struct nigh_endpoint *endpoint, const struct nigh_device_buffer *buffer,
                           struct nigh_device_gift *gift)
{
    int rc = gift->settled ? 0 : nigh_cuda_settle(buffer->cuda, &gift->settling);

    gift->settled |= !rc;
    if (!rc && gift->export && !nigh_device_peer_has(endpoint, gift->export->number))
        rc = bring(endpoint, gift->export);
    /* Who sleeps would not see that it can go on. */
    endpoint->context->devices.scarce |= rc == -EAGAIN;
    return rc;
}

void nigh_device_region_remove(struct nigh_context *context, struct nigh_region *region)
{
    struct nigh_cuda_export *export = region->export;

    nigh_device_store_close(context, region);
    /* First: passes go on while peers close it, and no put or get may begin on it. */
    nigh_region_remove(&context->regions, region);
    if (!export)
        return;
    /* Memory of cuMemMap() stays for whoever has it mapped; of the others the driver asks that it is closed first. */
    nigh_device_peers_drop(context, export->number, export->wire->way != NIGH_CUDA_VMM);
    nigh_cuda_export_put(export);
}
