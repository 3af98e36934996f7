/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/copy.c - see copy.h. */
#include "cuda_ipc/copy.h"

#include <errno.h>
#include <string.h>

/* A piece is short enough that a copy which is given up ends soon, and long enough that its begin costs nothing. */
#define PIECE_BYTES (UINT64_C(64) << 20)

/* Up to here the driver would put a copy to a device into its commands, or run one on a device as a kernel, which both
 * wait for the process' turn on a device that is shared. */
#define PLANE_TO_DEVICE UINT64_C(32768)
#define PLANE_ON_DEVICE UINT64_C(131072)

enum nigh_cuda_copy_engine nigh_cuda_copy_engine_for(enum nigh_cuda_copy_kind kind, uint64_t bytes)
{
    uint64_t most = kind == NIGH_CUDA_COPY_TO_DEVICE   ? PLANE_TO_DEVICE
                    : kind == NIGH_CUDA_COPY_ON_DEVICE ? PLANE_ON_DEVICE
                                                       : 0;

    return bytes > 1 && bytes <= most ? NIGH_CUDA_COPY_PLANE
                                      : NIGH_CUDA_COPY_LINEAR; /* one byte is no plane */
}

void nigh_cuda_copy_begin(struct nigh_cuda_copy *copy, struct nigh_cuda_context *context,
                          struct nigh_cuda_context *local, enum nigh_cuda_copy_kind kind, uint64_t to,
                          uint64_t from, uint64_t bytes, bool pinned)
{
    *copy = (struct nigh_cuda_copy){.context = context,
                                    .local = local,
                                    .settled = !local,
                                    .stream = nigh_lanes_stream(&context->lanes),
                                    .kind = kind,
                                    .pinned = pinned,
                                    .to = to,
                                    .from = from,
                                    .bytes = bytes};
}

void nigh_cuda_copy_cancel(struct nigh_cuda_copy *copy)
{
    if (!copy->error)
        copy->error = -ECANCELED;
}

/* ---- asking the driver --------------------------------------------------------------------------------- */

static int ask_plane(const struct nigh_cuda_copy *copy, uint64_t to, uint64_t from, uint64_t bytes)
{
    const struct nigh_driver *driver = copy->context->driver;
    struct nigh_cuda_plane plane = {
        .from_pitch = bytes / 2, .to_pitch = bytes / 2, .width = bytes / 2, .height = 2};

    plane.to_type = NIGH_CUDA_MEMORY_DEVICE;
    plane.to_device = to;
    plane.from_type =
        copy->kind == NIGH_CUDA_COPY_TO_DEVICE ? NIGH_CUDA_MEMORY_HOST : NIGH_CUDA_MEMORY_DEVICE;
    if (copy->kind == NIGH_CUDA_COPY_TO_DEVICE)
        plane.from_host = (const void *)(uintptr_t)from;
    else
        plane.from_device = from;
    return nigh_driver_check(driver, "cuMemcpy2DAsync", driver->plane_copy(&plane, copy->stream));
}

/* An odd number of bytes in two planes that overlap. */
static int ask_planes(const struct nigh_cuda_copy *copy, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t odd = bytes % 2;
    int rc = ask_plane(copy, to, from, bytes - odd);

    return rc || !odd ? rc : ask_plane(copy, to + 1, from + 1, bytes - 1);
}

static int ask_linear(const struct nigh_cuda_copy *copy, uint64_t to, uint64_t from, uint64_t bytes)
{
    const struct nigh_driver *driver = copy->context->driver;

    switch (copy->kind) {
    case NIGH_CUDA_COPY_TO_DEVICE:
        return nigh_driver_check(driver, "cuMemcpyHtoDAsync",
                                 driver->to_device(to, (const void *)(uintptr_t)from, bytes, copy->stream));
    case NIGH_CUDA_COPY_TO_HOST:
        return nigh_driver_check(driver, "cuMemcpyDtoHAsync",
                                 driver->to_host((void *)(uintptr_t)to, from, bytes, copy->stream));
    default:
        return nigh_driver_check(driver, "cuMemcpyDtoDAsync",
                                 driver->on_device(to, from, bytes, copy->stream));
    }
}

/* From memory that is not pinned the driver makes planes only by waiting, or not at all. The caller's may be a block, too. */
static bool may_be_plane(const struct nigh_cuda_copy *copy, uint64_t block)
{
    const struct nigh_staging *staging = &copy->context->cuda->staging;
    uint64_t from = block ? block : copy->from, base = (uintptr_t)staging->memory;

    return copy->kind != NIGH_CUDA_COPY_TO_DEVICE ||
           from - base >= (uint64_t)NIGH_STAGING_BLOCKS * NIGH_STAGING_BYTES ||
           nigh_staging_is_pinned(staging);
}

