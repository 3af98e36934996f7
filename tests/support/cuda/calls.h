/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/calls.h - the calls of the CUDA driver, by their explicit names, that the fake driver offers: X(name,
 * parameters, arguments). tests/gpu/real_cuda.c passes the calls of CUDA_CALLS_PASSED on as they are. */
#ifndef NIGH_TESTS_CUDA_CALLS_LIST_H
#define NIGH_TESTS_CUDA_CALLS_LIST_H

#include "tests/support/cuda/types.h"

#define CUDA_EXPORT __attribute__((visibility("default")))

/* Calls of which the layer over the real driver keeps an account, or changes what they say. */
#define CUDA_CALLS_KEPT(X)                                                                        \
    X(cuInit, (unsigned flags), (flags))                                                          \
    X(cuDeviceGetCount, (int *count), (count))                                                    \
    X(cuGetErrorName, (int error, const char **name), (error, name))                              \
    X(cuDevicePrimaryCtxRetain, (void **context, int device), (context, device))                  \
    X(cuDevicePrimaryCtxRelease_v2, (int device), (device))                                       \
    X(cuCtxPushCurrent_v2, (void *context), (context))                                            \
    X(cuCtxPopCurrent_v2, (void **context), (context))                                            \
    X(cuThreadExchangeStreamCaptureMode, (int *mode), (mode))                                     \
    X(cuStreamCreate, (void **stream, unsigned flags), (stream, flags))                           \
    X(cuStreamDestroy_v2, (void *stream), (stream))                                               \
    X(cuStreamSynchronize, (void *stream), (stream))                                              \
    X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags)) \
    X(cuMemHostUnregister, (void *memory), (memory))

#define CUDA_CALLS_OF_CONTEXTS(X)                                                                      \
    X(cuCtxCreate_v2, (void **context, unsigned flags, int device), (context, flags, device))          \
    X(cuCtxDestroy_v2, (void *context), (context))                                                     \
    X(cuCtxSetCurrent, (void *context), (context))                                                     \
    X(cuCtxGetCurrent, (void **context), (context))                                                    \
    X(cuCtxGetDevice, (int *device), (device))                                                         \
    X(cuCtxGetFlags, (unsigned *flags), (flags))                                                       \
    X(cuCtxSetFlags, (unsigned flags), (flags))                                                        \
    X(cuCtxGetId, (void *context, unsigned long long *id), (context, id))                              \
    X(cuCtxGetApiVersion, (void *context, unsigned *version), (context, version))                      \
    X(cuCtxSynchronize, (void), ())                                                                    \
    X(cuCtxEnablePeerAccess, (void *peer, unsigned flags), (peer, flags))                              \
    X(cuCtxDisablePeerAccess, (void *peer), (peer))                                                    \
    X(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active), (device, flags, active)) \
    X(cuDevicePrimaryCtxSetFlags_v2, (int device, unsigned flags), (device, flags))

#define CUDA_CALLS_OF_DEVICES(X)                                                                 \
    X(cuDriverGetVersion, (int *version), (version))                                             \
    X(cuGetErrorString, (int error, const char **text), (error, text))                           \
    X(cuDeviceGet, (int *device, int ordinal), (device, ordinal))                                \
    X(cuDeviceGetName, (char *name, int bytes, int device), (name, bytes, device))               \
    X(cuDeviceGetUuid, (struct cu_uuid * uuid, int device), (uuid, device))                      \
    X(cuDeviceGetUuid_v2, (struct cu_uuid * uuid, int device), (uuid, device))                   \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device), (value, attribute, device)) \
    X(cuDeviceTotalMem_v2, (size_t * bytes, int device), (bytes, device))                        \
    X(cuDeviceGetPCIBusId, (char *name, int bytes, int device), (name, bytes, device))           \
    X(cuDeviceGetByPCIBusId, (int *device, const char *name), (device, name))                    \
    X(cuDeviceCanAccessPeer, (int *can, int device, int peer), (can, device, peer))              \
    X(cuDeviceGetP2PAttribute, (int *value, int attribute, int device, int peer),                \
      (value, attribute, device, peer))                                                          \
    X(cuDeviceGetDefaultMemPool, (void **pool, int device), (pool, device))                      \
    X(cuDeviceGetMemPool, (void **pool, int device), (pool, device))                             \
    X(cuDeviceSetMemPool, (int device, void *pool), (device, pool))

