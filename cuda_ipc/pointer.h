/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/pointer.h - whose memory a buffer is. Device memory may consist of several physical segments one behind the
 * other (PyTorch's expandable segments); the driver answers for one address at a time, so each is asked about.
 * Memory that the CPU may touch is the host's, whatever made it, except managed memory, which is staged.
 */
#ifndef NIGH_CUDA_IPC_POINTER_H
#define NIGH_CUDA_IPC_POINTER_H

#include "cuda_ipc/context.h"

enum nigh_cuda_kind {
    NIGH_CUDA_KIND_PLAIN,   /* cuMemAlloc() */
    NIGH_CUDA_KIND_MAPPED,  /* cuMemMap() */
    NIGH_CUDA_KIND_POOL,    /* cuMemAllocAsync() */
    NIGH_CUDA_KIND_MANAGED, /* cuMemAllocManaged() */
};

struct nigh_cuda_segment {
    uint64_t base, bytes; /* the whole allocation or mapping */
    uint64_t buffer_id;   /* unique in the process, and never used again */
};

/* A device buffer, and the segments that it lies in. Freed with free(). */
struct nigh_cuda_memory {
    struct nigh_cuda_context *context; /* in which it is copied */
    enum nigh_cuda_kind kind;
    int ordinal;
    void *pool;         /* of NIGH_CUDA_KIND_POOL */
    uint64_t at, bytes; /* the buffer; segment[0].base <= at */
    uint32_t segments;
    struct nigh_cuda_segment segment[];
};

/*
 * *out is NULL for memory of the host. Copies of the host's into memory that is new come before ours from now on.
 *   -EFAULT  the range has a hole, or runs past the end of its allocation: logged
 *   -EXDEV   its segments are on several devices, or on a device and in the host's memory: logged
 *   -EIO     the driver fails: logged
 *   -ENOMEM, -ECHILD
 */
int nigh_cuda_look(struct nigh_cuda *cuda, const void *at, uint64_t bytes, struct nigh_cuda_memory **out);

#endif
