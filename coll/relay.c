/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/relay.c - long broadcasts and allgathers of groups with domains. The bytes of a member of another domain come to one
 * member of this, which shows them to the rest, unit by unit: source by source, in the order of the members. `reduced` in its
 * slot counts the units of all of them.
 */
#include "coll/call.h"
#include "coll/put.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>

/* The next source that `relayer` shows, from `from` on, which gives anything; members: there is none. */
static uint32_t next_source(const struct nigh_call *call, uint32_t relayer, uint32_t from)
{
    while (from < call->shape.members && (!nigh_shape_relays(&call->shape, relayer, from) ||
                                          !nigh_shape_packed(&call->what, &call->shape, from).bytes))
        from++;
    return from;
}

static uint64_t unit_of(uint64_t block, uint64_t at)
{
    return block - at < NIGH_RELAY_BYTES ? block - at : NIGH_RELAY_BYTES;
}

void nigh_relay_count(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;

    call->units = 0;
    for (uint32_t i = 0; i < shape->members && shape->takes_out != NIGH_WHOM_NONE; i++) {
        struct nigh_call_peer *peer = &call->peers[i];

        if (!nigh_shape_has(shape, shape->takes_out, i))
            continue;
        peer->relayed = next_source(call, i, 0);
        call->open_out -= peer->relayed == shape->members;
    }
    if (shape->out_by == NIGH_WHOM_NONE)
        return;
    call->relaying = next_source(call, shape->me, 0);
    for (uint32_t i = call->relaying; i < shape->members; i = next_source(call, shape->me, i + 1))
        call->units +=
            (nigh_shape_packed(&call->what, shape, i).bytes + NIGH_RELAY_BYTES - 1) / NIGH_RELAY_BYTES;
}

/* ---- do all expect the same blocks? ---- */

