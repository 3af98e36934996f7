/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/device_memory.h - a little memory of a CUDA device, of each kind that programs make, to try what can be done with it.
 * The calls that make it are the program's in all other places: cuda_ipc/ has no use for them. */
#ifndef NIGH_INFO_DEVICE_MEMORY_H
#define NIGH_INFO_DEVICE_MEMORY_H

#include "cuda_ipc/context.h"
#include "nigh/transport.h"

struct info_device_memory {
    struct nigh_cuda_context *context;
    enum nigh_device_memory kind;
    nigh_cuda_ptr at;
    size_t bytes;
    void *pool, *stream;
};

/* "cuMemAlloc", ... */
const char *info_device_memory_name(enum nigh_device_memory kind);

/* 0, or -1 and *why: the call that failed, and its error; static text until the next call. */
int info_device_memory_make(struct nigh_cuda *cuda, int ordinal, enum nigh_device_memory kind,
                            struct info_device_memory *out, const char **why);
void info_device_memory_free(struct info_device_memory *memory);

#endif
