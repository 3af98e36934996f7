/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/large.c - messages that do not fit a ring travel in pieces: the sender copies a piece into a chunk of its pool
 * and names it in a slot, the receiver copies it out, so both cores work at once. The first `eager` bytes go without
 * asking; the rest when the receiver has matched the message, so that what nobody waits for never fills the pool.
 */
#include "plugin/context.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

/* One visit sends at most this much, so that other endpoints and the receiving side get their turn. */
#define VISIT_BYTES (256u * 1024)
/* Messages from here on are cut upwards. */
#define UPWARDS_FROM (256u * 1024)
/* Lines of the next message that are asked for ahead, at most. */
#define OWN_BYTES 4096u

static void flow_push(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    op->next = NULL;
    op->flowing = true;
    *endpoint->flow.tail = op;
    endpoint->flow.tail = &op->next;
    endpoint->flow.count++;
    nigh_progress_busy(endpoint);
}

static void flow_pop(struct nigh_endpoint *endpoint)
{
    struct nigh_send_op *op = endpoint->flow.head;

    endpoint->flow.head = op->next;
    if (!endpoint->flow.head)
        endpoint->flow.tail = &endpoint->flow.head;
    endpoint->flow.count--;
    op->flowing = false;
}

bool nigh_large_reclaim(struct nigh_endpoint *endpoint, bool all)
{
    uint64_t consumed = all ? UINT64_MAX : nigh_plan_consumed_for_chunk(endpoint);
    struct nigh_pool *pool = &endpoint->context->pool;
    bool moved = false;

    if (!all && consumed == UINT64_MAX)
        return false;
    while (endpoint->held_count && endpoint->held[endpoint->held_head].until <= consumed) {
        nigh_pool_give(pool, endpoint->held[endpoint->held_head].offset);
        endpoint->held_head = (endpoint->held_head + 1) % NIGH_CHUNKS_HELD_MAX;
        endpoint->held_count--;
        moved = true;
    }
    if (all && endpoint->chunk) {
        nigh_pool_give(pool, endpoint->chunk);
        endpoint->chunk = 0;
        moved = true;
    }
    return moved;
}

/* A chunk that was begun is kept for the next message, however long that takes: a pair of short messages that began a
 * new one each time would write the heads of chunks only, a rotation as narrow as those. It goes back when another
 * endpoint starves. */
static void give_begun_chunk(struct nigh_endpoint *endpoint)
{
    uint64_t consumed = nigh_ring_consumed(&endpoint->tx);

    if (!endpoint->chunk || endpoint->flow.head || consumed == UINT64_MAX || consumed < endpoint->chunk_until)
        return;
    nigh_pool_give(&endpoint->context->pool, endpoint->chunk);
    endpoint->chunk = 0;
}

/* Within the span: beyond it a sender waits for its reader, so that the rotation stays as wide as was measured. */
static int take_in_span(struct nigh_pool *pool, uint64_t *offset)
{
    return pool->count || nigh_pool_rotating(pool) < pool->span ? nigh_pool_take(pool, offset) : -EAGAIN;
}

/* Chunks that other endpoints need no longer, and one beyond the span for an endpoint that has none at all: peers that
 * do not read may starve themselves, not others. */
static int take_chunk(struct nigh_endpoint *endpoint, uint64_t *offset)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_pool *pool = &context->pool;

    if (take_in_span(pool, offset) == 0)
        return 0;
    nigh_large_reclaim(endpoint, false);
    if (take_in_span(pool, offset) == 0)
        return 0;
    if (endpoint->held_count)
        return -EAGAIN;
    for (struct nigh_endpoint *other = context->all; other; other = other->next_all) {
        if (!other->attached)
            continue;
        nigh_large_reclaim(other, false);
        give_begun_chunk(other);
    }
    return nigh_pool_take(pool, offset);
}

static int next_chunk(struct nigh_endpoint *endpoint)
{
    uint64_t offset;
    uint32_t at;

    if (endpoint->chunk && endpoint->held_count == NIGH_CHUNKS_HELD_MAX)
        nigh_large_reclaim(endpoint, false);
    if (endpoint->chunk && (endpoint->held_count == NIGH_CHUNKS_HELD_MAX || nigh_endpoint_hold(endpoint)))
        return -EAGAIN;
    if (endpoint->chunk) {
        at = (endpoint->held_head + endpoint->held_count++) % NIGH_CHUNKS_HELD_MAX;
        endpoint->held[at] = (struct nigh_held_chunk){endpoint->chunk, endpoint->chunk_until};
        endpoint->chunk = 0;
    }
    if (take_chunk(endpoint, &offset))
        return -EAGAIN;
    endpoint->chunk = offset;
    endpoint->chunk_low = 0;
    endpoint->chunk_high = NIGH_CHUNK;
    endpoint->chunk_until = endpoint->tx.next;
    return 0;
}

