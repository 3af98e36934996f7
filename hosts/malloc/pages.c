/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/pages.c - see pages.h. */
#include "hosts/malloc/pages.h"
#include "hosts/malloc/system.h"

#include <string.h>
#include <sys/mman.h>

/* A free run of one page is FREE alone. Pages inside of runs are INSIDE, so that a pointer into a block, or to one that
 * is free, is told from a block's. HIDDEN: taken, and nobody's (nigh_malloc_pages_hide). */
enum state { INSIDE, TAKEN, HIDDEN, FREE, END };

/* So many runs of a bin are looked at before a larger one is cut: lists stay short to walk, and of those in one bin
 * the shortest has 8/9 of the longest, so not much is lost. */
#define TRIES 8
/* A run with room begins at a huge page, as far as there are so many. */
#define HUGE 512u

#define SHEET_BYTES (NIGH_MALLOC_SHEET * sizeof(struct nigh_malloc_tag))

/* ---- sheets -------------------------------------------------------------------------------------------- */

static void *map_zeros(size_t bytes)
{
    void *memory = nigh_malloc_system_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Of pages that are in use, or next to such: what follows the last page is not free, and neither is what has no sheet. */
static struct nigh_malloc_tag *tag_at(const struct nigh_malloc_pages *pages, uint32_t page)
{
    return &pages->sheets[page / NIGH_MALLOC_SHEET].tags[page % NIGH_MALLOC_SHEET];
}

static enum state state_of(const struct nigh_malloc_pages *pages, uint32_t page)
{
    if (page > pages->count || !pages->sheets[page / NIGH_MALLOC_SHEET].tags)
        return INSIDE;
    return (enum state)tag_at(pages, page)->state;
}

/* The sheets of all pages from `first` to `last`. False: no memory; then those that were made stay. */
static bool have_sheets(struct nigh_malloc_pages *pages, uint32_t first, uint32_t last)
{
    for (uint32_t i = first / NIGH_MALLOC_SHEET; i <= last / NIGH_MALLOC_SHEET; i++) {
        if (!pages->sheets[i].tags)
            pages->sheets[i].tags = map_zeros(SHEET_BYTES);
        if (!pages->sheets[i].tags)
            return false;
    }
    return true;
}

static size_t sheets_of(uint32_t count)
{
    return count / NIGH_MALLOC_SHEET + 1; /* one page more than there are */
}

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
static uint32_t filled_from(const struct nigh_malloc_bins *bins, uint32_t bin)
{
    for (uint32_t word = bin / 64; word < NIGH_MALLOC_BINS / 64; word++) {
        uint64_t bits = bins->filled[word];

        if (word == bin / 64)
            bits &= ~(uint64_t)0 << bin % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return NIGH_MALLOC_BINS;
}

static void put(struct nigh_malloc_pages *pages, uint32_t page, uint32_t n, enum nigh_malloc_kind kind)
{
    struct nigh_malloc_bins *bins = &pages->bins[kind];
    uint32_t bin = bin_of(n), next = bins->heads[bin];

    *tag_at(pages, page + n - 1) = (struct nigh_malloc_tag){.state = END, .kind = (uint8_t)kind, .pages = n};
    *tag_at(pages, page) =
        (struct nigh_malloc_tag){.state = FREE, .kind = (uint8_t)kind, .pages = n, .next = next};
    if (next)
        tag_at(pages, next)->before = page;
    bins->heads[bin] = page;
    bins->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    bins->pages += n;
}

static void pull(struct nigh_malloc_pages *pages, uint32_t page)
{
    struct nigh_malloc_tag tag = *tag_at(pages, page);
    struct nigh_malloc_bins *bins = &pages->bins[tag.kind];
    uint32_t bin = bin_of(tag.pages);

    if (tag.before)
        tag_at(pages, tag.before)->next = tag.next;
    else
        bins->heads[bin] = tag.next;
    if (tag.next)
        tag_at(pages, tag.next)->before = tag.before;
    if (!bins->heads[bin])
        bins->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    bins->pages -= tag.pages;
    tag_at(pages, page)->state = INSIDE;
    tag_at(pages, page + tag.pages - 1)->state = INSIDE;
}

static uint32_t find(const struct nigh_malloc_pages *pages, enum nigh_malloc_kind kind, uint64_t want)
{
    const struct nigh_malloc_bins *bins = &pages->bins[kind];
    uint32_t bin = bin_of(want), page = bins->heads[bin], larger;

    for (int tries = TRIES; page && tries; page = tag_at(pages, page)->next, tries--)
        if (tag_at(pages, page)->pages >= want)
            return page;
    larger = filled_from(bins, bin + 1);
    if (larger < NIGH_MALLOC_BINS)
        return bins->heads[larger];
    while (page && tag_at(pages, page)->pages < want)
        page = tag_at(pages, page)->next;
    return page;
}

/* Of the runs in the last bin that has any, the longest of the first few. */
static uint32_t find_longest(const struct nigh_malloc_pages *pages, enum nigh_malloc_kind kind)
{
    const struct nigh_malloc_bins *bins = &pages->bins[kind];
    uint32_t best = 0, bin = NIGH_MALLOC_BINS, page;

    for (uint32_t word = NIGH_MALLOC_BINS / 64; word-- && bin == NIGH_MALLOC_BINS;)
        if (bins->filled[word])
            bin = word * 64 + 63 - (uint32_t)__builtin_clzll(bins->filled[word]);
    if (bin == NIGH_MALLOC_BINS)
        return 0;
    page = bins->heads[bin];
    for (int tries = TRIES; page && tries; page = tag_at(pages, page)->next, tries--)
        if (!best || tag_at(pages, page)->pages > tag_at(pages, best)->pages)
            best = page;
    return best;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

bool nigh_malloc_pages_open(struct nigh_malloc_pages *pages, uint32_t count, uint64_t origin)
{
    memset(pages, 0, sizeof(*pages));
    pages->sheets = map_zeros(sheets_of(count) * sizeof(*pages->sheets));
    if (!pages->sheets)
        return false;
    pages->origin = origin;
    pages->count = count;
    if (!have_sheets(pages, 1, 1) || !have_sheets(pages, count - 1, count)) {
        nigh_malloc_pages_close(pages);
        return false;
    }
    put(pages, 1, count - 1, NIGH_MALLOC_CLEAN);
    return true;
}

void nigh_malloc_pages_close(struct nigh_malloc_pages *pages)
{
    for (size_t i = 0; i < sheets_of(pages->count); i++)
        if (pages->sheets[i].tags)
            nigh_malloc_system_munmap(pages->sheets[i].tags, SHEET_BYTES);
    nigh_malloc_system_munmap(pages->sheets, sheets_of(pages->count) * sizeof(*pages->sheets));
    memset(pages, 0, sizeof(*pages));
}

/* Where in the free run at `page` a run of `want` is to begin. */
static uint32_t place(const struct nigh_malloc_pages *pages, uint32_t page, uint64_t want, uint64_t align,
                      bool room)
{
    uint64_t spare = tag_at(pages, page)->pages - want, begin = page, wide = align < HUGE ? HUGE : align;

    if (room && spare >= 4 * wide) {
        begin += spare / 2;
        align = wide;
    }
    return (uint32_t)(begin + (-(pages->origin + begin) & (align - 1)));
}

/* Cuts [begin, begin + n) out of the free run at `page`. */
static bool carve(struct nigh_malloc_pages *pages, uint32_t page, uint32_t begin, uint32_t n)
{
    struct nigh_malloc_tag run = *tag_at(pages, page);
    uint32_t end = page + run.pages;

    if (!have_sheets(pages, begin - 1, begin + n))
        return false;
    pull(pages, page);
    if (begin > page)
        put(pages, page, begin - page, run.kind);
    if (begin + n < end)
        put(pages, begin + n, end - begin - n, run.kind);
    *tag_at(pages, begin) = (struct nigh_malloc_tag){.state = TAKEN, .pages = n};
    pages->taken += n;
    pages->blocks++;
    return true;
}

uint32_t nigh_malloc_pages_take(struct nigh_malloc_pages *pages, uint64_t want, uint64_t align, bool room,
                                enum nigh_malloc_kind *kind)
{
    uint32_t page, begin;

    if (!want || want > pages->count || align > pages->count)
        return 0;
    *kind = NIGH_MALLOC_KEPT;
    page = find(pages, NIGH_MALLOC_KEPT, want + align - 1);
    if (!page) {
        *kind = NIGH_MALLOC_CLEAN;
        page =
            room ? find_longest(pages, NIGH_MALLOC_CLEAN) : find(pages, NIGH_MALLOC_CLEAN, want + align - 1);
        if (page && tag_at(pages, page)->pages < want + align - 1)
            page = find(pages, NIGH_MALLOC_CLEAN, want + align - 1);
    }
    if (!page)
        return 0;
    begin = place(pages, page, want, align, room && *kind == NIGH_MALLOC_CLEAN);
    return carve(pages, page, begin, (uint32_t)want) ? begin : 0;
}

uint32_t nigh_malloc_pages_take_kept(struct nigh_malloc_pages *pages)
{
    uint32_t page = find_longest(pages, NIGH_MALLOC_KEPT);

    return page && carve(pages, page, page, tag_at(pages, page)->pages) ? page : 0;
}

uint32_t nigh_malloc_pages_length(const struct nigh_malloc_pages *pages, uint32_t page)
{
    return page < pages->count && state_of(pages, page) == TAKEN ? tag_at(pages, page)->pages : 0;
}

void nigh_malloc_pages_hide(struct nigh_malloc_pages *pages, uint32_t page)
{
    tag_at(pages, page)->state = HIDDEN;
}

void nigh_malloc_pages_show(struct nigh_malloc_pages *pages, uint32_t page)
{
    tag_at(pages, page)->state = TAKEN;
}

/* The free run that ends before `page`; 0: none. */
static uint32_t free_before(const struct nigh_malloc_pages *pages, uint32_t page)
{
    enum state state = state_of(pages, page - 1);

    return state == FREE ? page - 1 : state == END ? page - tag_at(pages, page - 1)->pages : 0;
}

static bool is_free(const struct nigh_malloc_pages *pages, uint32_t page, enum nigh_malloc_kind kind)
{
    return page && state_of(pages, page) == FREE && tag_at(pages, page)->kind == (uint8_t)kind;
}

void nigh_malloc_pages_give(struct nigh_malloc_pages *pages, uint32_t page, enum nigh_malloc_kind kind)
{
    uint32_t n = tag_at(pages, page)->pages, begin = free_before(pages, page), end = page + n;

    pages->taken -= n;
    pages->blocks--;
    tag_at(pages, page)->state = INSIDE;
    if (is_free(pages, end, kind)) {
        end += tag_at(pages, end)->pages;
        pull(pages, page + n);
    }
    if (is_free(pages, begin, kind))
        pull(pages, begin);
    else
        begin = page;
    put(pages, begin, end - begin, kind);
}

void nigh_malloc_pages_cut(struct nigh_malloc_pages *pages, uint32_t page, uint32_t first)
{
    struct nigh_malloc_tag *tag = tag_at(pages, page), rest = *tag;

    rest.pages -= first;
    tag->pages = first;
    *tag_at(pages, page + first) = rest;
    pages->blocks++;
}

bool nigh_malloc_pages_may_grow(const struct nigh_malloc_pages *pages, uint32_t page, uint64_t want)
{
    uint64_t end = page + want, at = (uint64_t)page + tag_at(pages, page)->pages;

    if (end > pages->count)
        return false;
    while (at < end && state_of(pages, (uint32_t)at) == FREE) /* of either kind */
        at += tag_at(pages, (uint32_t)at)->pages;
    return at >= end;
}

bool nigh_malloc_pages_grow(struct nigh_malloc_pages *pages, uint32_t page, uint64_t want)
{
    uint32_t n = tag_at(pages, page)->pages, at = page + n, end = page + (uint32_t)want;
    struct nigh_malloc_tag run;

    if (!nigh_malloc_pages_may_grow(pages, page, want) || !have_sheets(pages, at, end))
        return false;
    while (at < end) {
        run = *tag_at(pages, at);
        pull(pages, at);
        at += run.pages;
        if (at > end)
            put(pages, end, at - end, run.kind);
    }
    tag_at(pages, page)->pages = (uint32_t)want;
    pages->taken += want - n;
    return true;
}

void nigh_malloc_pages_foreign(struct nigh_malloc_pages *pages, uint32_t page, uint32_t n)
{
    uint32_t end = page + n < pages->count ? page + n : pages->count, begin = page < end ? page : end;

    while (begin > 1 && state_of(pages, begin) == INSIDE && pages->sheets[begin / NIGH_MALLOC_SHEET].tags)
        begin--; /* the run's beginning */
    for (; begin < end; begin++)
        if (state_of(pages, begin) == TAKEN || state_of(pages, begin) == HIDDEN)
            tag_at(pages, begin)->foreign = true;
}

bool nigh_malloc_pages_is_foreign(const struct nigh_malloc_pages *pages, uint32_t page)
{
    return tag_at(pages, page)->foreign;
}

void nigh_malloc_pages_drop(struct nigh_malloc_pages *pages, uint32_t page)
{
    uint32_t last = page + tag_at(pages, page)->pages - 1;

    for (uint32_t i = page / NIGH_MALLOC_SHEET + 1; i < last / NIGH_MALLOC_SHEET; i++)
        if (pages->sheets[i].tags && nigh_malloc_system_munmap(pages->sheets[i].tags, SHEET_BYTES) == 0)
            pages->sheets[i].tags = NULL;
}

uint32_t nigh_malloc_pages_next(const struct nigh_malloc_pages *pages, uint32_t page)
{
    uint32_t next = page + tag_at(pages, page)->pages;

    return next < pages->count ? next : 0;
}

bool nigh_malloc_pages_is_clean(const struct nigh_malloc_pages *pages, uint32_t page)
{
    return is_free(pages, page, NIGH_MALLOC_CLEAN);
}
