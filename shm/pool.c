/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/pool.c - hands out chunks in rotation. All of its book-keeping is private memory. */
#include "shm/pool.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t span_of(const struct nigh_pool *pool, uint64_t span_bytes)
{
    uint64_t chunks = span_bytes / NIGH_CHUNK + (span_bytes % NIGH_CHUNK != 0);

    if (chunks == 0)
        return 1;
    return chunks < pool->chunks ? (uint32_t)chunks : pool->chunks;
}

int nigh_pool_create(struct nigh_arena *arena, uint64_t span_bytes, struct nigh_pool *out)
{
    struct nigh_pool pool = {
        .arena = arena,
        .chunks = (uint32_t)(arena->layout.pool_bytes / NIGH_CHUNK),
    };

    pool.span = span_of(&pool, span_bytes);
    pool.queue = nigh_os.calloc(pool.chunks + 1u, sizeof(*pool.queue));
    pool.parked = nigh_os.calloc(pool.chunks + 1u, sizeof(*pool.parked));
    pool.taken = nigh_os.calloc(pool.chunks + 1u, sizeof(*pool.taken));
    if (!pool.queue || !pool.parked || !pool.taken) {
        nigh_pool_destroy(&pool);
        return -ENOMEM;
    }
    *out = pool;
    return 0;
}

void nigh_pool_destroy(struct nigh_pool *pool)
{
    free(pool->queue);
    free(pool->parked);
    free(pool->taken);
    *pool = (struct nigh_pool){0};
}

static void push(struct nigh_pool *pool, uint32_t chunk)
{
    uint32_t at = pool->head + pool->count++;

    pool->queue[at < pool->chunks ? at : at - pool->chunks] = chunk;
}

static uint32_t pop(struct nigh_pool *pool)
{
    uint32_t chunk = pool->queue[pool->head];

    pool->head = pool->head + 1 < pool->chunks ? pool->head + 1 : 0;
    pool->count--;
    return chunk;
}

/* Memory without page table entries costs a fault a page, 16 in a chunk, in the middle of copies that are timed: 4 us
 * instead of 0.3 for a message of 4 KiB. A kernel before 5.14 refuses, and the faults come one by one. */
static void populate(const struct nigh_pool *pool, uint32_t chunk)
{
    uint64_t offset = pool->arena->layout.pool_off + (uint64_t)chunk * NIGH_CHUNK;

    (void)nigh_os.madvise(pool->arena->base + offset, NIGH_CHUNK, NIGH_MADV_POPULATE_WRITE);
}

/* One more chunk for the rotation: one that was put aside, else one that never had memory. */
static int widen(struct nigh_pool *pool, uint32_t *chunk)
{
    if (pool->parked_count) {
        *chunk = pool->parked[--pool->parked_count];
        return 0;
    }
    if (pool->committed == pool->chunks || pool->refused)
        return pool->committed ? -EAGAIN : -ENOMEM;
    if (nigh_arena_commit(pool->arena, pool->arena->layout.pool_off + (uint64_t)pool->committed * NIGH_CHUNK,
                          NIGH_CHUNK)) {
        /* Memory that is short is not asked for again with every chunk, as long as there are others. */
        pool->refused = pool->committed > 0;
        return pool->committed ? -EAGAIN : -ENOMEM;
    }
    populate(pool, pool->committed);
    *chunk = pool->committed++;
    return 0;
}

void nigh_pool_set_span(struct nigh_pool *pool, uint64_t span_bytes)
{
    pool->span = span_of(pool, span_bytes);
}

int nigh_pool_take(struct nigh_pool *pool, uint64_t *offset)
{
    uint32_t chunk;
    int error = -EAGAIN;

    if (nigh_pool_rotating(pool) < pool->span)
        error = widen(pool, &chunk);
    if (error && pool->count) {
        chunk = pop(pool);
        error = 0;
    } else if (error == -EAGAIN) {
        error = widen(pool, &chunk);
    }
    if (error)
        return error;
    pool->taken[chunk] = 1;
    *offset = pool->arena->layout.pool_off + (uint64_t)chunk * NIGH_CHUNK;
    return 0;
}

bool nigh_pool_ready(struct nigh_pool *pool)
{
    uint32_t chunk;

    if (!pool->count && nigh_pool_rotating(pool) < pool->span && widen(pool, &chunk) == 0)
        push(pool, chunk);
    return pool->count != 0;
}

void nigh_pool_give(struct nigh_pool *pool, uint64_t offset)
{
    uint64_t chunk = (offset - pool->arena->layout.pool_off) / NIGH_CHUNK;

    assert(offset >= pool->arena->layout.pool_off && chunk < pool->committed);
    assert((offset - pool->arena->layout.pool_off) % NIGH_CHUNK == 0 && pool->taken[chunk]);
    pool->taken[chunk] = 0;
    if (nigh_pool_rotating(pool) > pool->span)
        pool->parked[pool->parked_count++] = (uint32_t)chunk;
    else
        push(pool, (uint32_t)chunk);
}
