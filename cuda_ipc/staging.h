/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/staging.h - pinned blocks of the host's memory that bytes pass on their way between a device and memory that is
 * not pinned, or a peer that cannot map it. A fixed number, pinned when the first device buffer is seen: pinning and
 * unpinning may wait for every kernel.
 */
#ifndef NIGH_CUDA_IPC_STAGING_H
#define NIGH_CUDA_IPC_STAGING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Blocks that hold() leaves for copies that take() them for as long as they run: those never wait for a peer. */
enum { NIGH_STAGING_BLOCKS = 16, NIGH_STAGING_BYTES = 512 << 10, NIGH_STAGING_PASSING = 4 };

struct nigh_cuda_context;

struct nigh_staging {
    pthread_mutex_t lock;
    char *memory; /* NIGH_STAGING_BLOCKS of NIGH_STAGING_BYTES */
    bool own;     /* mapped here, not the caller's */
    void *idle[NIGH_STAGING_BLOCKS];
    unsigned idles;
    struct nigh_cuda_context *pinned_by; /* NULL: it is not pinned, and copies through it are slower */
};

/* `memory`: the caller's, page-aligned, of NIGH_STAGING_BLOCKS * NIGH_STAGING_BYTES, which peers may map; NULL: its own. */
int nigh_staging_open(struct nigh_staging *staging, void *memory);

/* The domain's lock is held, and the context stays until the staging is closed. Pins the blocks if no context that still
 * exists has. */
void nigh_staging_pin(struct nigh_staging *staging, struct nigh_cuda_context *context);

/* All blocks were given back. Waits for kernels that run. */
void nigh_staging_close(struct nigh_staging *staging);

/* Whether the blocks are. Any thread. */
bool nigh_staging_is_pinned(const struct nigh_staging *staging);

/* NULL: all are in use. */
void *nigh_staging_take(struct nigh_staging *staging);
/* The same for one that is kept for as long as a peer likes. */
void *nigh_staging_hold(struct nigh_staging *staging);
void nigh_staging_give(struct nigh_staging *staging, void *block);

#endif
