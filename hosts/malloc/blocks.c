/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/blocks.c - see blocks.h. */
#include "hosts/malloc/blocks.h"
#include "hosts/malloc/fork.h"
#include "hosts/malloc/log.h"
#include "hosts/malloc/next.h"
#include "hosts/malloc/pages.h"
#include "hosts/malloc/region.h"
#include "hosts/malloc/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE NIGH_MALLOC_PAGE
/* So much free memory is kept for the blocks to come: glibc gives the top of its heap back from 64 MiB on at the latest
 * (twice the highest threshold from which on it maps blocks, which adapts to what the program frees). */
#define KEPT_MAX (((uint64_t)64 << 20) / PAGE)

volatile size_t nigh_malloc_blocks_from;
volatile uintptr_t nigh_malloc_blocks_begin = UINTPTR_MAX;
volatile uintptr_t nigh_malloc_blocks_end;

/* All of it with the lock. */
static struct nigh_malloc_settings settings;
static struct nigh_malloc_region region;
static struct nigh_malloc_pages pages;
static enum { UNMADE, MADE, REFUSED } made;
static bool handed_out; /* somebody has had a block */

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

    if (is_sanitized()) {
        nigh_malloc_blocks_from = SIZE_MAX;
        return;
    }
    if (!nigh_malloc_next_find())
        return;
    forks = nigh_malloc_fork_register();
    nigh_malloc_lock();
    if (!nigh_malloc_blocks_from && nigh_malloc_settings_read(&settings)) {
        settings.on &= forks;
        if (!settings.on)
            made = REFUSED;
        nigh_malloc_blocks_from = settings.on ? settings.from : SIZE_MAX;
    }
    nigh_malloc_unlock();
}

