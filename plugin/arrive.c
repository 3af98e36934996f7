/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/arrive.c - reads a peer's ring. Each word is loaded once into private memory, checked, and only then used;
 * what cannot be true breaks that peer and nobody else. A handler answers with a verdict. Messages that do not lie
 * whole in the ring are in pieces.c, answers in answer.c, remote memory in rma.c and atomic.c.
 */
#include "plugin/arrive.h"
#include "plugin/answer.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/counted.h"
#include "plugin/pieces.h"
#include "plugin/receive.h"
#include "plugin/rma.h"
#include "plugin/stay.h"
#include "shm/copy.h"
#include "shm/note.h"
#include <errno.h>
#include <stdio.h>

/* The peer's chunk bytes read since it got credit: it waits for its chunks, so it hears earlier than for slots. */
#define RETURN_BYTES 16384u

/* ---- the ring itself ----------------------------------------------------------------------------------- */

static bool use_ring(struct nigh_endpoint *endpoint, uint64_t word)
{
    uint32_t slots;
    const void *memory = nigh_window_ring(&endpoint->theirs, word, &slots);

    if (!memory)
        return false;
    nigh_ring_rx_use(&endpoint->rx, memory, slots);
    nigh_endpoint_settle(endpoint);
    return true;
}

static bool first_ring(struct nigh_endpoint *endpoint)
{
    uint64_t word = nigh_load_acquire(endpoint->ring_word, DIRECTORY_GET);

    if (!word)
        return false;
    /* The peer has left and uses the index for somebody else: the ring is not for us. */
    if (nigh_load_relaxed(endpoint->peer_closed) - endpoint->peer_open > 1)
        return false;
    if (use_ring(endpoint, word))
        return true;
    nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, "its ring lies outside of the memory for it");
    return false;
}

/* Behind a batch: to a peer that we answer not before there is nothing to read, since the answer would stand behind the
 * store that takes the credit's line back. A stream waits for its credit. */
static inline bool owes_now(const struct nigh_endpoint *endpoint)
{
    return nigh_ring_owes(&endpoint->rx) &&
           ((uint32_t)endpoint->tx.next == endpoint->answered || nigh_ring_owes_much(&endpoint->rx));
}

static void return_credit(struct nigh_endpoint *endpoint)
{
    nigh_ring_return(&endpoint->rx);
    nigh_count_taken(endpoint->context);
    endpoint->rx_bytes = 0;
    endpoint->answered = (uint32_t)endpoint->tx.next;
    /* A sender that sleeps for lack of room must hear of it; the cold flag does not matter here. */
    if (endpoint->light)
        nigh_fence_light(SLEEP_CHECK);
    else
        nigh_fence_full(SLEEP_CHECK);
    if (__builtin_expect(nigh_load_relaxed(endpoint->peer_asleep) != 0, 0))
        nigh_bell_ring(&endpoint->bell, nigh_load_relaxed(endpoint->peer_asleep));
}

int nigh_arrive_owing(struct nigh_endpoint *endpoint)
{
    if (owes_now(endpoint))
        return_credit(endpoint);
    return 0;
}

/* In a pass that takes nothing. The peer may go on for it, so a status line must tell. */
static __attribute__((noinline)) void return_credit_late(struct nigh_endpoint *endpoint)
{
    return_credit(endpoint);
    if (endpoint->context->blocked)
        nigh_note_moved(nigh_arena_note(&endpoint->context->arena));
}

/* ---- whole messages ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) enum nigh_verdict keep_body(struct nigh_endpoint *endpoint, uint64_t head,
                                                             uint64_t tag, uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    uint32_t bytes = nigh_head_bytes(head);
    struct nigh_message *message = nigh_message_create(endpoint);

    if (!message)
        return NIGH_STAY;
    if (bytes > sizeof(message->small) && nigh_message_early(message, bytes)) {
        nigh_message_free(message);
        return NIGH_STAY;
    }
    nigh_ring_read_body(&endpoint->rx, message->buffer ? message->buffer : message->small, bytes, bytes);
    message->kind = NIGH_MSG_BODY;
    message->total = message->got = message->eager = bytes;
    message->tag = message->arrived.tag = tag;
    message->imm = imm;
    message->tclass = (uint8_t)nigh_head_tclass(head);
    message->arrived.tclass = message->tclass;
    nigh_count(&context->counters->unexpected, 1);
    nigh_match_keep(&context->matcher, &message->arrived);
    return NIGH_GO;
}

/* Of the short way: counted once a batch. */
struct tally {
    uint64_t messages, bytes;
};

