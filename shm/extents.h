/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/extents.h - runs of pages of an area: taken by good fit, merged with their neighbours when given back.
 * Knows numbers only, no memory: the heap's blocks and slabs are made of it. */
#ifndef NIGH_SHM_EXTENTS_H
#define NIGH_SHM_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define NIGH_EXTENT_BINS 256 /* eight to a doubling, to 2^32 pages */

struct nigh_heap_slab;

struct nigh_extent {
    uint64_t page, pages;
    struct nigh_extent *before, *after;         /* neighbours by address; they fill the area without a gap */
    struct nigh_extent *bin_before, *bin_after; /* while free */
    struct nigh_heap_slab *slab; /* the heap's, while used: what it is cut into; NULL: one block */
    uint32_t holds;              /* the heap's, while used */
    bool used;
};

struct nigh_extents {
    struct nigh_extent *first; /* by address */
    struct nigh_extent *bins[NIGH_EXTENT_BINS];
    uint64_t filled[NIGH_EXTENT_BINS / 64]; /* a bit for each bin that is not empty */
};

/* All `pages` of the area free (0: none at all). -ENOMEM. */
int nigh_extents_create(uint64_t pages, struct nigh_extents *out);
void nigh_extents_destroy(struct nigh_extents *extents);

/* A used extent of exactly `pages` (at least 1), slab and holds zero; NULL when none is free that is long
 * enough, or no private memory is left to describe the rest. */
struct nigh_extent *nigh_extents_take(struct nigh_extents *extents, uint64_t pages);
/* Back, merged with free neighbours; the pointer is dead. */
void nigh_extents_give(struct nigh_extents *extents, struct nigh_extent *extent);

#endif
