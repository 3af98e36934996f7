/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/pages.h - which pages of an area are taken and which are free: numbers alone, no page is touched. A free
 * run is either clean (it reads as zeros and holds no memory) or kept (it holds what its last owner left). Free runs of
 * one kind are merged with their neighbours at once. The table lies in sheets that are made where pages come into use.
 */
#ifndef NIGH_MALLOC_PAGES_H
#define NIGH_MALLOC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NIGH_MALLOC_PAGE 4096u
/* A sheet's pages, and those that the region maps at a time (region.h): a bit each of a sheet's `mapped`. */
#define NIGH_MALLOC_SHEET   1024u
#define NIGH_MALLOC_GRANULE (NIGH_MALLOC_SHEET / 64)

/* Bins of free runs by length: eight to a doubling; up to 15 pages each length has one. */
#define NIGH_MALLOC_BINS 256u

enum nigh_malloc_kind { NIGH_MALLOC_CLEAN, NIGH_MALLOC_KEPT, NIGH_MALLOC_KINDS };

struct nigh_malloc_tag {
    uint16_t state;        /* what begins or ends here; of a page inside a run nothing */
    uint8_t kind;          /* of a free run */
    bool foreign;          /* of a taken one: the program has mapped other memory there */
    uint32_t pages;        /* of the run */
    uint32_t next, before; /* in the bin of a free run; page 0 is none */
};

struct nigh_malloc_sheet {
    struct nigh_malloc_tag *tags; /* NULL: no page of it has been in use */
    uint64_t mapped;
};

struct nigh_malloc_bins {
    uint64_t pages; /* of all runs */
    uint32_t heads[NIGH_MALLOC_BINS];
    uint64_t filled[NIGH_MALLOC_BINS / 64];
};

struct nigh_malloc_pages {
    struct nigh_malloc_sheet *sheets;
    uint64_t origin; /* number of page 0 in the address space: alignments are of that */
    uint32_t count;
    uint32_t blocks; /* runs that are taken */
    uint64_t taken;  /* their pages */
    struct nigh_malloc_bins bins[NIGH_MALLOC_KINDS];
};

/* All pages but the first are free, and clean. False: the system gives no memory for the table. */
bool nigh_malloc_pages_open(struct nigh_malloc_pages *pages, uint32_t count, uint64_t origin);
void nigh_malloc_pages_close(struct nigh_malloc_pages *pages);

/*
 * A run of `want` pages whose address is a multiple of `align` pages, a power of two: its first page, or 0. Kept runs are
 * preferred. `*kind`: what it was. With `room` a clean one comes from the middle of the longest run, so that it may
 * grow, and so may what lies before it; else from the beginning of the shortest that fits.
 */
uint32_t nigh_malloc_pages_take(struct nigh_malloc_pages *pages, uint64_t want, uint64_t align, bool room,
                                enum nigh_malloc_kind *kind);

/* The longest kept run, taken from now on: its first page, or 0. */
uint32_t nigh_malloc_pages_take_kept(struct nigh_malloc_pages *pages);

/* How many pages the run has that was taken and begins at `page`; 0: none does. May be called without the lock by the
 * owner of the run. */
uint32_t nigh_malloc_pages_length(const struct nigh_malloc_pages *pages, uint32_t page);

/* Gives back a run that was taken. */
void nigh_malloc_pages_give(struct nigh_malloc_pages *pages, uint32_t page, enum nigh_malloc_kind kind);

/* A run that was taken and belongs to nobody for a while: it has no length meanwhile. May be called without the lock by
 * the owner of the run. */
void nigh_malloc_pages_hide(struct nigh_malloc_pages *pages, uint32_t page);
void nigh_malloc_pages_show(struct nigh_malloc_pages *pages, uint32_t page);

/* Makes a run that was taken two: the first has `first` pages, fewer than it had. */
void nigh_malloc_pages_cut(struct nigh_malloc_pages *pages, uint32_t page, uint32_t first);

/* Makes a run that was taken longer where it is. False: what follows is not free. */
bool nigh_malloc_pages_may_grow(const struct nigh_malloc_pages *pages, uint32_t page, uint64_t want);
bool nigh_malloc_pages_grow(struct nigh_malloc_pages *pages, uint32_t page, uint64_t want);

/* Marks the taken runs that have any of `n` pages from `page` on. */
void nigh_malloc_pages_foreign(struct nigh_malloc_pages *pages, uint32_t page, uint32_t n);
bool nigh_malloc_pages_is_foreign(const struct nigh_malloc_pages *pages, uint32_t page);

/* Gives back the sheets that lie inside of the free run at `page`, and have nothing to say. */
void nigh_malloc_pages_drop(struct nigh_malloc_pages *pages, uint32_t page);

/* The run that begins behind the one at `page` (1: the first), 0 behind the last; and whether it is free and clean. */
uint32_t nigh_malloc_pages_next(const struct nigh_malloc_pages *pages, uint32_t page);
bool nigh_malloc_pages_is_clean(const struct nigh_malloc_pages *pages, uint32_t page);

#endif
