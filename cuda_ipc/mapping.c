/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/mapping.c - see mapping.h. */
#include "cuda_ipc/mapping.h"
#include "shm/log.h"

#include <errno.h>
#include <string.h>

static int judge(const struct nigh_driver *driver, const char *call, int result, enum nigh_cuda_reason *why)
{
    switch (result) {
    case 0:
        return 0;
    case NIGH_CUDA_ALREADY_MAPPED:
        return -EALREADY;
    case NIGH_CUDA_OUT_OF_MEMORY:
        nigh_driver_check(driver, call, result);
        return -ENOMEM;
    case NIGH_CUDA_INVALID_VALUE:
    case NIGH_CUDA_INVALID_HANDLE:
    case NIGH_CUDA_NOT_FOUND:
        return -EPROTO;
    case NIGH_CUDA_PEER_ACCESS_UNSUPPORTED:
    case NIGH_CUDA_TOO_MANY_PEERS:
        *why = NIGH_CUDA_WHY_NO_PEER_ACCESS;
        return -ENOTSUP;
    case NIGH_CUDA_NOT_SUPPORTED:
    case NIGH_CUDA_NOT_PERMITTED:
    case NIGH_CUDA_OPERATING_SYSTEM:
    case NIGH_CUDA_INVALID_CONTEXT:
    case NIGH_CUDA_INVALID_DEVICE:
        *why = NIGH_CUDA_WHY_IMPORT_REFUSED;
        return -ENOTSUP;
    default:
        nigh_driver_check(driver, call, result);
        return -EIO;
    }
}

/* Whatever the driver calls the lack of a way between two devices. */
static int judge_access(const struct nigh_driver *driver, const char *call, int result,
                        enum nigh_cuda_reason *why)
{
    int rc = judge(driver, call, result, why);

    if (rc != -EPROTO && rc != -ENOTSUP)
        return rc;
    *why = NIGH_CUDA_WHY_NO_PEER_ACCESS;
    return -ENOTSUP;
}

static struct nigh_cuda_access access_of(const struct nigh_cuda_mapping *mapping)
{
    return (struct nigh_cuda_access){{NIGH_CUDA_LOCATION_DEVICE, mapping->context->ordinal},
                                     NIGH_CUDA_ACCESS_READ_WRITE};
}

static void *shared(int fd)
{
    return (void *)(intptr_t)fd;
}

/* ---- segments ------------------------------------------------------------------------------------------ */

static void unmap(const struct nigh_driver *driver, const struct nigh_cuda_mapping *mapping,
                  uint32_t segments)
{
    uint64_t at = mapping->at;

    for (uint32_t i = 0; i < segments; i++) {
        nigh_driver_check(driver, "cuMemUnmap", driver->unmap(at, mapping->wire->segment[i].bytes));
        at += mapping->wire->segment[i].bytes;
    }
    nigh_driver_check(driver, "cuMemAddressFree", driver->unreserve(mapping->at, mapping->bytes));
}

static int map_segment(const struct nigh_driver *driver, nigh_cuda_ptr at, uint64_t bytes, int fd,
                       enum nigh_cuda_reason *why)
{
    nigh_cuda_handle handle;
    int rc = judge(driver, "cuMemImportFromShareableHandle",
                   driver->import_handle(&handle, shared(fd), NIGH_CUDA_HANDLE_POSIX_FD), why);

    if (rc)
        return rc;
    rc = judge(driver, "cuMemMap", driver->map(at, bytes, 0, handle, 0), why);
    driver->release(handle); /* the mapping keeps the memory */
    return rc;
}

static int open_segments(struct nigh_cuda_mapping *mapping, const int *fds, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = mapping->context->driver;
    const struct nigh_cuda_wire *wire = mapping->wire;
    struct nigh_cuda_access access = access_of(mapping);
    uint64_t at;
    uint32_t i = 0;
    int rc =
        judge(driver, "cuMemAddressReserve", driver->reserve(&mapping->at, mapping->bytes, 0, 0, 0), why);

    if (rc)
        return rc;
    for (at = mapping->at; i < wire->segments && !rc; at += wire->segment[i++].bytes)
        rc = map_segment(driver, at, wire->segment[i].bytes, fds[i], why);
    if (rc) {
        unmap(driver, mapping, i - 1);
        return rc;
    }
    rc = judge_access(driver, "cuMemSetAccess", driver->set_access(mapping->at, mapping->bytes, &access, 1),
                      why);
    if (rc)
        unmap(driver, mapping, wire->segments);
    return rc;
}

/* ---- one allocation ------------------------------------------------------------------------------------ */

/* A peer may say that its memory is larger than it is. */
static int check_extent(const struct nigh_cuda_mapping *mapping)
{
    nigh_cuda_ptr base;
    size_t bytes;

    if (mapping->context->driver->address_range(&base, &bytes, mapping->at))
        return -EPROTO;
    return base + bytes - mapping->at < mapping->bytes ? -EPROTO : 0;
}

