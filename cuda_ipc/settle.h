/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/settle.h - copies of the host's that have returned and are still under way. The driver's calls that copy from
 * pageable memory return before the last bytes are on the device, unless the memory (SYNC_MEMOPS) or its context
 * (CU_CTX_SYNC_MEMOPS) says otherwise. A copy of ours must not overtake them. docs/rationale/device-memory.md.
 */
#ifndef NIGH_CUDA_IPC_SETTLE_H
#define NIGH_CUDA_IPC_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

struct nigh_cuda_context;

/* Of a CUDA context, shared by all domains of the process that use it: memory that one of them has told is no longer new to the
 * others, whose copies must wait for the host's nevertheless. Guarded by a lock of settle.c. */
struct nigh_settle {
    struct nigh_settle *next;
    void *handle; /* with `id`: of which context */
    unsigned long long id;
    uint32_t users;
    uint64_t seen;    /* pieces of memory that were new */
    uint64_t settled; /* of those, how many need no look any more */
    bool untold;      /* there is memory that only the context can speak for, and it has not been told yet */
    bool finishes;    /* the context finishes copies before they return */
};

/* One copy's look at the stream of the host; zeroed before its first step. */
struct nigh_settling {
    uint64_t seen, until_ns; /* 0: it has not looked yet */
};

/* Sets context->settle, by its handle and id; close() undoes it. -ENOMEM. */
int nigh_settle_open(struct nigh_cuda_context *context);
void nigh_settle_close(struct nigh_cuda_context *context);

/* Memory that is seen for the first time: it is told, or its context will be. The context is current. */
void nigh_settle_memory(struct nigh_cuda_context *context, const void *memory);

/*
 * Before a copy of ours, and before a peer is told of memory that it copies from or to, as its copies must not overtake the
 * host's either. Waits for nothing. 0: go on. -EAGAIN: call again; after at most 2 ms the answer is 0, as what still runs
 * then are kernels. -EIO: the context is gone, or the driver fails, logged. -ECHILD.
 */
int nigh_cuda_settle(struct nigh_cuda_context *context, struct nigh_settling *settling);

#endif
