/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_way.c - see device_way.h. */
#include "plugin/device_way.h"
#include "cuda_ipc/about.h"
#include "cuda_ipc/pointer.h"
#include "plugin/context.h"
#include "plugin/refuse.h"
#include "shm/shared.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define WAYS ((1u << NIGH_DEVICE_POINTER) - 1)

/* ---- telling and hearing ------------------------------------------------------------------------------- */

void nigh_device_tell(struct nigh_context *context)
{
    const struct nigh_cuda *cuda = context->devices.cuda;
    struct nigh_arena_devices *table = nigh_arena_devices(&context->arena);
    uint32_t count =
        cuda->driver->devices < (int)NIGH_DEVICES_MAX ? (uint32_t)cuda->driver->devices : NIGH_DEVICES_MAX;

    table->flags = cuda->wsl ? NIGH_DEVICES_WSL : 0;
    table->pid_space = cuda->pid_space;
    for (uint32_t i = 0; i < count; i++) {
        const struct nigh_cuda_device *device = &cuda->devices[i];

        memcpy(table->at[i].uuid, device->uuid.bytes, sizeof(table->at[i].uuid));
        table->at[i].number = i;
        table->at[i].flags = (device->mig ? NIGH_TOLD_MIG : 0) | (device->mps ? NIGH_TOLD_MPS : 0);
        table->at[i].ways = device->offered;
    }
    nigh_store_release(&table->count, count, DEVICES_TELL);
}

static bool is_sound(const struct nigh_arena_devices *told)
{
    for (uint32_t i = 0; i < told->count; i++)
        if (told->at[i].number == NIGH_DEVICE_NONE || told->at[i].ways & ~WAYS)
            return false;
    return true;
}

int nigh_device_told(const struct nigh_endpoint *endpoint, struct nigh_arena_devices *out)
{
    const struct nigh_arena_devices *table;
    const uint64_t *from;
    uint64_t *to = (uint64_t *)(void *)out;
    uint32_t count;

    if (!endpoint->attached)
        return endpoint->state == NIGH_CONNECTING ? -EAGAIN : nigh_endpoint_check(endpoint);
    table = (const void *)(endpoint->view.base + NIGH_PAGE + NIGH_DEVICES_OFFSET);
    count = nigh_load_acquire(&table->count, DEVICES_HEAR);
    if (count > NIGH_DEVICES_MAX)
        return -EPROTO;
    memset(out, 0, sizeof(*out));
    from = (const uint64_t *)(const void *)table;
    /* Relaxed: written before the count. */
    for (size_t i = 0; count && i < (NIGH_LINE + count * sizeof(table->at[0])) / sizeof(*to); i++)
        to[i] = nigh_load_relaxed(&from[i]);
    out->count = count;
    return is_sound(out) ? 0 : -EPROTO;
}

/* ---- the facts ----------------------------------------------------------------------------------------- */

static struct nigh_device_end own_end(struct nigh_cuda *cuda, int ordinal)
{
    const struct nigh_cuda_device *device = &cuda->devices[ordinal];
    struct nigh_device_end end = {
        .wsl = cuda->wsl, .mig = device->mig, .mps = device->mps, .pid_space = cuda->pid_space};

    pthread_mutex_lock(&cuda->lock);
    end.ways = device->offered & ~device->refused;
    pthread_mutex_unlock(&cuda->lock);
    memcpy(end.uuid, device->uuid.bytes, sizeof(end.uuid));
    return end;
}

static struct nigh_device_end told_end(const struct nigh_arena_devices *told,
                                       const struct nigh_arena_device *device)
{
    struct nigh_device_end end = {.wsl = told->flags & NIGH_DEVICES_WSL,
                                  .mig = device->flags & NIGH_TOLD_MIG,
                                  .mps = device->flags & NIGH_TOLD_MPS,
                                  .ways = device->ways,
                                  .pid_space = told->pid_space};

    memcpy(end.uuid, device->uuid, sizeof(end.uuid));
    return end;
}

static enum nigh_device_access access_of(const struct nigh_cuda *cuda, const struct nigh_device_end *peer,
                                         int ordinal)
{
    struct nigh_cuda_uuid uuid;
    int theirs;

    memcpy(uuid.bytes, peer->uuid, sizeof(uuid.bytes));
    theirs = nigh_cuda_device_of(cuda, &uuid);
    if (theirs < 0)
        return NIGH_ACCESS_UNKNOWN;
    return nigh_cuda_reaches(cuda, theirs, ordinal) ? NIGH_ACCESS_YES : NIGH_ACCESS_NO;
}

