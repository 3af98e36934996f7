/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/fake_cuda.h - a libcuda.so.1 for machines without a GPU. Its device memory crashes
 * whoever touches it other than by its copies; copies happen when their stream is waited for and not
 * before; every call can be made to fail.
 */
#ifndef NIGH_TESTS_FAKE_CUDA_H
#define NIGH_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#define FAKE_CUDA_ERROR 700 /* what a call that is made to fail gives */

enum fake_memory {
    FAKE_PLAIN,  /* as cuMemAlloc(): of a context */
    FAKE_MAPPED, /* as cuMemMap(): of none, and without SYNC_MEMOPS */
    FAKE_HOST,   /* as cuMemAllocHost(): the CPU may touch it */
};

struct fake_cuda {
    void *(*alloc)(enum fake_memory kind, int device, size_t bytes);
    void (*free)(void *memory);
    /* The test's own look at device memory. */
    void (*put)(void *device, const void *from, size_t bytes);
    void (*get)(void *to, const void *device, size_t bytes);
    /* The call of this name fails once, after `after` that go well. */
    void (*fail_once)(const char *call, unsigned after);
    void (*set_broken)(bool broken);     /* cuInit() fails */
    unsigned (*calls)(const char *call); /* how often it was called; NULL: all calls together */
    void (*set_devices)(int count);
    /* The host destroys the context of FAKE_PLAIN, and its streams with it; and makes one at the same address. */
    void (*destroy_context)(int device);
    void (*create_context)(int device);
    size_t (*pinned)(void);     /* bytes */
    const char *(*leaks)(void); /* what was opened and not closed, or NULL */
};

#define FAKE_CUDA_SYMBOL "fake_cuda"

#endif
