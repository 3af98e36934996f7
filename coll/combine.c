/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/combine.c - reductions. A member reduces what it takes in the order of the members. Long vectors that all, or the root,
 * want whole are shared out: each member reduces its part of each unit, shows it, and takes the other parts from the others.
 */
#include "coll/call.h"
#include "coll/fold.h"
#include "coll/put.h"

#include <errno.h>
#include <string.h>

/* In one pass, of the result. */
#define TURN_BYTES (256u * 1024)

/* One source for each member, in their order. */
struct sources {
    const void *at[NIGH_GROUP_MAX];
    const void *factors[NIGH_GROUP_MAX];
    uint32_t count;
};

static uint8_t *tile_of(const struct nigh_call *call, uint32_t i)
{
    return call->group->tiles + i * call->group->tile;
}

static uint64_t whole_elements(const struct nigh_call *call, uint64_t bytes)
{
    return bytes - bytes % call->shape.width;
}

static bool is_folded(const struct nigh_call *call, uint32_t member)
{
    if (member == call->shape.me)
        return call->shape.folds_own;
    return nigh_shape_has(&call->shape, call->shape.takes, member);
}

static const void *factor_of(const struct nigh_call *call, uint32_t member)
{
    return member == call->shape.me ? call->factor : nigh_call_of(call, member)->factor;
}

/* Where `at` of each is; NULL: only the kernel can read it, to a tile. Each is looked for once, as a member may take its memory
 * back at any time. Returns how much of `bytes` can be reduced at a time: as far as all lie in one piece, or fit in a tile. */
static uint64_t find_sources(const struct nigh_call *call, uint64_t at, uint64_t bytes, struct sources *out)
{
    uint64_t tile = whole_elements(call, call->group->tile);

    out->count = 0;
    if (call->what.reduction == NIGH_FUNCTION && bytes > tile)
        bytes = tile;
    for (uint32_t i = 0; i < call->shape.members; i++) {
        const void *from;

        if (!is_folded(call, i))
            continue;
        from = i == call->shape.me ? call->shape.in + at
                                   : nigh_source_at(&call->peers[i].in, &call->group->members[i], at, &bytes);
        if (!from && bytes > tile)
            bytes = tile;
        out->factors[out->count] = factor_of(call, i);
        out->at[out->count++] = from;
    }
    return bytes;
}

/* Copies [at, at + bytes) of the sources that only the kernel can read. */
static bool read_rest(struct nigh_call *call, uint64_t at, uint64_t bytes, struct sources *sources)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        int rc;

        if (!is_folded(call, i) || sources->at[next++])
            continue;
        rc = nigh_source_read(&call->peers[i].in, &call->group->members[i], at, bytes, tile_of(call, i));
        if (rc) {
            nigh_call_unreadable(call, i, rc);
            return false;
        }
        sources->at[next - 1] = tile_of(call, i);
    }
    return true;
}

/* From the last to the first: the function keeps the order of its operands. */
static void apply_function(const struct nigh_call *call, const void *const *sources, uint32_t count,
                           uint64_t bytes, uint8_t *into)
{
    uint8_t *result = tile_of(call, call->shape.members);

    memcpy(result, sources[count - 1], bytes);
    for (uint32_t i = count - 1; i-- > 0;)
        call->what.function(call->what.function_arg, sources[i], result, bytes / call->shape.width);
    memcpy(into, result, bytes);
}

void nigh_call_fold(const struct nigh_call *call, enum nigh_atomic_op op, const void *const *sources,
                    const void *const *factors, uint32_t count, uint64_t bytes, uint8_t *into)
{
    struct nigh_fold_more more = {.ranks = call->shape.members, .factors = factors};

    if (op == NIGH_FUNCTION)
        apply_function(call, sources, count, bytes, into);
    else
        nigh_fold_select(call->what.type, op)(into, sources, count, bytes / call->shape.width, &more);
}

/* Reduces [at, at + bytes) into `into`. False: the group is broken. */
static bool fold(struct nigh_call *call, uint64_t at, uint64_t bytes, uint8_t *into)
{
    struct sources sources;

    while (bytes) {
        uint64_t some = find_sources(call, at, bytes, &sources);

        if (!read_rest(call, at, some, &sources))
            return false;
        nigh_call_fold(call, call->what.reduction, sources.at, sources.factors, sources.count, some, into);
        at += some;
        into += some;
        bytes -= some;
    }
    return true;
}

/* Up to where the vector is there of all; one that has ended shows no more. */
static uint64_t there_of_all(struct nigh_call *call)
{
    uint64_t least = call->shape.vector;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        bool ended;
        uint64_t there;

        if (i == call->shape.me || !is_folded(call, i))
            continue;
        ended = call->group->members[i].ended;
        there = nigh_source_there(&call->peers[i].in);
        if (ended && there < call->shape.vector)
            nigh_call_lost(call, i);
        least = there < least ? there : least;
    }
    return least;
}

