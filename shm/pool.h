/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/pool.h - the chunks through which large messages travel: one pool a context, used in rotation by all
 * pairs. What decides the speed of a copy is who last held the lines that it writes, so the chunk that was
 * freed longest ago is handed out next, over a span that is wider than the reader's cache (docs/rationale.md
 * has the figures).
 */
#ifndef NIGH_SHM_POOL_H
#define NIGH_SHM_POOL_H

#include "shm/arena.h"

#define NIGH_CHUNK 65536u /* bytes of a chunk: pieces are cut from it */

struct nigh_pool {
    struct nigh_arena *arena;
    uint32_t chunks;    /* reserved */
    uint32_t committed; /* backed by memory so far */
    uint32_t span;      /* rotate over this many; more are committed only when none is free */
    uint32_t *queue;    /* free chunks, a circular FIFO: oldest freed first */
    uint32_t head, count;
};

/* -ENOMEM. */
int nigh_pool_create(struct nigh_arena *arena, uint64_t span_bytes, struct nigh_pool *out);
void nigh_pool_destroy(struct nigh_pool *pool);

/* The chunk freed longest ago, or a newly committed one while fewer than the span are. *offset in the arena.
 * -EAGAIN: none is free now. */
int nigh_pool_take(struct nigh_pool *pool, uint64_t *offset);
void nigh_pool_give(struct nigh_pool *pool, uint64_t offset);

/* Widens or narrows the rotation; narrowing decommits when chunks come back. */
void nigh_pool_set_span(struct nigh_pool *pool, uint64_t span_bytes);

#endif
