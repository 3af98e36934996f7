/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/abi/cuda_test.c - the numbers and structs of cuda_ipc/abi.h are those of the toolkit's cuda.h; compiling it is the
 * test. Without a cuda.h it is skipped, and configure says so. */
#include "cuda_ipc/driver.h"

#include <stdio.h>

#ifdef NIGH_HAVE_CUDA_H
#include NIGH_CUDA_H

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define PLACE(ours, member, theirs, its)                                                \
    _Static_assert(offsetof(ours, member) == offsetof(theirs, its), #ours "." #member); \
    _Static_assert(sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->its), #ours "." #member " size")

SAME(NIGH_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(NIGH_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(NIGH_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(NIGH_CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(NIGH_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(NIGH_CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(NIGH_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(NIGH_CUDA_ALREADY_MAPPED, CUDA_ERROR_ALREADY_MAPPED);
SAME(NIGH_CUDA_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME(NIGH_CUDA_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME(NIGH_CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(NIGH_CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(NIGH_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(NIGH_CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(NIGH_CUDA_TOO_MANY_PEERS, CUDA_ERROR_TOO_MANY_PEERS);
SAME(NIGH_CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(NIGH_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(NIGH_CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(NIGH_CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);

SAME(NIGH_CUDA_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(NIGH_CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(NIGH_CUDA_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(NIGH_CUDA_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(NIGH_CUDA_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(NIGH_CUDA_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(NIGH_CUDA_POINTER_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(NIGH_CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(NIGH_CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);

SAME(NIGH_CUDA_DEVICE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(NIGH_CUDA_DEVICE_VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(NIGH_CUDA_DEVICE_POSIX_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(NIGH_CUDA_DEVICE_POOL_HANDLE_TYPES, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
#if CUDA_VERSION >= 12020
SAME(NIGH_CUDA_DEVICE_IPC_EVENTS, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
SAME(NIGH_CUDA_LOCATION_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(NIGH_CUDA_LOCATION_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(NIGH_CUDA_LOCATION_HOST_NUMA_CURRENT, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
#endif
#if CUDA_VERSION >= 12010
SAME(NIGH_CUDA_CTX_SYNC_MEMOPS, CU_CTX_SYNC_MEMOPS);
#endif
#if CUDA_VERSION >= 12050
SAME(NIGH_CUDA_DEVICE_MPS, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
#endif

#if CUDA_VERSION >= 13030
SAME(NIGH_CUDA_DEVICE_DMA_BUF_MMAP, CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED);
#endif

SAME(NIGH_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(NIGH_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(NIGH_CUDA_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(NIGH_CUDA_PIN_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(NIGH_CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(NIGH_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(NIGH_CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(NIGH_CUDA_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(NIGH_CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(NIGH_CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(NIGH_CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

#if CUDA_VERSION >= 11070
SAME(NIGH_CUDA_RANGE_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
#endif

SIZE(nigh_cuda_ptr, CUdeviceptr);
SIZE(nigh_cuda_handle, CUmemGenericAllocationHandle);
SIZE(void *, CUcontext);
SIZE(void *, CUstream);
SIZE(void *, CUevent);
SIZE(void *, CUmemoryPool);
SIZE(int, CUdevice);
SIZE(int, CUresult);
SIZE(int, CUpointer_attribute);
SIZE(int, CUmemAllocationHandleType);
SIZE(int, CUstreamCaptureMode);
SIZE(struct nigh_cuda_uuid, CUuuid);
SIZE(struct nigh_cuda_ipc_handle, CUipcMemHandle);
SIZE(struct nigh_cuda_pool_pointer, CUmemPoolPtrExportData);
SIZE(struct nigh_cuda_location, CUmemLocation);
PLACE(struct nigh_cuda_location, type, CUmemLocation, type);
PLACE(struct nigh_cuda_location, id, CUmemLocation, id);
SIZE(struct nigh_cuda_access, CUmemAccessDesc);
PLACE(struct nigh_cuda_access, location, CUmemAccessDesc, location);
PLACE(struct nigh_cuda_access, flags, CUmemAccessDesc, flags);
SIZE(struct nigh_cuda_properties, CUmemAllocationProp);
PLACE(struct nigh_cuda_properties, type, CUmemAllocationProp, type);
PLACE(struct nigh_cuda_properties, handle_types, CUmemAllocationProp, requestedHandleTypes);
PLACE(struct nigh_cuda_properties, location, CUmemAllocationProp, location);
PLACE(struct nigh_cuda_properties, meta, CUmemAllocationProp, win32HandleMetaData);
PLACE(struct nigh_cuda_properties, compression, CUmemAllocationProp, allocFlags.compressionType);
PLACE(struct nigh_cuda_properties, rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
PLACE(struct nigh_cuda_properties, usage, CUmemAllocationProp, allocFlags.usage);
PLACE(struct nigh_cuda_properties, reserved, CUmemAllocationProp, allocFlags.reserved);
SIZE(struct nigh_cuda_plane, CUDA_MEMCPY2D);
PLACE(struct nigh_cuda_plane, from_x, CUDA_MEMCPY2D, srcXInBytes);
PLACE(struct nigh_cuda_plane, from_y, CUDA_MEMCPY2D, srcY);
PLACE(struct nigh_cuda_plane, from_type, CUDA_MEMCPY2D, srcMemoryType);
PLACE(struct nigh_cuda_plane, from_host, CUDA_MEMCPY2D, srcHost);
PLACE(struct nigh_cuda_plane, from_device, CUDA_MEMCPY2D, srcDevice);
PLACE(struct nigh_cuda_plane, from_array, CUDA_MEMCPY2D, srcArray);
PLACE(struct nigh_cuda_plane, from_pitch, CUDA_MEMCPY2D, srcPitch);
PLACE(struct nigh_cuda_plane, to_x, CUDA_MEMCPY2D, dstXInBytes);
PLACE(struct nigh_cuda_plane, to_y, CUDA_MEMCPY2D, dstY);
PLACE(struct nigh_cuda_plane, to_type, CUDA_MEMCPY2D, dstMemoryType);
PLACE(struct nigh_cuda_plane, to_host, CUDA_MEMCPY2D, dstHost);
PLACE(struct nigh_cuda_plane, to_device, CUDA_MEMCPY2D, dstDevice);
PLACE(struct nigh_cuda_plane, to_array, CUDA_MEMCPY2D, dstArray);
PLACE(struct nigh_cuda_plane, to_pitch, CUDA_MEMCPY2D, dstPitch);
PLACE(struct nigh_cuda_plane, width, CUDA_MEMCPY2D, WidthInBytes);
PLACE(struct nigh_cuda_plane, height, CUDA_MEMCPY2D, Height);

int main(void)
{
    printf("1..1\nok 1 - cuda_ipc/abi.h agrees with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
    return 0;
}
#else
int main(void)
{
    printf("skipped: configure found no cuda.h to compare cuda_ipc/abi.h with (--with-cuda=DIR)\n");
    return 77;
}
#endif
