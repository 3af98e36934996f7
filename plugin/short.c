/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/short.c - a lone message of one slot for a plain receive, which is most of what MPIs send: taken in one go, by
 * a pass or, where ranks share CPUs, by the post of its receive, with nothing between the look at the slot and the
 * completion that is not about this message. There one with a body, or whole in a shuttle, goes this way, too. Whatever
 * is unlike that goes the way of plugin/arrive.c.
 */
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/large.h"
#include "plugin/match_alone.h"
#include "plugin/registers.h"
#include "plugin/shuttle.h"
#include "plugin/stay.h"
#include "shm/copy.h"

static_assert(NIGH_TCLASSES == 8, "three bits of word 0 are a class, the others of its byte are 0");

/* Word 0 of a message of one slot, or, in a crowd, of one with a body: with a CPU each, what it foresees counts. */
static inline bool is_short(const struct nigh_context *context, uint64_t head)
{
    uint32_t bytes = nigh_head_bytes(head);

    return (head & UINT64_C(0xf8ffffff)) == (uint64_t)NIGH_K_MESSAGE << 16 &&
           (__builtin_expect(bytes <= NIGH_SLOT_PAYLOAD, 1) ||
            (bytes <= NIGH_BODY_MAX && context->crowd.full));
}

static inline bool may_stay(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    if (!endpoint->context->leaves || !endpoint->context->crowd.full)
        return false;
    return bytes <= NIGH_SLOT_PAYLOAD ? nigh_stay_may_in_crowd(endpoint) : nigh_stay_may(endpoint, bytes);
}

/* Tells of the message at the cursor in `done`, and goes past it: it takes `slots`. */
static inline __attribute__((always_inline)) void go_past(struct nigh_endpoint *endpoint, uint32_t bytes,
                                                          uint32_t slots, uint64_t what, uint64_t tag,
                                                          uint64_t word, struct nigh_completion *done)
{
    struct nigh_context *context = endpoint->context;

    /* Relaxed: RING_PEEK came before. */
    nigh_completion_fill_recv(done, word, what, bytes, tag, nigh_load_relaxed(&endpoint->rx.at->imm),
                              (nigh_two_fields){endpoint->source, (uintptr_t)endpoint});
    if (slots == 1)
        nigh_ring_advance_one(&endpoint->rx);
    else
        nigh_ring_advance(&endpoint->rx, slots);
    endpoint->in_a_row = endpoint->stays = 0;
    context->received++;
    context->received_bytes += bytes;
}

/* The receive that a message is for, while all wait alone or are of the hot shape. It stays; *at: where it is filed. */
static inline struct nigh_posted *receive_of(const struct nigh_matcher *matcher, uint32_t source,
                                             uint32_t tclass, uint64_t tag, struct nigh_match_node ***at)
{
    *at = NULL;
    if (matcher->alone)
        return nigh_match_alone(matcher, source, tclass, tag);
    *at = nigh_match_waiting(matcher, source, tclass, tag);
    return nigh_match_posted_of(**at);
}

/* Whole, in a shuttle, to be copied as those in a crowd are. */
#define WHOLE_DIFFERS \
    (nigh_head_make(NIGH_K_MESSAGE ^ NIGH_K_WHOLE, sizeof(struct nigh_wire_piece), 0, NIGH_F_SHUTTLE))

static inline bool is_whole(uint64_t head)
{
    return (head & UINT64_C(0xffff00ffffff) & ~(uint64_t)NIGH_F_RETURNS) ==
           nigh_head_make(NIGH_K_WHOLE, sizeof(struct nigh_wire_piece), 0, NIGH_F_SHUTTLE);
}

/* Where the bytes of the whole message at the cursor lie; NULL: they are not for this receive, or nowhere. What the slot
 * says is read once more, and checked: the peer may have changed it. */
static inline const uint8_t *whole_at(struct nigh_endpoint *endpoint, uint64_t room, uint32_t *bytes,
                                      uint32_t *flags)
{
    struct nigh_wire_piece piece;

    nigh_arrive_payload(endpoint, &piece, sizeof(piece));
    *bytes = piece.bytes;
    *flags = nigh_head_flags(nigh_load_relaxed(&endpoint->rx.at->head)) & NIGH_F_RETURNS;
    if (piece.line || !piece.bytes || piece.bytes > NIGH_WHOLE_MAX || piece.bytes > room)
        return NULL;
    return nigh_shuttle_at(endpoint, *flags, 0, piece.bytes);
}

