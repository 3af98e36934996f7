/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/move.c - a call that reduces nothing: copies each member's bytes to their place in the result, as they come. */
#include "coll/call.h"

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

/* A member that has ended shows no more of its stream. */
static bool is_stuck(const struct nigh_call *call, uint32_t member)
{
    const struct nigh_call_peer *peer = &call->peers[member];

    return call->group->members[member].ended && nigh_source_there(&peer->in) <= peer->got;
}

bool nigh_call_move(struct nigh_call *call)
{
    uint32_t members = call->shape.members;
    uint64_t turn = call->shape.out_by != NIGH_WHOM_NONE ? nigh_shape_unit(&call->shape) : TURN_BYTES,
             left = turn;
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
    if (call->shape.relays && call->group->state == NIGH_GROUP_READY && nigh_call_relay(call))
        return true;
    return left != turn;
}
