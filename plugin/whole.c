/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/whole.c - messages that do not fit a ring, and all of which finds room at once, in a chunk or in a shuttle:
 * they need no operation on the sender's side.
 */
#include "plugin/chunk.h"
#include "plugin/counted.h"
#include "plugin/large.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"
#include <errno.h>

/* Lines of the next message that are asked for ahead, at most. */
#define OWN_BYTES 4096u

/* Chunks for all of a message: what is left of the one that was begun and another one, or a new one. What is left is
 * never given up: where there is no other chunk the message goes the long way, which begins with it. */
static bool whole_room(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    uint32_t left = endpoint->chunk ? endpoint->chunk_high - endpoint->chunk_low : 0;
    struct nigh_pool *pool = &endpoint->context->pool;

    if (left >= bytes)
        return true;
    if (!left)
        return nigh_chunk_next(endpoint) == 0;
    if (!pool->count || endpoint->held_count == NIGH_CHUNKS_HELD_MAX)
        nigh_large_reclaim(endpoint, false);
    return endpoint->held_count < NIGH_CHUNKS_HELD_MAX && nigh_endpoint_hold(endpoint) == 0 &&
           nigh_pool_ready(pool);
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
    nigh_chunk_named(endpoint);
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
        (void)nigh_chunk_next(endpoint);
    left = endpoint->chunk_high - endpoint->chunk_low;
    if (want > left)
        want = left;
    offset = nigh_chunk_cut(endpoint, strategy->sender == NIGH_COPY_NT, want);
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

/* The slots and their room are those of an operation's, but all of them can be sent at once, so none is needed. There
 * is room for them, and `id` is the message's. */
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
        nigh_chunk_named(endpoint);
    for (uint32_t sent = first.bytes; sent < bytes; sent += next.bytes) {
        next.bytes = chain_piece(endpoint, send, chain, sent, &next.line);
        nigh_link_send(endpoint, nigh_head_make(NIGH_K_PIECE, 0, 0, chain->flags), id, 0, &next,
                       sizeof(next));
        if (!chain->shuttle)
            nigh_chunk_named(endpoint);
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
    /* Who runs in turns copies nothing beside its sender: pieces are but more slots to read, in cold lines. */
    bool whole = send->bytes <= (endpoint->context->crowd.full ? NIGH_WHOLE_MAX : NIGH_ONE_PIECE);
    uint32_t id, line;

    if (nigh_link_room(endpoint, whole ? 1 : (uint32_t)send->bytes / chain.piece + 1) ||
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
    endpoint->in_a_row += whole && send->bytes > NIGH_ONE_PIECE;
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
