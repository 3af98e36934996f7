/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cuda.h - the CUDA driver's calls that are used here, taken from libcuda.so.1 when a host first asks
 * for device memory. Nothing of CUDA is linked or included: these few types and numbers are its binary interface. */
#ifndef NIGH_LIBFABRIC_CUDA_H
#define NIGH_LIBFABRIC_CUDA_H

#include <stddef.h>

/* CUpointer_attribute, CUmemorytype, flags */
#define NIGH_CUDA_CONTEXT      1
#define NIGH_CUDA_MEMORY_TYPE  2
#define NIGH_CUDA_SYNC_MEMOPS  6
#define NIGH_CUDA_ORDINAL      9
#define NIGH_CUDA_TYPE_HOST    1u
#define NIGH_CUDA_TYPE_DEVICE  2u
#define NIGH_CUDA_NON_BLOCKING 1u    /* of a stream: it waits for no other */
#define NIGH_CUDA_PORTABLE     1u    /* of pinned memory: for all contexts */
#define NIGH_CUDA_FINISHES     0x80u /* CU_CTX_SYNC_MEMOPS: of a context, what SYNC_MEMOPS is of memory */
#define NIGH_CUDA_RELAXED      2 /* CUstreamCaptureMode: nothing is refused because a stream is being captured */
/* CUresult */
#define NIGH_CUDA_INVALID_CONTEXT 201
#define NIGH_CUDA_NOT_READY       600
#define NIGH_CUDA_DESTROYED       709

typedef unsigned long long nigh_cuda_ptr;

/* CUDA_MEMCPY2D */
struct nigh_cuda_plane {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    nigh_cuda_ptr from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host;
    nigh_cuda_ptr to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; /* bytes, rows */
};

/* All return a CUresult, 0 for success. */
struct nigh_cuda {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*error_name)(int error, const char **name);
    int (*pointer_attributes)(unsigned count, int *attributes, void **values, nigh_cuda_ptr pointer);
    int (*pointer_set)(const void *value, int attribute, nigh_cuda_ptr pointer);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*exchange_capture_mode)(int *mode);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*stream_query)(void *stream);
    int (*is_capturing)(void *stream, int *status);
    int (*to_host)(void *to, nigh_cuda_ptr from, size_t bytes, void *stream);
    int (*to_device)(nigh_cuda_ptr to, const void *from, size_t bytes, void *stream);
    int (*plane_copy)(const struct nigh_cuda_plane *plane, void *stream);
    int (*pin)(void *memory, size_t bytes, unsigned flags);
    int (*unpin)(void *memory);
    int (*current)(void **context);
    int (*current_device)(int *ordinal);
    int (*context_id)(void *context, unsigned long long *id); /* NULL: older than CUDA 12 */
    int (*get_flags)(unsigned *flags);                        /* these two of the current context */
    int (*set_flags)(unsigned flags);                         /* NULL: older than CUDA 12.1 */
};

/* The driver's table, once it was found to be usable; it stays. NULL: *why says what is missing, and the next call
 * looks again. Any thread. Calls into CUDA: not before a host asks for its memory. */
const struct nigh_cuda *nigh_cuda_open(const char **why);

/* Logs that `call` has failed and returns -FI_EIO; 0 for 0. */
int nigh_cuda_check(const struct nigh_cuda *cuda, const char *call, int result);

#endif
