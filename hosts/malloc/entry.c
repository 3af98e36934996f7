/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/entry.c - the functions of malloc, in the place of the next malloc's: large blocks are of a region that
 * peers may map (blocks.h), all others the next one's (next.h). Whose a block is its address says.
 */
#include "hosts/malloc/blocks.h"
#include "hosts/malloc/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <nigh/memory.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define LEAST    1u

EXPORTED void *malloc(size_t bytes);
EXPORTED void *calloc(size_t count, size_t bytes);
EXPORTED void *realloc(void *memory, size_t bytes);
EXPORTED void *reallocarray(void *memory, size_t count, size_t bytes);
EXPORTED void free(void *memory);
EXPORTED void free_sized(void *memory, size_t bytes);
EXPORTED void free_aligned_sized(void *memory, size_t align, size_t bytes);
EXPORTED int posix_memalign(void **out, size_t align, size_t bytes);
EXPORTED void *aligned_alloc(size_t align, size_t bytes);
EXPORTED void *memalign(size_t align, size_t bytes);
EXPORTED void *valloc(size_t bytes);
EXPORTED void *pvalloc(size_t bytes);
EXPORTED size_t malloc_usable_size(void *memory);
EXPORTED int nigh_memory(struct nigh_memory *out);

/* In a process of one thread. */
__attribute__((constructor(101))) static void begin(void)
{
    nigh_malloc_next_find();
    nigh_malloc_blocks_settle();
}

static bool is_power(size_t align)
{
    return align && !(align & (align - 1));
}

/* A large block; NULL: it is for the next malloc. */
static void *large(size_t align, size_t bytes, unsigned how)
{
    return nigh_malloc_blocks_takes(bytes) && is_power(align) ? nigh_malloc_blocks_alloc(bytes, align, how)
                                                              : NULL;
}

/* Whether the next malloc, which gave none, is to be asked again: there is more memory, or address space, now. */
static bool again(const void *memory)
{
    return !memory && errno == ENOMEM && nigh_malloc_blocks_trim();
}

static bool overflows(size_t count, size_t bytes, size_t *product)
{
    if (!__builtin_mul_overflow(count, bytes, product))
        return false;
    errno = ENOMEM;
    return true;
}

/* ---- blocks come and go -------------------------------------------------------------------------------- */

void *malloc(size_t bytes)
{
    void *memory = large(LEAST, bytes, 0);

    if (!memory)
        memory = nigh_malloc_next.malloc(bytes);
    return again(memory) ? nigh_malloc_next.malloc(bytes) : memory;
}

void *calloc(size_t count, size_t bytes)
{
    size_t all;
    void *memory;

    if (overflows(count, bytes, &all))
        return NULL;
    memory = large(LEAST, all, NIGH_MALLOC_ZEROS);
    if (!memory)
        memory = nigh_malloc_next.calloc(count, bytes);
    return again(memory) ? nigh_malloc_next.calloc(count, bytes) : memory;
}

void free(void *memory)
{
    if (nigh_malloc_blocks_has(memory))
        nigh_malloc_blocks_free(memory, "free");
    else if (!nigh_malloc_next_early(memory))
        nigh_malloc_next.free(memory);
}

void free_sized(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

void free_aligned_sized(void *memory, size_t align, size_t bytes)
{
    (void)align;
    (void)bytes;
    free(memory);
}

size_t malloc_usable_size(void *memory)
{
    if (!memory)
        return 0;
    if (nigh_malloc_blocks_has(memory))
        return nigh_malloc_blocks_room(memory, "malloc_usable_size");
    if (nigh_malloc_next_early(memory))
        return nigh_malloc_next_early_room(memory);
    return nigh_malloc_next.usable ? nigh_malloc_next.usable(memory) : 0;
}

/* ---- from one size to another --------------------------------------------------------------------------- */

/* To another place, whichever that is. */
static void *move(void *memory, size_t room, void *to, size_t bytes)
{
    if (!to)
        return NULL;
    memcpy(to, memory, room < bytes ? room : bytes);
    free(memory);
    return to;
}

static void *next_realloc(void *memory, size_t bytes)
{
    void *to = nigh_malloc_next.realloc(memory, bytes);

    return bytes && again(to) ? nigh_malloc_next.realloc(memory, bytes) : to;
}

/* A block of the region. */
static void *resize_large(void *memory, size_t bytes)
{
    size_t room;
    void *to;

    if (!bytes) {
        nigh_malloc_blocks_free(memory, "realloc");
        return NULL;
    }
    if (nigh_malloc_blocks_resize(memory, bytes))
        return memory;
    room = nigh_malloc_blocks_room(memory, "realloc");
    to = large(LEAST, bytes, bytes > room ? NIGH_MALLOC_GROWS : 0);
    return move(memory, room, to ? to : malloc(bytes), bytes);
}

/* One of the next malloc, which stays there if it does not become large. */
static void *resize_other(void *memory, size_t bytes)
{
    void *to = nigh_malloc_next.usable ? large(LEAST, bytes, NIGH_MALLOC_GROWS) : NULL;

    if (!to)
        return next_realloc(memory, bytes);
    return move(memory, nigh_malloc_next.usable(memory), to, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    if (!memory)
        return malloc(bytes);
    if (nigh_malloc_blocks_has(memory))
        return resize_large(memory, bytes);
    if (!nigh_malloc_next_early(memory))
        return resize_other(memory, bytes);
    return bytes ? move(memory, nigh_malloc_next_early_room(memory), malloc(bytes), bytes) : NULL;
}

void *reallocarray(void *memory, size_t count, size_t bytes)
{
    size_t all;

    return overflows(count, bytes, &all) ? NULL : realloc(memory, all);
}

/* ---- with an alignment ---------------------------------------------------------------------------------- */

int posix_memalign(void **out, size_t align, size_t bytes)
{
    int before = errno, rc;
    void *memory = align % sizeof(void *) ? NULL : large(align, bytes, 0);

    errno = before; /* it says what is wrong by what it returns */
    if (memory) {
        *out = memory;
        return 0;
    }
    rc = nigh_malloc_next.posix_memalign(out, align, bytes);
    return rc == ENOMEM && nigh_malloc_blocks_trim() ? nigh_malloc_next.posix_memalign(out, align, bytes)
                                                     : rc;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    void *memory = large(align, bytes, 0);

    if (!memory)
        memory = nigh_malloc_next.aligned_alloc(align, bytes);
    return again(memory) ? nigh_malloc_next.aligned_alloc(align, bytes) : memory;
}

void *memalign(size_t align, size_t bytes)
{
    void *memory = large(align, bytes, 0);

    if (!memory)
        memory = nigh_malloc_next.memalign(align, bytes);
    return again(memory) ? nigh_malloc_next.memalign(align, bytes) : memory;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *valloc(size_t bytes)
{
    return memalign(page_size(), bytes);
}

void *pvalloc(size_t bytes)
{
    size_t page = page_size(), whole;

    if (__builtin_add_overflow(bytes, page - 1, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    return memalign(page, whole & ~(page - 1));
}

/* ---- what peers may map --------------------------------------------------------------------------------- */

/* This one, whichever the process uses: programs may bring another one, or preload it before. */
static __typeof__(malloc) ours __attribute__((alias("malloc"), malloc, nothrow));

int nigh_memory(struct nigh_memory *out)
{
    return dlsym(RTLD_DEFAULT, "malloc") == (void *)ours ? nigh_malloc_blocks_memory(out) : -ENOENT;
}
