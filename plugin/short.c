/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/short.c - a lone message of one slot for a plain receive, which is most of what MPIs send while ranks share CPUs: taken in
 * one go, by a pass or by the post of its receive, with nothing between the look at the slot and the completion that is not
 * about this message. Whatever is unlike that goes the way of plugin/arrive.c, and so does all between ranks with a CPU each, where a
 * function of its own gained nothing.
 */
#include "plugin/context.h"
#include "shm/copy.h"

static_assert(NIGH_TCLASSES == 8, "three bits of word 0 are a class, the others of its byte are 0");

/* Word 0 of a message of one slot. */
static inline bool is_short(uint64_t head)
{
    return (head & UINT64_C(0xf8ffffff)) == (uint64_t)NIGH_K_MESSAGE << 16 &&
           nigh_head_bytes(head) <= NIGH_SLOT_PAYLOAD;
}

/* Copies it, tells of it in `done`, and goes past it. */
static inline void hand_over(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint8_t *buffer,
                             uint64_t word, struct nigh_completion *done)
{
    struct nigh_arena_counters *counters = endpoint->context->counters;
    const struct nigh_slot *slot = endpoint->rx.at;
    uint64_t imm = nigh_load_relaxed(&slot->imm); /* RING_PEEK came before */
    uint32_t bytes = nigh_head_bytes(head);

    if (__builtin_expect(bytes == 8, 1))
        memcpy(buffer, slot->payload, 8);
    else
        nigh_copy_small(buffer, slot->payload, bytes);
    nigh_ring_advance_one(&endpoint->rx);
    nigh_completion_fill_recv(done, word, nigh_completion_what(NIGH_OP_RECV, nigh_head_tclass(head)), bytes,
                              tag, imm, (nigh_two_fields){endpoint->source, (uintptr_t)endpoint});
    endpoint->in_a_row = endpoint->stays = 0;
    nigh_count(&counters->received, 1);
    nigh_count(&counters->received_bytes, bytes);
}

uint32_t nigh_short_poll(struct nigh_endpoint *endpoint, uint64_t head)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_matcher *matcher = &context->matcher;
    struct nigh_ring_rx *rx = &endpoint->rx;
    struct nigh_match_node **at;
    struct nigh_recv_op *op;
    uint64_t tag;

    if (__builtin_expect(!is_short(head) || matcher->others || !context->cq.direct_left, 0))
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    tag = nigh_load_relaxed(&rx->at->tag);
    at = nigh_match_waiting(matcher, endpoint->index, nigh_head_tclass(head), tag);
    op = (struct nigh_recv_op *)(void *)*at;
    if (!op && context->leaves && context->crowd.full && nigh_stay_may_in_crowd(endpoint, 1)) {
        rx->quiet = false;
        return 0;
    }
    if (__builtin_expect(!op || op->flags || nigh_head_bytes(head) > op->bytes, 0))
        return nigh_arrive_poll(endpoint, NIGH_TURN);
    nigh_match_take(matcher, at);
    context->cq.direct_left--;
    hand_over(endpoint, head, tag, op->buffer, op->context, context->cq.direct++);
    nigh_slab_give(&context->recv_ops, op);
    /* As arrive.c leaves it behind a message of one slot and a look that finds nothing, which is mostly what comes next. */
    rx->quiet = !nigh_ring_owes(rx);
    if (matcher->posted_count && context->cq.direct_left && nigh_ring_peek(rx)) {
        rx->streak = true;
        return 1 + nigh_arrive_poll(endpoint, NIGH_TURN - 1);
    }
    return 1;
}

bool nigh_short_meet(struct nigh_endpoint *endpoint, uint64_t head, const struct nigh_recv *recv)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_rx *rx = &endpoint->rx;
    uint64_t tag = nigh_load_relaxed(&rx->at->tag);

    if (!is_short(head) || (tag ^ NIGH_FIELD(recv->tag)) & ~nigh_field_halves(&recv->ignore) ||
        nigh_head_tclass(head) != NIGH_FIELD(recv->tclass) ||
        nigh_head_bytes(head) > NIGH_FIELD(recv->bytes) || endpoint->state != NIGH_READY || endpoint->fills ||
        context->blocked || context->matcher.others)
        return false;
    /* An older one has it. */
    if (context->matcher.posted_count &&
        *nigh_match_waiting(&context->matcher, endpoint->index, nigh_head_tclass(head), tag))
        return false;
    hand_over(endpoint, head, tag, NIGH_FIELD(recv->buffer), NIGH_FIELD(recv->context),
              nigh_cq_next_unpromised(&context->cq));
    context->at_once = true;
    /* Of the next one of this peer, which comes when the others have had their turn. */
    __builtin_prefetch(rx->at);
    rx->foreseen = 0;
    rx->quiet = !nigh_ring_owes(rx) && !endpoint->rx_bytes;
    if (__builtin_expect(!rx->quiet, 0))
        nigh_arrive_owing(endpoint);
    return true;
}
