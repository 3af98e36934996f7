/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/arrive.c - reads a peer's ring. Each word is loaded once into private memory, checked, and only then used;
 * what cannot be true breaks that peer and nobody else. A handler answers
 * with a verdict.
 */
#include "plugin/context.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The peer's chunk bytes read since it got credit: it waits for its chunks, so it hears earlier than for slots. */
#define RETURN_BYTES 16384u

void nigh_arrive_payload(const struct nigh_endpoint *endpoint, void *out, size_t bytes)
{
    const uint64_t *from = (const uint64_t *)(const void *)endpoint->rx.at->payload;
    uint64_t words[NIGH_SLOT_PAYLOAD / 8];

    /* Relaxed: RING_PEEK came before. Word by word, so that the compiler cannot read anything twice. */
    for (size_t i = 0; i < (bytes + 7) / 8; i++)
        words[i] = nigh_load_relaxed(&from[i]);
    memcpy(out, words, bytes);
}

/* ---- the ring itself ----------------------------------------------------------------------------------- */

static bool use_ring(struct nigh_endpoint *endpoint, uint64_t word)
{
    const struct nigh_arena_header *layout = &endpoint->view.layout;
    uint64_t offset = (word >> 8) * NIGH_PAGE;
    uint32_t shift = word & 0xff;
    uint64_t slots = UINT64_C(1) << (shift & 31);

    if (shift > 16 || slots < NIGH_RING_MIN || word >> 56 || offset < layout->rings_off ||
        offset - layout->rings_off > layout->rings_bytes ||
        slots * NIGH_LINE > layout->rings_bytes - (offset - layout->rings_off))
        return false;
    nigh_ring_rx_use(&endpoint->rx, endpoint->view.base + offset, (uint32_t)slots);
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
    nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, "its ring lies outside of its arena");
    return false;
}

static void return_credit(struct nigh_endpoint *endpoint)
{
    nigh_ring_return(&endpoint->rx);
    endpoint->rx_bytes = 0;
    /* A sender that sleeps for lack of room must hear of it; the cold flag does not matter here. */
    if (endpoint->light)
        nigh_fence_light(SLEEP_CHECK);
    else
        nigh_fence_full(SLEEP_CHECK);
    if (__builtin_expect(nigh_load_relaxed(endpoint->peer_asleep) != 0, 0))
        nigh_bell_ring(&endpoint->bell, nigh_load_relaxed(endpoint->peer_asleep));
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
    if (bytes > sizeof(message->small)) {
        message->buffer = malloc(bytes);
        if (!message->buffer) {
            nigh_message_free(message);
            return NIGH_STAY;
        }
    }
    nigh_ring_read_body(&endpoint->rx, message->buffer ? message->buffer : message->small, bytes);
    message->kind = NIGH_MSG_BODY;
    message->total = message->got = message->eager = bytes;
    message->tag = message->arrived.tag = tag;
    message->imm = imm;
    message->tclass = (uint8_t)nigh_head_tclass(head);
    message->arrived.tclass = message->tclass;
    context->counters.unexpected++;
    nigh_match_keep(&context->matcher, &message->arrived);
    return NIGH_GO;
}

/* A multi-receive buffer needs an entry in the completion queue for each message: looked for before it is matched, so
 * that nothing has to be undone. */
static bool can_complete(struct nigh_context *context, const struct nigh_posted *posted)
{
    return !posted->keep || nigh_cq_reserve(&context->cq, 1) == 0;
}

/* Of the short way: counted once a batch. */
struct tally {
    uint64_t messages, bytes;
};

/* What fits a slot and a plain receive: most messages. False: it is something else. */
static inline bool deliver_short(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes,
                                 uint64_t tag, uint64_t imm, struct tally *tally)
{
    struct nigh_context *context = endpoint->context;

    if (__builtin_expect(op->flags || bytes > NIGH_SLOT_PAYLOAD || bytes > op->bytes, 0))
        return false;
    if (bytes == 8)
        memcpy(op->buffer, endpoint->rx.at->payload, 8);
    else
        nigh_copy_small(op->buffer, endpoint->rx.at->payload, bytes);
    tally->messages++;
    tally->bytes += bytes;
    nigh_completion_fill(nigh_cq_next(&context->cq), op->context, NIGH_OP_RECV, bytes, tag, imm,
                         endpoint->source, endpoint);
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
    op = (struct nigh_recv_op *)(void *)nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag);
    if (__builtin_expect(!op, 0))
        return keep_body(endpoint, head, tag, imm);
    if (__builtin_expect(deliver_short(endpoint, op, bytes, tag, imm, tally), 1))
        return NIGH_GO;
    if (!can_complete(context, &op->posted))
        return NIGH_STAY;
    nigh_recv_deliver(endpoint, op, bytes, tag, imm);
    return NIGH_GO;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

