/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/extents.c - free extents in bins by size. Bins of an eighth of a doubling rather than a tree: the next
 * filled bin is found with two instructions, and what fits from there is at most an eighth too long. */
#include "shm/extents.h"
#include "shm/os.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* How many of the bin of its own size a request looks at before it takes a longer extent from the next. */
#define LOOKS 16u

/* Bin of extents with `pages` pages: one bin each below 8, then eight to a doubling. */
static unsigned bin_of(uint64_t pages)
{
    unsigned log = 63u - (unsigned)__builtin_clzll(pages);

    return log < 3 ? (unsigned)pages : (log - 2) * 8 + (unsigned)(pages >> (log - 3) & 7);
}

static void insert(struct nigh_extents *extents, struct nigh_extent *extent)
{
    unsigned bin = bin_of(extent->pages);

    extent->used = false;
    extent->bin_before = NULL;
    extent->bin_after = extents->bins[bin];
    if (extent->bin_after)
        extent->bin_after->bin_before = extent;
    extents->bins[bin] = extent;
    extents->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void remove_free(struct nigh_extents *extents, struct nigh_extent *extent)
{
    unsigned bin = bin_of(extent->pages);

    if (extent->bin_after)
        extent->bin_after->bin_before = extent->bin_before;
    if (extent->bin_before)
        extent->bin_before->bin_after = extent->bin_after;
    else
        extents->bins[bin] = extent->bin_after;
    if (!extents->bins[bin])
        extents->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

int nigh_extents_create(uint64_t pages, struct nigh_extents *out)
{
    *out = (struct nigh_extents){0};
    assert(pages < UINT64_C(1) << 32);
    if (pages == 0)
        return 0;
    out->first = nigh_os.calloc(1, sizeof(*out->first));
    if (!out->first)
        return -ENOMEM;
    out->first->pages = pages;
    insert(out, out->first);
    return 0;
}

void nigh_extents_destroy(struct nigh_extents *extents)
{
    struct nigh_extent *extent = extents->first;

    while (extent) {
        struct nigh_extent *after = extent->after;

        free(extent);
        extent = after;
    }
    *extents = (struct nigh_extents){0};
}

/* The shortest that fits among the first `looks` of a bin. */
static struct nigh_extent *best_in(struct nigh_extent *extent, uint64_t pages, uint64_t looks)
{
    struct nigh_extent *best = NULL;

    for (; extent && looks && !(best && best->pages == pages); extent = extent->bin_after, looks--) {
        if (extent->pages >= pages && (!best || extent->pages < best->pages))
            best = extent;
    }
    return best;
}

/* The first filled bin from `bin` on, or NIGH_EXTENT_BINS. */
static unsigned next_filled(const struct nigh_extents *extents, unsigned bin)
{
    while (bin < NIGH_EXTENT_BINS) {
        uint64_t word = extents->filled[bin / 64] >> bin % 64;

        if (word)
            return bin + (unsigned)__builtin_ctzll(word);
        bin = (bin / 64 + 1) * 64;
    }
    return NIGH_EXTENT_BINS;
}

static struct nigh_extent *fit(const struct nigh_extents *extents, uint64_t pages)
{
    unsigned own = bin_of(pages);
    struct nigh_extent *best = best_in(extents->bins[own], pages, LOOKS);
    unsigned longer;

    if (best)
        return best;
    longer = next_filled(extents, own + 1);
    if (longer < NIGH_EXTENT_BINS)
        return extents->bins[longer];
    return best_in(extents->bins[own], pages, UINT64_MAX); /* the last hope may be far down the list */
}

struct nigh_extent *nigh_extents_take(struct nigh_extents *extents, uint64_t pages)
{
    struct nigh_extent *extent, *rest = NULL;

    if (pages == 0 || pages >= UINT64_C(1) << 32)
        return NULL;
    extent = fit(extents, pages);
    if (!extent)
        return NULL;
    if (extent->pages > pages) {
        rest = nigh_os.calloc(1, sizeof(*rest));
        if (!rest)
            return NULL;
    }
    remove_free(extents, extent);
    if (rest) {
        /* The low end is used: it is the one that probably has memory already. */
        rest->page = extent->page + pages;
        rest->pages = extent->pages - pages;
        rest->before = extent;
        rest->after = extent->after;
        if (rest->after)
            rest->after->before = rest;
        extent->after = rest;
        extent->pages = pages;
        insert(extents, rest);
    }
    extent->used = true;
    extent->slab = NULL;
    extent->holds = 0;
    return extent;
}

/* Makes `extent` as long as both; `after` is dead. Neither is in a bin. */
static void merge(struct nigh_extent *extent, struct nigh_extent *after)
{
    extent->pages += after->pages;
    extent->after = after->after;
    if (extent->after)
        extent->after->before = extent;
    free(after);
}

void nigh_extents_give(struct nigh_extents *extents, struct nigh_extent *extent)
{
    struct nigh_extent *before = extent->before, *after = extent->after;

    assert(extent->used);
    if (after && !after->used) {
        remove_free(extents, after);
        merge(extent, after);
    }
    if (before && !before->used) {
        remove_free(extents, before);
        merge(before, extent);
        extent = before;
    }
    insert(extents, extent);
}