/* Does anybody wait for what is taken of it: to stage the next unit, or to write its buffer? */
static bool is_asked(const struct nigh_call *call)
{
    for (uint32_t i = 0; i < call->shape.members; i++)
        if (call->peers[i].seen && call->peers[i].in.lies >= NIGH_LIES_STREAM)
            return true;
    return false;
}

static void tell_taken(struct nigh_call *call, uint64_t units)
{
    struct nigh_call_slot *own = nigh_call_own(call);

    if (!is_asked(call) || nigh_load_relaxed(&own->taken) >= units)
        return;
    nigh_call_step(&own->taken, units);
    nigh_call_tell(call, call->shape.takes);
}

/* ---- alone --------------------------------------------------------------------------------------------- */

/* [at, at + *bytes) of the vector: where the result goes. *bytes may become less. */
static uint8_t *place_of(const struct nigh_call *call, uint64_t at, uint64_t *bytes)
{
    uint64_t unit = nigh_shape_unit(&call->shape), within = at % unit;

    if (!call->window)
        return call->to + (at - call->shape.from);
    if (*bytes > unit - within)
        *bytes = unit - within;
    return call->window + at / unit % NIGH_STREAM_UNITS * unit + within;
}

/* Copies to recv what the others have taken there. */
static bool give_back(struct nigh_call *call)
{
    uint64_t unit = nigh_shape_unit(&call->shape), taken = nigh_call_taken(call, false), end = call->reduced;

    if (call->staged < call->stages)
        taken = taken < call->staged ? taken : call->staged;
    if (taken < end / unit + 1 && taken * unit < end)
        end = taken * unit;
    if (!call->window || call->returned >= end)
        return false;
    while (call->returned < end) {
        uint64_t bytes = end - call->returned;
        const uint8_t *from = place_of(call, call->returned, &bytes);

        memcpy(call->to + call->returned, from, bytes);
        call->returned += bytes;
    }
    return true;
}

/* How far this member can reduce now. */
static uint64_t end_of_turn(struct nigh_call *call, uint64_t begin)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t end = there_of_all(call), unit = nigh_shape_unit(shape);

    end = end < shape->to ? end : shape->to;
    if (end > begin && end - begin > TURN_BYTES && shape->width <= TURN_BYTES)
        end = begin + whole_elements(call, TURN_BYTES);
    if (call->window && end > call->returned + NIGH_STREAM_UNITS * unit)
        end = call->returned + NIGH_STREAM_UNITS * unit;
    return end > begin ? end : begin;
}

/* This member reduces all that it wants. `reduced` counts bytes. */
static bool fold_alone(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t unit = nigh_shape_unit(shape), begin, end;
    bool moved;

    if (call->unseen)
        return false;
    moved = give_back(call);
    begin = shape->from + call->reduced;
    end = end_of_turn(call, begin);
    tell_taken(call, begin / unit);
    for (uint64_t at = begin; at < end;) {
        uint64_t bytes = end - at;
        uint8_t *into = place_of(call, at, &bytes);

        if (!fold(call, at, bytes, into))
            return true;
        at += bytes;
        call->reduced += bytes;
        tell_taken(call, at / unit);
    }
    moved |= end > begin;
    if (shape->from + call->reduced < shape->to)
        return moved;
    tell_taken(call, NIGH_CALL_ALL);
    moved |= give_back(call);
    if (call->window && call->returned < call->reduced)
        return moved;
    call->open = 0;
    return true;
}

/* ---- shared out ---------------------------------------------------------------------------------------- */

bool nigh_call_has_room(const struct nigh_call *call)
{
    uint64_t taken;

    if (call->out_lies != NIGH_LIES_STREAM || call->reduced < NIGH_STREAM_UNITS)
        return true;
    taken = nigh_call_taken(call, true);
    return taken >= call->reduced || call->reduced - taken < NIGH_STREAM_UNITS;
}

/* Of this member's part: what it keeps, and a copy for the others; one of them may be NULL. */
static bool fold_through(struct nigh_call *call, const struct nigh_part *share, uint8_t *kept, uint8_t *shown)
{
    if (!fold(call, share->offset, share->bytes, kept ? kept : shown))
        return false;
    if (kept && shown)
        nigh_put(call->group->coll, shown, kept, share->bytes);
    return true;
}

/* The same by way of a tile, from which it goes past the cache to where others have read before. */
static bool fold_past(struct nigh_call *call, const struct nigh_part *share, uint8_t *kept, uint8_t *shown)
{
    uint8_t *tile = tile_of(call, call->shape.members + 1);
    uint64_t most = whole_elements(call, call->group->tile);

    for (uint64_t at = 0; at < share->bytes;) {
        uint64_t bytes = share->bytes - at < most ? share->bytes - at : most;

        if (!fold(call, share->offset + at, bytes, tile))
            return false;
        if (shown)
            nigh_put(call->group->coll, shown + at, tile, bytes);
        if (kept && shown)
            memcpy(kept + at, tile, bytes);
        else if (kept)
            nigh_put(call->group->coll, kept + at, tile, bytes);
        at += bytes;
    }
    return true;
}

