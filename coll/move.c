/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/move.c - takes what only moves: copies each member's bytes to their place in the result, as they come. */
#include "coll/call.h"
#include "coll/put.h"

#include <errno.h>

/* In one pass, of all members together. */
#define TURN_BYTES (512u * 1024)

/* Units of streams that are taken from all who have as many. */
static void tell_taken(struct nigh_call *call)
{
    uint64_t least = NIGH_CALL_ALL;
    struct nigh_call_slot *own = nigh_call_own(call);

    for (uint32_t i = 0; i < call->shape.members; i++) {
        const struct nigh_call_peer *peer = &call->peers[i];
        uint64_t units;

        if (!nigh_shape_has(&call->shape, call->shape.takes, i) ||
            (peer->seen && peer->got == peer->in.bytes))
            continue;
        units = peer->seen && peer->in.lies == NIGH_LIES_STREAM ? peer->got / peer->in.piece
                : peer->seen                                    ? NIGH_CALL_ALL
                                                                : 0;
        least = units < least ? units : least;
    }
    if (least == nigh_load_relaxed(&own->taken))
        return;
    nigh_call_step(&own->taken, least);
    nigh_call_tell(call, call->shape.takes);
}

/* -errno: reading fails. Else how many bytes. */
static int64_t take_from(struct nigh_call *call, uint32_t member, uint64_t most)
{
    struct nigh_call_peer *peer = &call->peers[member];
    uint64_t there = nigh_source_there(&peer->in), bytes;
    int rc;

    /* A member that takes back what it has said gives nothing. */
    if (there <= peer->got)
        return 0;
    bytes = there - peer->got < most ? there - peer->got : most;
    rc = nigh_source_read(&peer->in, &call->group->members[member], peer->got, bytes,
                          call->to + peer->to + peer->got);
    if (rc)
        return rc;
    peer->got += bytes;
    if (peer->got == peer->in.bytes)
        call->open--;
    return (int64_t)bytes;
}

/* One that has ended shows no more of its stream. */
static bool is_stuck(const struct nigh_call *call, uint32_t member)
{
    const struct nigh_call_peer *peer = &call->peers[member];

    return call->group->members[member].ended && nigh_source_there(&peer->in) <= peer->got;
}

/* Its domain does not look at the root: was it the call's buffer that was read of it? */
static bool may_show(struct nigh_call *call)
{
    uint32_t root = call->shape.root;
    const struct nigh_source *in = &call->peers[root].in;

    if (!nigh_source_is_direct(in))
        return true;
    nigh_fence_full(LEAVE_HEAR);
    if (nigh_group_is_sound(call->group, root, in->lies == NIGH_LIES_PROCESS))
        return true;
    nigh_call_lost(call, root);
    return false;
}

/* Shows its domain what it has taken. */
static bool relay(struct nigh_call *call)
{
    uint32_t root = call->shape.root;
    uint64_t unit = nigh_shape_unit(&call->shape), got = call->peers[root].got, before = call->reduced;
    uint64_t end = got == call->shape.vector ? call->units : got / unit;

    for (; call->reduced < end && nigh_call_has_room(call); call->reduced++) {
        struct nigh_part part = nigh_shape_share(&call->shape, call->reduced, call->shape.me);

        if (call->out_lies == NIGH_LIES_STREAM)
            nigh_put(call->group->coll, call->out_stream + call->reduced % NIGH_STREAM_UNITS * unit,
                     call->to + part.offset, part.bytes);
    }
    if (call->reduced == before)
        return false;
    if (!may_show(call))
        return true;
    nigh_call_step(&nigh_call_own(call)->reduced, call->reduced);
    nigh_call_tell(call, call->shape.out_by);
    return true;
}

bool nigh_call_move(struct nigh_call *call)
{
    uint32_t members = call->shape.members;
    bool relays = call->shape.relays && call->shape.out_by != NIGH_WHOM_NONE;
    uint64_t turn = relays ? nigh_shape_unit(&call->shape) : TURN_BYTES, left = turn;
    bool streams = false;

    /* From the next one on, so that not all begin with the same. */
    for (uint32_t i = 1; i < members && left && call->open; i++) {
        uint32_t member = (call->shape.me + i) % members;
        struct nigh_call_peer *peer = &call->peers[member];
        int64_t bytes;

        if (!peer->seen || peer->got == peer->in.bytes)
            continue;
        bytes = take_from(call, member, left);
        if (bytes < 0) {
            nigh_call_unreadable(call, member, (int)bytes);
            return true;
        }
        if (!bytes && is_stuck(call, member)) {
            nigh_call_lost(call, member);
            return true;
        }
        streams |= peer->in.lies == NIGH_LIES_STREAM;
        left -= (uint64_t)bytes;
    }
    if (streams)
        tell_taken(call);
    return (relays && relay(call)) || left != turn;
}
