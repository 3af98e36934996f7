/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/copy.h - copies that a progress pass moves on. A copy is cut into pieces, a few of which are under way on a
 * stream of ours; each piece has an event, which is asked and never waited for. Nothing here synchronises, allocates or
 * loads code. Host memory that is not pinned goes through blocks of staging.h.
 *
 *     begin -> step -> ... -> step     0: done; an error: over, and nothing of it is under way any more
 */
#ifndef NIGH_CUDA_IPC_COPY_H
#define NIGH_CUDA_IPC_COPY_H

#include "cuda_ipc/context.h"

enum nigh_cuda_copy_kind { NIGH_CUDA_COPY_ON_DEVICE, NIGH_CUDA_COPY_TO_DEVICE, NIGH_CUDA_COPY_TO_HOST };

/* How the driver is asked for a piece. */
enum nigh_cuda_copy_engine {
    NIGH_CUDA_COPY_LINEAR, /* its choice: long ones on one device run as a kernel */
    NIGH_CUDA_COPY_PLANE, /* as two rows of a plane: the copy engine, which waits for no other process' time slice */
};

enum { NIGH_CUDA_COPY_DEPTH = 4 };

struct nigh_cuda_copy_piece {
    void *event, *block;
    uint64_t at, bytes;
    bool unmarked; /* its event could not be recorded: the stream is asked in its place */
};

/* The caller's memory; it stays where it is until step() has said 0 or an error. */
struct nigh_cuda_copy {
    struct nigh_cuda_context *context; /* in which it runs */
    struct nigh_cuda_context *local;   /* whose host copies come first */
    void *stream;
    enum nigh_cuda_copy_kind kind;
    bool pinned; /* the host's side is */
    bool settled;
    uint64_t to, from; /* addresses of a device or the host */
    uint64_t bytes, asked, done;
    struct nigh_settling settling;
    struct nigh_cuda_copy_piece piece[NIGH_CUDA_COPY_DEPTH];
    unsigned first, count; /* pieces under way */
    int error;
};

/*
 * `context`: in which it runs: of the mapping where a peer's memory is part of it (import.h), else of the device's side.
 * `local`: of the device memory that is this process' own, NULL: none is. Nothing is asked of the driver yet.
 */
void nigh_cuda_copy_begin(struct nigh_cuda_copy *copy, struct nigh_cuda_context *context,
                          struct nigh_cuda_context *local, enum nigh_cuda_copy_kind kind, uint64_t to,
                          uint64_t from, uint64_t bytes, bool pinned);

/* 0: all bytes are there. -EAGAIN: call again. -EIO: the driver fails, or the context is gone, logged. -ECANCELED after
 * cancel. -ECHILD. Any thread, one at a time for a copy. */
int nigh_cuda_copy_step(struct nigh_cuda_copy *copy);

/* No further piece begins; step() on, until it says how it ended. */
void nigh_cuda_copy_cancel(struct nigh_cuda_copy *copy);

/* Which engine a piece takes: docs/rationale/device-memory.md, "What a GPU showed". */
enum nigh_cuda_copy_engine nigh_cuda_copy_engine_for(enum nigh_cuda_copy_kind kind, uint64_t bytes);

#endif