/* What fits a plain receive: most messages. False: it is something else. */
static inline bool deliver_plain(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes,
                                 uint64_t tag, uint64_t imm, struct tally *tally)
{
    struct nigh_context *context = endpoint->context;

    if (__builtin_expect(op->flags || bytes > op->bytes, 0))
        return false;
    if (bytes == 8)
        memcpy(op->buffer, endpoint->rx.at->payload, 8);
    else if (bytes <= NIGH_SLOT_PAYLOAD)
        nigh_copy_small(op->buffer, endpoint->rx.at->payload, bytes);
    else
        nigh_ring_read_body(&endpoint->rx, op->buffer, bytes, bytes);
    tally->messages++;
    tally->bytes += bytes;
    nigh_completion_fill(nigh_cq_next(&context->cq), op->context, NIGH_OP_RECV, op->posted.tclass, bytes, tag,
                         imm, endpoint->source, endpoint);
    nigh_slab_give(&context->recv_ops, op);
    return true;
}

static inline enum nigh_verdict arrive_message(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                               uint64_t imm, struct tally *tally)
{
    struct nigh_context *context = endpoint->context;
    uint32_t bytes = nigh_head_bytes(head), tclass = nigh_head_tclass(head);
    struct nigh_recv_op *op;

    if (__builtin_expect(bytes > NIGH_BODY_MAX || tclass >= NIGH_TCLASSES, 0))
        return NIGH_BAD;
    op = nigh_recv_op_of(nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag));
    /* The host first gets what it has received: most often it is about to post the receive of this one, which then need
     * not be kept in private memory. The next pass begins with it. */
    if (__builtin_expect(!op, 0))
        return tally->messages || nigh_stay_may(endpoint, bytes) ? NIGH_STAY
                                                                 : keep_body(endpoint, head, tag, imm);
    if (__builtin_expect(deliver_plain(endpoint, op, bytes, tag, imm, tally), 1))
        return NIGH_GO;
    if (!nigh_recv_can_complete(context, &op->posted))
        return NIGH_STAY;
    nigh_recv_deliver(endpoint, op, bytes, tag, imm);
    return NIGH_GO;
}

/* ---- the others ----------------------------------------------------------------------------------------- */

static enum nigh_verdict arrive_move(struct nigh_endpoint *endpoint, uint64_t word)
{
    uint32_t slots = endpoint->rx.mask + 1;

    nigh_ring_advance(&endpoint->rx, 1);
    nigh_ring_return(&endpoint->rx);
    /* To a larger one only: so there is an end of it. */
    return use_ring(endpoint, word) && endpoint->rx.mask >= slots ? NIGH_GO : NIGH_BAD;
}

static __attribute__((noinline)) enum nigh_verdict handle(struct nigh_endpoint *endpoint, uint64_t head,
                                                          uint64_t tag, uint64_t imm)
{
    switch (nigh_head_kind(head)) {
    case NIGH_K_WHOLE:
        return nigh_arrive_whole(endpoint, head, tag, imm);
    case NIGH_K_FIRST:
        return nigh_arrive_first(endpoint, head, tag, imm);
    case NIGH_K_PIECE:
        return nigh_arrive_piece(endpoint, head, tag);
    case NIGH_K_REFER:
        return nigh_arrive_refer(endpoint, head, tag, imm);
    case NIGH_K_DROP:
    case NIGH_K_DROPPED:
    case NIGH_K_GRANT:
    case NIGH_K_HELP:
    case NIGH_K_FINISH:
        return nigh_answer_arrive(endpoint, head, tag, imm);
    case NIGH_K_PUT:
    case NIGH_K_GET:
    case NIGH_K_REPLY:
    case NIGH_K_ATOMIC:
    case NIGH_K_RESULT:
        return nigh_rma_arrive(endpoint, head, tag, imm);
    case NIGH_K_MOVE:
        return arrive_move(endpoint, tag);
    default:
        return NIGH_BAD;
    }
}

