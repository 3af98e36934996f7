/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/driver.h - the CUDA driver's calls as one table, taken from libcuda.so.1 when device memory is first used.
 * No CUDA symbol is linked. Calls that older drivers lack form groups: a group is whole, or all its slots are NULL.
 */
#ifndef NIGH_CUDA_IPC_DRIVER_H
#define NIGH_CUDA_IPC_DRIVER_H

#include "cuda_ipc/abi.h"

#include <stdbool.h>

/* CALL(slot, symbol, parameters). Every call returns a CUresult, 0 for success. */
#define NIGH_DRIVER_CORE(CALL)                                                                              \
    CALL(init, cuInit, (unsigned flags))                                                                    \
    CALL(version, cuDriverGetVersion, (int *version))                                                       \
    CALL(error_name, cuGetErrorName, (int error, const char **name))                                        \
    CALL(device_count, cuDeviceGetCount, (int *count))                                                      \
    CALL(device_get, cuDeviceGet, (int *device, int ordinal))                                               \
    CALL(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                   \
    CALL(can_access_peer, cuDeviceCanAccessPeer, (int *can, int device, int peer))                          \
    CALL(pointer_attributes, cuPointerGetAttributes,                                                        \
         (unsigned count, int *attributes, void **values, nigh_cuda_ptr pointer))                           \
    CALL(pointer_attribute, cuPointerGetAttribute, (void *value, int attribute, nigh_cuda_ptr pointer))     \
    CALL(pointer_set, cuPointerSetAttribute, (const void *value, int attribute, nigh_cuda_ptr pointer))     \
    CALL(address_range, cuMemGetAddressRange_v2,                                                            \
         (nigh_cuda_ptr * base, size_t * bytes, nigh_cuda_ptr pointer))                                     \
    CALL(primary_retain, cuDevicePrimaryCtxRetain, (void **context, int device))                            \
    CALL(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                       \
    CALL(push, cuCtxPushCurrent_v2, (void *context))                                                        \
    CALL(pop, cuCtxPopCurrent_v2, (void **context))                                                         \
    CALL(current, cuCtxGetCurrent, (void **context))                                                        \
    CALL(current_device, cuCtxGetDevice, (int *device))                                                     \
    CALL(get_flags, cuCtxGetFlags, (unsigned *flags))                                                       \
    CALL(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                             \
    CALL(is_capturing, cuStreamIsCapturing, (void *stream, int *status))                                    \
    CALL(stream_create, cuStreamCreate, (void **stream, unsigned flags))                                    \
    CALL(stream_destroy, cuStreamDestroy_v2, (void *stream))                                                \
    CALL(stream_query, cuStreamQuery, (void *stream))                                                       \
    CALL(event_create, cuEventCreate, (void **event, unsigned flags))                                       \
    CALL(event_destroy, cuEventDestroy_v2, (void *event))                                                   \
    CALL(event_record, cuEventRecord, (void *event, void *stream))                                          \
    CALL(event_query, cuEventQuery, (void *event))                                                          \
    CALL(to_host, cuMemcpyDtoHAsync_v2, (void *to, nigh_cuda_ptr from, size_t bytes, void *stream))         \
    CALL(to_device, cuMemcpyHtoDAsync_v2, (nigh_cuda_ptr to, const void *from, size_t bytes, void *stream)) \
    CALL(on_device, cuMemcpyDtoDAsync_v2,                                                                   \
         (nigh_cuda_ptr to, nigh_cuda_ptr from, size_t bytes, void *stream))                                \
    CALL(plane_copy, cuMemcpy2DAsync_v2, (const struct nigh_cuda_plane *plane, void *stream))               \
    CALL(pin, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                           \
    CALL(unpin, cuMemHostUnregister, (void *memory))

/* CUDA 12: a context that was destroyed is told apart from one made in its place. */
#define NIGH_DRIVER_CONTEXT_ID(CALL) CALL(context_id, cuCtxGetId, (void *context, unsigned long long *id))

/* CUDA 12.1: a context finishes copies from pageable memory before they return. */
#define NIGH_DRIVER_CONTEXT_FLAGS(CALL) CALL(set_flags, cuCtxSetFlags, (unsigned flags))

/* One of these two is needed. */
#define NIGH_DRIVER_UUID(CALL) CALL(device_uuid, cuDeviceGetUuid, (struct nigh_cuda_uuid * uuid, int device))

/* CUDA 11.4: the UUID of a MIG instance is its own. */
#define NIGH_DRIVER_MIG_UUID(CALL) \
    CALL(instance_uuid, cuDeviceGetUuid_v2, (struct nigh_cuda_uuid * uuid, int device))

#define NIGH_DRIVER_VMM(CALL)                                                                                \
    CALL(granularity, cuMemGetAllocationGranularity,                                                         \
         (size_t * bytes, const struct nigh_cuda_properties *properties, int option))                        \
    CALL(retain, cuMemRetainAllocationHandle, (nigh_cuda_handle * handle, void *address))                    \
    CALL(release, cuMemRelease, (nigh_cuda_handle handle))                                                   \
    CALL(properties, cuMemGetAllocationPropertiesFromHandle,                                                 \
         (struct nigh_cuda_properties * properties, nigh_cuda_handle handle))                                \
    CALL(export_handle, cuMemExportToShareableHandle,                                                        \
         (void *shareable, nigh_cuda_handle handle, int type, unsigned long long flags))                     \
    CALL(import_handle, cuMemImportFromShareableHandle, (nigh_cuda_handle * handle, void *shared, int type)) \
    CALL(reserve, cuMemAddressReserve,                                                                       \
         (nigh_cuda_ptr * at, size_t bytes, size_t alignment, nigh_cuda_ptr wish, unsigned long long flags)) \
    CALL(unreserve, cuMemAddressFree, (nigh_cuda_ptr at, size_t bytes))                                      \
    CALL(map, cuMemMap,                                                                                      \
         (nigh_cuda_ptr at, size_t bytes, size_t offset, nigh_cuda_handle handle, unsigned long long flags)) \
    CALL(unmap, cuMemUnmap, (nigh_cuda_ptr at, size_t bytes))                                                \
    CALL(set_access, cuMemSetAccess,                                                                         \
         (nigh_cuda_ptr at, size_t bytes, const struct nigh_cuda_access *access, size_t count))

#define NIGH_DRIVER_POOLS(CALL)                                                    \
    CALL(pool_export, cuMemPoolExportToShareableHandle,                            \
         (void *shareable, void *pool, int type, unsigned long long flags))        \
    CALL(pool_import, cuMemPoolImportFromShareableHandle,                          \
         (void **pool, void *shared, int type, unsigned long long flags))          \
    CALL(pool_export_pointer, cuMemPoolExportPointer,                              \
         (struct nigh_cuda_pool_pointer * out, nigh_cuda_ptr pointer))             \
    CALL(pool_import_pointer, cuMemPoolImportPointer,                              \
         (nigh_cuda_ptr * at, void *pool, struct nigh_cuda_pool_pointer *pointer)) \
    CALL(pool_set_access, cuMemPoolSetAccess,                                      \
         (void *pool, const struct nigh_cuda_access *access, size_t count))        \
    CALL(pool_destroy, cuMemPoolDestroy, (void *pool))                             \
    CALL(free, cuMemFree_v2, (nigh_cuda_ptr at))

#define NIGH_DRIVER_LEGACY(CALL)                                                                 \
    CALL(ipc_get, cuIpcGetMemHandle, (struct nigh_cuda_ipc_handle * handle, nigh_cuda_ptr base)) \
    CALL(ipc_open, cuIpcOpenMemHandle_v2,                                                        \
         (nigh_cuda_ptr * at, struct nigh_cuda_ipc_handle handle, unsigned flags))               \
    CALL(ipc_close, cuIpcCloseMemHandle, (nigh_cuda_ptr at))

/* What reports call a device. */
#define NIGH_DRIVER_NAMES(CALL)                                               \
    CALL(device_name, cuDeviceGetName, (char *name, int bytes, int device))   \
    CALL(device_bus, cuDeviceGetPCIBusId, (char *bus, int bytes, int device)) \
    CALL(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))

/* CUDA 11.7: a dma-buf of a range. */
#define NIGH_DRIVER_RANGES(CALL)                      \
    CALL(range_handle, cuMemGetHandleForAddressRange, \
         (void *handle, nigh_cuda_ptr at, size_t bytes, int type, unsigned long long flags))

/* GROUP(NAME, list, the CUDA version that brought it) */
#define NIGH_DRIVER_ALL(GROUP)                                   \
    GROUP(NEEDED, NIGH_DRIVER_CORE, "CUDA 11")                   \
    GROUP(CONTEXT_ID, NIGH_DRIVER_CONTEXT_ID, "CUDA 12")         \
    GROUP(CONTEXT_FLAGS, NIGH_DRIVER_CONTEXT_FLAGS, "CUDA 12.1") \
    GROUP(UUID, NIGH_DRIVER_UUID, "CUDA 11")                     \
    GROUP(MIG_UUID, NIGH_DRIVER_MIG_UUID, "CUDA 11.4")           \
    GROUP(VMM, NIGH_DRIVER_VMM, "CUDA 11")                       \
    GROUP(POOLS, NIGH_DRIVER_POOLS, "CUDA 11.2")                 \
    GROUP(LEGACY, NIGH_DRIVER_LEGACY, "CUDA 11")                 \
    GROUP(NAMES, NIGH_DRIVER_NAMES, "CUDA 11")                   \
    GROUP(RANGES, NIGH_DRIVER_RANGES, "CUDA 11.7")

enum nigh_driver_group {
#define NIGH_DRIVER_NAME(name, list, since) NIGH_DRIVER_HAS_##name,
    NIGH_DRIVER_ALL(NIGH_DRIVER_NAME)
#undef NIGH_DRIVER_NAME
        NIGH_DRIVER_GROUPS
};

struct nigh_driver {
#define NIGH_DRIVER_SLOT(slot, symbol, parameters) int(*slot) parameters;
#define NIGH_DRIVER_LIST(name, list, since)        list(NIGH_DRIVER_SLOT)
    NIGH_DRIVER_ALL(NIGH_DRIVER_LIST)
#undef NIGH_DRIVER_LIST
#undef NIGH_DRIVER_SLOT
    int devices, cuda_version; /* how many; 1000 * major + 10 * minor */
    const char
        *missing[NIGH_DRIVER_GROUPS]; /* NULL: the group is whole; else a sentence that says what lacks */
    char missing_text[NIGH_DRIVER_GROUPS][96];
};

/* The table, once the driver has started; it stays for ever. NULL: *why says what is missing, and the next call looks
 * again. Any thread; opens a library and starts the driver, so never while nigh loads or where no device is used. */
const struct nigh_driver *nigh_driver_open(const char **why);

/* True where the driver was started last and sees no device: so there is no device memory. */
bool nigh_driver_is_empty(void);

/* True in a child that was forked after the driver had started: nothing of CUDA may be called there. */
bool nigh_driver_is_forked(void);

/* A negative errno for a CUresult: -ENOMEM, -EAGAIN (not ready), -ENOTSUP, -ENODEV, -EINVAL, else -EIO. 0 for 0. */
int nigh_driver_errno(int result);
const char *nigh_driver_error_name(const struct nigh_driver *driver, int result);

/* nigh_driver_errno(), after a line that `call` has failed. */
int nigh_driver_check(const struct nigh_driver *driver, const char *call, int result);

#endif
