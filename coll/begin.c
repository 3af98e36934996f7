/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/begin.c - a call shows this member's `in` in its slot: small ones by a copy, so that the member may go on; long ones
 * where they lie, if all who take them have mapped them, or as a stream of copies; or to be read by the kernel. */
#include "coll/call.h"
#include "coll/check.h"
#include "coll/put.h"
#include "coll/short.h"

#include <errno.h>
#include <string.h>

/* Up to so many bytes are copied: of what others have mapped, and of what they can read by the kernel alone. */
#define WHOLE_MAPPED NIGH_CALL_COPIED
#define WHOLE_KERNEL 32768u
/* A result that others can read by the kernel alone is streamed to them up to this, where one copy is better than two. */
#define OUT_STREAMED 262144u
/* Where two copies are better than one: the longest part of alltoall, scatter and reduce_scatter, and the members of a group in
 * which pieces of parts are not too short. */
#define PARTS_STREAMED       262144u
#define PARTS_STREAM_MEMBERS 16u

enum reach { REACH_NOT, REACH_KERNEL, REACH_MAPPED };

struct reached {
    enum reach reach;
    enum nigh_lies lies;
    uint64_t where;
};

/* Can all of `whom` read our memory, and have they mapped the program's? */
static enum reach all_reach(const struct nigh_call *call, enum nigh_whom whom)
{
    enum reach reach = REACH_MAPPED;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        const struct nigh_member_link *link = &call->group->members[i].link;

        if (!nigh_shape_has(&call->shape, whom, i))
            continue;
        /* Relaxed: they steer only which way is taken. */
        if (nigh_load_relaxed(link->reads) != 1)
            return REACH_NOT;
        if (!nigh_load_relaxed(link->maps))
            reach = REACH_KERNEL;
    }
    return reach;
}

static uint64_t longest_part(const struct nigh_call *call)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        uint64_t bytes = nigh_shape_part_for(&call->what, &call->shape, i).bytes;

        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

/* Of what others can read by the kernel alone: two copies in place of that one? */
static bool streams(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;

    if (!call->group->coll->streams || call->lacks_memory)
        return false;
    return !shape->by_parts ||
           (shape->members <= PARTS_STREAM_MEMBERS && longest_part(call) <= PARTS_STREAMED);
}

static struct reached reach_of(const struct nigh_call *call, enum nigh_whom whom, const void *buffer,
                               uint64_t bytes)
{
    struct nigh_coll *coll = call->group->coll;
    struct reached reached = {.reach = REACH_NOT};

    if (coll->copies_only || !buffer || !bytes)
        return reached;
    if (nigh_heap_find(coll->heap, buffer, bytes, &reached.where) == 0) {
        reached.reach = REACH_MAPPED;
        reached.lies = NIGH_LIES_HEAP;
        return reached;
    }
    reached.reach = all_reach(call, whom);
    reached.lies = NIGH_LIES_PROCESS;
    reached.where = (uintptr_t)buffer;
    if (reached.reach == REACH_MAPPED && !nigh_program_holds(&coll->arena->layout, buffer, bytes))
        reached.reach = REACH_KERNEL;
    if (reached.reach == REACH_KERNEL && streams(call))
        reached.reach = REACH_NOT;
    if (reached.reach != REACH_NOT && !coll->host->may_be_read(coll->user, buffer, bytes))
        reached.reach = REACH_NOT;
    return reached;
}

/* From the beginning of `in` to the end of its last part. */
static uint64_t in_extent(const struct nigh_call *call)
{
    uint64_t end = 0;

    if (!call->shape.parts_differ)
        return call->shape.in_bytes;
    for (uint32_t i = 0; i < call->shape.members; i++) {
        struct nigh_part part = nigh_shape_part_for(&call->what, &call->shape, i);

        end = part.bytes && part.offset + part.bytes > end ? part.offset + part.bytes : end;
    }
    return end;
}

/* ---- which way ----------------------------------------------------------------------------------------- */

