/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/record.h - the bytes that describe exported device memory to a peer. All members have exact widths and there is
 * no padding, so equal exports are equal bytes. A record describes whole allocations: a buffer is an offset from the
 * first segment, which travels beside it. What a peer wrote is copied once, checked member by member, then used.
 */
#ifndef NIGH_CUDA_IPC_RECORD_H
#define NIGH_CUDA_IPC_RECORD_H

#include "cuda_ipc/abi.h"
#include "cuda_ipc/reason.h"

#include <stdbool.h>

#define NIGH_CUDA_RECORD_VERSION 1u
#define NIGH_CUDA_SEGMENTS_MAX   240u /* descriptors of one message: SCM_MAX_FD is 253 */
#define NIGH_CUDA_EXTENT_MAX     (UINT64_C(1) << 46)

struct nigh_cuda_wire_segment {
    uint64_t base, bytes; /* the exporter's addresses; each begins where the one before ends */
    uint64_t buffer_id;
};

struct nigh_cuda_wire {
    uint32_t version, way; /* enum nigh_cuda_way */
    uint32_t reason;       /* enum nigh_cuda_reason: why it is staged */
    uint32_t segments;
    uint64_t pid_space; /* PID namespace of the exporter; 0: unknown */
    struct nigh_cuda_uuid uuid;
    unsigned char handle[64]; /* legacy: CUipcMemHandle; pool: CUmemPoolPtrExportData; else zero */
    struct nigh_cuda_wire_segment segment[];
};

_Static_assert(sizeof(struct nigh_cuda_wire_segment) == 24, "no padding");
_Static_assert(sizeof(struct nigh_cuda_wire) == 104, "no padding");
_Static_assert(offsetof(struct nigh_cuda_wire, handle) == 40, "no padding");

#define NIGH_CUDA_RECORD_MAX \
    (sizeof(struct nigh_cuda_wire) + NIGH_CUDA_SEGMENTS_MAX * sizeof(struct nigh_cuda_wire_segment))

static inline size_t nigh_cuda_record_bytes(uint32_t segments)
{
    return sizeof(struct nigh_cuda_wire) + segments * sizeof(struct nigh_cuda_wire_segment);
}

/* How many descriptors go with it. */
static inline uint32_t nigh_cuda_record_fds(const struct nigh_cuda_wire *wire)
{
    return wire->way == NIGH_CUDA_VMM ? wire->segments : wire->way == NIGH_CUDA_POOL ? 1 : 0;
}

/* From the first segment's begin to the last one's end. */
static inline uint64_t nigh_cuda_record_extent(const struct nigh_cuda_wire *wire)
{
    const struct nigh_cuda_wire_segment *last = &wire->segment[wire->segments - 1];

    return last->base + last->bytes - wire->segment[0].base;
}

/* A checked copy of what a peer sent, freed with free(). -EPROTO: it cannot be a record, *why says what is wrong with it, a
 * string for ever. -ENOMEM. */
int nigh_cuda_record_read(const void *from, size_t bytes, struct nigh_cuda_wire **out, const char **why);

#endif