static const void *piece_at(const struct nigh_endpoint *endpoint, uint32_t line, uint32_t bytes)
{
    const struct nigh_arena_header *layout = &endpoint->view.layout;
    uint64_t offset = (uint64_t)line * NIGH_LINE;

    if (offset < layout->pool_off || offset - layout->pool_off > layout->pool_bytes ||
        bytes > layout->pool_bytes - (offset - layout->pool_off))
        return NULL;
    return nigh_view_at(&endpoint->view, offset, bytes);
}

void nigh_arrive_copy(void *to, const void *from, uint64_t bytes, uint32_t flags)
{
    nigh_copy_fn copy =
        nigh_copy_select((enum nigh_copy_kernel)(flags >> NIGH_F_KERNEL_SHIFT & NIGH_F_KERNEL_MASK));

    if (!copy)
        copy = nigh_copy_select(NIGH_COPY_PLAIN);
    copy(to, from, bytes);
}

/* The message has all its bytes. */
static void message_done(struct nigh_message *message)
{
    if (message->id != NIGH_NO_ID)
        message->endpoint->in.at[message->id] = NULL;
    if (message->kind == NIGH_MSG_PUT)
        nigh_rma_put_done(message);
    else if (message->kind == NIGH_MSG_REPLY)
        nigh_rma_reply_done(message);
    else if (message->recv)
        nigh_recv_finish(message, message->status);
}

static enum nigh_verdict take_piece(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                    uint32_t flags)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    const void *from = piece_at(endpoint, line, bytes);
    /* What nobody has taken yet may come as far as was announced: there is a buffer of that size for it. */
    uint64_t most = message->kind == NIGH_MSG_PIECES && !message->recv ? message->eager : message->total;
    uint64_t fits;

    if (!from || bytes > most - message->got)
        return NIGH_BAD;
    if (message->to && message->got < message->room) {
        fits = message->room - message->got;
        if (flags & NIGH_F_TIMED) {
            uint64_t started = nigh_plan_clock();

            nigh_arrive_copy(message->to + message->got, from, fits < bytes ? fits : bytes, flags);
            nigh_plan_read(endpoint, started, fits < bytes ? fits : bytes, flags);
        } else {
            nigh_arrive_copy(message->to + message->got, from, fits < bytes ? fits : bytes, flags);
        }
    }
    message->got += bytes;
    endpoint->rx_bytes += bytes;
    if (message->got == message->total)
        message_done(message);
    return NIGH_GO;
}

bool nigh_arrive_first_is_sound(const struct nigh_endpoint *endpoint, const struct nigh_wire_first *first)
{
    /* It may begin without a piece: it is empty, or the sender's pool was used up. */
    return first->id < NIGH_IDS_MAX && !nigh_ids_get(&endpoint->in, first->id) &&
           first->bytes <= first->total && (!first->bytes || piece_at(endpoint, first->line, first->bytes));
}

enum nigh_verdict nigh_arrive_first_piece(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                          uint32_t flags)
{
    if (message->total == 0) {
        message_done(message);
        return NIGH_GO;
    }
    message->endpoint->in.at[message->id] = message;
    return bytes ? take_piece(message, line, bytes, flags) : NIGH_GO;
}

static enum nigh_verdict arrive_piece(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id)
{
    struct nigh_wire_piece piece;
    struct nigh_message *message;

    nigh_arrive_payload(endpoint, &piece, sizeof(piece));
    message = nigh_ids_get(&endpoint->in, id);
    if (!message || !piece.bytes)
        return NIGH_BAD;
    return take_piece(message, piece.line, piece.bytes, nigh_head_flags(head));
}

/* The receive that takes a message which does not lie whole in the ring. False: one is there, but its completion has no
 * room now; it is of the kind that stays in the matcher, so nothing has to be undone. */
static bool match_message(const struct nigh_message *message, struct nigh_posted **posted)
{
    struct nigh_context *context = message->endpoint->context;

    *posted = nigh_match_arrive(&context->matcher, message->endpoint->index, message->tclass, message->tag);
    return !*posted || can_complete(context, *posted);
}

static void accept_or_keep(struct nigh_message *message, struct nigh_posted *posted)
{
    struct nigh_context *context = message->endpoint->context;

    if (posted) {
        nigh_recv_accept(message, (struct nigh_recv_op *)(void *)posted);
        return;
    }
    context->counters.unexpected++;
    nigh_match_keep(&context->matcher, &message->arrived);
}

static struct nigh_message *message_of(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                       uint64_t imm, uint64_t total, uint32_t id)
{
    struct nigh_message *message = nigh_message_create(endpoint);