/* The copy, and the shuttle is ours. */
static inline void read_whole(struct nigh_endpoint *endpoint, void *to, const uint8_t *from, uint32_t bytes,
                              uint32_t flags)
{
    nigh_copy_select(NIGH_COPY_PLAIN)(to, from, bytes);
    nigh_shuttle_received(endpoint, flags);
}

/* nigh_short_poll() of what lies whole in a shuttle, where ranks share CPUs; else, and of whatever is unlike that,
 * nigh_arrive_poll(). */
static __attribute__((noinline)) uint32_t poll_longer(struct nigh_endpoint *endpoint, uint64_t head)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_matcher *matcher = &context->matcher;
    struct nigh_ring_rx *rx = &endpoint->rx;
    uint32_t tclass = nigh_head_tclass(head), bytes, flags;
    struct nigh_match_node **at;
    struct nigh_posted *posted;
    struct nigh_recv_op *op;
    const uint8_t *from;
    uint64_t tag;

    if (!context->crowd.full || !is_whole(head) || tclass >= NIGH_TCLASSES || !context->cq.direct_left ||
        !nigh_match_is_easy(matcher, tclass))
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    tag = nigh_load_relaxed(&rx->at->tag);
    posted = receive_of(matcher, endpoint->index, tclass, tag, &at);
    op = nigh_recv_op_of(posted);
    from = op && !op->flags ? whole_at(endpoint, op->bytes, &bytes, &flags) : NULL;
    if (!from)
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    if (at)
        nigh_match_take(matcher, at);
    else
        nigh_match_take_alone(matcher, posted);
    context->cq.direct_left--;
    read_whole(endpoint, op->buffer, from, bytes, flags);
    go_past(endpoint, bytes, 1, nigh_completion_what(NIGH_OP_RECV, tclass), tag, op->context,
            context->cq.direct++);
    nigh_slab_give(&context->recv_ops, op);
    rx->quiet = !nigh_ring_owes(rx) && !endpoint->rx_bytes;
    if (!rx->quiet)
        nigh_arrive_owing(endpoint);
    return 1;
}

uint32_t nigh_short_poll(struct nigh_endpoint *endpoint, uint64_t head)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_matcher *matcher = &context->matcher;
    struct nigh_ring_rx *rx = &endpoint->rx;
    struct nigh_match_node **at;
    struct nigh_posted *posted;
    struct nigh_recv_op *op;
    uint32_t bytes;
    uint64_t tag;

    if (__builtin_expect(!is_short(context, head), 0))
        return poll_longer(endpoint, head);
    if (__builtin_expect(!context->cq.direct_left || !nigh_match_is_easy(matcher, nigh_head_tclass(head)), 0))
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    tag = nigh_load_relaxed(&rx->at->tag);
    /* The slot behind it, which is looked at below: without, a third of this function's samples wait for it. */
    __builtin_prefetch(rx->at - 1);
    if (__builtin_expect(nigh_head_bytes(head) > NIGH_SLOT_PAYLOAD + NIGH_LINE, 0))
        nigh_ring_prefetch_body(rx, nigh_head_bytes(head));
    posted = receive_of(matcher, endpoint->index, nigh_head_tclass(head), tag, &at);
    if (!posted && may_stay(endpoint, nigh_head_bytes(head))) {
        rx->quiet = false;
        return 0;
    }
    op = nigh_recv_op_of(posted);
    if (__builtin_expect(!op || op->flags || nigh_head_bytes(head) > op->bytes, 0))
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    if (at)
        nigh_match_take(matcher, at);
    else
        nigh_match_take_alone(matcher, posted);
    context->cq.direct_left--;
    bytes = nigh_head_bytes(head);
    if (__builtin_expect(bytes == 8, 1))
        memcpy(op->buffer, rx->at->payload, 8);
    else if (bytes <= NIGH_SLOT_PAYLOAD)
        nigh_copy_small(op->buffer, rx->at->payload, bytes);
    else
        nigh_ring_read_body(rx, op->buffer, bytes, bytes);
    go_past(endpoint, bytes, nigh_slots_for(bytes),
            nigh_completion_what(NIGH_OP_RECV, nigh_head_tclass(head)), tag, op->context,
            context->cq.direct++);
    nigh_slab_give(&context->recv_ops, op);
    /* As arrive.c leaves it behind a message and a look that finds nothing, which is mostly what comes next. */
    rx->quiet = !nigh_ring_owes(rx);
    if (bytes > NIGH_SLOT_PAYLOAD && !rx->quiet)
        nigh_arrive_owing(endpoint);
    if (matcher->posted_count && context->cq.direct_left && nigh_ring_peek(rx)) {
        rx->streak = true;
        return 1 + nigh_arrive_poll(endpoint, NIGH_TURN - 1);
    }
    return 1;
}

