/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/pages.h - which pages of an area are taken, and which are free: numbers alone, no page is touched. Runs
 * of free pages are merged with their neighbours at once. What is known of a page lies in a table beside the area, of
 * which only as much is touched as pages have been in use.
 */
#ifndef NIGH_MALLOC_PAGES_H
#define NIGH_MALLOC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NIGH_MALLOC_PAGE 4096u

/* Marks of a page, as its last owner left it. */
#define NIGH_MALLOC_DIRTY 1u /* does not read as zeros */
#define NIGH_MALLOC_KEPT  2u /* free, and holds memory */

/* Bins of free runs by length: eight to a doubling; up to 15 pages each length has one. */
#define NIGH_MALLOC_BINS 256u

struct nigh_malloc_tag {
    uint32_t state;        /* what begins or ends here; of a page inside a run nothing */
    uint32_t pages;        /* of the run */
    uint32_t next, before; /* in the bin of a free run; page 0 is none */
};

struct nigh_malloc_pages {
    struct nigh_malloc_tag *tags;
    uint8_t *marks;
    uint64_t origin; /* number of page 0 in the address space: alignments are of that */
    uint64_t kept;   /* pages marked KEPT that are free */
    uint32_t count;
    uint32_t heads[NIGH_MALLOC_BINS];
    uint64_t filled[NIGH_MALLOC_BINS / 64];
};

/* Bytes of the table of so many pages. */
size_t nigh_malloc_pages_table(uint32_t count);

/* `table`: zeros. All pages but the first are free, and clean. */
void nigh_malloc_pages_open(struct nigh_malloc_pages *pages, void *table, uint32_t count, uint64_t origin);

/* A run of `want` pages whose address is a multiple of `align` pages, a power of two. Its first page, or 0. Their
 * marks stay readable for who has taken them. */
uint32_t nigh_malloc_pages_take(struct nigh_malloc_pages *pages, uint64_t want, uint64_t align);

/* How many pages the run has that was taken and begins at `page`; 0: none does. */
uint32_t nigh_malloc_pages_length(const struct nigh_malloc_pages *pages, uint32_t page);

/* Gives back a run that was taken; all of its pages get `mark`. */
void nigh_malloc_pages_give(struct nigh_malloc_pages *pages, uint32_t page, uint8_t mark);

/* Makes a run that was taken two: the first has `first` pages, fewer than it had. */
void nigh_malloc_pages_cut(struct nigh_malloc_pages *pages, uint32_t page, uint32_t first);

/* Makes a run that was taken longer where it is. False: what follows is not free. */
bool nigh_malloc_pages_grow(struct nigh_malloc_pages *pages, uint32_t page, uint64_t want);

/* The run that begins behind the one at `page` (1: the first), 0 behind the last; and whether it is taken. */
uint32_t nigh_malloc_pages_next(const struct nigh_malloc_pages *pages, uint32_t page);

#endif
