/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/space.h - the region's address space, in two zones. In the dense one blocks lie side by side. In the roomy
 * one, up to three times as long, each block lies in the middle of the longest free run, so that it can grow where it is:
 * glibc's realloc() has the kernel move pages instead. Only what blocks have had is mapped.
 * All of it with the lock, unless it says otherwise.
 */
#ifndef NIGH_MALLOC_SPACE_H
#define NIGH_MALLOC_SPACE_H

#include "hosts/malloc/pages.h"
#include "hosts/malloc/region.h"

/* In this order: of a file that is longer than its share of addresses peers map the beginning. */
enum { NIGH_MALLOC_ROOMY, NIGH_MALLOC_DENSE, NIGH_MALLOC_ZONES };

struct nigh_malloc_space {
    struct nigh_malloc_region region;
    struct {
        struct nigh_malloc_pages pages;
        uint64_t offset; /* in the region */
    } zones[NIGH_MALLOC_ZONES];
    uint64_t most; /* pages that may be taken */
};

/* A block's place. */
struct nigh_malloc_place {
    unsigned zone;
    uint32_t page;
};

bool nigh_malloc_space_open(struct nigh_malloc_space *space, uint64_t bytes, bool huge, bool tell);
void nigh_malloc_space_close(struct nigh_malloc_space *space);

/* Without the lock. `memory`: in the region. */
struct nigh_malloc_place nigh_malloc_space_place(const struct nigh_malloc_space *space, const void *memory);
void *nigh_malloc_space_address(const struct nigh_malloc_space *space, struct nigh_malloc_place place);

/* A block, mapped; NULL: there is no room, or the system says no. `grows`: it has grown before. */
void *nigh_malloc_space_take(struct nigh_malloc_space *space, uint64_t pages, uint64_t align, bool grows,
                             enum nigh_malloc_kind *kind);

/* A longer block, in place. */
bool nigh_malloc_space_grow(struct nigh_malloc_space *space, struct nigh_malloc_place place, uint32_t n,
                            uint64_t want);

/* Gives a block's memory back to the system, and what was mapped for it alone; both without the lock. Then the block is
 * given with what they returned. */
struct nigh_malloc_emptied {
    bool clean;
    uint64_t from, bytes; /* no longer mapped, in the region */
};
struct nigh_malloc_emptied nigh_malloc_space_empty(const struct nigh_malloc_space *space,
                                                   struct nigh_malloc_place place, uint32_t n);
/* What is mapped for a block alone. False: nothing. */
bool nigh_malloc_space_inner(const struct nigh_malloc_space *space, struct nigh_malloc_place place,
                             uint32_t n, struct nigh_malloc_emptied *out);
void nigh_malloc_space_give(struct nigh_malloc_space *space, struct nigh_malloc_place place,
                            const struct nigh_malloc_emptied *emptied);

/* Pages of free runs that hold memory; the longest of these, taken by the caller. False: there is none. */
uint64_t nigh_malloc_space_kept(const struct nigh_malloc_space *space);
bool nigh_malloc_space_take_kept(struct nigh_malloc_space *space, struct nigh_malloc_place *place);

/* Gives back all memory that is free, and unmaps it. Bytes of address space that were. */
uint64_t nigh_malloc_space_trim(struct nigh_malloc_space *space);

/* Marks the blocks that have any of this memory. */
void nigh_malloc_space_foreign(struct nigh_malloc_space *space, uintptr_t begin, uintptr_t end);

/* Calls `each` with what is mapped of the region by its own accounts, but for its head. */
bool nigh_malloc_space_each(const struct nigh_malloc_space *space,
                            bool (*each)(void *argument, uint64_t from, uint64_t bytes), void *argument);

#endif