/*
 * Cuts a piece out of the chunk. The reader's prefetcher runs on past the end of a short piece; what lies there must not
 * be what we write next, or each of those lines costs an invalidation (4 KiB alone: 0.65 us, against 0.3). So short
 * messages are cut downwards. Long ones fill chunks upwards, where running ahead is what the reader wants; so do those
 * written past the cache, which take no lines from the reader (32 KiB alone across L3s: 3.3 us, against 3.9).
 */
static bool is_upwards(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return op->bytes >= UPWARDS_FROM || endpoint->pace.strategy[op->strategy].sender == NIGH_COPY_NT;
}

static uint64_t cut(struct nigh_endpoint *endpoint, bool upwards, uint32_t bytes)
{
    uint32_t lines = (bytes + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE;

    if (!upwards) {
        endpoint->chunk_high -= lines;
        return endpoint->chunk + endpoint->chunk_high;
    }
    endpoint->chunk_low += lines;
    return endpoint->chunk + endpoint->chunk_low - lines;
}

/*
 * A slot that names a piece of the chunk has been published. Messages without one do not count: a reader that has read a
 * chunk says so as soon as it finds nothing more, but of them, and of those in a shuttle, only when they have used up a
 * quarter of the ring.
 */
static void chunk_named(struct nigh_endpoint *endpoint)
{
    endpoint->chunk_until = endpoint->tx.next;
}

/* All of it has room there. */
static uint32_t copy_to_shuttle(struct nigh_send_op *op, uint32_t want, uint32_t flags, uint32_t *line)
{
    uint64_t left = op->allowed - op->sent;
    uint32_t bytes = want < left ? want : (uint32_t)left;

    nigh_plan_copy(op, op->shuttle + op->sent, bytes, flags);
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
    uint32_t bytes;

    if (!left)
        return 0;
    if (op->shuttle)
        return copy_to_shuttle(op, want, flags, line);
    if (!endpoint->chunk || endpoint->chunk_low == endpoint->chunk_high)
        if (next_chunk(endpoint))
            return 0;
    bytes = endpoint->chunk_high - endpoint->chunk_low;
    bytes = want < bytes ? want : bytes;
    bytes = left < bytes ? (uint32_t)left : bytes;
    offset = cut(endpoint, is_upwards(endpoint, op), bytes);
    nigh_plan_copy(op, endpoint->context->arena.base + offset, bytes, flags);
    nigh_plan_copied(endpoint, bytes);
    op->sent += bytes;
    *line = (uint32_t)(offset / NIGH_LINE);
    return bytes;
}

/* ---- messages that need no operation ------------------------------------------------------------------- */

/* Chunks for all of a message: what is left of the one that was begun and another one, or a new one. What is left is never
 * given up: where there is no other chunk the message goes the long way, which begins with it. */
static bool whole_room(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    uint32_t left = endpoint->chunk ? endpoint->chunk_high - endpoint->chunk_low : 0;
    struct nigh_pool *pool = &endpoint->context->pool;

    if (left >= bytes)
        return true;
    if (!left)
        return next_chunk(endpoint) == 0;
    if (!pool->count || endpoint->held_count == NIGH_CHUNKS_HELD_MAX)
        nigh_large_reclaim(endpoint, false);
    return endpoint->held_count < NIGH_CHUNKS_HELD_MAX && nigh_pool_ready(pool);
}

/*
 * Takes the lines of the next message, if it is as long as this one, away from their reader, or out of the L3: 4 KiB in
 * one L3 400 -> 255 ns bare. Only between two that talk: in a stream it would be done twice. By stores, as in a ring.
 */
static void own_next(struct nigh_endpoint *endpoint, uint32_t lines, const struct nigh_strategy *strategy)
{
    uint8_t *base = endpoint->context->arena.base + endpoint->chunk;
    bool talks = endpoint->rx.next != endpoint->heard_before;

    endpoint->heard_before = endpoint->rx.next;
    if (!talks || strategy->sender == NIGH_COPY_NT || endpoint->chunk_high - endpoint->chunk_low < lines)
        return;
    /* Relaxed: nobody reads them before they are named. */
    for (uint32_t at = endpoint->chunk_high - lines; at < endpoint->chunk_high; at += NIGH_LINE)
        nigh_store_relaxed((uint64_t *)(void *)(base + at), 0);
}

static uint32_t lines_of(uint64_t bytes)
{
    return (uint32_t)((bytes + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE);
}

/* The slot of a message that lies in one piece. */
static void name_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send, uint32_t line,
                       uint32_t flags)
{
    struct nigh_wire_piece piece = {line, (uint32_t)send->bytes};

    nigh_link_send(endpoint, nigh_head_make(NIGH_K_WHOLE, 0, send->tclass, flags), send->tag, send->imm,
                   &piece, sizeof(piece));
}

static int send_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                      const struct nigh_strategy *strategy)
{
    struct nigh_context *context = endpoint->context;
    uint32_t bytes = (uint32_t)send->bytes, lines = lines_of(bytes);
    uint64_t offset;

    if (nigh_link_room(endpoint, 1))
        return -EAGAIN;
    endpoint->chunk_high -= lines;
    offset = endpoint->chunk + endpoint->chunk_high;
    nigh_copy_select(strategy->sender)(context->arena.base + offset, send->buffer, bytes);
    nigh_plan_copied(endpoint, bytes);
    name_whole(endpoint, send, (uint32_t)(offset / NIGH_LINE),
               (uint32_t)strategy->receiver << NIGH_F_KERNEL_SHIFT);
    chunk_named(endpoint);
    own_next(endpoint, lines < OWN_BYTES ? lines : OWN_BYTES, strategy);
    nigh_plan_sent_short(endpoint);
    return 0;
}