static void break_peer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm)
{
    /* What is logged is more than what is kept, which has to be static. */
    struct nigh_end end = {.reason = NIGH_REASON_BROKEN,
                           .error = -EPROTO,
                           .there = true,
                           .pid = endpoint->pid,
                           .why = "a slot of its ring holds what no message can be"};
    char why[160];

    nigh_end_set(endpoint, &end);
    snprintf(why, sizeof(why),
             "slot %llu holds what no message can be: kind %u, %u bytes, tag %#llx, imm %#llx",
             (unsigned long long)endpoint->rx.next, nigh_head_kind(head), nigh_head_bytes(head),
             (unsigned long long)tag, (unsigned long long)imm);
    nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, why);
}

/*
 * Messages of one slot and class for plain receives, which is what a stream consists of: as many as the host has room
 * for. What it needs stays in registers until the last one. Returns word 0 of the message that it has stopped at, 0 if
 * there is none or the host has enough to do.
 */
static __attribute__((noinline)) uint64_t take_plain(struct nigh_endpoint *endpoint, uint64_t head,
                                                     uint32_t budget, struct tally *tally)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_matcher *matcher = &context->matcher;
    struct nigh_ring_rx *rx = &endpoint->rx;
    uint32_t tclass = nigh_head_tclass(head) % NIGH_TCLASSES, bytes, count;
    struct nigh_ring_walk walk = nigh_ring_walk_begin(rx, NIGH_K_MESSAGE, tclass);
    struct nigh_completion *done = context->cq.direct, *end;
    struct nigh_slab_free *given = context->recv_ops.free;
    struct nigh_match_run run = {0};
    nigh_two_fields from = {endpoint->source, (uintptr_t)endpoint};
    uint64_t total = 0, what = nigh_completion_what(NIGH_OP_RECV, tclass);

    end = done + (matcher->posted_count < budget ? matcher->posted_count : budget);
    while (nigh_ring_walk_fits(&walk, head, &bytes)) {
        /* Relaxed: RING_PEEK came before. */
        uint64_t tag = nigh_load_relaxed(&walk.at->tag), imm = nigh_load_relaxed(&walk.at->imm);
        struct nigh_recv_op *op;

        nigh_ring_walk_prefetch(&walk, rx);
        op = nigh_recv_op_of(nigh_match_run_peek(matcher, &run, endpoint->index, tclass, tag));
        if (__builtin_expect(!op || op->flags || bytes > op->bytes, 0))
            break;
        nigh_match_run_take(&run);
        if (bytes == 8)
            memcpy(op->buffer, walk.at->payload, 8);
        else
            nigh_copy_small(op->buffer, walk.at->payload, bytes);
        nigh_completion_fill_recv(done, op->context, what, bytes, tag, imm, from);
        given = nigh_slab_link(&context->recv_ops, op, given);
        total += bytes;
        nigh_ring_walk_on(&walk, rx);
        if (++done == end) {
            head = 0;
            break;
        }
        head = nigh_ring_walk_peek(&walk);
    }
    count = (uint32_t)(done - context->cq.direct);
    nigh_match_run_end(matcher, &run, count);
    nigh_slab_give_linked(&context->recv_ops, given, count);
    nigh_cq_direct_to(&context->cq, done);
    nigh_ring_walk_end(&walk, rx, count);
    tally->messages = count;
    tally->bytes = total;
    return head && (head ^ rx->lap) >> NIGH_LAP_SHIFT == 0 ? head : 0;
}

/* Messages of all kinds, at most `budget` slots or headers, the first of which has word 0 `head`: until the host has
 * got as many completions as it has asked for, which not every slot makes. */
static inline uint32_t take(struct nigh_endpoint *endpoint, uint64_t head, uint32_t budget,
                            struct tally *tally)
{
    const struct nigh_cq *cq = &endpoint->context->cq;
    struct nigh_ring_rx *rx = &endpoint->rx;
    uint32_t count = 0;