static __attribute__((noinline)) int copy_unlike(struct nigh_endpoint *endpoint, void *buffer,
                                                 const uint8_t *payload, uint32_t bytes)
{
    nigh_copy_small(buffer, payload, bytes);
    return endpoint->rx.quiet ? 0 : nigh_arrive_owing(endpoint);
}

/* Behind a message that a post has taken, which the next poll hands over. */
static inline __attribute__((always_inline)) void have_met(struct nigh_endpoint *endpoint)
{
    struct nigh_ring_rx *rx = &endpoint->rx;

    /* Of the next one of this peer, which comes when the others have had their turn. */
    __builtin_prefetch(rx->at);
    endpoint->context->at_once = true;
    endpoint->context->met++;
    rx->foreseen = 0;
    rx->quiet = !nigh_ring_owes(rx) && !endpoint->rx_bytes;
}

/* A post has found its message, of `bytes`. Apart from what finds it, as in inject.c: neither part has to save a
 * register. */
static __attribute__((noinline)) int meet(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                          uint64_t tag, uint64_t word, uint32_t bytes)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_rx *rx = &endpoint->rx;
    const uint8_t *payload = rx->at->payload;

    go_past(endpoint, bytes, 1, nigh_completion_what(NIGH_OP_RECV, NIGH_SHAPE_TCLASS(shape)), tag, word,
            nigh_cq_next_unpromised(&context->cq));
    have_met(endpoint);
    if (__builtin_expect(bytes != 8, 0))
        return copy_unlike(endpoint, buffer, payload, bytes);
    memcpy(buffer, payload, 8);
    return __builtin_expect(rx->quiet, 1) ? 0 : nigh_arrive_owing(endpoint);
}

/* The same of one with a body. */
static __attribute__((noinline)) int meet_body(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                               uint64_t tag, uint64_t word, uint32_t bytes)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_rx *rx = &endpoint->rx;

    nigh_ring_prefetch_body(rx, bytes);
    nigh_ring_read_body(rx, buffer, bytes, bytes);
    go_past(endpoint, bytes, nigh_slots_for(bytes),
            nigh_completion_what(NIGH_OP_RECV, NIGH_SHAPE_TCLASS(shape)), tag, word,
            nigh_cq_next_unpromised(&context->cq));
    have_met(endpoint);
    return rx->quiet ? 0 : nigh_arrive_owing(endpoint);
}

static inline bool has_tag(uint64_t sent, uint64_t tag, uint64_t ignore)
{
    return ((sent ^ tag) | ignore) == ignore;
}

/* The same of one that lies whole in a shuttle. */
static __attribute__((noinline)) int meet_whole(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                                uint64_t tag, uint64_t ignore, uint64_t word)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_matcher *matcher = &context->matcher;
    uint64_t sent = nigh_load_relaxed(&endpoint->rx.at->tag);
    uint32_t tclass = NIGH_SHAPE_TCLASS(shape), bytes, flags;
    const uint8_t *from = whole_at(endpoint, NIGH_SHAPE_BYTES(shape), &bytes, &flags);

    if (!from || !has_tag(sent, tag, ignore) || tclass >= NIGH_TCLASSES || !nigh_cq_has_room(&context->cq) ||
        nigh_match_keeps(matcher, endpoint->index, tclass) ||
        nigh_match_may_take(matcher, endpoint->index, tclass, sent))
        return nigh_recv_wait(endpoint, buffer, shape, tag, ignore, word);
    read_whole(endpoint, buffer, from, bytes, flags);
    go_past(endpoint, bytes, 1, nigh_completion_what(NIGH_OP_RECV, tclass), sent, word,
            nigh_cq_next_unpromised(&context->cq));
    have_met(endpoint);
    return endpoint->rx.quiet ? 0 : nigh_arrive_owing(endpoint);
}

