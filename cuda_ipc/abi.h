/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/abi.h - the numbers and structs of the CUDA driver's binary interface that nigh uses, declared here so that no
 * build needs the toolkit. tests/abi/cuda_test.c compares each with cuda.h where configure finds one.
 */
#ifndef NIGH_CUDA_IPC_ABI_H
#define NIGH_CUDA_IPC_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long nigh_cuda_ptr;    /* CUdeviceptr */
typedef unsigned long long nigh_cuda_handle; /* CUmemGenericAllocationHandle */

/* CUresult */
enum {
    NIGH_CUDA_INVALID_VALUE = 1,
    NIGH_CUDA_OUT_OF_MEMORY = 2,
    NIGH_CUDA_NOT_INITIALIZED = 3,
    NIGH_CUDA_DEINITIALIZED = 4,
    NIGH_CUDA_NO_DEVICE = 100,
    NIGH_CUDA_INVALID_DEVICE = 101,
    NIGH_CUDA_INVALID_CONTEXT = 201,
    NIGH_CUDA_ALREADY_MAPPED = 208,
    NIGH_CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    NIGH_CUDA_OPERATING_SYSTEM = 304,
    NIGH_CUDA_INVALID_HANDLE = 400,
    NIGH_CUDA_NOT_FOUND = 500,
    NIGH_CUDA_NOT_READY = 600,
    NIGH_CUDA_CONTEXT_IS_DESTROYED = 709,
    NIGH_CUDA_TOO_MANY_PEERS = 711,
    NIGH_CUDA_NOT_PERMITTED = 800,
    NIGH_CUDA_NOT_SUPPORTED = 801,
    NIGH_CUDA_CAPTURE_UNSUPPORTED = 900,
    NIGH_CUDA_CAPTURE_IMPLICIT = 906,
};

/* CUpointer_attribute */
enum {
    NIGH_CUDA_POINTER_CONTEXT = 1,
    NIGH_CUDA_POINTER_MEMORY_TYPE = 2,
    NIGH_CUDA_POINTER_SYNC_MEMOPS = 6,
    NIGH_CUDA_POINTER_BUFFER_ID = 7,
    NIGH_CUDA_POINTER_IS_MANAGED = 8,
    NIGH_CUDA_POINTER_DEVICE_ORDINAL = 9,
    NIGH_CUDA_POINTER_MEMPOOL_HANDLE = 17,
};

/* CUmemorytype */
enum { NIGH_CUDA_MEMORY_HOST = 1, NIGH_CUDA_MEMORY_DEVICE = 2 };

/* CUdevice_attribute */
enum {
    NIGH_CUDA_DEVICE_UNIFIED_ADDRESSING = 41,
    NIGH_CUDA_DEVICE_VIRTUAL_MEMORY = 102,
    NIGH_CUDA_DEVICE_POSIX_FD = 103,
    NIGH_CUDA_DEVICE_POOL_HANDLE_TYPES = 119,
    NIGH_CUDA_DEVICE_IPC_EVENTS = 125,
    NIGH_CUDA_DEVICE_MPS = 133,
    NIGH_CUDA_DEVICE_DMA_BUF_MMAP = 152,
};

/* Flags of contexts, streams, events, managed and pinned memory and legacy handles; capture modes */
enum {
    NIGH_CUDA_CTX_SYNC_MEMOPS = 0x80,
    NIGH_CUDA_STREAM_NON_BLOCKING = 1,
    NIGH_CUDA_EVENT_DISABLE_TIMING = 2,
    NIGH_CUDA_ATTACH_GLOBAL = 1,
    NIGH_CUDA_PIN_PORTABLE = 1,
    NIGH_CUDA_IPC_LAZY_PEER_ACCESS = 1,
    NIGH_CUDA_CAPTURE_RELAXED = 2,
};

/* CUmemLocationType, CUmemAllocationHandleType, CUmemAccess_flags, CUmemAllocationType, CUmemAllocationGranularity_flags,
 * CUmemRangeHandleType */
enum {
    NIGH_CUDA_LOCATION_DEVICE = 1,
    NIGH_CUDA_LOCATION_HOST = 2,
    NIGH_CUDA_LOCATION_HOST_NUMA = 3,
    NIGH_CUDA_LOCATION_HOST_NUMA_CURRENT = 4,
    NIGH_CUDA_HANDLE_POSIX_FD = 1,
    NIGH_CUDA_ACCESS_READ_WRITE = 3,
    NIGH_CUDA_ALLOCATION_PINNED = 1,
    NIGH_CUDA_GRANULARITY_MINIMUM = 0,
    NIGH_CUDA_RANGE_DMA_BUF = 1,
};

/* CUuuid */
struct nigh_cuda_uuid {
    unsigned char bytes[16];
};

/* CUmemLocation, CUmemAccessDesc */
struct nigh_cuda_location {
    int type, id;
};
struct nigh_cuda_access {
    struct nigh_cuda_location location;
    int flags;
};

/* CUmemAllocationProp; what follows `meta` are flags of the allocation that nigh does not read. */
struct nigh_cuda_properties {
    int type, handle_types;
    struct nigh_cuda_location location;
    void *meta;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

/* CUipcMemHandle, CUmemPoolPtrExportData */
struct nigh_cuda_ipc_handle {
    unsigned char bytes[64];
};
struct nigh_cuda_pool_pointer {
    unsigned char bytes[64];
};

/* CUDA_MEMCPY2D */
struct nigh_cuda_plane {
    size_t from_x, from_y;
    int from_type;
    const void *from_host;
    nigh_cuda_ptr from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_type;
    void *to_host;
    nigh_cuda_ptr to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; /* bytes, rows */
};

#endif
