/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/blocks.c - see blocks.h. */
#include "hosts/malloc/blocks.h"
#include "hosts/malloc/cache.h"
#include "hosts/malloc/fork.h"
#include "hosts/malloc/log.h"
#include "hosts/malloc/next.h"
#include "hosts/malloc/own.h"
#include "hosts/malloc/settings.h"
#include "hosts/malloc/space.h"
#include "hosts/malloc/system.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE NIGH_MALLOC_PAGE
/* So much free memory is kept for the blocks to come, beside what one thread's shard of the cache has: glibc gives the top
 * of its heap back from 64 MiB on at the latest. A block that is freed is kept up to the length from which on glibc maps
 * each by itself, also the highest. */
#define KEPT_MAX  (((uint64_t)64 << 20) / PAGE - NIGH_MALLOC_CACHE_PAGES)
#define BLOCK_MAX (((uint64_t)32 << 20) / PAGE)
/* As much as this is no harm where it is not written to after all. */
#define FAULT_MAX (((uint64_t)4 << 20) / PAGE)
/* So much address space stays mapped behind blocks that were freed, where it is limited. */
#define LOOSE_MAX (((uint64_t)4 << 20) / PAGE)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

volatile size_t nigh_malloc_blocks_from;
volatile uintptr_t nigh_malloc_blocks_begin = UINTPTR_MAX;
volatile uintptr_t nigh_malloc_blocks_end;

/* All of it with the lock. */
static struct nigh_malloc_settings settings;
static struct nigh_malloc_space space;
static enum { UNMADE, MADE, REFUSED } made;
static bool handed_out; /* somebody has had a block */
static bool tight;      /* address space is limited */
static uint64_t loose;  /* pages that were freed since it was last trimmed, where it is */
/* Written once, with the lock; who reads it without acts on it with the lock or with one of the cache's. */
static enum { SHARED, FOREIGN, OWN } volatile use;

/* In a program that is sanitized, where other functions of the C library cannot be called until it has begun, and which is
 * to see all blocks. */
extern void __asan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static bool is_sanitized(void)
{
    return __asan_init || __msan_init || __tsan_init;
}

/* ---- the region ---------------------------------------------------------------------------------------- */

void nigh_malloc_blocks_settle(void)
{
    bool forks;
    int state;

    if (is_sanitized()) {
        nigh_malloc_blocks_from = SIZE_MAX;
        return;
    }
    if (!nigh_malloc_next_find())
        return;
    forks = nigh_malloc_fork_register();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                           &state); /* reading files is a point at which threads are */
    nigh_malloc_lock();
    if (!nigh_malloc_blocks_from && nigh_malloc_settings_read(&settings)) {
        settings.on &= forks;
        if (!settings.on)
            made = REFUSED;
        nigh_malloc_blocks_from = settings.on ? settings.from : SIZE_MAX;
    }
    nigh_malloc_unlock();
    pthread_setcancelstate(state, NULL);
}

/* Whether there is one, made now where there can be. */
static bool have_space(void)
{
    struct rlimit limit;
    int state;

    if (made != UNMADE)
        return made == MADE;
    if (!nigh_malloc_blocks_from || nigh_malloc_forks())
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* likewise */
    made = nigh_malloc_space_open(&space, settings.bytes, settings.huge, settings.info) ? MADE : REFUSED;
    pthread_setcancelstate(state, NULL);
    if (made == MADE) {
        tight |= getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        nigh_malloc_blocks_end = space.region.base + space.region.bytes;
        nigh_malloc_blocks_begin = space.region.base;
    } else {
        nigh_malloc_blocks_from = SIZE_MAX;
    }
    return made == MADE;
}

int nigh_malloc_blocks_memory(struct nigh_memory *out)
{
    int rc = -ENOENT;

    if (!nigh_malloc_blocks_from)
        nigh_malloc_blocks_settle();
    if (is_sanitized())
        return -ENOENT;
    nigh_malloc_lock();
    if (out->size >= sizeof(*out) && have_space() && use == SHARED &&
        nigh_malloc_region_held(&space.region)) {
        out->fd = space.region.fd;
        out->base = space.region.base;
        out->bytes = space.region.bytes;
        out->id = space.region.id;
        rc = 0;
    }
    nigh_malloc_unlock();
    return rc;
}

bool nigh_malloc_blocks_shared(void)
{
    return made == MADE && use == SHARED;
}