static int ask(const struct nigh_cuda_copy *copy, struct nigh_cuda_copy_piece *piece)
{
    const struct nigh_driver *driver = copy->context->driver;
    uint64_t to = copy->to + piece->at, from = copy->from + piece->at, block = (uintptr_t)piece->block;
    int rc, recorded;

    if (block && copy->kind == NIGH_CUDA_COPY_TO_HOST)
        to = block;
    if (block && copy->kind == NIGH_CUDA_COPY_TO_DEVICE) {
        memcpy(piece->block, (const void *)(uintptr_t)from, piece->bytes);
        from = block;
    }
    if (nigh_cuda_copy_engine_for(copy->kind, piece->bytes) == NIGH_CUDA_COPY_PLANE &&
        may_be_plane(copy, block))
        rc = ask_planes(copy, to, from, piece->bytes);
    else
        rc = ask_linear(copy, to, from, piece->bytes);
    /* Of a piece that was asked for in part, too: its memory is in use until then. */
    recorded = nigh_driver_check(driver, "cuEventRecord", driver->event_record(piece->event, copy->stream));
    piece->unmarked = recorded != 0;
    return rc ? rc : recorded;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

static bool is_staged(const struct nigh_cuda_copy *copy)
{
    return copy->kind != NIGH_CUDA_COPY_ON_DEVICE && !copy->pinned;
}

static void let_go(const struct nigh_cuda_copy *copy, const struct nigh_cuda_copy_piece *piece)
{
    if (piece->block)
        nigh_staging_give(&copy->context->cuda->staging, piece->block);
    nigh_lanes_put_event(&copy->context->lanes, piece->event);
}

/* False: an event or a block is missing, which others hold. */
static bool take(const struct nigh_cuda_copy *copy, struct nigh_cuda_copy_piece *piece)
{
    uint64_t most = is_staged(copy) ? NIGH_STAGING_BYTES : PIECE_BYTES, rest = copy->bytes - copy->asked;

    *piece = (struct nigh_cuda_copy_piece){.at = copy->asked, .bytes = rest < most ? rest : most};
    piece->event = nigh_lanes_take_event(&copy->context->lanes);
    if (piece->event && is_staged(copy))
        piece->block = nigh_staging_take(&copy->context->cuda->staging);
    if (piece->event && (piece->block || !is_staged(copy)))
        return true;
    if (piece->event)
        nigh_lanes_put_event(&copy->context->lanes, piece->event);
    return false;
}

static void begin_pieces(struct nigh_cuda_copy *copy)
{
    while (!copy->error && copy->asked < copy->bytes && copy->count < NIGH_CUDA_COPY_DEPTH) {
        struct nigh_cuda_copy_piece *piece = &copy->piece[(copy->first + copy->count) % NIGH_CUDA_COPY_DEPTH];

        if (!take(copy, piece))
            return;
        copy->error = ask(copy, piece);
        copy->asked += piece->bytes;
        copy->count++;
    }
}

static void end_pieces(struct nigh_cuda_copy *copy)
{
    const struct nigh_driver *driver = copy->context->driver;

    while (copy->count) {
        struct nigh_cuda_copy_piece *piece = &copy->piece[copy->first];
        int result = piece->unmarked ? driver->stream_query(copy->stream) : driver->event_query(piece->event);

        if (result == NIGH_CUDA_NOT_READY)
            return;
        if (result && (!copy->error || copy->error == -ECANCELED))
            copy->error = nigh_driver_check(driver, "a copy", result);
        if (!copy->error && piece->block && copy->kind == NIGH_CUDA_COPY_TO_HOST)
            memcpy((void *)(uintptr_t)(copy->to + piece->at), piece->block, piece->bytes);
        copy->done += piece->bytes;
        let_go(copy, piece);
        copy->first = (copy->first + 1) % NIGH_CUDA_COPY_DEPTH;
        copy->count--;
    }
}

/* Its context is gone, and its events with it. */
static void abandon(struct nigh_cuda_copy *copy)
{
    for (; copy->count; copy->count--) {
        if (copy->piece[copy->first].block)
            nigh_staging_give(&copy->context->cuda->staging, copy->piece[copy->first].block);
        copy->first = (copy->first + 1) % NIGH_CUDA_COPY_DEPTH;
    }
}

static int verdict(const struct nigh_cuda_copy *copy)
{
    if (copy->count || (!copy->error && copy->done < copy->bytes))
        return -EAGAIN;
    return copy->error;
}

/* The context cannot be made current. An event can be asked without it, unless it went with its context. */
static int step_outside(struct nigh_cuda_copy *copy, int rc)
{
    if (!copy->error)
        copy->error = rc;
    if (rc == -ECHILD || nigh_cuda_context_is_gone(copy->context))
        abandon(copy);
    end_pieces(copy);
    return verdict(copy);
}

/* Whether the host's own copies into its memory have come to their end. An error is the copy's. */
static bool is_settled(struct nigh_cuda_copy *copy)
{
    int rc;

    if (copy->settled || copy->error)
        return copy->settled;
    rc = nigh_cuda_settle(copy->local, &copy->settling);
    if (rc && rc != -EAGAIN)
        copy->error = rc;
    copy->settled = !rc;
    return copy->settled;
}

int nigh_cuda_copy_step(struct nigh_cuda_copy *copy)
{
    int mode, left, rc;

    if (copy->done == copy->bytes || (copy->error && !copy->count))
        return copy->error;
    if (!is_settled(copy))
        return verdict(copy);
    rc = nigh_cuda_enter(copy->context, &mode);
    if (rc)
        return step_outside(copy, rc);
    end_pieces(copy);
    begin_pieces(copy);
    left = nigh_cuda_leave(copy->context, mode);
    if (left && !copy->error)
        copy->error = left;
    return verdict(copy);
}