static void choose_in(struct nigh_call *call, struct reached *reached)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t most;

    *reached = (struct reached){.reach = REACH_NOT};
    if (!shape->in_bytes || shape->taken_by == NIGH_WHOM_NONE || shape->members == 1) {
        call->lies = NIGH_LIES_NOWHERE;
        return;
    }
    if (shape->in_bytes <= NIGH_CALL_INLINE && !shape->parts_differ) {
        call->lies = NIGH_LIES_INLINE;
        return;
    }
    if (shape->in_bytes > WHOLE_MAPPED)
        *reached = reach_of(call, shape->taken_by, shape->in, in_extent(call));
    most = reached->reach == REACH_MAPPED ? WHOLE_MAPPED : WHOLE_KERNEL;
    if (shape->in_bytes <= most)
        call->lies = NIGH_LIES_WHOLE;
    else
        call->lies = reached->reach == REACH_NOT ? NIGH_LIES_STREAM : reached->lies;
}

static void choose_out(struct nigh_call *call, struct reached *reached)
{
    const struct nigh_shape *shape = &call->shape;
    enum nigh_whom others =
        shape->out_by == NIGH_WHOM_ROOT && shape->me == shape->root ? NIGH_WHOM_NONE : shape->out_by;

    *reached = (struct reached){.reach = REACH_NOT};
    call->out_lies = NIGH_LIES_NOWHERE;
    if (!shape->shared_out || others == NIGH_WHOM_NONE)
        return;
    /* Others do not know where blocks lie that have a place of their own: a stream has them in their order. */
    if (!shape->relays || !call->what.recv_offsets)
        *reached = reach_of(call, others, shape->result, shape->vector);
    if (reached->reach == REACH_MAPPED || (reached->reach == REACH_KERNEL && shape->vector > OUT_STREAMED))
        call->out_lies = reached->lies;
    else
        call->out_lies = NIGH_LIES_STREAM;
}

/* ---- what is shown ------------------------------------------------------------------------------------- */

/* Of the blocks of a call, which are one: where each begins. */
struct blocks {
    uint64_t parts, in, out, bytes;
};

static uint64_t add_block(struct blocks *blocks, uint64_t bytes)
{
    uint64_t at = blocks->bytes;

    blocks->bytes += (bytes + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE;
    return at;
}

static uint64_t stream_unit(const struct nigh_shape *shape)
{
    return shape->by_parts ? nigh_shape_stream(shape->members) : nigh_shape_unit(shape);
}

static struct blocks measure(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    struct blocks blocks = {.bytes = 0};

    if (shape->parts_differ && call->lies != NIGH_LIES_NOWHERE)
        blocks.parts = add_block(&blocks, shape->members * sizeof(struct nigh_part));
    if (call->lies == NIGH_LIES_WHOLE)
        blocks.in = add_block(&blocks, shape->in_bytes);
    if (call->lies == NIGH_LIES_STREAM)
        blocks.in = add_block(&blocks, NIGH_STREAM_UNITS * stream_unit(shape));
    if (call->out_lies == NIGH_LIES_STREAM)
        blocks.out = add_block(&blocks, NIGH_STREAM_UNITS * nigh_shape_unit(shape));
    return blocks;
}

/* Copies all of `in`, its parts behind each other; shows where each is, in the copy or in the host's buffer. */
static void show_parts(struct nigh_call *call, uint8_t *copy, struct nigh_part *parts)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        struct nigh_part part = nigh_shape_part_for(&call->what, &call->shape, i);

        if (copy && part.bytes)
            nigh_put(call->group->coll, copy + at, call->shape.in + part.offset, part.bytes);
        nigh_store_relaxed(&parts[i].offset, copy ? at : part.offset);
        nigh_store_relaxed(&parts[i].bytes, part.bytes);
        at += part.bytes;
    }
}

static void show_in(struct nigh_call *call, struct nigh_call_slot *slot, uint8_t *base,
                    const struct blocks *blocks, const struct reached *reached)
{
    const struct nigh_shape *shape = &call->shape;
    const struct nigh_coll *coll = call->group->coll;
    uint64_t where = reached->where, parts = 0;

    if (call->lies == NIGH_LIES_WHOLE || call->lies == NIGH_LIES_STREAM)
        where = (uint64_t)(base + blocks->in - coll->arena->base);
    if (call->lies == NIGH_LIES_STREAM)
        call->stream = base + blocks->in;
    if (shape->parts_differ && call->lies != NIGH_LIES_NOWHERE) {
        parts = (uint64_t)(base + blocks->parts - coll->arena->base);
        show_parts(call, call->lies == NIGH_LIES_WHOLE ? base + blocks->in : NULL,
                   (struct nigh_part *)(void *)(base + blocks->parts));
    } else if (call->lies == NIGH_LIES_WHOLE) {
        nigh_put(call->group->coll, base + blocks->in, shape->in, shape->in_bytes);
    }
    nigh_store_relaxed(&slot->bytes, shape->in_bytes << 8 | call->lies);
    if (call->lies == NIGH_LIES_INLINE) {
        nigh_copy_small(slot->payload, shape->in, shape->in_bytes);
        return;
    }
    nigh_store_relaxed(&slot->where, where);
    nigh_store_relaxed(&slot->parts, parts);
}