    if (!message)
        return NULL;
    message->tag = message->arrived.tag = tag;
    message->imm = imm;
    message->tclass = (uint8_t)nigh_head_tclass(head);
    message->arrived.tclass = message->tclass;
    message->total = total;
    message->id = id;
    return message;
}

static enum nigh_verdict arrive_first(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                      uint64_t imm)
{
    struct nigh_wire_first first;
    struct nigh_message *message;
    struct nigh_posted *posted;

    nigh_arrive_payload(endpoint, &first, sizeof(first));
    if (!nigh_arrive_first_is_sound(endpoint, &first) || nigh_head_tclass(head) >= NIGH_TCLASSES ||
        first.bytes > first.eager || first.eager > first.total)
        return NIGH_BAD;
    message = message_of(endpoint, head, tag, imm, first.total, first.id);
    if (!message)
        return NIGH_STAY;
    message->kind = NIGH_MSG_PIECES;
    message->eager = first.eager;
    message->sync = nigh_head_flags(head) & NIGH_F_SYNC;
    if (nigh_ids_fit(&endpoint->in, first.id) || !match_message(message, &posted))
        goto stay;
    if (!posted && first.eager) {
        message->buffer = malloc(first.eager);
        if (!message->buffer)
            goto stay;
        message->to = message->buffer;
        message->room = first.eager;
    }
    if (first.total)
        endpoint->in.at[first.id] = message;
    accept_or_keep(message, posted);
    return first.bytes ? take_piece(message, first.line, first.bytes, nigh_head_flags(head)) : NIGH_GO;

stay:
    nigh_message_free(message);
    return NIGH_STAY;
}

/* A whole message in one piece: for a plain receive it is copied and done. */
static enum nigh_verdict arrive_whole(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                      uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    uint32_t flags = nigh_head_flags(head), tclass = nigh_head_tclass(head);
    struct nigh_wire_piece piece;
    struct nigh_message *message;
    struct nigh_posted *posted;
    const void *from;

    nigh_arrive_payload(endpoint, &piece, sizeof(piece));
    from = piece_at(endpoint, piece.line, piece.bytes);
    if (!from || !piece.bytes || piece.bytes > NIGH_WHOLE_MAX || tclass >= NIGH_TCLASSES)
        return NIGH_BAD;
    /* What may be needed is had before anything is taken out of the matcher. */
    if (nigh_slab_reserve(&context->messages, 1))
        return NIGH_STAY;
    posted = nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag);
    if (posted && !can_complete(context, posted))
        return NIGH_STAY;
    if (posted && !((struct nigh_recv_op *)(void *)posted)->flags) {
        endpoint->rx_bytes += piece.bytes;
        nigh_recv_deliver_piece(endpoint, (struct nigh_recv_op *)(void *)posted, from, piece.bytes, tag, imm,
                                flags);
        return NIGH_GO;
    }
    message = message_of(endpoint, head, tag, imm, piece.bytes, NIGH_NO_ID);
    message->kind = NIGH_MSG_PIECES;
    message->eager = piece.bytes;
    if (!posted) {
        message->buffer = malloc(piece.bytes);
        if (!message->buffer) {
            nigh_message_free(message);
            return NIGH_STAY;
        }
        message->to = message->buffer;
        message->room = piece.bytes;
    }
    accept_or_keep(message, posted);
    return take_piece(message, piece.line, piece.bytes, flags & ~NIGH_F_TIMED);
}

/* ---- references ---------------------------------------------------------------------------------------- */

static bool refer_is_sound(const struct nigh_endpoint *endpoint, const struct nigh_wire_refer *refer)
{
    const struct nigh_arena_header *layout = &endpoint->view.layout;

    if (refer->id >= NIGH_IDS_MAX)
        return false;
    if (refer->refer == NIGH_REFER_CMA)
        return endpoint->pid > 0;
    return (refer->refer == NIGH_REFER_HEAP || refer->refer == NIGH_REFER_LEND) &&
           refer->where >= layout->heap_off && nigh_view_at(&endpoint->view, refer->where, refer->total);
}

static enum nigh_verdict arrive_refer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                      uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    uint32_t tclass = nigh_head_tclass(head);
    struct nigh_wire_refer refer;
    struct nigh_message *message;
    struct nigh_posted *posted;

    nigh_arrive_payload(endpoint, &refer, sizeof(refer));
    if (!refer_is_sound(endpoint, &refer) || tclass >= NIGH_TCLASSES)
        return NIGH_BAD;
    /* What may be needed is had before anything is taken out of the matcher. */
    if (nigh_slab_reserve(&context->messages, 1))
        return NIGH_STAY;
    posted = nigh_match_arrive(&context->matcher, endpoint->index, tclass, tag);
    if (posted && !can_complete(context, posted))
        return NIGH_STAY;
    if (refer.refer == NIGH_REFER_LEND && posted && nigh_recv_takes_lend(posted, refer.total)) {
        nigh_recv_lend(endpoint, (struct nigh_recv_op *)(void *)posted, &refer, tag, imm);
        return NIGH_GO;
    }
    message = message_of(endpoint, head, tag, imm, refer.total, refer.id);
    message->kind = NIGH_MSG_REFER;
    message->refer = (uint8_t)refer.refer;
    message->where = refer.where;
    accept_or_keep(message, posted);
    return NIGH_GO;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

