/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/record.c - see record.h. */
#include "cuda_ipc/record.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static const char *check_head(const struct nigh_cuda_wire *wire, size_t bytes)
{
    bool staged = wire->way == NIGH_CUDA_STAGED,
         handle = wire->way == NIGH_CUDA_LEGACY || wire->way == NIGH_CUDA_POOL;

    if (wire->version != NIGH_CUDA_RECORD_VERSION)
        return "its version is another";
    if (wire->way >= NIGH_CUDA_WAYS)
        return "its way is unknown";
    if (wire->reason >= NIGH_CUDA_REASONS_COUNT || (wire->reason != NIGH_CUDA_WHY_NONE) != staged)
        return "its reason does not fit its way";
    if (!wire->segments || wire->segments > NIGH_CUDA_SEGMENTS_MAX)
        return "its number of segments is out of range";
    if (bytes != nigh_cuda_record_bytes(wire->segments))
        return "its size does not fit its number of segments";
    if (wire->segments > 1 && handle)
        return "its one handle is for several segments";
    if (!handle && !is_zero(wire->handle, sizeof(wire->handle)))
        return "it has a handle that its way does not use";
    return NULL;
}

static const char *check_segments(const struct nigh_cuda_wire *wire)
{
    uint64_t at = wire->segment[0].base, extent = 0;

    if (!at)
        return "its memory begins at 0";
    for (uint32_t i = 0; i < wire->segments; i++) {
        const struct nigh_cuda_wire_segment *segment = &wire->segment[i];

        if (segment->base != at)
            return "its segments do not follow each other";
        if (!segment->bytes || segment->bytes > NIGH_CUDA_EXTENT_MAX - extent)
            return "its segments are of no possible size";
        extent += segment->bytes;
        if (segment->bytes > UINT64_MAX - at)
            return "its memory goes past the last address";
        at += segment->bytes;
    }
    return NULL;
}

int nigh_cuda_record_read(const void *from, size_t bytes, struct nigh_cuda_wire **out, const char **why)
{
    struct nigh_cuda_wire *wire;

    *why = NULL;
    if (bytes < nigh_cuda_record_bytes(1) || bytes > NIGH_CUDA_RECORD_MAX) {
        *why = "its size is out of range";
        return -EPROTO;
    }
    wire = nigh_os.calloc(1, bytes);
    if (!wire)
        return -ENOMEM;
    memcpy(wire, from, bytes);
    *why = check_head(wire, bytes);
    if (!*why)
        *why = check_segments(wire);
    if (*why) {
        free(wire);
        return -EPROTO;
    }
    *out = wire;
    return 0;
}
