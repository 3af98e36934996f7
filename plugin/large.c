/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/large.c - messages that do not fit a ring travel in pieces: the sender copies a piece into a chunk of its pool
 * and names it in a slot, the receiver copies it out, so both cores work at once. The first `eager` bytes go without
 * asking; the rest when the receiver has matched the message, so that what nobody waits for never fills the pool.
 */
#include "plugin/large.h"
#include "plugin/chunk.h"
#include "plugin/crammed.h"
#include "plugin/device_send.h"
#include "plugin/progress.h"
#include "plugin/rma.h"
#include "plugin/send.h"
#include "plugin/trust.h"

/* One visit sends at most this much, so that other endpoints and the receiving side get their turn. */
#define VISIT_BYTES (256u * 1024)
/* Messages from here on are cut upwards. */
#define UPWARDS_FROM (256u * 1024)

static void flow_push(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    op->flowing = true;
    nigh_queue_push(&endpoint->flow, op);
    nigh_progress_busy(endpoint);
}

static void flow_pop(struct nigh_endpoint *endpoint)
{
    nigh_queue_take(&endpoint->flow, &endpoint->flow.head)->flowing = false;
}

static bool is_upwards(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return op->bytes >= UPWARDS_FROM || endpoint->pace.strategy[op->strategy].sender == NIGH_COPY_NT;
}

/* All of it has room there. */
static uint32_t copy_to_shuttle(struct nigh_send_op *op, uint32_t want, uint32_t flags, uint32_t *line)
{
    uint64_t left = op->allowed - op->sent;
    uint32_t bytes = want < left ? want : (uint32_t)left;

    nigh_plan_copy(op, op->shuttle + op->sent, op->buffer + op->sent, bytes, flags);
    *line = (uint32_t)(op->sent / NIGH_LINE);
    op->sent += bytes;
    return bytes;
}

/* Copies the next piece of `op`, at most `want` bytes, into a chunk; `flags` are those of its slot. Returns its bytes, 0 when
 * no chunk is free. */
static uint32_t copy_piece(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint32_t want,
                           uint32_t flags, uint32_t *line)
{
    uint64_t left = op->allowed - op->sent, offset;
    const uint8_t *from;
    uint32_t bytes;

    if (!left)
        return 0;
    if (op->shuttle)
        return copy_to_shuttle(op, want, flags, line);
    if (!endpoint->chunk || endpoint->chunk_low == endpoint->chunk_high)
        if (nigh_chunk_next(endpoint))
            return 0;
    from = op->device ? nigh_device_send_at(op->device, op->sent, &left) : op->buffer + op->sent;
    bytes = endpoint->chunk_high - endpoint->chunk_low;
    bytes = want < bytes ? want : bytes;
    bytes = left < bytes ? (uint32_t)left : bytes;
    offset = nigh_chunk_cut(endpoint, is_upwards(endpoint, op), bytes);
    nigh_plan_copy(op, endpoint->context->arena.base + offset, from, bytes, flags);
    nigh_plan_copied(endpoint, bytes);
    op->sent += bytes;
    if (op->device)
        nigh_device_send_sent(op->device, op->sent);
    *line = (uint32_t)(offset / NIGH_LINE);
    return bytes;
}

static void all_sent(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    nigh_plan_sent(endpoint, op);
    if (op->kind == NIGH_SEND_REPLY)
        nigh_rma_answered(endpoint, op, 0);
    else if (op->kind == NIGH_SEND_CHUNKED && (op->granted || !op->sync))
        nigh_send_complete(endpoint, op, 0, op->bytes);
}

bool nigh_large_flow(struct nigh_endpoint *endpoint)
{
    uint32_t visit = 0;

    while (endpoint->flow.head && visit < VISIT_BYTES && endpoint->state == NIGH_READY) {
        struct nigh_send_op *op = endpoint->flow.head;
        uint32_t flags = nigh_plan_flags(op);
        struct nigh_wire_piece piece;

        if (nigh_link_room(endpoint, 1))
            break;
        piece.bytes = copy_piece(endpoint, op, op->piece, flags, &piece.line);
        if (!piece.bytes) {
            endpoint->starved = true;
            break;
        }
        nigh_link_send(endpoint, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), op->id, 0, &piece, sizeof(piece));
        if (!op->shuttle)
            nigh_chunk_named(endpoint);
        visit += piece.bytes;
        if (op->sent < op->allowed)
            continue;
        flow_pop(endpoint);
        if (op->sent == op->bytes)
            all_sent(endpoint, op);
    }
    return visit != 0;
}