static inline bool fits(uint64_t shape, uint32_t bytes)
{
    return bytes <= NIGH_BODY_MAX && bytes <= NIGH_SHAPE_BYTES(shape);
}

/*
 * While receives are posted, or messages are kept: is one of these first? Of what is kept nothing from this peer may
 * be. A root to which others run ahead keeps some almost always (in seven of ten posts of reductions in a row), of this
 * peer's seldom. What the slot says is read anew, for want of registers to hand it over in, so it is checked anew: the
 * peer may have changed it.
 */
static __attribute__((noinline)) int meet_among(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                                uint64_t tag, uint64_t ignore, uint64_t word)
{
    const struct nigh_matcher *matcher = &endpoint->context->matcher;
    const struct nigh_slot *slot = endpoint->rx.at;
    uint64_t sent = nigh_load_relaxed(&slot->tag);
    uint32_t bytes = nigh_head_bytes(nigh_load_relaxed(&slot->head));

    if (!fits(shape, bytes) || !has_tag(sent, tag, ignore) ||
        nigh_match_keeps(matcher, endpoint->index, NIGH_SHAPE_TCLASS(shape)) ||
        nigh_match_may_take(matcher, endpoint->index, NIGH_SHAPE_TCLASS(shape), sent))
        return nigh_recv_wait(endpoint, buffer, shape, tag, ignore, word);
    if (bytes > NIGH_SLOT_PAYLOAD)
        return meet_body(endpoint, buffer, shape, sent, word, bytes);
    return meet(endpoint, buffer, shape, sent, word, bytes);
}

/*
 * In a crowd the message is mostly there before its receive: then nothing need be filed and looked for. All that is
 * unlike that waits, alone or filed.
 */
int nigh_recv_imm(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t ignore,
                  uint64_t word)
{
    const struct nigh_slot *slot;
    uint64_t differs, sent;
    uint32_t bytes;

    if (__builtin_expect(!endpoint || !buffer || !endpoint->meets || !endpoint->context->meets, 0))
        return nigh_recv_file(endpoint, buffer, shape, tag, ignore, word);
    slot = endpoint->rx.at;
    differs = nigh_load_acquire(&slot->head, RING_PEEK) ^ endpoint->rx.lap ^
              nigh_head_make(NIGH_K_MESSAGE, 0, NIGH_SHAPE_TCLASS(shape), 0);
    bytes = (uint32_t)(differs >> 32);
    if (__builtin_expect((differs & ~(uint64_t)NIGH_F_RETURNS) == WHOLE_DIFFERS, 0))
        return meet_whole(endpoint, buffer, shape, tag, ignore, word);
    if ((uint32_t)differs || !fits(shape, bytes) || NIGH_SHAPE_TCLASS(shape) >= NIGH_TCLASSES ||
        !nigh_cq_has_room(&endpoint->context->cq))
        return nigh_recv_wait(endpoint, buffer, shape, tag, ignore, word);
    sent = nigh_load_relaxed(&slot->tag);
    if (!has_tag(sent, tag, ignore))
        return nigh_recv_wait(endpoint, buffer, shape, tag, ignore, word);
    if (endpoint->context->matcher.waiting ||
        nigh_match_stands(&endpoint->context->matcher, NIGH_SHAPE_TCLASS(shape)))
        return meet_among(endpoint, buffer, shape, tag, ignore, word);
    if (__builtin_expect(bytes > NIGH_SLOT_PAYLOAD, 0))
        return meet_body(endpoint, buffer, shape, sent, word, bytes);
    return meet(endpoint, buffer, shape, sent, word, bytes);
}
