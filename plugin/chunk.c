/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/chunk.c - see chunk.h. */
#include "plugin/chunk.h"
#include "plugin/large.h"
#include <errno.h>

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

int nigh_chunk_next(struct nigh_endpoint *endpoint)
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
