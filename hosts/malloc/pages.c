/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/pages.c - see pages.h. */
#include "hosts/malloc/pages.h"

#include <string.h>

/* A free run of one page is FREE alone. Pages inside of runs are INSIDE, so that a pointer into a block, or to one that
 * is free, is told from a block's. */
enum state { INSIDE, TAKEN, FREE, END };

/* So many runs of a bin are looked at before a larger one is cut: lists stay short to walk, and of those in one bin
 * the shortest has 8/9 of the longest, so not much is lost. */
#define TRIES 8

/* ---- bins ---------------------------------------------------------------------------------------------- */

static uint32_t bin_of(uint64_t n)
{
    uint32_t top;

    if (n < 16)
        return (uint32_t)n;
    top = 63u - (uint32_t)__builtin_clzll(n);
    return 8 * (top - 2) + (uint32_t)((n >> (top - 3)) & 7);
}

/* The first bin from `bin` on that has a run; NIGH_MALLOC_BINS: none. */
static uint32_t filled_from(const struct nigh_malloc_pages *pages, uint32_t bin)
{
    for (uint32_t word = bin / 64; word < NIGH_MALLOC_BINS / 64; word++) {
        uint64_t bits = pages->filled[word];

        if (word == bin / 64)
            bits &= ~(uint64_t)0 << bin % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return NIGH_MALLOC_BINS;
}

static void put(struct nigh_malloc_pages *pages, uint32_t page, uint32_t n)
{
    uint32_t bin = bin_of(n), next = pages->heads[bin];

    pages->tags[page + n - 1] = (struct nigh_malloc_tag){.state = END, .pages = n};
    pages->tags[page] = (struct nigh_malloc_tag){.state = FREE, .pages = n, .next = next};
    if (next)
        pages->tags[next].before = page;
    pages->heads[bin] = page;
    pages->filled[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void pull(struct nigh_malloc_pages *pages, uint32_t page)
{
    struct nigh_malloc_tag tag = pages->tags[page];
    uint32_t bin = bin_of(tag.pages);

    if (tag.before)
        pages->tags[tag.before].next = tag.next;
    else
        pages->heads[bin] = tag.next;
    if (tag.next)
        pages->tags[tag.next].before = tag.before;
    if (!pages->heads[bin])
        pages->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    pages->tags[page].state = INSIDE;
    pages->tags[page + tag.pages - 1].state = INSIDE;
}

static uint32_t find(const struct nigh_malloc_pages *pages, uint64_t want)
{
    uint32_t bin = bin_of(want), page = pages->heads[bin], larger;

    for (int tries = TRIES; page && tries; page = pages->tags[page].next, tries--)
        if (pages->tags[page].pages >= want)
            return page;
    larger = filled_from(pages, bin + 1);
    if (larger < NIGH_MALLOC_BINS)
        return pages->heads[larger];
    while (page && pages->tags[page].pages < want)
        page = pages->tags[page].next;
    return page;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

size_t nigh_malloc_pages_table(uint32_t count)
{
    return ((size_t)count + 1) * (sizeof(struct nigh_malloc_tag) + 1);
}

void nigh_malloc_pages_open(struct nigh_malloc_pages *pages, void *table, uint32_t count, uint64_t origin)
{
    memset(pages, 0, sizeof(*pages));
    pages->tags = table; /* one more, INSIDE: what follows the last page is not free */
    pages->marks = (uint8_t *)(pages->tags + count + 1);
    pages->origin = origin;
    pages->count = count;
    put(pages, 1, count - 1);
}

/* Pages that are no longer free. */
static void uncount(struct nigh_malloc_pages *pages, uint32_t page, uint32_t n)
{
    const uint8_t *marks = pages->marks + page;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        kept += (marks[i] & NIGH_MALLOC_KEPT) != 0;
    pages->kept -= kept;
}

uint32_t nigh_malloc_pages_take(struct nigh_malloc_pages *pages, uint64_t want, uint64_t align)
{
    uint32_t page, begin, end, n = (uint32_t)want;
    uint64_t before;

    if (!want || want > pages->count || align > pages->count)
        return 0;
    page = find(pages, want + align - 1);
    if (!page)
        return 0;
    end = page + pages->tags[page].pages;
    pull(pages, page);
    before = -(pages->origin + page) & (align - 1);
    begin = page + (uint32_t)before;
    if (begin > page)
        put(pages, page, begin - page);
    if (begin + n < end)
        put(pages, begin + n, end - begin - n);
    pages->tags[begin] = (struct nigh_malloc_tag){.state = TAKEN, .pages = n};
    uncount(pages, begin, n);
    return begin;
}

uint32_t nigh_malloc_pages_length(const struct nigh_malloc_pages *pages, uint32_t page)
{
    return page < pages->count && pages->tags[page].state == TAKEN ? pages->tags[page].pages : 0;
}

/* The free run that ends before `page`; 0: none. */
static uint32_t free_before(const struct nigh_malloc_pages *pages, uint32_t page)
{
    const struct nigh_malloc_tag *tag = &pages->tags[page - 1];

    return tag->state == FREE ? page - 1 : tag->state == END ? page - tag->pages : 0;
}

void nigh_malloc_pages_give(struct nigh_malloc_pages *pages, uint32_t page, uint8_t mark)
{
    uint32_t n = pages->tags[page].pages, begin = free_before(pages, page), end = page + n;

    memset(pages->marks + page, mark, n);
    if (mark & NIGH_MALLOC_KEPT)
        pages->kept += n;
    pages->tags[page].state = INSIDE;
    if (pages->tags[end].state == FREE) {
        end += pages->tags[end].pages;
        pull(pages, page + n);
    }
    if (begin)
        pull(pages, begin);
    else
        begin = page;
    put(pages, begin, end - begin);
}

void nigh_malloc_pages_cut(struct nigh_malloc_pages *pages, uint32_t page, uint32_t first)
{
    uint32_t n = pages->tags[page].pages;

    pages->tags[page].pages = first;
    pages->tags[page + first] = (struct nigh_malloc_tag){.state = TAKEN, .pages = n - first};
}

bool nigh_malloc_pages_grow(struct nigh_malloc_pages *pages, uint32_t page, uint64_t want)
{
    uint32_t n = pages->tags[page].pages, after = page + n, more, there;

    if (want > pages->count || pages->tags[after].state != FREE || pages->tags[after].pages < want - n)
        return false;
    more = (uint32_t)want - n;
    there = pages->tags[after].pages;
    pull(pages, after);
    if (there > more)
        put(pages, after + more, there - more);
    uncount(pages, after, more);
    pages->tags[page].pages = (uint32_t)want;
    return true;
}

uint32_t nigh_malloc_pages_next(const struct nigh_malloc_pages *pages, uint32_t page)
{
    uint32_t next = page + pages->tags[page].pages;

    return next < pages->count ? next : 0;
}
