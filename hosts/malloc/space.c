/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/space.c - see space.h. */
#include "hosts/malloc/space.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE  NIGH_MALLOC_PAGE
#define SHEET NIGH_MALLOC_SHEET

/* Blocks from here on lie in the roomy zone, as long as there are not too many: each may be a mapping of its own, of which
 * a process has 65530. */
#define ROOMY_FROM  (((uint64_t)1 << 20) / PAGE)
#define ROOMY_MOST  8192u
#define ROOMY_BYTES ((uint64_t)192 << 30)
/* In the dense zone so many granules are mapped at a time: a system call a MiB costs nothing beside its pages. */
#define AHEAD (((uint64_t)1 << 20) / PAGE / NIGH_MALLOC_GRANULE)

static_assert(SHEET == 64 * NIGH_MALLOC_GRANULE, "a bit for each granule");

/* ---- granules ------------------------------------------------------------------------------------------ */

static void note(struct nigh_malloc_pages *pages, uint64_t granule, uint64_t end, bool mapped)
{
    for (; granule < end; granule++)
        if (mapped)
            pages->sheets[granule / 64].mapped |= (uint64_t)1 << granule % 64;
        else
            pages->sheets[granule / 64].mapped &= ~((uint64_t)1 << granule % 64);
}

/* The first granule from `granule` on that is mapped, or is not; `end`: there is none before. */
static uint64_t first(const struct nigh_malloc_pages *pages, uint64_t granule, uint64_t end, bool mapped)
{
    uint64_t bits;

    while (granule < end) {
        bits = mapped ? pages->sheets[granule / 64].mapped : ~pages->sheets[granule / 64].mapped;
        bits >>= granule % 64;
        if (bits) {
            granule += (uint64_t)__builtin_ctzll(bits);
            break;
        }
        granule = (granule / 64 + 1) * 64;
    }
    return granule < end ? granule : end;
}

/* The next stretch of granules that are mapped, or are not, before `end`; its end. */
static uint64_t stretch(const struct nigh_malloc_pages *pages, uint64_t *granule, uint64_t end, bool mapped)
{
    *granule = first(pages, *granule, end, mapped);
    return first(pages, *granule, end, !mapped);
}

static uint64_t granules_of(const struct nigh_malloc_pages *pages)
{
    return pages->count / NIGH_MALLOC_GRANULE;
}

/* The region's head is mapped otherwise. */
static void bytes_of(const struct nigh_malloc_space *space, unsigned zone, uint64_t granule, uint64_t end,
                     uint64_t *from, uint64_t *bytes)
{
    const uint64_t each = (uint64_t)NIGH_MALLOC_GRANULE * PAGE;

    *from = space->zones[zone].offset + granule * each;
    *bytes = (end - granule) * each;
    if (!*from) {
        *from = PAGE;
        *bytes -= PAGE;
    }
}

static int map(struct nigh_malloc_space *space, unsigned zone, uint64_t granule, uint64_t end)
{
    uint64_t from, bytes;
    int rc;

    bytes_of(space, zone, granule, end, &from, &bytes);
    rc = nigh_malloc_region_map(&space->region, from, bytes);
    if (rc == 0)
        note(&space->zones[zone].pages, granule, end, true);
    return rc;
}

/* Maps what is not mapped of some pages. */
static int reach(struct nigh_malloc_space *space, unsigned zone, uint64_t page, uint64_t n)
{
    const struct nigh_malloc_pages *pages = &space->zones[zone].pages;
    uint64_t end = (page + n - 1) / NIGH_MALLOC_GRANULE + 1, granule = page / NIGH_MALLOC_GRANULE, to, more;
    int rc = 0;

    for (; rc == 0 && (to = stretch(pages, &granule, end, false)) > granule; granule = to) {
        more = (to + AHEAD - 1) / AHEAD * AHEAD;
        if (zone == NIGH_MALLOC_DENSE && to == end && more <= granules_of(pages)) {
            uint64_t ahead = granule;

            if (stretch(pages, &ahead, more, false) == more && map(space, zone, granule, more) == 0)
                continue;
        }
        rc = map(space, zone, granule, to);
    }
    return rc;
}

/* ---- open ---------------------------------------------------------------------------------------------- */

/* The roomy zone, for so many bytes of blocks. */
static uint64_t roomy_for(uint64_t bytes)
{
    return 3 * bytes < ROOMY_BYTES ? 3 * bytes : ROOMY_BYTES;
}

bool nigh_malloc_space_open(struct nigh_malloc_space *space, uint64_t bytes, bool huge, bool tell)
{
    const uint64_t counts[NIGH_MALLOC_ZONES] = {roomy_for(bytes) / PAGE, bytes / PAGE};
    uint64_t offset = 0;
    unsigned i;

    memset(space, 0, sizeof(*space));
    if (!nigh_malloc_region_open(&space->region, bytes + roomy_for(bytes), bytes, huge, tell))
        return false;
    space->most = bytes / PAGE;
    for (i = 0; i < NIGH_MALLOC_ZONES; i++) {
        space->zones[i].offset = offset;
        if (!nigh_malloc_pages_open(&space->zones[i].pages, (uint32_t)counts[i],
                                    (space->region.base + offset) / PAGE))
            break;
        offset += counts[i] * PAGE;
    }
    if (i == NIGH_MALLOC_ZONES)
        return true;
    while (i--)
        nigh_malloc_pages_close(&space->zones[i].pages);
    nigh_malloc_region_close(&space->region);
    return false;
}

