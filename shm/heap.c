/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/heap.c - blocks of the heap: large ones are extents of pages, small ones objects of a slab, which is an
 * extent cut into equal parts. A table by address finds either in constant time. */
#include "shm/heap.h"
#include "shm/extents.h"
#include "shm/limits.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>

#define UNIT        64u /* of small sizes: a line, so that no two blocks share one */
#define SLAB_BYTES  262144u
#define SLAB_PAGES  (SLAB_BYTES / NIGH_PAGE)
#define SMALL_MOST  57344u /* the largest class: four to a slab; above, the rest of a slab would be lost */
#define LARGE_LEAST 65536u
#define GRANULE     65536u /* of the table: no two used extents begin in one, because none is shorter */
#define CLASSES     35u
#define WORDS       (SLAB_BYTES / UNIT / 64)

struct nigh_heap_slab {
    struct nigh_extent *extent;
    struct nigh_heap_slab *before, *after; /* among the slabs of this class that have room */
    uint32_t bytes, objects, used, kind;   /* kind: of the size class */
    uint64_t vacant[WORDS];                /* a bit for each free object */
    uint32_t uses[]; /* of each object: 0 free, 1 a block, more: held so many times less one */
};

/* Which used extents touch a granule of the heap: one that covers its first byte, one that begins later. */
struct granule {
    struct nigh_extent *covers, *begins;
};

struct nigh_heap {
    struct nigh_arena *arena;
    const uint8_t *base;
    uint64_t bytes, used;
    struct granule *table;
    struct nigh_extents extents;
    struct nigh_heap_slab *roomy[CLASSES];
    bool full_told;
};

/* ---- create ---------------------------------------------------------------------------------------------- */

int nigh_heap_create(struct nigh_arena *arena, struct nigh_heap **out)
{
    struct nigh_heap *heap = nigh_os.calloc(1, sizeof(*heap));

    if (!heap)
        return -ENOMEM;
    heap->arena = arena;
    heap->base = arena->base + arena->layout.heap_off;
    heap->bytes = arena->layout.heap_bytes;
    heap->table = nigh_os.calloc(heap->bytes / GRANULE + 1, sizeof(*heap->table));
    if (!heap->table || nigh_extents_create(heap->bytes / NIGH_PAGE, &heap->extents)) {
        free(heap->table);
        free(heap);
        return -ENOMEM;
    }
    *out = heap;
    return 0;
}

void nigh_heap_destroy(struct nigh_heap *heap)
{
    if (!heap)
        return;
    for (struct nigh_extent *extent = heap->extents.first; extent; extent = extent->after) {
        if (extent->used)
            free(extent->slab);
    }
    nigh_extents_destroy(&heap->extents);
    free(heap->table);
    free(heap);
}

uint64_t nigh_heap_used(const struct nigh_heap *heap)
{
    return heap->used;
}

/* ---- the table ------------------------------------------------------------------------------------------- */

static uint64_t start_of(const struct nigh_extent *extent)
{
    return extent->page * NIGH_PAGE;
}

/* Enters `extent` in the table, or takes it out (value NULL). */
static void enter(struct nigh_heap *heap, const struct nigh_extent *extent, struct nigh_extent *value)
{
    uint64_t start = start_of(extent), end = start + extent->pages * NIGH_PAGE;

    if (start % GRANULE)
        heap->table[start / GRANULE].begins = value;
    for (uint64_t granule = (start + GRANULE - 1) / GRANULE; granule * GRANULE < end; granule++)
        heap->table[granule].covers = value;
}

/* The used extent that byte `at` of the heap lies in, or NULL. */
static struct nigh_extent *extent_at(const struct nigh_heap *heap, uint64_t at)
{
    const struct granule *granule = &heap->table[at / GRANULE];
    struct nigh_extent *extent = granule->begins;

    if (!extent || at < start_of(extent))
        extent = granule->covers;
    if (!extent || at - start_of(extent) >= extent->pages * NIGH_PAGE)
        return NULL;
    return extent;
}

/* A block: where it begins and ends in the heap, and its counter. */
struct block {
    struct nigh_extent *extent;
    uint64_t start, end;
    uint32_t object; /* in the extent's slab */
};

/* The block that `memory` points into; false if there is none. */
static bool block_at(const struct nigh_heap *heap, const void *memory, struct block *out)
{
    uint64_t at = (uintptr_t)memory - (uintptr_t)heap->base; /* below the heap becomes very large */
    struct nigh_extent *extent;
    struct nigh_heap_slab *slab;

    if (at >= heap->bytes)
        return false;
    extent = extent_at(heap, at);
    if (!extent)
        return false;
    out->extent = extent;
    out->start = start_of(extent);
    slab = extent->slab;
    if (!slab) {
        out->end = out->start + extent->pages * NIGH_PAGE;
        return true;
    }
    out->object = (uint32_t)(at - out->start) / slab->bytes;
    if (out->object >= slab->objects || slab->uses[out->object] == 0)
        return false;
    out->start += (uint64_t)out->object * slab->bytes;
    out->end = out->start + slab->bytes;
    return true;
}

