/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/heap.h - the allocator of the arena's heap area. Its book-keeping is private memory: a peer can see
 * only data. */
#ifndef NIGH_SHM_HEAP_H
#define NIGH_SHM_HEAP_H

#include "shm/arena.h"

struct nigh_heap;

/* -ENOMEM. */
int nigh_heap_create(struct nigh_arena *arena, struct nigh_heap **out);
void nigh_heap_destroy(struct nigh_heap *heap);

/* 64-byte aligned; blocks of >= 64 KiB page aligned, committed before they are returned. Freed large blocks
 * go back to the machine beyond a cache of 64 MiB. -ENOMEM, -EINVAL for 0 bytes. */
int nigh_heap_alloc(struct nigh_heap *heap, uint64_t bytes, void **out);
/* -EINVAL not a block of this heap; -EBUSY held. */
int nigh_heap_free(struct nigh_heap *heap, void *memory);

/* Finds the block that [memory, memory + bytes) lies wholly in. 0 and *offset of `memory` in the arena, or
 * -EINVAL. Fast: asked for each send of more than a slot. First test is the caller's pointer range check. */
int nigh_heap_find(const struct nigh_heap *heap, const void *memory, uint64_t bytes, uint64_t *offset);

/* Counts a use (a lend or a send in flight) of the block at `memory`; free is refused until unhold. -EINVAL.
 */
int nigh_heap_hold(struct nigh_heap *heap, const void *memory);
void nigh_heap_unhold(struct nigh_heap *heap, const void *memory);

uint64_t nigh_heap_used(const struct nigh_heap *heap);

#endif
