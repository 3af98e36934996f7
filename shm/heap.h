/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/heap.h - the allocator of the arena's heap area. Its book-keeping is private memory: a peer can see
 * only data, and a program that writes beyond a block breaks data, not the allocator. */
#ifndef NIGH_SHM_HEAP_H
#define NIGH_SHM_HEAP_H

#include "shm/arena.h"

struct nigh_heap;

/* Callers keep two threads from being in one heap at once; nigh_heap_find() alone may run beside itself. */

/* Of the arena's heap area, which may be empty. Takes address space for two pointers in 64 KiB and no memory
 * before use. The arena outlives the heap. -ENOMEM. */
int nigh_heap_create(struct nigh_arena *arena, struct nigh_heap **out);
/* The blocks are gone; nothing of the arena is touched. NULL is allowed. */
void nigh_heap_destroy(struct nigh_heap *heap);

/*
 * 64-byte aligned; blocks of >= 64 KiB page aligned; committed before they are returned, zero where they were
 * never used before. Freed memory stays with the heap and is what it hands out first (shm/arena.h says why).
 * -EINVAL for 0 bytes; -ENOMEM: no room (logged once, with the heap's size), or no memory for it (logged once
 * by the arena).
 */
int nigh_heap_alloc(struct nigh_heap *heap, uint64_t bytes, void **out);
/* -EINVAL not the beginning of a block of this heap, freed already included; -EBUSY held. Nothing changed
 * then. */
int nigh_heap_free(struct nigh_heap *heap, void *memory);

/* Finds the block that [memory, memory + bytes) lies wholly in. 0 and *offset of `memory` in the arena, or
 * -EINVAL. A block ends where its size, rounded up to what the heap hands out, does. Constant time, a few
 * nanoseconds: asked for each send of more than a slot. Any pointer may be asked for; only its value is
 * looked at. */
int nigh_heap_find(const struct nigh_heap *heap, const void *memory, uint64_t bytes, uint64_t *offset);

/* Counts a use (a lend or a send in flight) of the block that `memory` lies in; free is refused until
 * unhold. -EINVAL. */
int nigh_heap_hold(struct nigh_heap *heap, const void *memory);
/* Both at once, for a block that holds all of [memory, memory + bytes). */
int nigh_heap_find_and_hold(struct nigh_heap *heap, const void *memory, uint64_t bytes, uint64_t *offset);
/* Undoes one hold; one that there was not is a bug of the caller and asserted. */
void nigh_heap_unhold(struct nigh_heap *heap, const void *memory);

/* Bytes in blocks, each rounded up to what it takes. */
uint64_t nigh_heap_used(const struct nigh_heap *heap);

#endif
