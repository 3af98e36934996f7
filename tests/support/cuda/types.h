/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/types.h - the CUDA driver's numbers and structs that the fake driver and the layer over the real
 * one use. They are its binary interface. */
#ifndef NIGH_TESTS_CUDA_TYPES_H
#define NIGH_TESTS_CUDA_TYPES_H

#include <stddef.h>

typedef unsigned long long cu_address;

/* CUresult */
enum {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_MAP_FAILED = 205,
    CU_ALREADY_MAPPED = 208,
    CU_NO_PEER_ACCESS = 217,
    CU_OPERATING_SYSTEM = 304,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_ILLEGAL_ADDRESS = 700,
    CU_PEER_ALREADY_ENABLED = 704,
    CU_PEER_NOT_ENABLED = 705,
    CU_PRIMARY_ACTIVE = 708,
    CU_CONTEXT_DESTROYED = 709,
    CU_ALREADY_REGISTERED = 712,
    CU_NOT_REGISTERED = 713,
    CU_NOT_PERMITTED = 800,
    CU_NOT_SUPPORTED = 801,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_IMPLICIT = 906
};

/* CUpointer_attribute */
enum {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE_POINTER = 3,
    POINTER_HOST_POINTER = 4,
    POINTER_SYNC_MEMOPS = 6,
    POINTER_BUFFER_ID = 7,
    POINTER_IS_MANAGED = 8,
    POINTER_ORDINAL = 9,
    POINTER_LEGACY_CAPABLE = 10,
    POINTER_RANGE_START = 11,
    POINTER_RANGE_SIZE = 12,
    POINTER_MAPPED = 13,
    POINTER_HANDLE_TYPES = 14,
    POINTER_RDMA = 15,
    POINTER_ACCESS = 16,
    POINTER_POOL = 17,
    POINTER_MAPPING_SIZE = 18,
    POINTER_MAPPING_BASE = 19,
    POINTER_BLOCK_ID = 20
};

/* CUdevice_attribute */
enum {
    DEVICE_MULTIPROCESSORS = 16,
    DEVICE_INTEGRATED = 18,
    DEVICE_MAPS_HOST = 19,
    DEVICE_BUS = 33,
    DEVICE_SLOT = 34,
    DEVICE_ENGINES = 40,
    DEVICE_UNIFIED = 41,
    DEVICE_DOMAIN = 50,
    DEVICE_MAJOR = 75,
    DEVICE_MINOR = 76,
    DEVICE_MANAGED = 83,
    DEVICE_STREAM_MEMORY_OPS = 92,
    DEVICE_PINS = 99,
    DEVICE_VIRTUAL_MEMORY = 102,
    DEVICE_POSIX_HANDLES = 103,
    DEVICE_POOLS = 115,
    DEVICE_POOL_HANDLES = 119,
    DEVICE_STREAM_MEMORY_OPS_64 = 122,
    DEVICE_DMA_BUF = 124,
    DEVICE_IPC_EVENTS = 125,
    DEVICE_MPS = 133,
    DEVICE_HOST_NUMA_ID = 134,
    DEVICE_HOST_NUMA_MEMORY = 141,
    DEVICE_DMA_BUF_MMAP = 152
};

/* CUmemAllocationType, CUmemAllocationHandleType, CUmemLocationType, CUmemAccess_flags, CUmemorytype */
enum { CU_PINNED = 1 };
enum { CU_POSIX_FD = 1, CU_FABRIC = 8 };
enum { CU_ON_DEVICE = 1, CU_ON_HOST = 2, CU_ON_NODE = 3, CU_ON_THIS_NODE = 4 };
enum { CU_READ = 1, CU_READ_WRITE = 3 };
enum { CU_HOST_MEMORY = 1, CU_DEVICE_MEMORY = 2, CU_ANY_MEMORY = 4 };
/* CUevent_flags, CUctx_flags, CUstreamCaptureMode */
enum { CU_NO_TIMING = 2, CU_INTERPROCESS = 4 };
enum { CU_CONTEXT_SYNC_MEMOPS = 0x80 };
enum { CU_CAPTURE_RELAXED = 2 };

struct cu_uuid {
    unsigned char bytes[16];
};

struct cu_location {
    int type, id;
};

/* CUmemAllocationProp */
struct cu_allocation {
    int type, handle_types;
    struct cu_location location;
    void *win32;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

/* CUmemAccessDesc */
struct cu_access {
    struct cu_location location;
    int flags;
};

/* CUmemPoolProps */
struct cu_pool_properties {
    int type, handle_types;
    struct cu_location location;
    void *win32;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
};

/* CUmemPoolPtrExportData */
struct cu_pool_pointer {
    unsigned char reserved[64];
};

/* CUipcMemHandle, CUipcEventHandle */
struct cu_ipc {
    unsigned char reserved[64];
};

/* CUDA_MEMCPY2D */
struct cu_plane {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    cu_address from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host;
    cu_address to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; /* bytes, rows */
};

/* CUmemcpyAttributes */
struct cu_copy_attributes {
    int order;
    struct cu_location from, to;
    unsigned flags;
};

#endif
