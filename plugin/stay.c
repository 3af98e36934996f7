/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/stay.c - short messages, and those whole in a shuttle, that no receive was posted for and that
 * stay in their rings: which may, for how long, and what a receive finds of them when it is posted.
 * Most of it is for ranks that run in turns, where senders run ahead.
 */
#include "plugin/stay.h"
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "shm/clock.h"
#include "shm/note.h"

/*
 * Passes in a row that find nothing before a full ring of messages that nobody wants is emptied into private
 * memory, where a receive waits and where none does. What its sender does next may be what everybody waits for;
 * mostly it has only run ahead, and gives its CPU away while its ring is full. Then to keep them costs twice what
 * to take them costs, and as the ring fills anew at once there is no end of it: 600 reductions of 8 bytes in a row,
 * 8 ranks on 2 CPUs over Open MPI, 4 us each in place of 2.2. Passes that find nothing end in a yield, mostly, so
 * all others have had their turn by then.
 */
#define FULL_PASSES 256u
#define SEND_PASSES 8u
/* Looks so far apart are a host's that polls now and then, between which all others had several turns: one counts as
 * BUSY_PASSES. With polls 5 ms apart a sender waited 1.3 s. */
#define SELDOM_NS UINT64_C(1000000)
/* Passes with news before it is looked at what lies behind messages that stay, and passes without: their senders write
 * there next. */
#define BUSY_PASSES 16u
#define IDLE_PASSES 1u

/* Up to which slot a ring may be full of what stays, and what its sender has not been told of: what is left takes the
 * longest body, and one that is never used, unless the sender has a larger ring to move to. */
static uint64_t staying_most(const struct nigh_endpoint *endpoint)
{
    uint32_t mask = endpoint->rx.mask, least = nigh_slots_for(NIGH_BODY_MAX), most = mask / 4 * 3;

    if (mask + 1 >= endpoint->context->config.ring_slots && most + least > mask)
        most = mask - least;
    return endpoint->rx.next - nigh_ring_owed(&endpoint->rx) + most;
}

static inline bool may_go_to_one_that_stands(const struct nigh_context *context, uint64_t head)
{
    uint32_t tclass = nigh_head_tclass(head);

    return tclass >= NIGH_TCLASSES || nigh_match_stands(&context->matcher, tclass);
}

/*
 * In a crowd others may lie behind a message that stays, as senders run ahead there. Not where something else does,
 * which no receive is posted for and somebody waits for all the same (a FINISH, a GRANT, a put), or one of a class in
 * which receives stand: these are in others than what ranks wait for (Intel MPI), and say nothing of those. A slot is
 * looked at once: the next look goes on behind it. Where the next one lies is foretold and not computed from what this
 * one says, so that their lines come side by side.
 */
static bool only_messages(struct nigh_endpoint *endpoint)
{
    struct nigh_ring_rx ahead = endpoint->ahead;
    uint64_t end =
        endpoint->rx.next + endpoint->rx.mask + 1; /* a peer without credit may write on as we walk */
    uint64_t head;

    if (ahead.slots != endpoint->rx.slots || ahead.next < endpoint->rx.next)
        ahead = endpoint->rx;
    while ((head = nigh_ring_peek(&ahead)) != 0 && ahead.next < end) {
        if (!nigh_stay_is_message(head) || may_go_to_one_that_stands(endpoint->context, head))
            break;
        if (__builtin_expect(nigh_head_bytes(head) <= NIGH_SLOT_PAYLOAD, 1))
            nigh_ring_advance_one(&ahead);
        else
            nigh_ring_advance(&ahead, nigh_slots_for(nigh_head_bytes(head)));
    }
    endpoint->ahead = ahead;
    return !head;
}

/*
 * May a message that no receive was there for stay where it is for now? Its receive mostly comes soon, and keeping the
 * message costs an allocation, four queues and a second copy: a barrier of 8 ranks on 2 CPUs takes 3 % less without it.
 * Not where another message waits behind it, or might for want of room; in a crowd until a pass has found nothing,
 * which looks there (below): the sender is about to write that slot.
 */
bool nigh_stay_may(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    struct nigh_ring_rx behind;
    uint32_t slots = nigh_slots_for(bytes);

    if (!endpoint->context->leaves || slots + nigh_ring_owed(&endpoint->rx) > endpoint->rx.mask / 2)
        return false;
    if (endpoint->context->crowd.full)
        return nigh_stay_may_in_crowd(endpoint);
    behind = endpoint->rx;
    nigh_ring_advance(&behind, slots);
    return nigh_ring_peek(&behind) == 0;
}