static bool open_table(void)
{
    uint32_t count = (uint32_t)(region.bytes / PAGE);
    void *table = mmap(NULL, nigh_malloc_pages_table(count), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (table == MAP_FAILED)
        return false;
    nigh_malloc_pages_open(&pages, table, count, region.base / PAGE);
    return true;
}

/* Whether there is one, made now where there can be. */
static bool have_region(void)
{
    if (made != UNMADE)
        return made == MADE;
    if (!nigh_malloc_blocks_from || nigh_malloc_forks())
        return false;
    made = REFUSED;
    if (nigh_malloc_region_open(&region, settings.bytes, settings.huge, settings.info)) {
        if (open_table())
            made = MADE;
        else
            nigh_malloc_region_close(&region);
    }
    if (made == MADE) {
        nigh_malloc_blocks_end = region.base + region.bytes;
        nigh_malloc_blocks_begin = region.base;
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
    if (out->size >= sizeof(*out) && have_region() && !region.own && nigh_malloc_region_held(&region)) {
        out->fd = region.fd;
        out->base = region.base;
        out->bytes = region.bytes;
        out->id = region.id;
        rc = 0;
    }
    nigh_malloc_unlock();
    return rc;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static char *address_of(uint32_t page)
{
    return (char *)region.base + (uint64_t)page * PAGE;
}

static uint32_t page_of(const void *memory)
{
    return (uint32_t)(((uintptr_t)memory - region.base) / PAGE);
}

static uint64_t pages_of(size_t bytes)
{
    return bytes / PAGE + (bytes % PAGE != 0);
}

/* Whether blocks of that size are for here now. A thread within a fork takes none of a region that is to stay its
 * parent's. */
static bool takes(size_t bytes)
{
    return nigh_malloc_blocks_from && bytes >= nigh_malloc_blocks_from && bytes <= settings.to &&
           have_region() && (region.own || !nigh_malloc_forks());
}

static void *take(size_t bytes, size_t align)
{
    uint64_t want = pages_of(bytes);
    uint32_t page = nigh_malloc_pages_take(&pages, want, align <= PAGE ? 1 : align / PAGE);

    if (!page)
        return NULL;
    if (!nigh_malloc_region_reach(&region, (page + want) * PAGE)) {
        nigh_malloc_pages_give(&pages, page, NIGH_MALLOC_DIRTY);
        return NULL;
    }
    handed_out = true;
    return address_of(page);
}

void *nigh_malloc_blocks_alloc(size_t bytes, size_t align)
{
    void *memory = NULL;

    if (!nigh_malloc_blocks_from)
        nigh_malloc_blocks_settle();
    if (bytes < nigh_malloc_blocks_from)
        return NULL;
    nigh_malloc_lock();
    if (takes(bytes))
        memory = take(bytes, align);
    nigh_malloc_unlock();
    return memory;
}

/* Without the lock: the marks are of pages that the caller has. */
void nigh_malloc_blocks_clear(void *memory, size_t bytes)
{
    const uint8_t *marks = pages.marks + page_of(memory);
    uint64_t n = pages_of(bytes), page = 0, begin;

    while (page < n) {
        begin = page;
        while (page < n && marks[page] & NIGH_MALLOC_DIRTY)
            page++;
        if (page > begin)
            memset((char *)memory + begin * PAGE, 0, (page < n ? page * PAGE : bytes) - begin * PAGE);
        else
            page++;
    }
}

/* Its pages; with the lock, which is not held while the process ends. */
static uint32_t length_of(const void *memory, const char *call)
{
    uint32_t n = (uintptr_t)memory % PAGE ? 0 : nigh_malloc_pages_length(&pages, page_of(memory));

    if (n)
        return n;
    nigh_malloc_unlock();
    nigh_malloc_log(
        "%s(%p): no block begins there: it is free already, or the pointer leads into the middle of one",
        call, memory);
    abort();
}

size_t nigh_malloc_blocks_room(const void *memory, const char *call)
{
    uint32_t n;

    nigh_malloc_lock();
    n = length_of(memory, call);
    nigh_malloc_unlock();
    return (size_t)n * PAGE;
}

/* What the system takes back it takes without the lock: the block is nobody else's yet. */
void nigh_malloc_blocks_free(void *memory, const char *call)
{
    int before = errno;
    uint32_t n, page;
    bool much, emptied = false;

    nigh_malloc_lock();
    n = length_of(memory, call);
    page = page_of(memory);
    much = pages.kept + n > KEPT_MAX;
    if (much) {
        nigh_malloc_unlock();
        emptied = nigh_malloc_region_empty(&region, (uint64_t)page * PAGE, (uint64_t)n * PAGE);
        nigh_malloc_lock();
    }
    nigh_malloc_pages_give(&pages, page, emptied ? 0 : NIGH_MALLOC_DIRTY | NIGH_MALLOC_KEPT);
    nigh_malloc_unlock();
    errno = before;
}

static bool grow(uint32_t page, uint32_t n, uint64_t want)
{
    if (!nigh_malloc_pages_grow(&pages, page, want))
        return false;
    if (nigh_malloc_region_reach(&region, (page + want) * PAGE))
        return true;
    nigh_malloc_pages_cut(&pages, page, n);
    nigh_malloc_pages_give(&pages, page + n, NIGH_MALLOC_DIRTY);
    return false;
}

bool nigh_malloc_blocks_resize(void *memory, size_t bytes)
{
    uint64_t want = pages_of(bytes);
    bool fits, rest = false;
    uint32_t n;

    nigh_malloc_lock();
    n = length_of(memory, "realloc");
    fits = bytes >= nigh_malloc_blocks_from && bytes <= settings.to;
    if (fits && want > n)
        fits = grow(page_of(memory), n, want);
    rest = fits && want < n;
    if (rest)
        nigh_malloc_pages_cut(&pages, page_of(memory), (uint32_t)want);
    nigh_malloc_unlock();
    if (rest)
        nigh_malloc_blocks_free((char *)memory + want * PAGE, "realloc");
    return fits;
}

/* ---- forks --------------------------------------------------------------------------------------------- */

/* The descriptor is gone, and without it there is no second mapping of the file: a copy of what the program has there. What
 * other threads write meanwhile may be lost, so this is for such a program alone. */
static bool copy(void)
{
    uint64_t bytes = region.reached - PAGE;
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED || !nigh_malloc_region_tell(&region))
        return false;
    for (uint32_t page = 1; page; page = nigh_malloc_pages_next(&pages, page)) {
        uint64_t n = nigh_malloc_pages_length(&pages, page);

        memcpy(all + ((uint64_t)page - 1) * PAGE, address_of(page), n * PAGE);
    }
    return mremap(all, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address_of(1)) != MAP_FAILED &&
           nigh_malloc_region_leave(&region);
}

void nigh_malloc_blocks_part(void)
{
    if (made != MADE || region.own || !handed_out)
        return;
    if (nigh_malloc_region_own(&region) || (!nigh_malloc_region_held(&region) && copy()))
        return;
    nigh_malloc_unlock();
    nigh_malloc_log(
        "fork: cannot map %llu MiB of the program's memory as its own (%s), and the child would write to it: "
        "set NIGH_MALLOC=0",
        (unsigned long long)(region.reached >> 20), strerrordesc_np(errno));
    abort();
}

void nigh_malloc_blocks_forget(void)
{
    if (made != MADE || region.own)
        return;
    nigh_malloc_blocks_begin = UINTPTR_MAX;
    nigh_malloc_blocks_end = 0;
    nigh_malloc_region_close(&region);
    munmap(pages.tags, nigh_malloc_pages_table(pages.count));
    made = UNMADE;
}