int nigh_heap_find(const struct nigh_heap *heap, const void *memory, uint64_t bytes, uint64_t *offset)
{
    uint64_t at = (uintptr_t)memory - (uintptr_t)heap->base;
    struct block block;

    if (!block_at(heap, memory, &block) || bytes > block.end - at)
        return -EINVAL;
    *offset = heap->arena->layout.heap_off + at;
    return 0;
}

/* ---- extents --------------------------------------------------------------------------------------------- */

static void give_extent(struct nigh_heap *heap, struct nigh_extent *extent)
{
    enter(heap, extent, NULL);
    nigh_extents_give(&heap->extents, extent);
}

static void unlink_roomy(struct nigh_heap *heap, struct nigh_heap_slab *slab)
{
    if (slab->after)
        slab->after->before = slab->before;
    if (slab->before)
        slab->before->after = slab->after;
    else
        heap->roomy[slab->kind] = slab->after;
}

static void link_roomy(struct nigh_heap *heap, struct nigh_heap_slab *slab)
{
    slab->before = NULL;
    slab->after = heap->roomy[slab->kind];
    if (slab->after)
        slab->after->before = slab;
    heap->roomy[slab->kind] = slab;
}

static void destroy_slab(struct nigh_heap *heap, struct nigh_heap_slab *slab)
{
    unlink_roomy(heap, slab);
    give_extent(heap, slab->extent);
    free(slab);
}

/* Empty slabs are kept, one a class, so that a program that allocates and frees one object does not make a slab
 * each time; when room is short they go. */
static bool destroy_empty_slabs(struct nigh_heap *heap)
{
    bool any = false;

    for (unsigned kind = 0; kind < CLASSES; kind++) {
        struct nigh_heap_slab *after;

        for (struct nigh_heap_slab *slab = heap->roomy[kind]; slab; slab = after) {
            after = slab->after;
            if (slab->used == 0) {
                destroy_slab(heap, slab);
                any = true;
            }
        }
    }
    return any;
}

static struct nigh_extent *take_extent(struct nigh_heap *heap, uint64_t pages)
{
    struct nigh_extent *extent = nigh_extents_take(&heap->extents, pages);

    if (!extent && destroy_empty_slabs(heap))
        extent = nigh_extents_take(&heap->extents, pages);
    if (extent)
        enter(heap, extent, extent);
    return extent;
}

/* ---- small blocks ---------------------------------------------------------------------------------------- */

/* Sizes in units: 1 to 8, then four to a doubling, so at most a fifth of a block is lost: 10, 12, 14, 16, 20... */
static uint32_t class_of(uint64_t bytes, uint32_t *class_bytes)
{
    uint32_t last = (uint32_t)((bytes - 1) / UNIT), shift, step;

    if (last < 8) {
        *class_bytes = (last + 1) * UNIT;
        return last;
    }
    shift = 29u - (uint32_t)__builtin_clz(last);
    step = last >> shift; /* 4 to 7 */
    *class_bytes = ((step + 1) << shift) * UNIT;
    return 8 + (shift - 1) * 4 + step - 4;
}

static struct nigh_heap_slab *create_slab(struct nigh_heap *heap, uint32_t kind, uint32_t bytes)
{
    uint32_t objects = SLAB_BYTES / bytes;
    struct nigh_heap_slab *slab = nigh_os.calloc(1, sizeof(*slab) + objects * sizeof(slab->uses[0]));
    struct nigh_extent *extent = slab ? take_extent(heap, SLAB_PAGES) : NULL;

    if (!extent) {
        free(slab);
        return NULL;
    }
    slab->extent = extent;
    slab->bytes = bytes;
    slab->objects = objects;
    slab->kind = kind;
    for (uint32_t object = 0; object < objects; object++)
        slab->vacant[object / 64] |= UINT64_C(1) << object % 64;
    extent->slab = slab;
    link_roomy(heap, slab);
    return slab;
}

/* Backs an object, with whole 64 KiB around it: one call for many objects. */
static int commit_object(struct nigh_heap *heap, const struct nigh_heap_slab *slab, uint32_t object)
{
    uint64_t from = (uint64_t)object * slab->bytes & ~(uint64_t)(GRANULE - 1);
    uint64_t to = ((uint64_t)(object + 1) * slab->bytes + GRANULE - 1) & ~(uint64_t)(GRANULE - 1);

    return nigh_arena_commit(heap->arena, heap->arena->layout.heap_off + start_of(slab->extent) + from,
                             to - from);
}

static uint32_t first_vacant(const struct nigh_heap_slab *slab)
{
    uint32_t word = 0;

    while (!slab->vacant[word])
        word++;
    return word * 64 + (uint32_t)__builtin_ctzll(slab->vacant[word]);
}

