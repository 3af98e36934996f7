/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/api.c - see api.h. */
#include "tests/gpu/nccl/api.h"

#include <dlfcn.h>
#include <stdio.h>

struct symbol {
    void *slot;
    const char *name;
    bool optional;
};

static bool load(const char *path, const struct symbol *symbols, size_t count, char *why, size_t room)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!object) {
        snprintf(why, room, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(object, symbols[i].name);

        if (!found && !symbols[i].optional) {
            snprintf(why, room, "%s has no %s()", path, symbols[i].name);
            return false;
        }
        *(void **)symbols[i].slot = found;
    }
    return true;
}

bool nccl_load(struct nccl *nccl, const char *path, char *why, size_t room)
{
    const struct symbol symbols[] = {
        {&nccl->version, "ncclGetVersion", false},
        {&nccl->error, "ncclGetErrorString", false},
        {&nccl->last_error, "ncclGetLastError", true},
        {&nccl->id, "ncclGetUniqueId", false},
        {&nccl->init, "ncclCommInitRank", false},
        {&nccl->destroy, "ncclCommDestroy", false},
        {&nccl->abort, "ncclCommAbort", false},
        {&nccl->group_start, "ncclGroupStart", false},
        {&nccl->group_end, "ncclGroupEnd", false},
        {&nccl->send, "ncclSend", false},
        {&nccl->recv, "ncclRecv", false},
        {&nccl->allreduce, "ncclAllReduce", false},
        {&nccl->reduce, "ncclReduce", false},
        {&nccl->broadcast, "ncclBroadcast", false},
        {&nccl->allgather, "ncclAllGather", false},
        {&nccl->reduce_scatter, "ncclReduceScatter", false},
        {&nccl->alltoall, "ncclAlltoAll", true},
        {&nccl->gather, "ncclGather", true},
        {&nccl->scatter, "ncclScatter", true},
    };

    return load(path, symbols, sizeof(symbols) / sizeof(symbols[0]), why, room);
}

bool cuda_load(struct cuda *cuda, const char *path, char *why, size_t room)
{
    const struct symbol symbols[] = {
        {&cuda->init, "cuInit", false},
        {&cuda->device_count, "cuDeviceGetCount", false},
        {&cuda->device, "cuDeviceGet", false},
        {&cuda->name, "cuDeviceGetName", false},
        {&cuda->context, "cuDevicePrimaryCtxRetain", false},
        {&cuda->use, "cuCtxSetCurrent", false},
        {&cuda->alloc, "cuMemAlloc_v2", false},
        {&cuda->free, "cuMemFree_v2", false},
        {&cuda->set, "cuMemsetD8_v2", false},
        {&cuda->to_device, "cuMemcpyHtoD_v2", false},
        {&cuda->to_host, "cuMemcpyDtoH_v2", false},
        {&cuda->stream, "cuStreamCreate", false},
        {&cuda->wait, "cuStreamSynchronize", false},
    };

    return load(path, symbols, sizeof(symbols) / sizeof(symbols[0]), why, room);
}