    do {
        /* Relaxed: RING_PEEK came before. */
        uint64_t tag = nigh_load_relaxed(&rx->at->tag), imm = nigh_load_relaxed(&rx->at->imm);
        enum nigh_verdict verdict;

        if (__builtin_expect(nigh_head_bytes(head) > NIGH_SLOT_PAYLOAD, 0))
            nigh_ring_prefetch_body(rx, nigh_head_bytes(head));
        if (count)
            nigh_ring_prefetch(rx);
        else if (endpoint->context->crowd.full)
            __builtin_prefetch(rx->at - 1); /* it is looked at behind this one */
        if (__builtin_expect(nigh_head_kind(head) == NIGH_K_MESSAGE, 1))
            verdict = arrive_message(endpoint, head, tag, imm, tally);
        else
            verdict = nigh_head_bytes(head) <= NIGH_BODY_MAX ? handle(endpoint, head, tag, imm) : NIGH_BAD;
        if (__builtin_expect(verdict != NIGH_GO, 0)) {
            if (verdict == NIGH_BAD)
                break_peer(endpoint, head, tag, imm);
            break;
        }
        count++;
        if (__builtin_expect(nigh_head_kind(head) == NIGH_K_MOVE, 0))
            continue; /* the new ring begins where it is */
        if (nigh_head_bytes(head) > NIGH_SLOT_PAYLOAD)
            nigh_ring_advance(rx, nigh_slots_for(nigh_head_bytes(head)));
        else
            nigh_ring_advance_one(rx);
        if (endpoint->rx_bytes >= RETURN_BYTES)
            return_credit(endpoint);
    } while (count < budget && !nigh_cq_is_full(cq) && !endpoint->fills &&
             (nigh_match_posted(&endpoint->context->matcher) || !tally->messages) &&
             (head = nigh_ring_peek(rx)) != 0);
    return count;
}

uint32_t nigh_arrive_poll(struct nigh_endpoint *endpoint, uint32_t budget)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_rx *rx = &endpoint->rx;
    uint32_t room = context->cq.direct_left, count = 0;
    struct tally tally = {0};
    uint64_t head, first;

    if (__builtin_expect(!rx->slots, 0) && (!endpoint->attached || !first_ring(endpoint)))
        return 0;
    head = first = nigh_ring_peek(rx);
    if (__builtin_expect(endpoint->fills, 0))
        return nigh_counted_fill(endpoint, head != 0);
    if (!head) {
        rx->streak = false;
        if (rx->foreseen && (uint32_t)endpoint->tx.next != endpoint->sent_before)
            nigh_ring_ask_body(rx);
        /* Now, and not behind the batch: the host's answer would wait in the store buffer behind this line. */
        if (__builtin_expect(nigh_ring_owes(rx) || endpoint->rx_bytes, 0))
            return_credit_late(endpoint);
        rx->quiet = !rx->foreseen;
        return 0;
    }
    rx->quiet = false;
    /* The first message after none goes the way that is shorter for one. */
    if (rx->streak && room && context->matcher.posted_count && !context->matcher.others &&
        !nigh_match_stands(&context->matcher, nigh_head_tclass(head) % NIGH_TCLASSES))
        head = take_plain(endpoint, head, room < budget ? room : budget, &tally);
    count = (uint32_t)tally.messages;
    if (head)
        count += take(endpoint, head, budget - count, &tally);
    if (!count) {
        if (__builtin_expect(nigh_ring_owes(rx) || endpoint->rx_bytes, 0))
            return_credit_late(endpoint);
        return 0;
    }
    rx->streak = true;
    rx->foreseen = context->crowd.full ? 0 : nigh_ring_foreseen(first);
    endpoint->sent_before = (uint32_t)endpoint->tx.next;
    endpoint->in_a_row = endpoint->stays = 0;
    nigh_count(&context->counters->received, tally.messages);
    nigh_count(&context->counters->received_bytes, tally.bytes);
    nigh_arrive_owing(endpoint);
    return count;
}

bool nigh_arrive_rest(struct nigh_endpoint *endpoint)
{
    /* More than the largest ring, and the small one before it, can hold: one who goes on writing
     * would never let us go. */
    uint32_t left = 2 * NIGH_RING_SLOTS_MAX, count = 1;

    for (; left && count; left -= count < left ? count : left)
        count = endpoint->state == NIGH_READY && !endpoint->gone ? nigh_arrive_poll(endpoint, 64) : 0;
    return !left || endpoint->state != NIGH_READY || !endpoint->rx.slots || !nigh_ring_peek(&endpoint->rx);
}
