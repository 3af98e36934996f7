/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/own.c - see own.h. */
#include "hosts/malloc/own.h"
#include "hosts/malloc/maps.h"
#include "hosts/malloc/system.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE NIGH_MALLOC_PAGE

/* ---- one mapping --------------------------------------------------------------------------------------- */

/* The kernel holds other threads' accesses up while it changes the mapping: each is before it, in the file, or behind it,
 * in a copy of the file's page. */
static bool make_private(const struct nigh_malloc_space *space, const struct nigh_malloc_mapping *mapping)
{
    void *at = (void *)mapping->begin;
    size_t bytes = mapping->end - mapping->begin;
    const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd = space->region.fd;

    if (nigh_malloc_system_mmap(at, bytes, mapping->rights, flags, fd, (off_t)mapping->offset) != MAP_FAILED)
        return true;
    /* Where all memory to come is locked, what is there counts until it is not. */
    return errno == EAGAIN && munlock(at, bytes) == 0 &&
           nigh_malloc_system_mmap(at, bytes, mapping->rights, flags, fd, (off_t)mapping->offset) !=
               MAP_FAILED;
}

/* What taken blocks have of [begin, end) of the region. A mapping that lies elsewhere is copied as a whole. */
static void copy_blocks(const struct nigh_malloc_space *space, char *to, uintptr_t begin, uintptr_t end)
{
    for (unsigned i = 0; i < NIGH_MALLOC_ZONES; i++) {
        const struct nigh_malloc_pages *pages = &space->zones[i].pages;

        for (uint32_t page = 1; page; page = nigh_malloc_pages_next(pages, page)) {
            const struct nigh_malloc_place place = {.zone = i, .page = page};
            uintptr_t from = (uintptr_t)nigh_malloc_space_address(space, place);
            uintptr_t last = from + (uintptr_t)nigh_malloc_pages_length(pages, page) * PAGE;

            from = from < begin ? begin : from;
            last = last > end ? end : last;
            if (from < last)
                memcpy(to + (from - begin), (const void *)from, last - from);
        }
    }
}

/* The descriptor is gone, and without it there is no second mapping of the file: a copy of what the program has there. What
 * other threads write meanwhile may be lost, so this is for such a program alone. */
static bool make_copy(const struct nigh_malloc_space *space, const struct nigh_malloc_mapping *mapping)
{
    size_t bytes = mapping->end - mapping->begin;
    uintptr_t base = space->region.base;
    void *at = (void *)mapping->begin;
    char *all = nigh_malloc_system_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (all == MAP_FAILED || (!(mapping->rights & PROT_READ) && mprotect(at, bytes, PROT_READ)))
        return false;
    if (mapping->begin >= base && mapping->begin < base + space->region.bytes)
        copy_blocks(space, all, mapping->begin, mapping->end);
    else
        memcpy(all, at, bytes);
    return mprotect(all, bytes, mapping->rights) == 0 && nigh_malloc_system_move(all, bytes, at);
}

struct work {
    const struct nigh_malloc_space *space;
    bool (*make)(const struct nigh_malloc_space *space, const struct nigh_malloc_mapping *mapping);
};

/* A mapping of the region's, also one that the program has moved elsewhere. Its head stays as it is, and so does what others,
 * peers in this process, have mapped to read. */
static bool take_over(void *argument, const struct nigh_malloc_mapping *mapping)
{
    const struct work *work = argument;
    uintptr_t base = work->space->region.base;
    struct nigh_malloc_mapping rest = *mapping;

    if (!mapping->shared || (!(mapping->rights & PROT_WRITE) &&
                             (mapping->begin < base || mapping->begin >= base + work->space->region.bytes)))
        return true;
    if (rest.begin == base) {
        rest.begin += PAGE;
        rest.offset += PAGE;
    }
    return rest.begin == rest.end || work->make(work->space, &rest);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* What is mapped by our own accounts: where the kernel does not say. */
static bool take_over_ours(void *argument, uint64_t from, uint64_t bytes)
{
    const struct work *work = argument;
    const uintptr_t begin = work->space->region.base + from;
    const struct nigh_malloc_mapping mapping = {.begin = begin,
                                                .end = begin + bytes,
                                                .offset = from,
                                                .rights = PROT_READ | PROT_WRITE,
                                                .shared = true};

    return work->make(work->space, &mapping);
}

bool nigh_malloc_own_make(const struct nigh_malloc_space *space)
{
    struct work work = {.space = space, .make = make_private};
    int rc;

    if (!nigh_malloc_region_held(&space->region))
        work.make = make_copy;
    if (!nigh_malloc_region_tell(&space->region))
        return false;
    rc = nigh_malloc_maps_each(&space->region, take_over, &work);
    if (rc == 0)
        return true;
    return rc != -EINTR && nigh_malloc_space_each(space, take_over_ours, &work);
}

struct nigh_malloc_emptied nigh_malloc_own_empty(const struct nigh_malloc_space *space,
                                                 struct nigh_malloc_place place, uint32_t n, bool foreign)
{
    struct nigh_malloc_emptied emptied = {.clean = true};
    char *memory = nigh_malloc_space_address(space, place);
    size_t bytes = (size_t)n * PAGE;

    /* In the dense zone a hole would be a mapping more for each block; there is no end of them. */
    if (place.zone == NIGH_MALLOC_DENSE && !foreign)
        nigh_malloc_system_madvise(memory, bytes, MADV_DONTNEED);
    else if (nigh_malloc_system_munmap(memory, bytes) == 0)
        nigh_malloc_space_inner(space, place, n, &emptied);
    else
        nigh_malloc_system_madvise(memory, bytes, MADV_DONTNEED);
    return emptied;
}
