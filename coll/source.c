/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/source.c - see source.h. */
#include "coll/source.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include "shm/shared.h"

#include <errno.h>
#include <string.h>

#define SMALL_BYTES 1024u

static bool is_in_arena(const struct nigh_member *member, uint64_t where, uint64_t bytes)
{
    const struct nigh_view *view = member->link.view;

    return where >= view->layout.heap_off && nigh_view_at(view, where, bytes);
}

/* The part that is for us, of parts that differ. */
static int find_part(const struct nigh_member *member, uint64_t at, const struct nigh_shape *shape,
                     uint64_t total, struct nigh_part *out)
{
    const struct nigh_part *parts;

    if (!is_in_arena(member, at, shape->members * sizeof(*parts)) || at % sizeof(uint64_t))
        return -EPROTO;
    parts = nigh_view_at(member->link.view, at, shape->members * sizeof(*parts));
    out->offset = nigh_load_relaxed(&parts[shape->me].offset);
    out->bytes = nigh_load_relaxed(&parts[shape->me].bytes);
    return out->bytes <= total ? 0 : -EPROTO;
}

static int check_place(const struct nigh_member *member, struct nigh_source *source,
                       const struct nigh_part *part)
{
    uint64_t where = source->where;

    switch (source->lies) {
    case NIGH_LIES_NOWHERE:
        return part->bytes ? -EPROTO : 0;
    case NIGH_LIES_INLINE:
        source->where = part->offset;
        return part->offset <= NIGH_CALL_INLINE && part->bytes <= NIGH_CALL_INLINE - part->offset ? 0
                                                                                                  : -EPROTO;
    case NIGH_LIES_STREAM:
        return is_in_arena(member, where, NIGH_STREAM_UNITS * source->stream) ? 0 : -EPROTO;
    case NIGH_LIES_WHOLE:
    case NIGH_LIES_HEAP:
        source->where = where + part->offset;
        return where < NIGH_ARENA_MAX && part->offset < NIGH_ARENA_MAX &&
                       is_in_arena(member, source->where, part->bytes)
                   ? 0
                   : -EPROTO;
    case NIGH_LIES_PROCESS:
        source->where = where + part->offset;
        return 0;
    default:
        return -EPROTO;
    }
}

int nigh_source_open(const struct nigh_member *member, const struct nigh_call_slot *slot,
                     const struct nigh_shape *shape, bool by_parts, uint64_t expected,
                     struct nigh_source *out, uint64_t *bytes)
{
    uint64_t word = nigh_load_relaxed(&slot->bytes), total = word >> 8, parts = 0;
    struct nigh_part part = {.bytes = total};
    struct nigh_source source = {.slot = slot, .lies = (enum nigh_lies)(word & 0xff)};

    /* Of these the slot has what a call before has left there. */
    if (source.lies != NIGH_LIES_INLINE && source.lies != NIGH_LIES_NOWHERE) {
        source.where = nigh_load_relaxed(&slot->where);
        parts = nigh_load_relaxed(&slot->parts);
    }
    source.stream = nigh_shape_unit(shape);
    source.piece = source.stream;
    if (by_parts) {
        source.stream = nigh_shape_stream(shape->members);
        source.piece = nigh_shape_piece(shape->members);
        if (parts) {
            int rc = find_part(member, parts, shape, total, &part);

            if (rc)
                return rc;
        } else {
            part = (struct nigh_part){.offset = total / shape->members * shape->me,
                                      .bytes = total / shape->members};
        }
    }
    *bytes = part.bytes;
    if (part.bytes != expected)
        return -EMSGSIZE;
    source.bytes = expected;
    if (!expected)
        source.lies = NIGH_LIES_NOWHERE;
    else if (check_place(member, &source, &part))
        return -EPROTO;
    if (by_parts && source.lies == NIGH_LIES_STREAM)
        source.where += shape->me * source.piece;
    *out = source;
    return 0;
}

int nigh_source_open_out(const struct nigh_member *member, const struct nigh_call_slot *slot,
                         const struct nigh_shape *shape, struct nigh_source *out)
{
    struct nigh_part part = {.bytes = shape->vector};
    struct nigh_source source = {
        .slot = slot,
        .lies = (enum nigh_lies)nigh_load_relaxed(&slot->out_lies),
        .where = nigh_load_relaxed(&slot->out_where),
        .bytes = shape->vector,
        .piece = nigh_shape_unit(shape),
        .stream = nigh_shape_unit(shape),
    };

    if (source.lies != NIGH_LIES_STREAM && !nigh_source_is_direct(&source))
        return -EPROTO;
    if (check_place(member, &source, &part))
        return -EPROTO;
    *out = source;
    return 0;
}

uint64_t nigh_source_there(const struct nigh_source *source)
{
    uint64_t units;

    if (source->lies != NIGH_LIES_STREAM)
        return source->bytes;
    units = nigh_load_acquire(&source->slot->staged, STEP_GET);
    return units < source->bytes / source->piece + 1 ? units * source->piece : source->bytes;
}

const void *nigh_source_at(const struct nigh_source *source, const struct nigh_member *member, uint64_t at,
                           uint64_t *bytes)
{
    uint64_t unit, within;

    switch (source->lies) {
    case NIGH_LIES_INLINE:
        return source->slot->payload + source->where + at;
    case NIGH_LIES_WHOLE:
    case NIGH_LIES_HEAP:
        return member->link.view->base + source->where + at;
    case NIGH_LIES_STREAM:
        unit = at / source->piece;
        within = at % source->piece;
        if (*bytes > source->piece - within)
            *bytes = source->piece - within;
        return member->link.view->base + source->where + unit % NIGH_STREAM_UNITS * source->stream + within;
    case NIGH_LIES_PROCESS:
        return nigh_program_at(member->link.program, source->where + at, *bytes);
    default:
        return NULL;
    }
}

int nigh_source_read(const struct nigh_source *source, const struct nigh_member *member, uint64_t at,
                     uint64_t bytes, void *to)
{
    uint8_t *next = to;

    while (bytes) {
        uint64_t some = bytes;
        const void *from = nigh_source_at(source, member, at, &some);

        if (from && some <= SMALL_BYTES) {
            nigh_copy_small(next, from, some);
        } else if (from) {
            memcpy(next, from, some);
        } else {
            int rc = nigh_cma_read(member->link.pid, next, source->where + at, some);

            if (rc)
                return rc;
        }
        next += some;
        at += some;
        bytes -= some;
    }
    return 0;
}