static int log_full(struct nigh_heap *heap, uint64_t bytes)
{
    char wanted[NIGH_BYTES_TEXT], used[NIGH_BYTES_TEXT], size[NIGH_BYTES_TEXT];

    if (!heap->full_told)
        nigh_log(NIGH_LOG_ERROR,
                 "the heap has no room for a block of %s: %s of %s are in use. Free some or reserve more "
                 "(NIGH_HEAP)",
                 nigh_bytes_text(bytes, wanted), nigh_bytes_text(heap->used, used),
                 nigh_bytes_text(heap->bytes, size));
    heap->full_told = true;
    return -ENOMEM;
}

static int alloc_small(struct nigh_heap *heap, uint64_t bytes, uint64_t *at)
{
    uint32_t class_bytes, kind = class_of(bytes, &class_bytes), object;
    struct nigh_heap_slab *slab = heap->roomy[kind];
    int error;

    if (!slab)
        slab = create_slab(heap, kind, class_bytes);
    if (!slab)
        return log_full(heap, bytes);
    object = first_vacant(slab);
    error = commit_object(heap, slab, object);
    if (error)
        return error; /* a slab that was made for this stays, empty */
    slab->vacant[object / 64] &= ~(UINT64_C(1) << object % 64);
    slab->uses[object] = 1;
    if (++slab->used == slab->objects)
        unlink_roomy(heap, slab);
    heap->used += class_bytes;
    *at = start_of(slab->extent) + (uint64_t)object * class_bytes;
    return 0;
}

static void free_small(struct nigh_heap *heap, struct nigh_heap_slab *slab, uint32_t object)
{
    slab->uses[object] = 0;
    slab->vacant[object / 64] |= UINT64_C(1) << object % 64;
    heap->used -= slab->bytes;
    if (slab->used-- == slab->objects)
        link_roomy(heap, slab);
    if (slab->used == 0 && (slab->before || slab->after))
        destroy_slab(heap, slab);
}

/* ---- all blocks ------------------------------------------------------------------------------------------ */

static int alloc_large(struct nigh_heap *heap, uint64_t bytes, uint64_t *at)
{
    uint64_t rounded = bytes < LARGE_LEAST ? LARGE_LEAST : bytes;
    struct nigh_extent *extent;
    int error;

    rounded = (rounded + NIGH_PAGE - 1) & ~(uint64_t)(NIGH_PAGE - 1);
    extent = take_extent(heap, rounded / NIGH_PAGE);
    if (!extent)
        return log_full(heap, bytes);
    error = nigh_arena_commit(heap->arena, heap->arena->layout.heap_off + start_of(extent), rounded);
    if (error) {
        give_extent(heap, extent);
        return error;
    }
    heap->used += rounded;
    *at = start_of(extent);
    return 0;
}

int nigh_heap_alloc(struct nigh_heap *heap, uint64_t bytes, void **out)
{
    uint64_t at = 0;
    int error;

    if (bytes == 0)
        return -EINVAL;
    if (bytes > heap->bytes)
        return log_full(heap, bytes);
    error = bytes <= SMALL_MOST ? alloc_small(heap, bytes, &at) : alloc_large(heap, bytes, &at);
    if (error)
        return error;
    *out = heap->arena->base + heap->arena->layout.heap_off + at;
    return 0;
}

int nigh_heap_free(struct nigh_heap *heap, void *memory)
{
    struct block block;
    struct nigh_heap_slab *slab;

    if (!block_at(heap, memory, &block) || heap->base + block.start != memory)
        return -EINVAL;
    slab = block.extent->slab;
    if (slab ? slab->uses[block.object] > 1 : block.extent->holds > 0)
        return -EBUSY;
    if (slab) {
        free_small(heap, slab, block.object);
    } else {
        heap->used -= block.end - block.start;
        give_extent(heap, block.extent);
    }
    return 0;
}

static void hold(const struct block *block)
{
    if (block->extent->slab)
        block->extent->slab->uses[block->object]++;
    else
        block->extent->holds++;
}

int nigh_heap_hold(struct nigh_heap *heap, const void *memory)
{
    struct block block;

    if (!block_at(heap, memory, &block))
        return -EINVAL;
    hold(&block);
    return 0;
}

int nigh_heap_find_and_hold(struct nigh_heap *heap, const void *memory, uint64_t bytes, uint64_t *offset)
{
    uint64_t at = (uintptr_t)memory - (uintptr_t)heap->base;
    struct block block;

    if (!block_at(heap, memory, &block) || bytes > block.end - at)
        return -EINVAL;
    hold(&block);
    *offset = heap->arena->layout.heap_off + at;
    return 0;
}

void nigh_heap_unhold(struct nigh_heap *heap, const void *memory)
{
    struct block block;
    bool found = block_at(heap, memory, &block);

    assert(found);
    if (!found)
        return;
    if (block.extent->slab) {
        assert(block.extent->slab->uses[block.object] > 1);
        block.extent->slab->uses[block.object]--;
    } else {
        assert(block.extent->holds > 0);
        block.extent->holds--;
    }
}
