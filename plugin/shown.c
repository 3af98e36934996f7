/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/shown.c - readable heap regions, in shared memory. A key alone could tell where its memory lies, but not where
 * it ends and whether it is still registered: a get would read whatever lies there now.
 */
#include "plugin/shown.h"
#include "shm/shared.h"
#include <string.h>

#define FIRST_COUNT 30u /* with the header, 1 KiB */

static struct nigh_region_table *table_of(const struct nigh_arena *arena)
{
    /* Relaxed: only the owner stores it. */
    uint64_t offset = nigh_load_relaxed(&nigh_arena_state(arena)->regions);

    return offset ? (struct nigh_region_table *)(void *)(arena->base + offset) : NULL;
}

static void store_entry(struct nigh_region_entry *entry, uint64_t key, uint64_t offset, uint64_t bytes)
{
    nigh_store_release(&entry->offset, offset, REGION_SET);
    nigh_store_release(&entry->bytes, bytes, REGION_SET);
    nigh_store_release(&entry->key, key, REGION_SET);
}

/* A larger table with what the old one holds. The old one stays: a peer may be looking at it. It is half as large, so
 * all of them together are no more than the last. */
static struct nigh_region_table *grow(struct nigh_arena *arena, struct nigh_heap *heap, uint32_t slot)
{
    struct nigh_region_table *old = table_of(arena), *table;
    uint64_t count = old ? old->count : FIRST_COUNT, bytes;
    void *memory;

    while (count <= slot)
        count *= 2;
    bytes = sizeof(*table) + count * sizeof(table->at[0]);
    if (nigh_heap_alloc(heap, bytes, &memory))
        return NULL;
    table = memory;
    memset(table, 0, bytes);
    table->count = count;
    for (uint64_t i = 0; old && i < old->count; i++)
        store_entry(&table->at[i], old->at[i].key, old->at[i].offset, old->at[i].bytes);
    nigh_store_release(&nigh_arena_state(arena)->regions, (uint64_t)((uint8_t *)memory - arena->base),
                       REGION_SET);
    return table;
}

void nigh_shown_add(struct nigh_arena *arena, struct nigh_heap *heap, struct nigh_region *region,
                    uint64_t offset)
{
    struct nigh_region_table *table = table_of(arena);

    if (!table || region->slot >= table->count)
        table = grow(arena, heap, region->slot);
    if (!table)
        return;
    store_entry(&table->at[region->slot], region->key, offset, region->bytes);
    region->shown = true;
}

void nigh_shown_remove(struct nigh_arena *arena, struct nigh_region *region)
{
    if (!region->shown)
        return;
    nigh_store_release(&table_of(arena)->at[region->slot].key, UINT64_C(0), REGION_SET);
    nigh_fence_full(LEAVE_SAY);
    region->shown = false;
}

/* The peer's table with room for `slot`, or NULL. */
static const struct nigh_region_entry *entry_of(const struct nigh_view *view, uint32_t slot)
{
    const struct nigh_arena_state *state = (const void *)(view->base + NIGH_PAGE);
    uint64_t at = nigh_load_acquire(&state->regions, REGION_GET);
    const struct nigh_region_table *table;

    if (at < view->layout.heap_off || at % NIGH_LINE)
        return NULL;
    table = nigh_view_at(view, at, sizeof(*table));
    /* Relaxed: written before the table was shown. */
    if (!table || slot >= nigh_load_relaxed(&table->count))
        return NULL;
    return nigh_view_at(view, at + sizeof(*table) + (uint64_t)slot * sizeof(table->at[0]),
                        sizeof(table->at[0]));
}

bool nigh_shown_find(const struct nigh_view *view, uint64_t key, uint64_t offset, uint64_t bytes,
                     uint64_t *where)
{
    const struct nigh_region_entry *entry = entry_of(view, nigh_region_slot(key));
    uint64_t start, length;

    if (!entry || !key || nigh_load_acquire(&entry->key, REGION_GET) != key)
        return false;
    start = nigh_load_acquire(&entry->offset, REGION_GET);
    length = nigh_load_acquire(&entry->bytes, REGION_GET);
    /* Was it the place of this key's region until now? */
    if (nigh_load_acquire(&entry->key, REGION_GET) != key)
        return false;
    if (offset > length || bytes > length - offset || start < view->layout.heap_off ||
        !nigh_view_at(view, start, length))
        return false;
    *where = start + offset;
    return true;
}

bool nigh_shown_still(const struct nigh_view *view, uint64_t key)
{
    const struct nigh_region_entry *entry = entry_of(view, nigh_region_slot(key));

    return entry && nigh_load_acquire(&entry->key, REGION_GET) == key;
}
