/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/test_cuda.h - a libcuda.so.1 in which every call can be made to fail, and what tests do on its devices
 * besides: the fake of machines without a GPU (tests/support/cuda), whose device memory crashes whoever touches it other
 * than by its copies, and whose copies happen when their stream is waited for or asked about; or the machine's own driver
 * with a layer of ours in front (tests/gpu/real_cuda.c).
 */
#ifndef NIGH_TESTS_TEST_CUDA_H
#define NIGH_TESTS_TEST_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#define TEST_CUDA_ERROR 700 /* what a call that is made to fail gives */

enum cuda_memory {
    MEMORY_PLAIN,  /* as cuMemAlloc(): of a context */
    MEMORY_MAPPED, /* as cuMemMap(): of none, and without SYNC_MEMOPS */
    MEMORY_PIECES, /* the same of several allocations, one behind the other, as PyTorch's expandable segments */
    MEMORY_POOL,   /* as cuMemAllocAsync() */
    MEMORY_MANAGED, /* as cuMemAllocManaged(): of a context, with SYNC_MEMOPS from the first */
    MEMORY_HOST,    /* as cuMemAllocHost(): the CPU may touch it */
};

struct test_cuda {
    /* `device` is what `device` below says. Memory goes with its context; free() of what has gone does nothing. */
    void *(*alloc)(enum cuda_memory kind, int device, size_t bytes);
    void (*free)(void *memory);
    /* The test's own look at device memory. */
    void (*put)(void *device, const void *from, size_t bytes);
    void (*get)(void *to, const void *device, size_t bytes);
    /* The call of this name fails once, after `after` that go well. */
    void (*fail_once)(const char *call, unsigned after);
    void (*set_broken)(bool broken);     /* cuInit() fails */
    unsigned (*calls)(const char *call); /* how often it was called; NULL: all calls together */
    void (*set_devices)(int count);      /* what cuDeviceGetCount() says; -1: the truth */
    /* The host destroys the context of MEMORY_PLAIN, and its streams and memory with it; and makes one, at the same
     * address if the driver does so. */
    void (*destroy_context)(int device);
    void (*create_context)(int device);
    /* The host's stream that waits for all others works from true to false, on a kernel that waits for something: what
     * waits for the stream meanwhile hangs, or ends the test. */
    void (*hold)(int device, bool hold);
    /* The host captures a graph from true to false; then: did it stay whole? */
    bool (*capture)(int device, bool capture);
    size_t (*pinned)(void);     /* bytes */
    const char *(*leaks)(void); /* what was opened and not closed, or NULL */
    int (*device)(void);        /* the device that tests use: the last, -1: there is none */
};

#define TEST_CUDA_SYMBOL "test_cuda"

#endif