/* ---- receives -------------------------------------------------------------------------------------------- */

void nigh_stay_seek(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    uint64_t head = endpoint->rx.slots && endpoint->state == NIGH_READY && !endpoint->fills
                        ? nigh_ring_peek(&endpoint->rx)
                        : 0;

    if (!head || !nigh_stay_is_message(head))
        return;
    context->leaves = !context->probing;
    if (nigh_arrive_poll(endpoint, NIGH_TURN)) {
        context->at_once = true;
        context->met++;
        /* Of the next one of this peer, which comes when the others have had their turn. */
        __builtin_prefetch(endpoint->rx.at);
        if (context->blocked)
            nigh_note_moved(nigh_arena_note(&context->arena));
    }
    context->leaves = false;
}

/* ---- what lies behind ------------------------------------------------------------------------------------ */

static void want(struct nigh_posted *posted, void *data)
{
    struct nigh_context *context = data;

    if (posted->keep)
        return;
    context->waits = true;
    if (posted->source == NIGH_ANY)
        context->wants_any = true;
    else if (context->by_index[posted->source])
        context->by_index[posted->source]->wanted = true;
}

/* Whose messages do receives wait for, but for those that stand? A walk over all of them for each that is posted, at
 * most. */
static void find_wanted(struct nigh_context *context)
{
    if (context->sought == context->matcher.sequence &&
        context->sought_of == nigh_match_posted(&context->matcher))
        return;
    context->sought = context->matcher.sequence;
    context->sought_of = nigh_match_posted(&context->matcher);
    context->wants_any = context->waits = false;
    for (uint32_t i = 0; i < context->hot_count; i++)
        context->hot[i]->wanted = false;
    nigh_match_each_posted(&context->matcher, want, context);
}

/* A receive may wait for a message that lies behind the oldest one, which nobody wants yet. Not where no receive is
 * from its peer, as mostly where the root of a reduction waits for one after the other and they run ahead. */
static bool is_wanted(struct nigh_endpoint *endpoint)
{
    uint32_t slots = nigh_slots_for(nigh_head_bytes(nigh_ring_peek(&endpoint->rx)));

    if (endpoint->ahead.next <= endpoint->rx.next + slots)
        return false;
    find_wanted(endpoint->context);
    return endpoint->wanted || endpoint->context->wants_any;
}

/*
 * Must a sender with a full ring be helped on? Not as long as messages of it are taken. From then on nothing of it
 * stays until a receive takes what was kept: a host that sends much before it receives waits once.
 */
static bool is_held_up(struct nigh_endpoint *endpoint, bool news)
{
    struct nigh_context *context = endpoint->context;
    uint64_t now;

    if (endpoint->ahead.next <= staying_most(endpoint))
        return false;
    now = nigh_clock_ns();
    if (endpoint->full_at != endpoint->rx.next) {
        endpoint->full_for = 0;
        endpoint->full_ns = now;
    }
    endpoint->full_at = endpoint->rx.next;
    endpoint->full_for += news || now - endpoint->full_ns > SELDOM_NS ? BUSY_PASSES : 1;
    endpoint->full_ns = now;
    find_wanted(context);
    endpoint->hurried = endpoint->full_for >= (news || context->waits ? FULL_PASSES : SEND_PASSES);
    return endpoint->hurried;
}

static bool look_behind(struct nigh_context *context, bool news)
{
    bool moved = false;

    context->stays = false;
    /* From the end on: one that breaks is replaced by the last, which has had its look. */
    for (uint32_t i = context->hot_count; i-- > 0;) {
        struct nigh_endpoint *endpoint = context->hot[i];

        if (!endpoint->stays)
            continue;
        if (!only_messages(endpoint) || is_wanted(endpoint) || is_held_up(endpoint, news))
            moved |= nigh_arrive_poll(endpoint, NIGH_TURN) != 0;
        context->stays |= endpoint->stays != 0;
    }
    return moved;
}

bool nigh_stay_pass(struct nigh_context *context, bool moved)
{
    bool news = moved || context->met != context->met_before;

    context->met_before = context->met;
    context->quiet_passes = news ? 0 : context->quiet_passes + 1;
    if (news ? ++context->news_passes < BUSY_PASSES : context->quiet_passes <= IDLE_PASSES)
        return false;
    context->news_passes = 0;
    return look_behind(context, news);
}