static void show_out(struct nigh_call *call, struct nigh_call_slot *slot, uint8_t *base,
                     const struct blocks *blocks, const struct reached *reached)
{
    uint64_t where = reached->where;

    if (call->out_lies == NIGH_LIES_NOWHERE)
        return;
    if (call->out_lies == NIGH_LIES_STREAM) {
        call->out_stream = base + blocks->out;
        where = (uint64_t)(call->out_stream - call->group->coll->arena->base);
    }
    nigh_store_relaxed(&slot->out_where, where);
    nigh_store_relaxed(&slot->out_lies, (uint64_t)call->out_lies);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

static uint32_t count_of(const struct nigh_shape *shape, enum nigh_whom whom)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < shape->members; i++)
        count += nigh_shape_has(shape, whom, i);
    return count;
}

static void count_work(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t unit = stream_unit(shape), piece = shape->by_parts ? nigh_shape_piece(shape->members) : unit;

    call->unseen = call->open = count_of(shape, shape->takes);
    call->open_out = count_of(shape, shape->takes_out);
    if (shape->folds)
        call->open = shape->keeps || shape->shared_out;
    if (shape->shared_out)
        call->units = (shape->vector + nigh_shape_unit(shape) - 1) / nigh_shape_unit(shape);
    for (uint32_t i = 0; call->lies == NIGH_LIES_STREAM && i < shape->members; i++) {
        uint64_t bytes = nigh_shape_part_for(&call->what, shape, i).bytes,
                 stages = (bytes + piece - 1) / piece;

        if (i != shape->me && stages > call->stages)
            call->stages = stages;
    }
}

/* This member's own block, in a call that moves blocks. */
static void copy_own(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    struct nigh_part from, to;

    if (shape->folds || !shape->keeps || !shape->in_bytes || !shape->result ||
        (shape->in_place && !call->scratch))
        return;
    from = nigh_shape_part_for(&call->what, shape, shape->me);
    to = nigh_shape_part_of(&call->what, shape, shape->me);
    if (from.bytes)
        memcpy(call->to + to.offset, shape->in + from.offset, from.bytes);
}

/* Short calls leave them so. */
static void show_no_steps(struct nigh_call_slot *slot)
{
    uint64_t steps = nigh_load_relaxed(&slot->staged) | nigh_load_relaxed(&slot->reduced) |
                     nigh_load_relaxed(&slot->taken) | nigh_load_relaxed(&slot->taken_out);

    if (!steps)
        return;
    nigh_store_relaxed(&slot->staged, UINT64_C(0));
    nigh_store_relaxed(&slot->reduced, UINT64_C(0));
    nigh_store_relaxed(&slot->taken, UINT64_C(0));
    nigh_store_relaxed(&slot->taken_out, UINT64_C(0));
}

/* head last: with it all of the slot can be read. */
static void publish(struct nigh_call *call, struct nigh_call_slot *slot)
{
    nigh_store_relaxed(&slot->call, nigh_call_word(&call->what));
    nigh_store_relaxed(&slot->count, call->what.count);
    if (call->what.reduction == NIGH_PREMUL)
        memcpy(slot->factor, call->factor, sizeof(slot->factor));
    nigh_store_relaxed(&slot->place, (uint64_t)(uintptr_t)call->what.place);
    show_no_steps(slot);
    nigh_store_release(&slot->head, call->number << 32 | call->print, CALL_PUBLISH);
}

static void begin_short(struct nigh_call *call)
{
    struct nigh_call_slot *slot = nigh_group_slot(call->group, call->number);

    call->lies =
        call->shape.in_bytes && call->shape.taken_by != NIGH_WHOM_NONE ? NIGH_LIES_INLINE : NIGH_LIES_NOWHERE;
    nigh_short_show(call, slot);
    publish(call, slot);
    nigh_short_own_next(call);
    nigh_short_copy_own(call);
}

