/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/context.h - the CUDA contexts that buffers belong to. A context of the host's is used and never made; a device's
 * primary one is held for memory that belongs to no context. The host may destroy its contexts: whoever enters one that
 * is gone is refused. docs/rationale/device-memory.md, "What a GPU showed".
 */
#ifndef NIGH_CUDA_IPC_CONTEXT_H
#define NIGH_CUDA_IPC_CONTEXT_H

#include "cuda_ipc/domain.h"
#include "cuda_ipc/lanes.h"
#include "cuda_ipc/settle.h"

struct nigh_cuda_context {
    struct nigh_cuda_context *next;
    struct nigh_cuda *cuda;
    const struct nigh_driver *driver;
    void *handle; /* CUcontext */
    int ordinal;
    bool primary; /* held by us */
    bool gone;    /* a flag alone: buffers and peers' memory may still name the context */
    unsigned long long
        id; /* the driver's, plus 1; 0: it has none, and a context in the same place is not told apart */
    struct nigh_settle *settle;
    struct nigh_lanes lanes;
};

/* The context with this handle, or for NULL the device's: the one that the thread works in if it is of that device, else
 * the primary one. It stays valid until the domain is closed. Makes streams and events for a context that is new. -EIO,
 * -ENOMEM, -ECHILD. */
int nigh_cuda_context_find(struct nigh_cuda *cuda, void *handle, int ordinal, struct nigh_cuda_context **out);
void nigh_cuda_contexts_close(struct nigh_cuda *cuda);

/* Makes it current, in a mode in which a graph that the host captures stays whole, and back; *mode is for leave(). Of the
 * calling thread. -EIO: the context is gone, or the driver fails, which was logged. -ECHILD. */
int nigh_cuda_enter(struct nigh_cuda_context *context, int *mode);
int nigh_cuda_leave(const struct nigh_cuda_context *context, int mode);

/* The same mode without a context. */
int nigh_cuda_relax(const struct nigh_driver *driver, int *mode);
int nigh_cuda_put_back(const struct nigh_driver *driver, int mode);

bool nigh_cuda_context_is_gone(struct nigh_cuda_context *context);

#endif