struct nigh_device_path nigh_device_way(const struct nigh_endpoint *endpoint, int ordinal,
                                        enum nigh_device_memory memory, const struct nigh_arena_devices *told,
                                        const struct nigh_arena_device *to)
{
    struct nigh_cuda *cuda = endpoint->context->devices.cuda;
    struct nigh_device_facts facts = {
        .memory = memory,
        .same_process = endpoint->self || endpoint->pid == getpid(),
        .owner = own_end(cuda, ordinal),
        .callable = nigh_cuda_callable(cuda),
        .peer_uses = to != NULL,
    };

    if (to) {
        facts.peer = told_end(told, to);
        facts.access = access_of(cuda, &facts.peer, ordinal);
    }
    return nigh_device_path(&facts);
}

struct nigh_device_path nigh_device_best(const struct nigh_endpoint *endpoint, int ordinal,
                                         enum nigh_cuda_kind kind)
{
    enum nigh_device_memory memory = (enum nigh_device_memory)kind;
    struct nigh_arena_devices told;
    struct nigh_device_path first, path;

    if (nigh_device_told(endpoint, &told) || !told.count)
        return nigh_device_way(endpoint, ordinal, memory, NULL, NULL);
    first = nigh_device_way(endpoint, ordinal, memory, &told, &told.at[0]);
    for (uint32_t i = 1; i < told.count && first.way == NIGH_DEVICE_STAGED; i++) {
        path = nigh_device_way(endpoint, ordinal, memory, &told, &told.at[i]);
        if (path.way != NIGH_DEVICE_STAGED)
            return path;
    }
    return first;
}

/* ---- NIGH_CUDA=require --------------------------------------------------------------------------------- */

int nigh_device_may_post(const struct nigh_endpoint *endpoint, const char *call,
                         const struct nigh_device_buffer *buffer)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_device_path path;

    if (!context->config.cuda_required)
        return 0;
    path = nigh_device_best(endpoint, buffer->cuda->ordinal, buffer->kind);
    return path.way != NIGH_DEVICE_STAGED ? 0 : nigh_device_refuse_post(endpoint, call, buffer, path.reason);
}

int nigh_device_may_take(const struct nigh_endpoint *endpoint, const char *call,
                         const struct nigh_device_buffer *buffer)
{
    struct nigh_device_buffer other = *buffer;

    if (!endpoint->context->config.cuda_required)
        return 0;
    other.kind = NIGH_CUDA_KIND_PLAIN;
    if (nigh_device_best(endpoint, other.cuda->ordinal, other.kind).way != NIGH_DEVICE_STAGED)
        return 0;
    other.kind = NIGH_CUDA_KIND_MAPPED;
    return nigh_device_may_post(endpoint, call, &other);
}

int nigh_device_refuse_post(const struct nigh_endpoint *endpoint, const char *call,
                            const struct nigh_device_buffer *buffer, enum nigh_device_reason why)
{
    return nigh_refuse(
        endpoint->context, -ENOTSUP,
        "%s: NIGH_CUDA=require: memory of CUDA device %d is staged through the host for rank %d: %s; "
        "NIGH_CUDA=auto lets it be staged",
        call, buffer->cuda->ordinal, (int)endpoint->rank, nigh_device_reason_text(why));
}

int nigh_device_may_receive(const struct nigh_endpoint *endpoint, const struct nigh_cuda_context *cuda)
{
    if (!endpoint->context->config.cuda_required)
        return 0;
    return nigh_refuse(endpoint->context, -ENOTSUP,
                       "NIGH_CUDA=require: what a get brings from rank %d to memory of CUDA device %d is "
                       "staged through the host: %s; NIGH_CUDA=auto lets it be staged",
                       (int)endpoint->rank, cuda->ordinal,
                       nigh_device_reason_text(NIGH_DEVICE_WHY_NOT_JOINED));
}

int nigh_device_may_stage(const struct nigh_endpoint *endpoint, uint64_t key)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_region *region;

    if (!context->config.cuda_required)
        return 0;
    region = nigh_region_copied(&context->regions, key);
    if (!region || !region->device)
        return 0;
    return nigh_refuse(
        context, -ENOTSUP,
        "NIGH_CUDA=require: what rank %d asks of memory of CUDA device %d is staged through the "
        "host: %s; NIGH_CUDA=auto lets it be staged",
        (int)endpoint->rank, region->device->ordinal, nigh_device_reason_text(NIGH_DEVICE_WHY_NOT_JOINED));
}