void nigh_call_widen(struct nigh_call *call)
{
    call->wide = true;
    nigh_call_clear(call);
    count_work(call);
}

int nigh_call_begin(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    struct nigh_call_slot *slot = nigh_group_slot(group, call->number);
    struct reached in, out;
    struct blocks blocks;
    void *base = NULL;

    if (nigh_call_is_short(call)) {
        begin_short(call);
        return 0;
    }
    if (call->kind != NIGH_TREE_NOT) {
        int rc = nigh_tree_begin(call);

        if (rc)
            return rc;
    }
    for (;;) {
        int rc = 0;

        choose_in(call, &in);
        choose_out(call, &out);
        blocks = measure(call);
        if (blocks.bytes)
            rc = nigh_stage_take(&group->stage, group->coll->heap, blocks.bytes, &base,
                                 &group->mark[call->number % NIGH_CALL_SLOTS]);
        if (!rc)
            break;
        if (rc != -ENOMEM || !streams(call))
            return rc;
        call->lacks_memory = true; /* what is read where it lies takes less */
    }
    if (call->lies < NIGH_LIES_STREAM && !call->shape.moves_down)
        nigh_call_direct(call);
    count_work(call);
    show_in(call, slot, base, &blocks, &in);
    show_out(call, slot, base, &blocks, &out);
    publish(call, slot);
    nigh_call_tell(call, call->shape.taken_by);
    copy_own(call);
    if (call->shape.relays)
        nigh_relay_count(call);
    return 0;
}

/* ---- streams ------------------------------------------------------------------------------------------- */

static uint64_t taken_by(const struct nigh_call *call, uint32_t i, bool results)
{
    struct nigh_member *member = &call->group->members[i];
    const struct nigh_call_slot *slot = nigh_call_of(call, i);
    uint64_t taken = 0;

    if (member->ended || member->done > call->number)
        return NIGH_CALL_ALL;
    if ((uint32_t)(nigh_load_acquire(&slot->head, CALL_PEEK) >> 32) == (uint32_t)call->number)
        taken = nigh_load_acquire(results ? &slot->taken_out : &slot->taken, STEP_GET);
    /* Behind it: the slot may be another call's by now, if this one is over there. */
    return nigh_member_done(member) > call->number ? NIGH_CALL_ALL : taken;
}

uint64_t nigh_call_taken(const struct nigh_call *call, bool results)
{
    enum nigh_whom whom = results ? call->shape.out_by : call->shape.taken_by;
    uint64_t least = NIGH_CALL_ALL;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        uint64_t taken = nigh_shape_has(&call->shape, whom, i) ? taken_by(call, i, results) : NIGH_CALL_ALL;

        least = taken < least ? taken : least;
    }
    return least;
}

static void copy_unit(struct nigh_call *call, uint64_t unit)
{
    const struct nigh_shape *shape = &call->shape;
    uint8_t *to = call->stream + unit % NIGH_STREAM_UNITS * stream_unit(shape);
    uint64_t piece = shape->by_parts ? nigh_shape_piece(shape->members) : stream_unit(shape),
             begin = unit * piece;

    for (uint32_t i = 0; i < (shape->by_parts ? shape->members : 1); i++) {
        struct nigh_part part = nigh_shape_part_for(&call->what, shape, i);
        uint64_t left = part.bytes > begin ? part.bytes - begin : 0;

        if (left && !(shape->by_parts && i == shape->me))
            nigh_put(call->group->coll, to + (shape->by_parts ? i * piece : 0),
                     shape->in + part.offset + begin, left < piece ? left : piece);
    }
}

bool nigh_call_stage(struct nigh_call *call)
{
    uint64_t taken = nigh_call_taken(call, false), end = call->stages;

    /* All its takers have what they need, or have ended: its block may be another call's by now. */
    if (taken >= call->stages) {
        call->staged = call->stages;
        return true;
    }
    if (taken + NIGH_STREAM_UNITS < end)
        end = taken + NIGH_STREAM_UNITS;
    if (call->staged >= end)
        return false;
    while (call->staged < end)
        copy_unit(call, call->staged++);
    nigh_call_step(&nigh_call_own(call)->staged, call->staged);
    nigh_call_tell(call, call->shape.taken_by);
    return true;
}