static enum nigh_kind wire_kind(const struct nigh_send_op *op)
{
    return op->kind == NIGH_SEND_PUT ? NIGH_K_PUT : op->kind == NIGH_SEND_REPLY ? NIGH_K_REPLY : NIGH_K_FIRST;
}

int nigh_large_start(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    bool crammed = op->kind == NIGH_SEND_CHUNKED && nigh_crammed(endpoint, op->silent);
    uint32_t limit = crammed ? NIGH_CRAMMED_EAGER : endpoint->context->config.eager_bytes;
    /* In whole lines, as a piece begins with one. */
    uint32_t eager = limit / NIGH_LINE * NIGH_LINE;
    struct nigh_wire_first first = {.total = op->bytes, .imm = op->imm, .id = op->id};
    bool ask = op->kind == NIGH_SEND_CHUNKED && op->bytes > limit;
    bool remote = op->kind == NIGH_SEND_PUT;
    int rc = nigh_link_room(endpoint, 1);
    uint32_t flags;

    if (rc)
        return rc;
    op->allowed = op->bytes;
    nigh_plan_choose(endpoint, op);
    /* In a shuttle it is in nobody's way, and is not copied once more when it comes too early. */
    if (ask && op->shuttle)
        op->sync = true;
    if (op->device) {
        /* Nothing is there yet; of one that asks nothing comes unasked. */
        op->allowed = 0;
        op->asks = ask;
        first.eager = ask ? 0 : (uint32_t)(op->bytes > UINT32_MAX ? UINT32_MAX : op->bytes);
    } else if (ask && !op->shuttle && (crammed || !nigh_trust_whole(endpoint, op)))
        op->allowed = first.eager = eager;
    else
        first.eager = op->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)op->bytes;
    flags = (op->sync ? NIGH_F_SYNC : 0) | (op->notify ? NIGH_F_NOTIFY : 0) | nigh_plan_flags(op);
    first.bytes = copy_piece(endpoint, op, op->piece, flags, &first.line);
    nigh_link_send(endpoint, nigh_head_make(wire_kind(op), 0, op->tclass, flags), remote ? op->key : op->tag,
                   remote ? op->offset : op->imm, &first, sizeof(first));
    if (first.bytes && !op->shuttle)
        nigh_chunk_named(endpoint);
    if (op->device && !ask)
        nigh_device_send_start(endpoint, op);
    if (op->sent == op->bytes) {
        all_sent(endpoint, op);
    } else if (op->sent < op->allowed) {
        flow_push(endpoint, op);
        if (endpoint->flow.count == 1)
            nigh_large_flow(endpoint);
    }
    return 0;
}

static void granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    op->allowed = op->bytes;
    if (!op->flowing && op->sent < op->bytes)
        flow_push(endpoint, op);
    else if (!op->flowing)
        nigh_send_complete(endpoint, op, 0, op->bytes);
}

/* It has been read from the device since it was announced, or is from now on. */
static void granted_device(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    if (op->sent == op->bytes)
        nigh_send_complete(endpoint, op, 0, op->bytes);
    else if (op->asks)
        nigh_device_send_start(endpoint, op);
}

void nigh_large_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late)
{
    nigh_trust_granted(endpoint, op, late);
    op->granted = true;
    if (op->failed)
        nigh_send_complete(endpoint, op, op->failed, 0);
    else if (op->device)
        granted_device(endpoint, op);
    else
        granted(endpoint, op);
    while ((op = nigh_trust_next(endpoint)) != NULL)
        flow_push(endpoint, op);
}

void nigh_large_allow(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint64_t bytes)
{
    op->allowed = bytes;
    if (!op->flowing)
        flow_push(endpoint, op);
}

void nigh_large_fail(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int error)
{
    const struct nigh_wire_piece none = {0};
    struct nigh_send_op **link = &endpoint->flow.head;

    if (op->flowing) {
        while (*link != op)
            link = &(*link)->next;
        nigh_queue_take(&endpoint->flow, link);
        op->flowing = false;
    }
    nigh_device_send_close(op->device);
    op->device = NULL;
    op->failed = error;
    nigh_link_answer(endpoint, NIGH_K_PIECE, NIGH_F_FAILED, op->id, 0, &none, sizeof(none));
    if (op->kind == NIGH_SEND_PUT)
        op->sent = op->allowed = op->bytes; /* the peer's FINISH ends it */
    else if (!op->sync || op->granted)
        nigh_send_complete(endpoint, op, error, 0);
}
