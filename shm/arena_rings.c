/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/arena_rings.c - what is handed out of an arena to peers one by one: pairs and rings. */
#include "shm/arena.h"

#include <errno.h>
#include <string.h>

/* Free rings of one size are a list through the tag of their first slot: memory that only the owner can
 * write, so it needs no book-keeping elsewhere and freeing cannot fail. */
static struct nigh_slot *ring_at(const struct nigh_arena *arena, uint64_t offset)
{
    return (struct nigh_slot *)(void *)(arena->base + offset);
}

int nigh_arena_ring_alloc(struct nigh_arena *arena, uint32_t slots, uint64_t *offset)
{
    uint64_t bytes = (uint64_t)slots * sizeof(struct nigh_slot);
    unsigned size = (unsigned)__builtin_ctz(slots);
    uint64_t at = arena->rings_free[size];
    int error;

    assert((slots & (slots - 1)) == 0 && slots >= NIGH_RING_SLOTS_MIN && slots <= NIGH_RING_SLOTS_MAX);
    if (at) {
        arena->rings_free[size] = ring_at(arena, at)->tag;
        memset(ring_at(arena, at), 0, bytes);
        *offset = at;
        return 0;
    }
    at = arena->rings_next;
    if (bytes > arena->layout.rings_off + arena->layout.rings_bytes - at)
        return -ENOMEM;
    error = nigh_arena_commit(arena, at, bytes);
    if (error)
        return error;
    arena->rings_next += bytes;
    *offset = at;
    return 0;
}

void nigh_arena_ring_free(struct nigh_arena *arena, uint64_t offset, uint32_t slots)
{
    unsigned size = (unsigned)__builtin_ctz(slots);

    assert(offset >= arena->layout.rings_off && offset < arena->rings_next && offset % NIGH_PAGE == 0);
    ring_at(arena, offset)->tag = arena->rings_free[size];
    arena->rings_free[size] = offset;
}

struct nigh_pair *nigh_arena_pair(struct nigh_arena *arena, uint32_t index)
{
    uint64_t offset = arena->layout.pairs_off + (uint64_t)index * sizeof(struct nigh_pair);

    if (index >= arena->layout.peers_max || nigh_arena_commit(arena, offset, sizeof(struct nigh_pair)))
        return NULL;
    return (struct nigh_pair *)(void *)(arena->base + offset);
}