static uint64_t number_of_blocks(const struct nigh_call *call)
{
    uint64_t hash = call->number + 1;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        hash = (hash ^ nigh_shape_packed(&call->what, &call->shape, i).bytes) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

void nigh_relay_say_blocks(const struct nigh_call *call)
{
    nigh_store_relaxed(&nigh_call_own(call)->blocks, number_of_blocks(call));
}

/* A member that has begun. Where it expects other lengths, no other member is sure to see that by a block of its own. */
static bool has_same_blocks(struct nigh_call *call, uint32_t member)
{
    uint64_t theirs = nigh_load_relaxed(&nigh_call_of(call, member)->blocks);

    if (theirs == nigh_load_relaxed(&nigh_call_own(call)->blocks))
        return true;
    nigh_group_say(call->group, NIGH_LOG_ERROR,
                   "call %" PRIu64 ": members %" PRIu32 " and %" PRIu32 " say other lengths of the blocks",
                   call->number, member, call->shape.me);
    nigh_group_revoke(call->group, NIGH_REVOKED_MISMATCH, call->number, member, -EPROTO);
    return false;
}

/* ---- shows --------------------------------------------------------------------------------------------- */

/* Its domain does not look at the source: was it the call's buffer that was read of it? */
static bool may_show(struct nigh_call *call, uint32_t source)
{
    const struct nigh_source *in = &call->peers[source].in;

    if (!nigh_source_is_direct(in))
        return true;
    nigh_fence_full(LEAVE_HEAR);
    if (nigh_group_is_sound(call->group, source, in->lies == NIGH_LIES_PROCESS))
        return true;
    nigh_call_lost(call, source);
    return false;
}

static void copy_unit(struct nigh_call *call, const struct nigh_call_peer *from, uint64_t bytes)
{
    uint8_t *to = call->out_stream + call->reduced % NIGH_STREAM_UNITS * NIGH_RELAY_BYTES;

    if (call->out_lies == NIGH_LIES_STREAM)
        nigh_put(call->group->coll, to, call->to + from->to + call->relayed_to, bytes);
}

bool nigh_call_relay(struct nigh_call *call)
{
    uint64_t before = call->reduced;

    while (call->reduced < call->units && nigh_call_has_room(call)) {
        const struct nigh_call_peer *from = &call->peers[call->relaying];
        uint64_t block = nigh_shape_packed(&call->what, &call->shape, call->relaying).bytes;
        uint64_t bytes = unit_of(block, call->relayed_to);

        if (!from->seen || from->got < call->relayed_to + bytes)
            break;
        copy_unit(call, from, bytes);
        if (!may_show(call, call->relaying))
            return true;
        call->reduced++;
        call->relayed_to += bytes;
        if (call->relayed_to < block)
            continue;
        call->relaying = next_source(call, call->shape.me, call->relaying + 1);
        call->relayed_to = 0;
    }
    if (call->reduced == before)
        return false;
    nigh_call_step(&nigh_call_own(call)->reduced, call->reduced);
    nigh_call_tell(call, call->shape.out_by);
    return true;
}

/* ---- takes --------------------------------------------------------------------------------------------- */

/* Where the next unit is that `relayer` shows: its bytes of the stream, or of its recv. */
static uint64_t place_of(const struct nigh_call *call, const struct nigh_call_peer *peer)
{
    if (peer->out.lies == NIGH_LIES_STREAM)
        return peer->got_out * NIGH_RELAY_BYTES;
    return nigh_shape_packed(&call->what, &call->shape, peer->relayed).offset + peer->relayed_to;
}

/* -errno of reading it. */
static int take_unit(struct nigh_call *call, uint32_t relayer)
{
    struct nigh_call_peer *peer = &call->peers[relayer];
    uint64_t block = nigh_shape_packed(&call->what, &call->shape, peer->relayed).bytes;
    uint64_t bytes = unit_of(block, peer->relayed_to);
    uint64_t to =
        call->shape.broadcasts ? 0 : nigh_shape_part_of(&call->what, &call->shape, peer->relayed).offset;
    int rc = nigh_source_read(&peer->out, &call->group->members[relayer], place_of(call, peer), bytes,
                              call->to + to + peer->relayed_to);

    if (rc)
        return rc;
    peer->got_out++;
    peer->relayed_to += bytes;
    if (peer->relayed_to < block)
        return 0;
    peer->relayed = next_source(call, relayer, peer->relayed + 1);
    peer->relayed_to = 0;
    call->open_out -= peer->relayed == call->shape.members;
    return 0;
}

/* It has begun the same call. */
static bool has_begun(struct nigh_call *call, uint32_t member)
{
    struct nigh_call_peer *peer = &call->peers[member];
    bool ended = call->group->members[member].ended; /* before the look */
    uint64_t head;

    /* One whose own bytes are taken is looked for by the call. */
    if (peer->seen || nigh_shape_has(&call->shape, call->shape.takes, member))
        return peer->seen;
    head = nigh_load_acquire(&nigh_call_of(call, member)->head, CALL_PEEK);
    if ((uint32_t)(head >> 32) != (uint32_t)call->number) {
        if (ended)
            nigh_call_lost(call, member);
        return false;
    }
    if ((uint32_t)head == call->print)
        return peer->seen = true;
    nigh_call_mismatch(call, member);
    return false;
}

/* In one pass, of one relayer's. */
#define TURN_UNITS 8u

static bool take_from(struct nigh_call *call, uint32_t relayer)
{
    struct nigh_call_peer *peer = &call->peers[relayer];
    bool ended = call->group->members[relayer].ended; /* before the look */
    uint64_t shown = nigh_load_acquire(&nigh_call_of(call, relayer)->reduced, STEP_GET);

    if (shown <= peer->got_out) {
        if (ended)
            nigh_call_lost(call, relayer);
        return ended;
    }
    if (!peer->has_out && !nigh_call_open_result(call, relayer))
        return true;
    for (unsigned i = 0; i < TURN_UNITS && peer->got_out < shown && peer->relayed < call->shape.members;
         i++) {
        int rc = take_unit(call, relayer);

        if (!rc)
            continue;
        nigh_call_unreadable(call, relayer, rc);
        return true;
    }
    return true;
}

/* Units that were taken of all. */
static void tell_taken(struct nigh_call *call)
{
    struct nigh_call_slot *own = nigh_call_own(call);
    uint64_t least = NIGH_CALL_ALL;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        const struct nigh_call_peer *peer = &call->peers[i];

        if (nigh_shape_has(&call->shape, call->shape.takes_out, i) && peer->relayed < call->shape.members &&
            peer->got_out < least)
            least = peer->got_out;
    }
    if (least == nigh_load_relaxed(&own->taken_out))
        return;
    nigh_call_step(&own->taken_out, least);
    nigh_call_tell(call, call->shape.takes_out);
}

bool nigh_call_take_relayed(struct nigh_call *call)
{
    uint32_t members = call->shape.members;
    bool moved = false;

    for (uint32_t i = 1; i < members && call->group->state == NIGH_GROUP_READY; i++) {
        uint32_t member = (call->shape.me + i) % members;

        if (nigh_shape_has(&call->shape, call->shape.takes_out, member) &&
            call->peers[member].relayed < members && has_begun(call, member))
            moved |= !has_same_blocks(call, member) || take_from(call, member);
    }
    if (moved && call->group->state == NIGH_GROUP_READY)
        tell_taken(call);
    return moved;
}
