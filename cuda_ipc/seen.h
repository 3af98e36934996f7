/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/seen.h - device memory that a host sends from without registering it: exports found by address. A hit is
 * checked by one question to the driver for each segment, so memory that was freed and allocated anew is exported anew.
 */
#ifndef NIGH_CUDA_IPC_SEEN_H
#define NIGH_CUDA_IPC_SEEN_H

#include "cuda_ipc/export.h"

enum { NIGH_CUDA_SEEN_MAX = 32 };

struct nigh_cuda_seen {
    pthread_mutex_t lock;
    struct nigh_cuda_export
        *export[NIGH_CUDA_SEEN_MAX]; /* most recently used first; one use of each is ours */
    unsigned count;
};

void nigh_cuda_seen_begin(struct nigh_cuda_seen *seen);

/*
 * *out: the export of the memory at `at`, NULL for memory of the host; put it afterwards. *evicted: an export that is not
 * kept any more, as its memory is gone or it was used least (of those without another user, if there is one); NULL: none. Its use is the caller's: tell the peers that
 * have it, then put it. Errors are those of nigh_cuda_look() and nigh_cuda_export_get(); *evicted counts then, too.
 */
int nigh_cuda_seen_find(struct nigh_cuda_seen *seen, struct nigh_cuda *cuda, const void *at, uint64_t bytes,
                        struct nigh_cuda_export **out, struct nigh_cuda_export **evicted);

bool nigh_cuda_seen_keeps(struct nigh_cuda_seen *seen, const struct nigh_cuda_export *export);

/* Any one of those that are kept, which is the caller's then; NULL: none is left. */
struct nigh_cuda_export *nigh_cuda_seen_take(struct nigh_cuda_seen *seen);
/* All were taken. */
void nigh_cuda_seen_end(struct nigh_cuda_seen *seen);

#endif
