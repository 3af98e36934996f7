/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/stay.c - short messages that no receive was posted for and that stay in their rings: which may, for how long, and what a
 * receive finds of them when it is posted. Most of it is for ranks that run in turns, where senders run ahead.
 */
#include "plugin/context.h"
#include "shm/note.h"

/* Up to which slot a ring may be full of what stays, and what its sender has not been told of: what is left takes the longest body,
 * unless the sender has a larger ring to move to. */
static uint64_t staying_most(const struct nigh_endpoint *endpoint)
{
    uint32_t mask = endpoint->rx.mask, least = nigh_slots_for(NIGH_BODY_MAX), most = mask / 4 * 3;

    if (mask + 1 >= endpoint->context->config.ring_slots && most + least > mask + 1)
        most = mask + 1 - least;
    return endpoint->rx.next - nigh_ring_owed(&endpoint->rx) + most;
}

/*
 * In a crowd others may lie behind a message that stays, as senders run ahead there. Not where something else does, which no receive
 * is posted for and somebody waits for all the same (a FINISH, a GRANT, a put), nor where they fill three quarters of the ring, so that
 * their sender may soon have to wait: then until they do not. A slot is looked at once: the next look goes on behind it. Where the
 * next one lies is foretold and not computed from what this one says, so that their lines come side by side.
 */
static bool only_messages_behind(struct nigh_endpoint *endpoint)
{
    struct nigh_ring_rx ahead = endpoint->ahead;
    uint64_t most = staying_most(endpoint), head = 1;

    while (ahead.next <= most && (head = nigh_ring_peek(&ahead)) != 0) {
        if (nigh_head_kind(head) != NIGH_K_MESSAGE || nigh_head_bytes(head) > NIGH_BODY_MAX)
            break;
        if (__builtin_expect(nigh_head_bytes(head) <= NIGH_SLOT_PAYLOAD, 1))
            nigh_ring_advance_one(&ahead);
        else
            nigh_ring_advance(&ahead, nigh_slots_for(nigh_head_bytes(head)));
    }
    endpoint->ahead = ahead;
    return !head;
}

bool nigh_stay_may_in_crowd(struct nigh_endpoint *endpoint, uint32_t slots)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_rx *ahead = &endpoint->ahead;

    if (ahead->slots != endpoint->rx.slots || ahead->next <= endpoint->rx.next) {
        *ahead = endpoint->rx;
        if (slots == 1)
            nigh_ring_advance_one(ahead);
        else
            nigh_ring_advance(ahead, slots);
    }
    /* Also where nothing lies behind: the last one, if it is long, may leave its sender no room. */
    if (ahead->next > staying_most(endpoint) || (nigh_ring_peek(ahead) && !only_messages_behind(endpoint)))
        return false;
    endpoint->stays = (uint32_t)context->matcher.sequence + 1;
    context->stays_anew |= ahead->next - endpoint->rx.next > slots;
    return true;
}

/*
 * May a message that no receive was there for stay where it is for now? Its receive mostly comes soon, and keeping the message
 * costs an allocation, four queues and a second copy: a barrier of 8 ranks on 2 CPUs takes 3 % less without it. Not where another
 * message waits behind it, or might for want of room; in a crowd until a receive is posted that one of these might match (below).
 */
bool nigh_stay_may(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    struct nigh_ring_rx behind;
    uint32_t slots = nigh_slots_for(bytes);

    if (!endpoint->context->leaves || slots + nigh_ring_owed(&endpoint->rx) > endpoint->rx.mask / 2)
        return false;
    if (endpoint->context->crowd.full)
        return nigh_stay_may_in_crowd(endpoint, slots);
    behind = endpoint->rx;
    nigh_ring_advance(&behind, slots);
    return nigh_ring_peek(&behind) == 0;
}

bool nigh_stay_more(struct nigh_endpoint *endpoint)
{
    endpoint->context->stays_anew = true;
    return only_messages_behind(endpoint);
}

/* ---- receives -------------------------------------------------------------------------------------------- */

void nigh_stay_seek(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    uint64_t head = endpoint->rx.slots && endpoint->state == NIGH_READY && !endpoint->fills
                        ? nigh_ring_peek(&endpoint->rx)
                        : 0;

    if (!head || nigh_head_kind(head) != NIGH_K_MESSAGE)
        return;
    context->leaves = !context->probing;
    if (nigh_arrive_poll(endpoint, NIGH_TURN)) {
        context->at_once = true;
        /* Of the next one of this peer, which comes when the others have had their turn. */
        __builtin_prefetch(endpoint->rx.at);
        if (context->blocked)
            nigh_note_moved(nigh_arena_note(&context->arena));
    }
    context->leaves = false;
}

static bool is_behind(const struct nigh_endpoint *endpoint)
{
    struct nigh_ring_rx behind = endpoint->rx;
    uint64_t head = behind.slots ? nigh_ring_peek(&behind) : 0;

    if (!head)
        return false;
    nigh_ring_advance(&behind, nigh_slots_for(nigh_head_bytes(head)));
    return nigh_ring_peek(&behind) != 0;
}

static void want(struct nigh_posted *posted, void *data)
{
    struct nigh_context *context = data;

    if (posted->source == NIGH_ANY)
        context->wants_any = true;
    else if (context->by_index[posted->source])
        context->by_index[posted->source]->wanted = true;
}

/* Whose messages do receives wait for, or did since that was last asked? A walk over all of them for each that is posted, at most. */
static void find_wanted(struct nigh_context *context)
{
    if (context->sought == context->matcher.sequence)
        return;
    context->sought = context->matcher.sequence;
    context->wants_any = false;
    for (uint32_t i = 0; i < context->hot_count; i++)
        context->hot[i]->wanted = false;
    nigh_match_each_posted(&context->matcher, want, context);
}

/*
 * A pass in a crowd has found nothing, or many in a row have found something. A receive may wait for a message that lies behind one
 * that nobody wants yet: all up to it are kept. Not of peers that no receive waits for, which most are where the root of a reduction
 * waits for one after the other and they run ahead.
 */
bool nigh_stay_poll_wanted(struct nigh_context *context)
{
    bool moved = false;

    context->stays_anew = false;
    for (uint32_t i = 0; i < context->hot_count; i++) {
        struct nigh_endpoint *endpoint = context->hot[i];

        if (endpoint->rx.quiet || !is_behind(endpoint))
            continue;
        find_wanted(context);
        if (context->wants_any || endpoint->wanted)
            moved |= nigh_arrive_poll(endpoint, NIGH_TURN) != 0;
    }
    return moved;
}