static bool unmap(void *argument, uint64_t from, uint64_t bytes)
{
    return nigh_malloc_region_unmap(argument, from, bytes);
}

void nigh_malloc_space_close(struct nigh_malloc_space *space)
{
    nigh_malloc_space_each(space, unmap, &space->region);
    for (unsigned i = NIGH_MALLOC_ZONES; i--;)
        nigh_malloc_pages_close(&space->zones[i].pages);
    nigh_malloc_region_close(&space->region);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

struct nigh_malloc_place nigh_malloc_space_place(const struct nigh_malloc_space *space, const void *memory)
{
    uint64_t at = (uintptr_t)memory - space->region.base;
    unsigned zone = at >= space->zones[NIGH_MALLOC_DENSE].offset ? NIGH_MALLOC_DENSE : NIGH_MALLOC_ROOMY;

    return (struct nigh_malloc_place){.zone = zone,
                                      .page = (uint32_t)((at - space->zones[zone].offset) / PAGE)};
}

static uint64_t offset_of(const struct nigh_malloc_space *space, struct nigh_malloc_place place)
{
    return space->zones[place.zone].offset + (uint64_t)place.page * PAGE;
}

void *nigh_malloc_space_address(const struct nigh_malloc_space *space, struct nigh_malloc_place place)
{
    return (char *)space->region.base + offset_of(space, place);
}

static bool is_full(const struct nigh_malloc_space *space, uint64_t more)
{
    uint64_t taken = 0;

    for (unsigned i = 0; i < NIGH_MALLOC_ZONES; i++)
        taken += space->zones[i].pages.taken;
    return taken + more > space->most;
}

static void *take_in(struct nigh_malloc_space *space, unsigned zone, uint64_t want, uint64_t align,
                     enum nigh_malloc_kind *kind)
{
    struct nigh_malloc_pages *pages = &space->zones[zone].pages;
    uint32_t page;
    int rc;

    if (zone == NIGH_MALLOC_ROOMY && pages->blocks >= ROOMY_MOST)
        return NULL;
    page = nigh_malloc_pages_take(pages, want, align, zone == NIGH_MALLOC_ROOMY, kind);
    if (!page)
        return NULL;
    rc = reach(space, zone, page, want);
    if (rc == 0)
        return nigh_malloc_space_address(space, (struct nigh_malloc_place){.zone = zone, .page = page});
    if (rc == -EEXIST) /* it is somebody else's for good, so that the next one lies elsewhere */
        nigh_malloc_pages_hide(pages, page);
    else
        nigh_malloc_pages_give(pages, page, *kind);
    return NULL;
}

void *nigh_malloc_space_take(struct nigh_malloc_space *space, uint64_t pages, uint64_t align, bool grows,
                             enum nigh_malloc_kind *kind)
{
    unsigned first = pages >= ROOMY_FROM || grows ? NIGH_MALLOC_ROOMY : NIGH_MALLOC_DENSE;
    void *memory;

    if (is_full(space, pages))
        return NULL;
    memory = take_in(space, first, pages, align, kind);
    return memory ? memory : take_in(space, !first, pages, align, kind);
}

bool nigh_malloc_space_grow(struct nigh_malloc_space *space, struct nigh_malloc_place place, uint32_t n,
                            uint64_t want)
{
    struct nigh_malloc_pages *pages = &space->zones[place.zone].pages;

    return !is_full(space, want - n) && nigh_malloc_pages_may_grow(pages, place.page, want) &&
           reach(space, place.zone, (uint64_t)place.page + n, want - n) == 0 &&
           nigh_malloc_pages_grow(pages, place.page, want);
}

/* ---- memory goes back ---------------------------------------------------------------------------------- */

/* The granules that have these pages alone. */
static void inner(uint64_t page, uint64_t n, uint64_t *granule, uint64_t *end)
{
    *granule = (page + NIGH_MALLOC_GRANULE - 1) / NIGH_MALLOC_GRANULE;
    *end = (page + n) / NIGH_MALLOC_GRANULE;
}

bool nigh_malloc_space_inner(const struct nigh_malloc_space *space, struct nigh_malloc_place place,
                             uint32_t n, struct nigh_malloc_emptied *out)
{
    uint64_t granule, end;

    inner(place.page, n, &granule, &end);
    if (granule < end)
        bytes_of(space, place.zone, granule, end, &out->from, &out->bytes);
    return granule < end;
}

struct nigh_malloc_emptied nigh_malloc_space_empty(const struct nigh_malloc_space *space,
                                                   struct nigh_malloc_place place, uint32_t n)
{
    struct nigh_malloc_emptied emptied = {0};

    emptied.clean = nigh_malloc_region_empty(&space->region, offset_of(space, place), (uint64_t)n * PAGE);
    if (emptied.clean && place.zone == NIGH_MALLOC_ROOMY &&
        nigh_malloc_space_inner(space, place, n, &emptied) &&
        !nigh_malloc_region_unmap(&space->region, emptied.from, emptied.bytes))
        emptied.bytes = 0;
    return emptied;
}

void nigh_malloc_space_give(struct nigh_malloc_space *space, struct nigh_malloc_place place,
                            const struct nigh_malloc_emptied *emptied)
{
    struct nigh_malloc_pages *pages = &space->zones[place.zone].pages;
    uint64_t granule = (emptied->from - space->zones[place.zone].offset) / PAGE / NIGH_MALLOC_GRANULE;

    if (emptied->bytes)
        note(pages, granule, granule + (emptied->bytes + PAGE) / PAGE / NIGH_MALLOC_GRANULE, false);
    nigh_malloc_pages_give(pages, place.page, emptied->clean ? NIGH_MALLOC_CLEAN : NIGH_MALLOC_KEPT);
}

uint64_t nigh_malloc_space_kept(const struct nigh_malloc_space *space)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < NIGH_MALLOC_ZONES; i++)
        pages += space->zones[i].pages.bins[NIGH_MALLOC_KEPT].pages;
    return pages;
}

