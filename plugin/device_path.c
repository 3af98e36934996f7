/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_path.c - see device_path.h. */
#include "plugin/device_path.h"
#include "cuda_ipc/export.h"
#include "cuda_ipc/reason.h"

#include <string.h>

/* The public numbers are those of cuda_ipc/reason.h and pointer.h. */
#define SAME(public, ours) _Static_assert((int)(public) == (int)(ours), #public)
SAME(NIGH_DEVICE_STAGED, NIGH_CUDA_STAGED);
SAME(NIGH_DEVICE_VMM, NIGH_CUDA_VMM);
SAME(NIGH_DEVICE_POOL, NIGH_CUDA_POOL);
SAME(NIGH_DEVICE_LEGACY, NIGH_CUDA_LEGACY);
SAME(NIGH_DEVICE_POINTER, NIGH_CUDA_WAYS);
SAME(NIGH_DEVICE_PLAIN, NIGH_CUDA_KIND_PLAIN);
SAME(NIGH_DEVICE_MAPPED, NIGH_CUDA_KIND_MAPPED);
SAME(NIGH_DEVICE_POOLED, NIGH_CUDA_KIND_POOL);
SAME(NIGH_DEVICE_MANAGED, NIGH_CUDA_KIND_MANAGED);
#define SAME_REASON(name, text) SAME(NIGH_DEVICE_WHY_##name, NIGH_CUDA_WHY_##name);
NIGH_CUDA_REASONS(SAME_REASON)

static bool knows(uint32_t ways, enum nigh_device_way way)
{
    return ways >> way & 1;
}

static enum nigh_device_reason export_obstacle(const struct nigh_device_facts *facts,
                                               enum nigh_device_way way)
{
    if (way == NIGH_DEVICE_STAGED)
        return NIGH_DEVICE_WHY_MANAGED;
    if (facts->owner.wsl || facts->peer.wsl)
        return NIGH_DEVICE_WHY_WSL;
    if (!knows(facts->callable, way))
        return NIGH_DEVICE_WHY_OLD_DRIVER;
    return knows(facts->owner.ways, way) ? NIGH_DEVICE_WHY_NONE : NIGH_DEVICE_WHY_EXPORT_REFUSED;
}

static enum nigh_device_reason import_obstacle(const struct nigh_device_facts *facts,
                                               enum nigh_device_way way)
{
    const struct nigh_device_end *owner = &facts->owner, *peer = &facts->peer;
    bool same = memcmp(owner->uuid, peer->uuid, sizeof(owner->uuid)) == 0;

    if (!knows(peer->ways, way))
        return NIGH_DEVICE_WHY_IMPORT_REFUSED;
    if (!same && (owner->mig || peer->mig))
        return NIGH_DEVICE_WHY_MIG;
    if (!same && facts->access == NIGH_ACCESS_NO)
        return NIGH_DEVICE_WHY_NO_PEER_ACCESS;
    if (owner->mps != peer->mps)
        return NIGH_DEVICE_WHY_MPS;
    if (way == NIGH_DEVICE_LEGACY && owner->pid_space && peer->pid_space &&
        owner->pid_space != peer->pid_space)
        return NIGH_DEVICE_WHY_PID_NAMESPACE;
    return NIGH_DEVICE_WHY_NONE;
}

struct nigh_device_path nigh_device_path(const struct nigh_device_facts *facts)
{
    struct nigh_device_path path = {.way = NIGH_DEVICE_POINTER, .reason = NIGH_DEVICE_WHY_NONE};

    if (!facts->same_process) {
        path.way = (enum nigh_device_way)nigh_cuda_export_way((enum nigh_cuda_kind)facts->memory);
        path.reason = export_obstacle(facts, path.way);
        if (!path.reason)
            path.reason = facts->peer_uses ? import_obstacle(facts, path.way) : NIGH_DEVICE_WHY_PEER_SILENT;
    }
    if (path.reason)
        path.way = NIGH_DEVICE_STAGED;
    return path;
}

const char *nigh_device_way_name(enum nigh_device_way way)
{
    return way == NIGH_DEVICE_POINTER ? "pointer" : nigh_cuda_way_name((enum nigh_cuda_way)way);
}

const char *nigh_device_reason_text(enum nigh_device_reason reason)
{
    return nigh_cuda_reason_text((enum nigh_cuda_reason)reason);
}