static bool fold_share(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    struct nigh_part share = nigh_shape_share(shape, call->reduced, shape->me);
    uint64_t unit = nigh_shape_unit(shape);
    uint8_t *shown = call->out_lies == NIGH_LIES_STREAM
                         ? call->out_stream + call->reduced % NIGH_STREAM_UNITS * unit + share.offset % unit
                         : NULL;
    uint8_t *kept = shape->keeps ? call->to + share.offset : NULL;

    if (call->out_lies == NIGH_LIES_NOWHERE || !nigh_put_is_past(call->group->coll))
        return fold_through(call, &share, kept, shown);
    return fold_past(call, &share, kept, shown);
}

static bool fold_shares(struct nigh_call *call)
{
    uint64_t there, unit = nigh_shape_unit(&call->shape), before = call->reduced, bytes = 0;

    if (call->unseen)
        return false;
    there = there_of_all(call);
    while (call->group->state == NIGH_GROUP_READY && call->reduced < call->units && bytes < TURN_BYTES &&
           (there == call->shape.vector || (call->reduced + 1) * unit <= there) && nigh_call_has_room(call)) {
        if (!fold_share(call))
            return true;
        bytes += unit / call->shape.members + 1;
        call->reduced++;
        nigh_call_step(&nigh_call_own(call)->reduced, call->reduced);
        nigh_call_tell(call, call->shape.out_by);
    }
    tell_taken(call, call->reduced);
    if (call->reduced < call->units)
        return call->reduced != before;
    call->open = 0;
    return true;
}

bool nigh_call_combine(struct nigh_call *call)
{
    if (!call->open)
        return false;
    return call->shape.shared_out ? fold_shares(call) : fold_alone(call);
}

/* ---- the others' parts of the result ------------------------------------------------------------------- */

/* -errno; else how many units. */
static int64_t take_result(struct nigh_call *call, uint32_t member, uint64_t reduced)
{
    struct nigh_call_peer *peer = &call->peers[member];
    uint64_t bytes = 0, before = peer->got_out;

    while (peer->got_out < reduced && bytes < TURN_BYTES) {
        struct nigh_part share = nigh_shape_share(&call->shape, peer->got_out, member);
        int rc = nigh_source_read(&peer->out, &call->group->members[member], share.offset, share.bytes,
                                  call->to + share.offset);

        if (rc)
            return rc;
        bytes += share.bytes + 1;
        peer->got_out++;
    }
    if (peer->got_out == call->units)
        call->open_out--;
    return (int64_t)(peer->got_out - before);
}

bool nigh_call_open_result(struct nigh_call *call, uint32_t member)
{
    struct nigh_call_peer *peer = &call->peers[member];

    if (peer->has_out)
        return true;
    if (nigh_source_open_out(&call->group->members[member], nigh_call_of(call, member), &call->shape,
                             &peer->out)) {
        nigh_call_impossible(call, member);
        return false;
    }
    peer->has_out = true;
    call->took_direct |= nigh_source_is_direct(&peer->out);
    return true;
}

static bool take_results_of(struct nigh_call *call, uint32_t member)
{
    struct nigh_call_peer *peer = &call->peers[member];
    bool ended = call->group->members[member].ended; /* before the look */
    uint64_t reduced = nigh_load_acquire(&nigh_call_of(call, member)->reduced, STEP_GET);
    int64_t units;

    reduced = reduced < call->units ? reduced : call->units;
    if (reduced <= peer->got_out) {
        if (ended)
            nigh_call_lost(call, member);
        return ended;
    }
    if (!nigh_call_open_result(call, member))
        return true;
    units = take_result(call, member, reduced);
    if (units < 0)
        nigh_call_unreadable(call, member, (int)units);
    return true;
}

static void tell_results_taken(struct nigh_call *call)
{
    uint64_t least = NIGH_CALL_ALL;
    struct nigh_call_slot *own = nigh_call_own(call);

    for (uint32_t i = 0; i < call->shape.members; i++)
        if (nigh_shape_has(&call->shape, call->shape.takes_out, i) && call->peers[i].got_out < call->units &&
            call->peers[i].got_out < least)
            least = call->peers[i].got_out;
    if (least == nigh_load_relaxed(&own->taken_out))
        return;
    nigh_call_step(&own->taken_out, least);
    nigh_call_tell(call, call->shape.takes_out);
}

bool nigh_call_take_results(struct nigh_call *call)
{
    bool moved = false;

    for (uint32_t i = 1; i < call->shape.members && call->group->state == NIGH_GROUP_READY; i++) {
        uint32_t member = (call->shape.me + i) % call->shape.members;

        /* A member that has not come to the call yet has reduced nothing. */
        if (nigh_shape_has(&call->shape, call->shape.takes_out, member) && call->peers[member].seen &&
            call->peers[member].got_out < call->units)
            moved |= take_results_of(call, member);
    }
    if (moved && call->group->state == NIGH_GROUP_READY)
        tell_results_taken(call);
    return moved;
}