bool nigh_malloc_blocks_are_own(void)
{
    return made == MADE && use == OWN;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static uint64_t pages_of(size_t bytes)
{
    return bytes / PAGE + (bytes % PAGE != 0);
}

static struct nigh_malloc_pages *pages_at(struct nigh_malloc_place place)
{
    return &space.zones[place.zone].pages;
}

/* Whether blocks of that size are for here now. A thread within a fork takes none of a region that is to stay its
 * parent's. */
static bool takes(size_t bytes)
{
    return nigh_malloc_blocks_from && bytes >= nigh_malloc_blocks_from && bytes <= settings.to &&
           have_space() && use == SHARED && !nigh_malloc_forks();
}

static void *take(size_t bytes, size_t align, unsigned how, enum nigh_malloc_kind *kind)
{
    void *memory = NULL;

    nigh_malloc_lock();
    if (takes(bytes))
        memory = nigh_malloc_space_take(&space, pages_of(bytes), align <= PAGE ? 1 : align / PAGE,
                                        how & NIGH_MALLOC_GROWS, kind);
    handed_out |= memory != NULL;
    nigh_malloc_unlock();
    return memory;
}

void *nigh_malloc_blocks_alloc(size_t bytes, size_t align, unsigned how)
{
    enum nigh_malloc_kind kind = NIGH_MALLOC_KEPT;
    struct nigh_malloc_cached cached = {0};
    void *memory;

    if (!nigh_malloc_blocks_from)
        nigh_malloc_blocks_settle();
    if (bytes < nigh_malloc_blocks_from)
        return NULL;
    if (align <= PAGE && !(how & NIGH_MALLOC_GROWS))
        cached = nigh_malloc_cache_take(pages_of(bytes));
    memory = cached.memory;
    if (memory) {
        struct nigh_malloc_place place = nigh_malloc_space_place(&space, memory);

        nigh_malloc_pages_show(pages_at(place), place.page);
    } else {
        memory = take(bytes, align, how, &kind);
    }
    if (memory && how & NIGH_MALLOC_ZEROS && kind == NIGH_MALLOC_KEPT)
        memset(memory, 0, bytes);
    return memory;
}

/* Of a block that the caller has; what is none ends the process. Without the lock. */
static uint32_t length_of(const void *memory, struct nigh_malloc_place place, const char *call)
{
    uint32_t n = (uintptr_t)memory % PAGE ? 0 : nigh_malloc_pages_length(pages_at(place), place.page);

    if (n)
        return n;
    nigh_malloc_log(
        "%s(%p): no block begins there: it is free already, or the pointer leads into the middle of one",
        call, memory);
    abort();
}

size_t nigh_malloc_blocks_room(const void *memory, const char *call)
{
    return (size_t)length_of(memory, nigh_malloc_space_place(&space, memory), call) * PAGE;
}

static const struct nigh_malloc_emptied NOT_EMPTIED = {.clean = false};

/* ---- blocks are free ----------------------------------------------------------------------------------- */

/* What the system takes back it takes without the lock: nobody has the block, or gets it. */
static void give_back(struct nigh_malloc_place place, uint32_t n)
{
    bool foreign = nigh_malloc_pages_is_foreign(pages_at(place), place.page), own = use == OWN;
    struct nigh_malloc_emptied emptied;

    nigh_malloc_pages_hide(pages_at(place), place.page);
    nigh_malloc_unlock();
    emptied = own || foreign ? nigh_malloc_own_empty(&space, place, n, foreign)
                             : nigh_malloc_space_empty(&space, place, n);
    nigh_malloc_lock();
    nigh_malloc_space_give(&space, place, &emptied);
    if (own && !pages_at(place)->blocks) /* the last one there will be */
        nigh_malloc_space_trim(&space);
}

static void trim_if_tight(uint32_t n)
{
    loose += n;
    if (!tight || loose < LOOSE_MAX)
        return;
    loose = 0;
    nigh_malloc_space_trim(&space);
}

/* A block that is hidden. */
static void give(struct nigh_malloc_place place, uint32_t n)
{
    struct nigh_malloc_place other;

    if (use != SHARED || n > BLOCK_MAX) {
        give_back(place, n);
        return;
    }
    nigh_malloc_space_give(&space, place, &NOT_EMPTIED);
    while (space.region.gives && nigh_malloc_space_kept(&space) > KEPT_MAX &&
           nigh_malloc_space_take_kept(&space, &other))
        give_back(other, nigh_malloc_pages_length(pages_at(other), other.page));
    trim_if_tight(n);
}

/* No two threads free one block: what the first has hidden is none's. */
void nigh_malloc_blocks_free(void *memory, const char *call)
{
    struct nigh_malloc_place place = nigh_malloc_space_place(&space, memory);
    struct nigh_malloc_cached block = {.memory = memory, .pages = length_of(memory, place, call)};
    int before = errno;

    nigh_malloc_pages_hide(pages_at(place), place.page);
    if (use == SHARED)
        block = nigh_malloc_cache_keep(block);
    if (!block.memory)
        return;
    nigh_malloc_lock();
    give(nigh_malloc_space_place(&space, block.memory), block.pages);
    nigh_malloc_unlock();
    errno = before;
}

/* Who grows a block by little and has written to all of it will write to what is new, too. Pages of a file that are
 * faulted in one by one take half as long again as other memory's, all at once no longer than those. */
static void fault_in(char *memory, uint32_t n, uint64_t more)
{
    unsigned char there = 0;

    if (more <= FAULT_MAX && mincore(memory + (uint64_t)(n - 1) * PAGE, PAGE, &there) == 0 && there & 1)
        nigh_malloc_system_madvise(memory + (uint64_t)n * PAGE, more * PAGE, MADV_POPULATE_WRITE);
}

bool nigh_malloc_blocks_resize(void *memory, size_t bytes)
{
    struct nigh_malloc_place place = nigh_malloc_space_place(&space, memory), rest = place;
    uint32_t n = length_of(memory, place, "realloc");
    uint64_t want = pages_of(bytes);
    int before = errno;
    bool fits;

    if (want == n && bytes >= settings.from && bytes <= settings.to)
        return true;
    nigh_malloc_lock();
    fits = bytes >= settings.from && bytes <= settings.to;
    if (fits && want > n)
        fits = use == SHARED && !nigh_malloc_forks() && nigh_malloc_space_grow(&space, place, n, want);
    if (fits && want < n) {
        nigh_malloc_pages_cut(pages_at(place), place.page, (uint32_t)want);
        rest.page += (uint32_t)want;
        give(rest, n - (uint32_t)want);
    }
    nigh_malloc_unlock();
    if (fits && want > n)
        fault_in(memory, n, want - n);
    errno = before;
    return fits;
}

bool nigh_malloc_blocks_trim(void)
{
    bool some = false;
    int before = errno;

    if (made != MADE || nigh_malloc_forks())
        return false;
    nigh_malloc_lock();
    if (made == MADE)
        some = nigh_malloc_space_trim(&space) > 0;
    nigh_malloc_unlock();
    errno = before;
    return some;
}

void nigh_malloc_blocks_limit(bool limited)
{
    bool forks = nigh_malloc_forks();

    nigh_malloc_lock();
    tight = limited;
    nigh_malloc_unlock();
    if (limited && !forks)
        nigh_malloc_blocks_trim();
}

/* ---- the end of sharing -------------------------------------------------------------------------------- */

static void give_cached(struct nigh_malloc_cached block)
{
    nigh_malloc_space_give(&space, nigh_malloc_space_place(&space, block.memory), &NOT_EMPTIED);
}

/* No block is taken any more, and what is free goes back to the system: the file stays as long as any process has it. */
static void end(int as)
{
    nigh_malloc_blocks_from = SIZE_MAX;
    if (use == SHARED)
        nigh_malloc_cache_close(give_cached);
    nigh_malloc_space_trim(&space);
    use = as;
}

void nigh_malloc_blocks_part(void)
{
    if (made != MADE || use == OWN || !handed_out)
        return;
    if (use == SHARED)
        end(FOREIGN);
    use = OWN;
    if (nigh_malloc_own_make(&space))
        return;
    nigh_malloc_unlock();
    nigh_malloc_log("fork: cannot map the program's memory as its own (%s), and the child would write to it: "
                    "set NIGH_MALLOC=0",
                    strerrordesc_np(errno));
    abort();
}

void nigh_malloc_blocks_own(void)
{
    if (nigh_malloc_forks())
        return;
    nigh_malloc_lock();
    nigh_malloc_blocks_part();
    nigh_malloc_unlock();
}

void nigh_malloc_blocks_foreign(uintptr_t begin, uintptr_t end_of)
{
    int before = errno;

    nigh_malloc_lock();
    if (made == MADE && use == SHARED) {
        nigh_malloc_region_tell(&space.region);
        end(FOREIGN);
    }
    if (made == MADE)
        nigh_malloc_space_foreign(&space, begin, end_of);
    nigh_malloc_unlock();
    errno = before;
}

void nigh_malloc_blocks_forget(void)
{
    if (made != MADE || use == OWN)
        return;
    nigh_malloc_blocks_begin = UINTPTR_MAX;
    nigh_malloc_blocks_end = 0;
    nigh_malloc_space_close(&space);
    nigh_malloc_cache_reset();
    made = UNMADE;
}
