/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/device_memory.c - see device_memory.h. */
#include "tools/info/device_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 2 << 20 };

/* CUmemPoolProps */
struct pool_properties {
    int type, handle_types;
    struct nigh_cuda_location location;
    void *meta;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
};

/* Calls that nigh has no use for. */
static struct {
    int (*alloc)(nigh_cuda_ptr *at, size_t bytes);
    int (*free)(nigh_cuda_ptr at);
    int (*create)(nigh_cuda_handle *handle, size_t bytes, const struct nigh_cuda_properties *properties,
                  unsigned long long flags);
    int (*pool_create)(void **pool, const struct pool_properties *properties);
    int (*pool_alloc)(nigh_cuda_ptr *at, size_t bytes, void *pool, void *stream);
} calls;

static char problem[128];

static void load(void)
{
    static const struct {
        const char *name;
        void *slot;
    } symbols[] = {{"cuMemAlloc_v2", &calls.alloc},
                   {"cuMemFree_v2", &calls.free},
                   {"cuMemCreate", &calls.create},
                   {"cuMemPoolCreate", &calls.pool_create},
                   {"cuMemAllocFromPoolAsync", &calls.pool_alloc}};
    void *object = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    for (size_t i = 0; object && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(object, symbols[i].name);

        memcpy(symbols[i].slot, &found, sizeof(found));
    }
}

const char *info_device_memory_name(enum nigh_device_memory kind)
{
    static const char *const names[] = {"cuMemAlloc", "cuMemMap", "cuMemAllocAsync", "cuMemAllocManaged"};

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

/* A CUresult; -1: the driver has no such call. */
static int failed(const struct nigh_driver *driver, const char *call, int result)
{
    if (result < 0)
        snprintf(problem, sizeof(problem), "the CUDA driver has no %s", call);
    else if (result)
        snprintf(problem, sizeof(problem), "%s fails: %s (%d)", call, nigh_driver_error_name(driver, result),
                 result);
    return result ? -1 : 0;
}

static int make_plain(const struct nigh_driver *driver, struct info_device_memory *memory)
{
    return failed(driver, "cuMemAlloc", calls.alloc ? calls.alloc(&memory->at, memory->bytes) : -1);
}

static int map(const struct nigh_driver *driver, struct info_device_memory *memory, nigh_cuda_handle handle)
{
    struct nigh_cuda_access access = {.location = {NIGH_CUDA_LOCATION_DEVICE, memory->context->ordinal},
                                      .flags = NIGH_CUDA_ACCESS_READ_WRITE};
    int rc = failed(driver, "cuMemMap", driver->map(memory->at, memory->bytes, 0, handle, 0));

    if (rc)
        return rc;
    rc = failed(driver, "cuMemSetAccess", driver->set_access(memory->at, memory->bytes, &access, 1));
    if (rc)
        driver->unmap(memory->at, memory->bytes);
    return rc;
}

static int make_mapped(const struct nigh_driver *driver, struct info_device_memory *memory)
{
    struct nigh_cuda_properties properties = {
        .type = NIGH_CUDA_ALLOCATION_PINNED,
        .handle_types = NIGH_CUDA_HANDLE_POSIX_FD,
        .location = {NIGH_CUDA_LOCATION_DEVICE, memory->context->ordinal}};
    nigh_cuda_handle handle;
    size_t unit = 0;
    int rc;

    if (!calls.create || !driver->reserve)
        return failed(driver, "cuMemCreate", -1);
    rc = failed(driver, "cuMemGetAllocationGranularity",
                driver->granularity(&unit, &properties, NIGH_CUDA_GRANULARITY_MINIMUM));
    if (rc)
        return rc;
    memory->bytes = (memory->bytes + unit - 1) / unit * unit;
    rc = failed(driver, "cuMemCreate with POSIX descriptors",
                calls.create(&handle, memory->bytes, &properties, 0));
    if (rc)
        return rc;
    rc = failed(driver, "cuMemAddressReserve", driver->reserve(&memory->at, memory->bytes, 0, 0, 0));
    if (!rc) {
        rc = map(driver, memory, handle);
        if (rc)
            driver->unreserve(memory->at, memory->bytes);
    }
    driver->release(handle);
    return rc;
}

static int make_pooled(const struct nigh_driver *driver, struct info_device_memory *memory)
{
    struct pool_properties properties = {.type = NIGH_CUDA_ALLOCATION_PINNED,
                                         .handle_types = NIGH_CUDA_HANDLE_POSIX_FD,
                                         .location = {NIGH_CUDA_LOCATION_DEVICE, memory->context->ordinal}};
    int rc;

    if (!calls.pool_create || !calls.pool_alloc || !driver->pool_destroy)
        return failed(driver, "cuMemPoolCreate", -1);
    rc = failed(driver, "cuStreamCreate",
                driver->stream_create(&memory->stream, NIGH_CUDA_STREAM_NON_BLOCKING));
    if (rc)
        return rc;
    rc = failed(driver, "cuMemPoolCreate with POSIX descriptors",
                calls.pool_create(&memory->pool, &properties));
    if (!rc) {
        rc = failed(driver, "cuMemAllocFromPoolAsync",
                    calls.pool_alloc(&memory->at, memory->bytes, memory->pool, memory->stream));
        if (rc)
            driver->pool_destroy(memory->pool);
    }
    if (rc)
        driver->stream_destroy(memory->stream);
    return rc;
}

int info_device_memory_make(struct nigh_cuda *cuda, int ordinal, enum nigh_device_memory kind,
                            struct info_device_memory *out, const char **why)
{
    static int (*const make[])(const struct nigh_driver *driver,
                               struct info_device_memory *memory) = {[NIGH_DEVICE_PLAIN] = make_plain,
                                                                     [NIGH_DEVICE_MAPPED] = make_mapped,
                                                                     [NIGH_DEVICE_POOLED] = make_pooled};
    int mode, rc;

    load();
    *out = (struct info_device_memory){.kind = kind, .bytes = BYTES};
    *why = "the device's primary context cannot be used";
    if (nigh_cuda_context_find(cuda, NULL, ordinal, &out->context) || nigh_cuda_enter(out->context, &mode))
        return -1;
    *why = problem;
    rc = make[kind](cuda->driver, out);
    nigh_cuda_leave(out->context, mode);
    return rc;
}

void info_device_memory_free(struct info_device_memory *memory)
{
    const struct nigh_driver *driver = memory->context->driver;
    int mode;

    if (nigh_cuda_enter(memory->context, &mode))
        return;
    if (memory->kind == NIGH_DEVICE_MAPPED) {
        driver->unmap(memory->at, memory->bytes);
        driver->unreserve(memory->at, memory->bytes);
    } else {
        calls.free(memory->at);
    }
    if (memory->kind == NIGH_DEVICE_POOLED) {
        driver->pool_destroy(memory->pool);
        driver->stream_destroy(memory->stream);
    }
    nigh_cuda_leave(memory->context, mode);
}
