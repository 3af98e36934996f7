/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver as the tests of --cuda use it: memory of each kind, and bare copies. By a table of its own, so that no
 * floor goes through code of nigh's. Nothing is linked; the driver is opened in the measured processes alone, as none
 * survives a fork().
 */
#ifndef NIGH_PERF_CUDA_H
#define NIGH_PERF_CUDA_H

#include "tools/perf/cuda_sides.h"

#include "cuda_ipc/abi.h"

#define PERF_CUDA_MARKS     8u
#define PERF_CUDA_WHY_BYTES 200

/* One device that a side has, in this process. */
struct perf_cuda_device {
    int ordinal, device;
    bool retained;
    void *context, *stream, *mark[PERF_CUDA_MARKS]; /* marks: events behind copies */
};

struct perf_cuda {
    struct perf_cuda_device device[2];
    unsigned devices;
    bool reach;                    /* one device, or two that read and write each other's memory */
    char why[PERF_CUDA_WHY_BYTES]; /* what went wrong last, one sentence */
};

struct perf_cuda_buffer {
    enum perf_cuda_kind kind;
    struct perf_cuda_device *device; /* NULL: there is none */
    nigh_cuda_ptr at;
    size_t bytes, mapped; /* mapped: of PERF_CUDA_VMM, whole pieces */
};

/* Can these sides be measured on this machine? Tries it in a process of its own. 0, or -ENODEV after saying why not. */
int perf_cuda_probe(const struct perf_cuda_sides *sides);

/* Each returns 0, or a negative errno with `why`. */
int perf_cuda_open(struct perf_cuda *cuda, const struct perf_cuda_sides *sides);
int perf_cuda_alloc(struct perf_cuda *cuda, const struct perf_cuda_side *side, size_t bytes,
                    struct perf_cuda_buffer *out);
int perf_cuda_pin(struct perf_cuda *cuda, void *memory, size_t bytes); /* whole pages, for both devices */
int perf_cuda_unpin(struct perf_cuda *cuda, void *memory);

/* Return when the bytes are there. */
int perf_cuda_put(struct perf_cuda *cuda, const struct perf_cuda_buffer *to, const void *from, size_t bytes);
int perf_cuda_get(struct perf_cuda *cuda, void *to, const struct perf_cuda_buffer *from, size_t bytes);

/* Begin a copy on the device's stream, with a mark behind it where `mark` is below PERF_CUDA_MARKS. */
int perf_cuda_start_put(struct perf_cuda *cuda, const struct perf_cuda_buffer *to, size_t offset,
                        const void *from, size_t bytes, unsigned mark);
int perf_cuda_start_get(struct perf_cuda *cuda, void *to, const struct perf_cuda_buffer *from, size_t offset,
                        size_t bytes, unsigned mark);
/* The same offset on both sides; on the stream of `to`. */
int perf_cuda_start_copy(struct perf_cuda *cuda, const struct perf_cuda_buffer *to,
                         const struct perf_cuda_buffer *from, size_t offset, size_t bytes);

/* 0: the mark has been reached, or the stream has ended; -EAGAIN: not yet. */
int perf_cuda_reached(struct perf_cuda *cuda, const struct perf_cuda_device *device, unsigned mark);
int perf_cuda_ended(struct perf_cuda *cuda, const struct perf_cuda_device *device);

int perf_cuda_free(struct perf_cuda *cuda, struct perf_cuda_buffer *buffer);
void perf_cuda_close(struct perf_cuda *cuda);

#endif
