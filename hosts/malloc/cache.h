/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/cache.h - a few blocks that were freed last, for the threads that freed them: a block that a program takes
 * and frees in a loop costs no lock that others want, and its pages stay where they are. Its owner has hidden such a block
 * from others (pages.h).
 */
#ifndef NIGH_MALLOC_CACHE_H
#define NIGH_MALLOC_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer ones are not for it; and so many pages lie in one shard at most. */
#define NIGH_MALLOC_CACHE_BLOCK 1024u
#define NIGH_MALLOC_CACHE_PAGES 2048u

struct nigh_malloc_cached {
    void *memory; /* NULL: none */
    uint32_t pages;
};

/* One of `pages` pages, or a few more. */
struct nigh_malloc_cached nigh_malloc_cache_take(uint64_t pages);

/* Keeps a block, or not; what it returns the caller frees otherwise: that block, or one that it has kept before. */
struct nigh_malloc_cached nigh_malloc_cache_keep(struct nigh_malloc_cached block);

/* No more are kept or taken from now on, and `each` gets those that were. Once in a process. */
void nigh_malloc_cache_close(void (*each)(struct nigh_malloc_cached block));

/* In a child of a fork, where it was not closed and has none: what threads that are not here have been doing. */
void nigh_malloc_cache_reset(void);

#endif
