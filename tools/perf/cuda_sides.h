/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory the two sides of a message have: the argument of --cuda. */
#ifndef NIGH_PERF_CUDA_SIDES_H
#define NIGH_PERF_CUDA_SIDES_H

#include <stdbool.h>
#include <stddef.h>

enum perf_cuda_kind {
    PERF_CUDA_HOST,    /* private memory of the host */
    PERF_CUDA_PLAIN,   /* cuMemAlloc() */
    PERF_CUDA_VMM,     /* cuMemMap() */
    PERF_CUDA_POOL,    /* cuMemAllocAsync() */
    PERF_CUDA_MANAGED, /* cuMemAllocManaged() */
    PERF_CUDA_KINDS
};

struct perf_cuda_side {
    enum perf_cuda_kind kind;
    int device; /* its ordinal; of PERF_CUDA_HOST: 0 */
};

struct perf_cuda_sides {
    bool asked; /* --cuda was given */
    struct perf_cuda_side from, to;
};

#define PERF_CUDA_SIDES_BYTES 40

/* "SENDER,RECEIVER" or one for both, each KIND or KIND:DEVICE; NULL: plain memory of device 0. 0; -EINVAL: it is neither;
 * -ENODEV: both are the host's. */
int perf_cuda_sides_parse(const char *text, struct perf_cuda_sides *sides);

/* As it is read, the device where it is not 0. */
const char *perf_cuda_sides_text(const struct perf_cuda_sides *sides, char room[PERF_CUDA_SIDES_BYTES]);

const char *perf_cuda_kind_name(enum perf_cuda_kind kind);

#endif
