/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/mapping.h - one piece of a peer's device memory made visible in one CUDA context, and given up. import.h keeps
 * them; nobody else opens or closes one. */
#ifndef NIGH_CUDA_IPC_MAPPING_H
#define NIGH_CUDA_IPC_MAPPING_H

#include "cuda_ipc/context.h"
#include "cuda_ipc/record.h"

struct nigh_cuda_mapping {
    struct nigh_cuda_job job; /* its close, if that waits for the device */
    struct nigh_cuda_mapping *next;
    struct nigh_cuda_peer *peer;
    struct nigh_cuda_context *context;
    struct nigh_cuda_wire *wire; /* checked */
    uint64_t number;             /* the exporter's */
    nigh_cuda_ptr at;            /* where the first segment begins here */
    uint64_t bytes;
    void *pool;
    uint32_t uses;
    bool self;    /* of this process: `at` is the exporter's own address */
    bool stale;   /* not to be found any more; given up when it is not used */
    bool closing; /* in the closer's queue */
};

/*
 * Opens what `wire` describes in the mapping's context. fds[] stay the caller's.
 *   -EALREADY  the driver has an older mapping of the same memory still open
 *   -EPROTO    a descriptor or handle is none, or not of that much memory
 *   -ENOTSUP   it can only be staged; *why says why
 *   -ENOMEM, -EIO (logged), -ECHILD
 */
int nigh_mapping_open(struct nigh_cuda_mapping *mapping, const int *fds, enum nigh_cuda_reason *why);

/* True: closing waits for every kernel that runs on the device. */
bool nigh_mapping_waits(const struct nigh_cuda_mapping *mapping);
void nigh_mapping_close(struct nigh_cuda_mapping *mapping);

#endif
