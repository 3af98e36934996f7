/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/pool.h - the chunks through which large messages travel: one pool a context, used in rotation by all
 * pairs. What decides the speed of a copy is who last held the lines that it writes, so the chunk that was
 * freed longest ago is handed out next, over a span that is wider than the reader's cache (docs/rationale/chunks.md
 * has the figures).
 */
#ifndef NIGH_SHM_POOL_H
#define NIGH_SHM_POOL_H

#include "shm/arena.h"

#define NIGH_CHUNK 65536u /* bytes of a chunk: pieces are cut from it */

/* A chunk is in the hands of a caller, in the queue, put aside, or has no memory yet. */
struct nigh_pool {
    struct nigh_arena *arena;
    uint32_t chunks;    /* reserved */
    uint32_t committed; /* backed by memory so far; it stays so (shm/arena.h) */
    uint32_t span;      /* rotate over this many; over more only while none is free */
    uint32_t *queue;    /* free chunks in rotation, a circular FIFO: oldest freed first */
    uint32_t head, count;
    uint32_t *parked; /* free chunks beyond the span, put aside, a stack */
    uint32_t parked_count;
    uint8_t *taken; /* a byte for each chunk: in the hands of a caller */
    bool refused;   /* a commit failed while there were other chunks: no more are asked for */
};

/* Nothing is committed yet. span_bytes is rounded up to chunks, at least one, at most the pool. -ENOMEM. The
 * arena outlives the pool. */
int nigh_pool_create(struct nigh_arena *arena, uint64_t span_bytes, struct nigh_pool *out);
void nigh_pool_destroy(struct nigh_pool *pool);

/* Another span, rounded as by create. What rotates beyond a narrower one is put aside as it is given back. */
void nigh_pool_set_span(struct nigh_pool *pool, uint64_t span_bytes);

/* Chunks in rotation: those with memory that are not put aside. */
static inline uint32_t nigh_pool_rotating(const struct nigh_pool *pool)
{
    return pool->committed - pool->parked_count;
}

/*
 * A chunk, as *offset in the arena: a fresh one while fewer than the span are in rotation, else the one freed
 * longest ago, else, when none is free, one beyond the span. -EAGAIN: all are in use, one will come back.
 * -ENOMEM (logged by the arena): there is none at all and no memory for one, or the pool has no bytes.
 */
int nigh_pool_take(struct nigh_pool *pool, uint64_t *offset);
/* Sees to it that the next nigh_pool_take() has one within the span, and cannot fail. False: none is free there. */
bool nigh_pool_ready(struct nigh_pool *pool);
/* Back into the rotation, or aside while that is wider than the span: those are the first to be taken beyond it.
 * `offset` as taken; anything else is a bug of the caller and asserted. */
void nigh_pool_give(struct nigh_pool *pool, uint64_t offset);

#endif