#define CUDA_CALLS_OF_STREAMS(X)                                                                            \
    X(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority), (stream, flags, priority)) \
    X(cuStreamQuery, (void *stream), (stream))                                                              \
    X(cuStreamIsCapturing, (void *stream, int *status), (stream, status))                                   \
    X(cuStreamGetCtx, (void *stream, void **context), (stream, context))                                    \
    X(cuStreamGetFlags, (void *stream, unsigned *flags), (stream, flags))                                   \
    X(cuStreamGetId, (void *stream, unsigned long long *id), (stream, id))                                  \
    X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags))               \
    X(cuLaunchHostFunc, (void *stream, void (*function)(void *), void *argument),                           \
      (stream, function, argument))                                                                         \
    X(cuStreamWriteValue32_v2, (void *stream, cu_address at, unsigned value, unsigned flags),               \
      (stream, at, value, flags))                                                                           \
    X(cuStreamWriteValue64_v2, (void *stream, cu_address at, unsigned long long value, unsigned flags),     \
      (stream, at, value, flags))                                                                           \
    X(cuStreamWaitValue32_v2, (void *stream, cu_address at, unsigned value, unsigned flags),                \
      (stream, at, value, flags))                                                                           \
    X(cuStreamWaitValue64_v2, (void *stream, cu_address at, unsigned long long value, unsigned flags),      \
      (stream, at, value, flags))                                                                           \
    X(cuEventCreate, (void **event, unsigned flags), (event, flags))                                        \
    X(cuEventDestroy_v2, (void *event), (event))                                                            \
    X(cuEventRecord, (void *event, void *stream), (event, stream))                                          \
    X(cuEventQuery, (void *event), (event))                                                                 \
    X(cuEventSynchronize, (void *event), (event))                                                           \
    X(cuEventElapsedTime, (float *ms, void *start, void *end), (ms, start, end))                            \
    X(cuIpcGetEventHandle, (struct cu_ipc * handle, void *event), (handle, event))                          \
    X(cuIpcOpenEventHandle, (void **event, struct cu_ipc handle), (event, handle))

#define CUDA_CALLS_OF_MEMORY(X)                                                                             \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total), (free, total))                                      \
    X(cuMemAlloc_v2, (cu_address * at, size_t bytes), (at, bytes))                                          \
    X(cuMemAllocPitch_v2, (cu_address * at, size_t * pitch, size_t width, size_t height, unsigned element), \
      (at, pitch, width, height, element))                                                                  \
    X(cuMemFree_v2, (cu_address at), (at))                                                                  \
    X(cuMemAllocHost_v2, (void **at, size_t bytes), (at, bytes))                                            \
    X(cuMemHostAlloc, (void **at, size_t bytes, unsigned flags), (at, bytes, flags))                        \
    X(cuMemFreeHost, (void *at), (at))                                                                      \
    X(cuMemHostGetDevicePointer_v2, (cu_address * at, void *host, unsigned flags), (at, host, flags))       \
    X(cuMemAllocManaged, (cu_address * at, size_t bytes, unsigned flags), (at, bytes, flags))               \
    X(cuMemGetAddressRange_v2, (cu_address * base, size_t * bytes, cu_address at), (base, bytes, at))       \
    X(cuPointerGetAttribute, (void *value, int attribute, cu_address at), (value, attribute, at))           \
    X(cuPointerGetAttributes, (unsigned count, int *attributes, void **values, cu_address at),              \
      (count, attributes, values, at))                                                                      \
    X(cuPointerSetAttribute, (const void *value, int attribute, cu_address at), (value, attribute, at))     \
    X(cuIpcGetMemHandle, (struct cu_ipc * handle, cu_address at), (handle, at))                             \
    X(cuIpcOpenMemHandle_v2, (cu_address * at, struct cu_ipc handle, unsigned flags), (at, handle, flags))  \
    X(cuIpcCloseMemHandle, (cu_address at), (at))