static void close_pool(const struct nigh_driver *driver, const struct nigh_cuda_mapping *mapping)
{
    if (mapping->at)
        nigh_driver_check(driver, "cuMemFree", driver->free(mapping->at));
    nigh_driver_check(driver, "cuMemPoolDestroy", driver->pool_destroy(mapping->pool));
}

/* A pool is imported for each allocation: nothing tells whether a pool at a known address is still the same. */
static int open_pool(struct nigh_cuda_mapping *mapping, const int *fds, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = mapping->context->driver;
    struct nigh_cuda_access access = access_of(mapping);
    struct nigh_cuda_pool_pointer pointer;
    int rc = judge(driver, "cuMemPoolImportFromShareableHandle",
                   driver->pool_import(&mapping->pool, shared(fds[0]), NIGH_CUDA_HANDLE_POSIX_FD, 0), why);

    if (rc)
        return rc;
    memcpy(&pointer, mapping->wire->handle, sizeof(pointer));
    /* Of its own device a pool is accessible from the first. */
    if (nigh_cuda_device_of(mapping->context->cuda, &mapping->wire->uuid) != mapping->context->ordinal)
        rc = judge_access(driver, "cuMemPoolSetAccess", driver->pool_set_access(mapping->pool, &access, 1),
                          why);
    if (!rc)
        rc = judge(driver, "cuMemPoolImportPointer",
                   driver->pool_import_pointer(&mapping->at, mapping->pool, &pointer), why);
    if (!rc)
        rc = check_extent(mapping);
    if (rc)
        close_pool(driver, mapping);
    return rc;
}

static int open_legacy(struct nigh_cuda_mapping *mapping, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = mapping->context->driver;
    struct nigh_cuda_ipc_handle handle;
    int rc;

    memcpy(&handle, mapping->wire->handle, sizeof(handle));
    rc = judge(driver, "cuIpcOpenMemHandle",
               driver->ipc_open(&mapping->at, handle, NIGH_CUDA_IPC_LAZY_PEER_ACCESS), why);
    if (rc)
        return rc;
    rc = check_extent(mapping);
    if (rc)
        nigh_driver_check(driver, "cuIpcCloseMemHandle", driver->ipc_close(mapping->at));
    return rc;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static int open_any(struct nigh_cuda_mapping *mapping, const int *fds, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = mapping->context->driver;

    *why = NIGH_CUDA_WHY_OLD_DRIVER;
    switch (mapping->wire->way) {
    case NIGH_CUDA_VMM:
        return driver->map ? open_segments(mapping, fds, why) : -ENOTSUP;
    case NIGH_CUDA_POOL:
        return driver->pool_import ? open_pool(mapping, fds, why) : -ENOTSUP;
    case NIGH_CUDA_LEGACY:
        return driver->ipc_open ? open_legacy(mapping, why) : -ENOTSUP;
    default:
        return -EPROTO;
    }
}

int nigh_mapping_open(struct nigh_cuda_mapping *mapping, const int *fds, enum nigh_cuda_reason *why)
{
    int mode, left, rc;

    mapping->bytes = nigh_cuda_record_extent(mapping->wire);
    if (mapping->self) {
        mapping->at = mapping->wire->segment[0].base;
        return 0;
    }
    rc = nigh_cuda_enter(mapping->context, &mode);
    if (rc)
        return rc;
    rc = open_any(mapping, fds, why);
    left = nigh_cuda_leave(mapping->context, mode);
    if (!rc && left)
        nigh_mapping_close(mapping);
    return rc ? rc : left;
}

bool nigh_mapping_waits(const struct nigh_cuda_mapping *mapping)
{
    return !mapping->self && mapping->wire->way != NIGH_CUDA_VMM;
}

/* Legacy mappings and pools went with a context that is gone; addresses belong to the process. */
void nigh_mapping_close(struct nigh_cuda_mapping *mapping)
{
    const struct nigh_driver *driver = mapping->context->driver;
    int mode;

    if (mapping->self || nigh_driver_is_forked())
        return;
    if (mapping->wire->way == NIGH_CUDA_VMM) {
        if (nigh_cuda_relax(driver, &mode))
            return;
        unmap(driver, mapping, mapping->wire->segments);
        nigh_cuda_put_back(driver, mode);
        return;
    }
    if (nigh_cuda_context_is_gone(mapping->context) || nigh_cuda_enter(mapping->context, &mode))
        return;
    if (mapping->wire->way == NIGH_CUDA_POOL)
        close_pool(driver, mapping);
    else
        nigh_driver_check(driver, "cuIpcCloseMemHandle", driver->ipc_close(mapping->at));
    nigh_cuda_leave(mapping->context, mode);
}