/* How the pieces of a message travel that all go at once. */
struct chain {
    const struct nigh_strategy *strategy; /* of those in chunks */
    uint8_t *shuttle;                     /* NULL: in chunks */
    uint32_t piece, flags;
};

/* Copies what begins at `sent`, at most `want` bytes, there. */
static uint32_t chain_shuttle(const struct chain *chain, const uint8_t *from, uint32_t sent, uint32_t want,
                              uint32_t *line)
{
    nigh_copy_select(NIGH_COPY_PLAIN)(chain->shuttle + sent, from + sent, want);
    *line = sent / NIGH_LINE;
    return want;
}

/* Cuts at most `want` bytes and copies them. There is room: whole_room(). */
static uint32_t chain_chunk(struct nigh_endpoint *endpoint, const struct chain *chain, const uint8_t *from,
                            uint32_t want, uint32_t *line)
{
    const struct nigh_strategy *strategy = chain->strategy;
    uint64_t offset;
    uint32_t left;

    if (endpoint->chunk_low == endpoint->chunk_high)
        (void)next_chunk(endpoint);
    left = endpoint->chunk_high - endpoint->chunk_low;
    if (want > left)
        want = left;
    offset = cut(endpoint, strategy->sender == NIGH_COPY_NT, want);
    nigh_copy_select(strategy->sender)(endpoint->context->arena.base + offset, from, want);
    nigh_plan_copied(endpoint, want);
    *line = (uint32_t)(offset / NIGH_LINE);
    return want;
}

static uint32_t chain_piece(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                            const struct chain *chain, uint32_t sent, uint32_t *line)
{
    uint32_t left = (uint32_t)send->bytes - sent, want = left < chain->piece ? left : chain->piece;
    const uint8_t *from = send->buffer;

    if (chain->shuttle)
        return chain_shuttle(chain, from, sent, want, line);
    return chain_chunk(endpoint, chain, from + sent, want, line);
}

/* The slots and their room are those of an operation's, but all of them can be sent at once, so none is needed. There is
 * room for them, and `id` is the message's. */
static void send_chain(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                       const struct chain *chain, uint32_t id)
{
    uint32_t bytes = (uint32_t)send->bytes;
    struct nigh_wire_first first = {.total = bytes, .imm = send->imm, .eager = bytes, .id = id};
    struct nigh_wire_piece next;

    first.bytes = chain_piece(endpoint, send, chain, 0, &first.line);
    nigh_link_send(endpoint, nigh_head_make(NIGH_K_FIRST, 0, send->tclass, chain->flags), send->tag,
                   send->imm, &first, sizeof(first));
    if (!chain->shuttle)
        chunk_named(endpoint);
    for (uint32_t sent = first.bytes; sent < bytes; sent += next.bytes) {
        next.bytes = chain_piece(endpoint, send, chain, sent, &next.line);
        nigh_link_send(endpoint, nigh_head_make(NIGH_K_PIECE, 0, 0, chain->flags), id, 0, &next,
                       sizeof(next));
        if (!chain->shuttle)
            chunk_named(endpoint);
    }
    nigh_ids_give(&endpoint->out, id);
    endpoint->in_a_row++;
}

static int send_in_chunks(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                          const struct nigh_strategy *strategy, uint32_t piece)
{
    struct chain chain = {
        .strategy = strategy, .piece = piece, .flags = (uint32_t)strategy->receiver << NIGH_F_KERNEL_SHIFT};
    uint32_t id;

    /* One more where a chunk ends in between. */
    if (nigh_link_room(endpoint, (uint32_t)send->bytes / piece + 2) ||
        nigh_ids_take(&endpoint->out, endpoint, &id))
        return -EAGAIN;
    send_chain(endpoint, send, &chain, id);
    own_next(endpoint, OWN_BYTES, strategy);
    nigh_plan_sent_short(endpoint);
    return 0;
}