bool nigh_malloc_space_take_kept(struct nigh_malloc_space *space, struct nigh_malloc_place *place)
{
    const struct nigh_malloc_bins *dense = &space->zones[NIGH_MALLOC_DENSE].pages.bins[NIGH_MALLOC_KEPT],
                                  *roomy = &space->zones[NIGH_MALLOC_ROOMY].pages.bins[NIGH_MALLOC_KEPT];

    place->zone = roomy->pages > dense->pages ? NIGH_MALLOC_ROOMY : NIGH_MALLOC_DENSE;
    place->page = nigh_malloc_pages_take_kept(&space->zones[place->zone].pages);
    return place->page != 0;
}

/* What is mapped of a free run. */
static uint64_t unmap_run(struct nigh_malloc_space *space, unsigned zone, uint32_t page, uint32_t n)
{
    struct nigh_malloc_pages *pages = &space->zones[zone].pages;
    uint64_t granule, end, to, from, bytes, all = 0;

    inner(page, n, &granule, &end);
    for (; granule < end && (to = stretch(pages, &granule, end, true)) > granule; granule = to) {
        bytes_of(space, zone, granule, to, &from, &bytes);
        if (!nigh_malloc_region_unmap(&space->region, from, bytes))
            continue;
        note(pages, granule, to, false);
        all += bytes;
    }
    return all;
}

uint64_t nigh_malloc_space_trim(struct nigh_malloc_space *space)
{
    struct nigh_malloc_emptied emptied = {.clean = true};
    struct nigh_malloc_place place;
    uint64_t bytes = 0;

    while (emptied.clean && nigh_malloc_space_take_kept(space, &place)) {
        emptied = nigh_malloc_space_empty(
            space, place, nigh_malloc_pages_length(&space->zones[place.zone].pages, place.page));
        bytes += emptied.bytes;
        nigh_malloc_space_give(space, place, &emptied);
    }
    for (unsigned zone = 0; zone < NIGH_MALLOC_ZONES; zone++) {
        struct nigh_malloc_pages *pages = &space->zones[zone].pages;
        uint32_t next;

        for (uint32_t page = 1; page; page = next) {
            next = nigh_malloc_pages_next(pages, page);
            if (!nigh_malloc_pages_is_clean(pages, page))
                continue;
            bytes += unmap_run(space, zone, page, (next ? next : pages->count) - page);
            nigh_malloc_pages_drop(pages, page);
        }
    }
    return bytes;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

void nigh_malloc_space_foreign(struct nigh_malloc_space *space, uintptr_t begin, uintptr_t end)
{
    for (unsigned i = 0; i < NIGH_MALLOC_ZONES; i++) {
        struct nigh_malloc_pages *pages = &space->zones[i].pages;
        uintptr_t base = space->region.base + space->zones[i].offset,
                  last = base + (uint64_t)pages->count * PAGE;
        uintptr_t from = begin > base ? begin : base, to = end < last ? end : last;

        if (from < to)
            nigh_malloc_pages_foreign(pages, (uint32_t)((from - base) / PAGE),
                                      (uint32_t)((to - from + PAGE - 1) / PAGE + 1));
    }
}

bool nigh_malloc_space_each(const struct nigh_malloc_space *space,
                            bool (*each)(void *argument, uint64_t from, uint64_t bytes), void *argument)
{
    for (unsigned i = 0; i < NIGH_MALLOC_ZONES; i++) {
        const struct nigh_malloc_pages *pages = &space->zones[i].pages;
        uint64_t granule = 0, end = granules_of(pages), to, from, bytes;

        for (; (to = stretch(pages, &granule, end, true)) > granule; granule = to) {
            bytes_of(space, i, granule, to, &from, &bytes);
            if (!each(argument, from, bytes))
                return false;
        }
    }
    return true;
}