static enum nigh_verdict arrive_grant(struct nigh_endpoint *endpoint, uint64_t id)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);

    if (!op || op->kind != NIGH_SEND_CHUNKED || op->granted)
        return NIGH_BAD;
    nigh_large_granted(endpoint, op);
    return NIGH_GO;
}

int nigh_arrive_status(uint64_t imm)
{
    int status = (int)(int64_t)imm;

    return status == 0 || status == -EACCES || status == -ERANGE || status == -EOPNOTSUPP ||
                   status == -ECANCELED
               ? status
               : -EIO;
}

static enum nigh_verdict arrive_finish(struct nigh_endpoint *endpoint, uint64_t id, uint64_t imm)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);

    if (!op || op->flowing || (op->kind != NIGH_SEND_REFER && op->kind != NIGH_SEND_PUT) ||
        (op->kind == NIGH_SEND_PUT && op->sent < op->bytes))
        return NIGH_BAD;
    nigh_send_complete(endpoint, op, nigh_arrive_status(imm), op->bytes);
    return NIGH_GO;
}

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
        return arrive_whole(endpoint, head, tag, imm);
    case NIGH_K_FIRST:
        return arrive_first(endpoint, head, tag, imm);
    case NIGH_K_PIECE:
        return arrive_piece(endpoint, head, tag);
    case NIGH_K_REFER:
        return arrive_refer(endpoint, head, tag, imm);
    case NIGH_K_GRANT:
        return arrive_grant(endpoint, tag);
    case NIGH_K_FINISH:
        return arrive_finish(endpoint, tag, imm);
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
    char why[160];

    snprintf(why, sizeof(why),
             "slot %llu holds what no message can be: kind %u, %u bytes, tag %#llx, imm %#llx",
             (unsigned long long)endpoint->rx.next, nigh_head_kind(head), nigh_head_bytes(head),
             (unsigned long long)tag, (unsigned long long)imm);
    nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, why);
}

uint32_t nigh_arrive_poll(struct nigh_endpoint *endpoint, uint32_t budget)
{
    struct nigh_ring_rx *rx = &endpoint->rx;
    struct tally tally = {0};
    uint32_t count = 0;
    uint64_t head;

    if (__builtin_expect(!rx->slots, 0) && (!endpoint->attached || !first_ring(endpoint)))
        return 0;
    while (count < budget && (head = nigh_ring_peek(rx)) != 0) {
        /* Relaxed: RING_PEEK came before. */
        uint64_t tag = nigh_load_relaxed(&rx->at->tag), imm = nigh_load_relaxed(&rx->at->imm);
        enum nigh_verdict verdict;

        if (count)
            nigh_ring_prefetch(rx);
        if (__builtin_expect(nigh_head_kind(head) == NIGH_K_MESSAGE, 1))
            verdict = arrive_message(endpoint, head, tag, imm, &tally);
        else
            verdict = nigh_head_bytes(head) <= NIGH_BODY_MAX ? handle(endpoint, head, tag, imm) : NIGH_BAD;
        if (__builtin_expect(verdict != NIGH_GO, 0)) {
            if (verdict == NIGH_BAD)
                break_peer(endpoint, head, tag, imm);
            break;
        }
        count++;
        if (__builtin_expect(nigh_head_kind(head) != NIGH_K_MOVE, 1))
            nigh_ring_advance(rx, nigh_slots_for(nigh_head_bytes(head)));
        if (endpoint->rx_bytes >= RETURN_BYTES)
            return_credit(endpoint);
    }
    if (!count)
        return 0;
    endpoint->context->counters.received += tally.messages;
    endpoint->context->counters.received_bytes += tally.bytes;
    if (nigh_ring_owes(rx) || endpoint->rx_bytes)
        return_credit(endpoint);
    return count;
}

bool nigh_arrive_rest(struct nigh_endpoint *endpoint)
{
    /* More than the largest ring, and the small one before it, can hold: one who goes on writing would never let us go. */
    uint32_t left = 2 * NIGH_RING_MAX, count = 1;

    for (; left && count; left -= count < left ? count : left)
        count = endpoint->state == NIGH_READY && !endpoint->gone ? nigh_arrive_poll(endpoint, 64) : 0;
    return !left || endpoint->state != NIGH_READY || !endpoint->rx.slots || !nigh_ring_peek(&endpoint->rx);
}