static int send_in_shuttle(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct chain chain = {.piece = nigh_shuttle_piece(send->bytes)};
    bool whole = send->bytes <= NIGH_ONE_PIECE;
    uint32_t id, line;

    if (nigh_link_room(endpoint, (uint32_t)send->bytes / chain.piece + 1) ||
        (!whole && nigh_ids_take(&endpoint->out, endpoint, &id)))
        return -EAGAIN;
    chain.shuttle = nigh_shuttle_take(endpoint, send->bytes, &chain.flags);
    if (!chain.shuttle) {
        if (!whole)
            nigh_ids_give(&endpoint->out, id);
        return -EAGAIN;
    }
    chain.flags |= NIGH_COPY_PLAIN << NIGH_F_KERNEL_SHIFT;
    if (whole) {
        chain_shuttle(&chain, send->buffer, 0, (uint32_t)send->bytes, &line);
        name_whole(endpoint, send, line, chain.flags);
    } else if (nigh_counted_is_for(send->bytes)) {
        nigh_counted_send(endpoint, send, chain.shuttle, chain.flags, id);
    } else {
        send_chain(endpoint, send, &chain, id);
    }
    endpoint->heard_before = endpoint->rx.next;
    nigh_plan_sent_short(endpoint);
    return 0;
}

int nigh_large_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    const struct nigh_strategy *strategy = &endpoint->pace.strategy[nigh_pace_short(&endpoint->pace)];
    uint32_t bytes = (uint32_t)send->bytes, lines = lines_of(bytes), piece = bytes;

    if (nigh_shuttle_is_held(endpoint) && nigh_plan_shuttles(endpoint, endpoint->in_a_row > 0) &&
        send_in_shuttle(endpoint, send) == 0)
        return 0;
    if (bytes > NIGH_WHOLE_MAX || !whole_room(endpoint, lines))
        return -EAGAIN;
    if (bytes > NIGH_ONE_PIECE)
        piece = (uint32_t)nigh_pace_piece(strategy, bytes, endpoint->in_a_row > 0);
    if (piece >= bytes && endpoint->chunk_high - endpoint->chunk_low >= lines)
        return send_whole(endpoint, send, strategy);
    return send_in_chunks(endpoint, send, strategy, piece);
}

/* ---- with one ------------------------------------------------------------------------------------------ */

static void all_sent(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    nigh_plan_sent(endpoint, op);
    if (op->kind == NIGH_SEND_REPLY) {
        if (op->tells)
            nigh_rma_tell(endpoint, NIGH_OP_REMOTE_GET, op->key, op->bytes, 0);
        op->tells = false;
        nigh_send_discard(endpoint, op);
    } else if (op->kind == NIGH_SEND_CHUNKED && (op->granted || !op->sync))
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
        if (!piece.bytes)
            break;
        nigh_link_send(endpoint, nigh_head_make(NIGH_K_PIECE, 0, 0, flags), op->id, 0, &piece, sizeof(piece));
        if (!op->shuttle)
            chunk_named(endpoint);
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
    /* In whole lines, as a piece begins with one. */
    uint32_t eager = endpoint->context->config.eager_bytes / NIGH_LINE * NIGH_LINE;
    struct nigh_wire_first first = {.total = op->bytes, .imm = op->imm, .id = op->id};
    bool ask = op->kind == NIGH_SEND_CHUNKED && op->bytes > endpoint->context->config.eager_bytes;
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
    if (ask && !op->shuttle && !nigh_trust_whole(endpoint, op))
        op->allowed = first.eager = eager;
    else
        first.eager = op->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)op->bytes;
    flags = (op->sync ? NIGH_F_SYNC : 0) | (op->notify ? NIGH_F_NOTIFY : 0) | nigh_plan_flags(op);
    first.bytes = copy_piece(endpoint, op, op->piece, flags, &first.line);
    nigh_link_send(endpoint, nigh_head_make(wire_kind(op), 0, op->tclass, flags), remote ? op->key : op->tag,
                   remote ? op->offset : op->imm, &first, sizeof(first));
    if (first.bytes && !op->shuttle)
        chunk_named(endpoint);
    if (op->sent == op->bytes) {
        all_sent(endpoint, op);
    } else if (op->sent < op->allowed) {
        flow_push(endpoint, op);
        if (endpoint->flow.count == 1)
            nigh_large_flow(endpoint);
    }
    return 0;
}

void nigh_large_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late)
{
    nigh_trust_granted(endpoint, op, late);
    op->granted = true;
    op->allowed = op->bytes;
    if (!op->flowing && op->sent < op->bytes)
        flow_push(endpoint, op);
    else if (!op->flowing)
        nigh_send_complete(endpoint, op, 0, op->bytes);
    while ((op = nigh_trust_next(endpoint)) != NULL)
        flow_push(endpoint, op);
}