#define CUDA_CALLS_OF_VIRTUAL_MEMORY(X)                                                                    \
    X(cuMemAddressReserve,                                                                                 \
      (cu_address * at, size_t bytes, size_t alignment, cu_address wish, unsigned long long flags),        \
      (at, bytes, alignment, wish, flags))                                                                 \
    X(cuMemAddressFree, (cu_address at, size_t bytes), (at, bytes))                                        \
    X(cuMemCreate,                                                                                         \
      (unsigned long long *handle, size_t bytes, const struct cu_allocation *properties,                   \
       unsigned long long flags),                                                                          \
      (handle, bytes, properties, flags))                                                                  \
    X(cuMemRelease, (unsigned long long handle), (handle))                                                 \
    X(cuMemMap,                                                                                            \
      (cu_address at, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags),   \
      (at, bytes, offset, handle, flags))                                                                  \
    X(cuMemUnmap, (cu_address at, size_t bytes), (at, bytes))                                              \
    X(cuMemSetAccess, (cu_address at, size_t bytes, const struct cu_access *access, size_t count),         \
      (at, bytes, access, count))                                                                          \
    X(cuMemGetAccess, (unsigned long long *flags, const struct cu_location *location, cu_address at),      \
      (flags, location, at))                                                                               \
    X(cuMemExportToShareableHandle,                                                                        \
      (void *out, unsigned long long handle, int type, unsigned long long flags),                          \
      (out, handle, type, flags))                                                                          \
    X(cuMemImportFromShareableHandle, (unsigned long long *handle, void *from, int type),                  \
      (handle, from, type))                                                                                \
    X(cuMemGetAllocationGranularity, (size_t * bytes, const struct cu_allocation *properties, int option), \
      (bytes, properties, option))                                                                         \
    X(cuMemGetAllocationPropertiesFromHandle,                                                              \
      (struct cu_allocation * properties, unsigned long long handle), (properties, handle))                \
    X(cuMemRetainAllocationHandle, (unsigned long long *handle, void *at), (handle, at))                   \
    X(cuMemGetHandleForAddressRange,                                                                       \
      (void *out, cu_address at, size_t bytes, int type, unsigned long long flags),                        \
      (out, at, bytes, type, flags))

#define CUDA_CALLS_OF_POOLS(X)                                                                               \
    X(cuMemAllocAsync, (cu_address * at, size_t bytes, void *stream), (at, bytes, stream))                   \
    X(cuMemAllocFromPoolAsync, (cu_address * at, size_t bytes, void *pool, void *stream),                    \
      (at, bytes, pool, stream))                                                                             \
    X(cuMemFreeAsync, (cu_address at, void *stream), (at, stream))                                           \
    X(cuMemPoolCreate, (void **pool, const struct cu_pool_properties *properties), (pool, properties))       \
    X(cuMemPoolDestroy, (void *pool), (pool))                                                                \
    X(cuMemPoolTrimTo, (void *pool, size_t bytes), (pool, bytes))                                            \
    X(cuMemPoolGetAttribute, (void *pool, int attribute, void *value), (pool, attribute, value))             \
    X(cuMemPoolSetAttribute, (void *pool, int attribute, void *value), (pool, attribute, value))             \
    X(cuMemPoolGetAccess, (int *flags, void *pool, struct cu_location *location), (flags, pool, location))   \
    X(cuMemPoolSetAccess, (void *pool, const struct cu_access *access, size_t count), (pool, access, count)) \
    X(cuMemPoolExportToShareableHandle, (void *out, void *pool, int type, unsigned long long flags),         \
      (out, pool, type, flags))                                                                              \
    X(cuMemPoolImportFromShareableHandle, (void **pool, void *from, int type, unsigned long long flags),     \
      (pool, from, type, flags))                                                                             \
    X(cuMemPoolExportPointer, (struct cu_pool_pointer * out, cu_address at), (out, at))                      \
    X(cuMemPoolImportPointer, (cu_address * at, void *pool, struct cu_pool_pointer *from), (at, pool, from))

