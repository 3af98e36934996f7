/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device.c - see device.h. */
#include "plugin/device.h"
#include "cuda_ipc/copy.h"
#include "cuda_ipc/export.h"
#include "cuda_ipc/pointer.h"
#include "plugin/context.h"
#include "plugin/device_slot.h"
#include "plugin/device_store.h"
#include "plugin/device_way.h"
#include "plugin/guard.h"
#include "plugin/refuse.h"
#include "plugin/region.h"
#include "shm/shared.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Device memory is there only where a driver is: what made it has loaded that. */
static bool has_driver(void)
{
    void *object = NIGH_FD_DURING(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD));

    if (object)
        dlclose(object);
    return object != NULL;
}

int nigh_device_start(struct nigh_context *context, const char **why)
{
    const struct nigh_cuda_options options = {.log = &context->log};
    int rc;

    if (context->devices.cuda || !has_driver())
        return 0;
    rc = nigh_cuda_open(&options, &context->devices.cuda, why);
    if (!rc) {
        nigh_cuda_seen_begin(&context->devices.seen);
        nigh_device_tell(context);
    }
    return rc == -ENOTSUP && nigh_driver_is_empty() ? 0 : rc;
}

/* What else fails in the driver, and was logged there. */
static int error_of(int rc)
{
    return rc == -EFAULT || rc == -EXDEV || rc == -ENOMEM || rc == -ECHILD || !rc ? rc : -EIO;
}

int nigh_device_look(struct nigh_context *context, const char *call, const void *buffer, uint64_t bytes,
                     struct nigh_cuda_memory **out)
{
    const char *why = NULL;
    int rc;

    if (!context->config.cuda)
        return nigh_refuse(context, -ENOTSUP, "%s: device memory, but NIGH_CUDA=off: unset NIGH_CUDA", call);
    *out = NULL;
    rc = nigh_device_start(context, &why);
    if (rc == -ENOTSUP)
        return nigh_refuse(context, rc, "%s: device memory: %s", call, why);
    if (!rc && context->devices.cuda)
        rc = nigh_cuda_look(context->devices.cuda, buffer, bytes, out);
    if (rc == -ECHILD)
        return nigh_refuse(context, rc,
                           "%s: a forked child has no CUDA: use device memory in a process that was executed",
                           call);
    return error_of(rc);
}

int nigh_device_find(struct nigh_context *context, const char *call, const struct nigh_region *region,
                     const void *buffer, uint64_t bytes, struct nigh_device_buffer *out)
{
    uint64_t offset = (uintptr_t)buffer - (region ? (uintptr_t)region->base : 0);
    struct nigh_cuda_memory *memory = NULL;
    int rc = 0;

    if (region && (offset > region->bytes || bytes > region->bytes - offset))
        return nigh_refuse(context, -ERANGE, "%s: %llu bytes at %p are not in their region, %llu bytes at %p",
                           call, (unsigned long long)bytes, buffer, (unsigned long long)region->bytes,
                           region->base);
    if (!region)
        rc = nigh_device_look(context, call, buffer, bytes, &memory);
    if (rc)
        return rc;
    *out = (struct nigh_device_buffer){.at = (uintptr_t)buffer, .stores = region && region->stores};
    if (region ? region->device : memory) {
        out->cuda = (region ? region->device : memory)->context;
        out->kind = (region ? region->device : memory)->kind;
    }
    free(memory);
    return 0;
}

/*
 * Between this process' memory and a device's: returns when all bytes are there, as a host's copies do. The context's lock stays
 * held: it may run in the middle of a progress pass, which no other thread may enter. A poll does not say whose the thread's
 * lines are.
 */
static int copy(struct nigh_context *owner, struct nigh_cuda_context *context, enum nigh_cuda_copy_kind kind,
                uint64_t to, uint64_t from, uint64_t bytes)
{
    const struct nigh_log_sink *before;
    struct nigh_cuda_copy copy;
    int rc;

    if (nigh_cuda_context_is_gone(context))
        return -EIO; /* which was logged when it was found */
    before = nigh_log_use(context->cuda->closer.log);
    nigh_cuda_copy_begin(&copy, context, context, kind, to, from, bytes, false);
    while ((rc = nigh_cuda_copy_step(&copy)) == -EAGAIN) {
        nigh_device_step(owner); /* messages may have all blocks and events */
        sched_yield();
    }
    nigh_log_use(before);
    return rc;
}

static int copy_out(void *arg, void *to, uint64_t offset, uint64_t bytes)
{
    const struct nigh_region *region = arg;
    const struct nigh_cuda_memory *memory = region->device;

    return copy(region->owner, memory->context, NIGH_CUDA_COPY_TO_HOST, (uintptr_t)to, memory->at + offset,
                bytes);
}

static int copy_in(void *arg, const void *from, uint64_t offset, uint64_t bytes)
{
    const struct nigh_region *region = arg;
    const struct nigh_cuda_memory *memory = region->device;

    return copy(region->owner, memory->context, NIGH_CUDA_COPY_TO_DEVICE, memory->at + offset,
                (uintptr_t)from, bytes);
}

static int copy_device(struct nigh_context *context, const struct nigh_region *region, void *buffer,
                       void *host, uint64_t bytes, uint32_t way)
{
    static const char call[] = "copy_device";
    struct nigh_device_buffer found = {0};
    bool in = way == NIGH_COPY_IN;
    int rc;

    nigh_log_use(&context->log);
    if (!in && way != NIGH_COPY_OUT)
        return nigh_refuse(context, -EINVAL, "%s: way %u is neither NIGH_COPY_IN nor NIGH_COPY_OUT", call,
                           way);
    if (bytes && (!buffer || !host))
        return nigh_refuse_null(context, call, bytes);
    rc = bytes ? nigh_device_find(context, call, region, buffer, bytes, &found) : 0;
    if (rc || !bytes)
        return rc;
    if (found.cuda)
        return error_of(
            in ? copy(context, found.cuda, NIGH_CUDA_COPY_TO_DEVICE, found.at, (uintptr_t)host, bytes)
               : copy(context, found.cuda, NIGH_CUDA_COPY_TO_HOST, (uintptr_t)host, found.at, bytes));
    memcpy(in ? buffer : host, in ? host : buffer, bytes);
    return 0;
}

int nigh_entry_copy_device(struct nigh_context *context, const struct nigh_region *region, void *buffer,
                           void *host, uint64_t bytes, uint32_t way)
{
    if (!context)
        return nigh_refuse_missing("copy_device");
    return NIGH_GUARDED(context, copy_device(context, region, buffer, host, bytes, way));
}

void nigh_device_region_add(struct nigh_context *context, struct nigh_region *region)
{
    region->copies = (struct nigh_copies){
        .size = sizeof(struct nigh_copies), .arg = region, .read = copy_out, .write = copy_in};
    nigh_device_store_open(context, region);
}

void nigh_devices_close(struct nigh_devices *devices)
{
    struct nigh_cuda_export *export;

    if (!devices->cuda)
        return;
    nigh_device_stores_close(devices);
    while ((export = nigh_cuda_seen_take(&devices->seen)) != NULL)
        nigh_cuda_export_put(export);
    nigh_cuda_seen_end(&devices->seen);
    nigh_cuda_close(devices->cuda);
    devices->cuda = NULL;
}