#define CUDA_CALLS_OF_COPIES(X)                                                                           \
    X(cuMemcpy, (cu_address to, cu_address from, size_t bytes), (to, from, bytes))                        \
    X(cuMemcpyHtoD_v2, (cu_address to, const void *from, size_t bytes), (to, from, bytes))                \
    X(cuMemcpyDtoH_v2, (void *to, cu_address from, size_t bytes), (to, from, bytes))                      \
    X(cuMemcpyDtoD_v2, (cu_address to, cu_address from, size_t bytes), (to, from, bytes))                 \
    X(cuMemcpyAsync, (cu_address to, cu_address from, size_t bytes, void *stream),                        \
      (to, from, bytes, stream))                                                                          \
    X(cuMemcpyHtoDAsync_v2, (cu_address to, const void *from, size_t bytes, void *stream),                \
      (to, from, bytes, stream))                                                                          \
    X(cuMemcpyDtoHAsync_v2, (void *to, cu_address from, size_t bytes, void *stream),                      \
      (to, from, bytes, stream))                                                                          \
    X(cuMemcpyDtoDAsync_v2, (cu_address to, cu_address from, size_t bytes, void *stream),                 \
      (to, from, bytes, stream))                                                                          \
    X(cuMemcpyPeerAsync,                                                                                  \
      (cu_address to, void *to_context, cu_address from, void *from_context, size_t bytes, void *stream), \
      (to, to_context, from, from_context, bytes, stream))                                                \
    X(cuMemcpy2D_v2, (const struct cu_plane *plane), (plane))                                             \
    X(cuMemcpy2DUnaligned_v2, (const struct cu_plane *plane), (plane))                                    \
    X(cuMemcpy2DAsync_v2, (const struct cu_plane *plane, void *stream), (plane, stream))                  \
    X(cuMemsetD8_v2, (cu_address to, unsigned char value, size_t count), (to, value, count))              \
    X(cuMemsetD32_v2, (cu_address to, unsigned value, size_t count), (to, value, count))                  \
    X(cuMemsetD8Async, (cu_address to, unsigned char value, size_t count, void *stream),                  \
      (to, value, count, stream))                                                                         \
    X(cuMemsetD32Async, (cu_address to, unsigned value, size_t count, void *stream),                      \
      (to, value, count, stream))

/* What the layer over the real driver does for tests. The fake knows one kernel: it waits until its word is not zero. */
#define CUDA_CALLS_OF_TESTS(X)                                                                          \
    X(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))                                \
    X(cuStreamEndCapture, (void *stream, void **graph), (stream, graph))                                \
    X(cuGraphDestroy, (void *graph), (graph))                                                           \
    X(cuModuleLoadData, (void **module, const void *image), (module, image))                            \
    X(cuModuleUnload, (void *module), (module))                                                         \
    X(cuModuleGetFunction, (void **function, void *module, const char *name), (function, module, name)) \
    X(cuLaunchKernel,                                                                                   \
      (void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,       \
       unsigned shared, void *stream, void **arguments, void **extra),                                  \
      (function, x, y, z, bx, by, bz, shared, stream, arguments, extra))

/* Calls that older drivers lack. */
#define CUDA_CALLS_NEWER(X)                                                                    \
    X(cuGetProcAddress_v2,                                                                     \
      (const char *name, void **function, int version, unsigned long long flags, int *status), \
      (name, function, version, flags, status))                                                \
    X(cuMemcpyBatchAsync,                                                                      \
      (cu_address * to, cu_address * from, size_t * bytes, size_t count,                       \
       struct cu_copy_attributes * attributes, size_t * firsts, size_t kinds, size_t * failed, \
       void *stream),                                                                          \
      (to, from, bytes, count, attributes, firsts, kinds, failed, stream))                     \
    X(cuMemcpyBatchAsync_v2,                                                                   \
      (cu_address * to, cu_address * from, size_t * bytes, size_t count,                       \
       struct cu_copy_attributes * attributes, size_t * firsts, size_t kinds, void *stream),   \
      (to, from, bytes, count, attributes, firsts, kinds, stream))

#define CUDA_CALLS_PASSED(X)        \
    CUDA_CALLS_OF_CONTEXTS(X)       \
    CUDA_CALLS_OF_DEVICES(X)        \
    CUDA_CALLS_OF_STREAMS(X)        \
    CUDA_CALLS_OF_MEMORY(X)         \
    CUDA_CALLS_OF_VIRTUAL_MEMORY(X) \
    CUDA_CALLS_OF_POOLS(X)          \
    CUDA_CALLS_OF_COPIES(X)         \
    CUDA_CALLS_OF_TESTS(X)

#define CUDA_CALLS(X) CUDA_CALLS_KEPT(X) CUDA_CALLS_PASSED(X) CUDA_CALLS_NEWER(X)

#define CUDA_DECLARED(name, parameters, arguments) CUDA_EXPORT int name parameters;
CUDA_CALLS(CUDA_DECLARED)
#undef CUDA_DECLARED

#endif
