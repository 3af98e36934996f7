/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/blocks.h - blocks of a program in a region that peers may map. All calls from any thread. */
#ifndef NIGH_MALLOC_BLOCKS_H
#define NIGH_MALLOC_BLOCKS_H

#include <nigh/memory.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Read without the lock by every malloc and free: each is written once, or in a child of which there is but one thread,
 * and what is read before or between the writes says that it is for nobody here. Who has a pointer into the region
 * has got it from somebody who has seen them.
 */
extern volatile size_t nigh_malloc_blocks_from;     /* smaller ones are not for here; 0: not known yet */
extern volatile uintptr_t nigh_malloc_blocks_begin; /* of the region; UINTPTR_MAX: none */
extern volatile uintptr_t nigh_malloc_blocks_end;   /* 0: none */

static inline bool nigh_malloc_blocks_takes(size_t bytes)
{
    return bytes >= nigh_malloc_blocks_from;
}

static inline bool nigh_malloc_blocks_has(const void *memory)
{
    return (uintptr_t)memory >= nigh_malloc_blocks_begin && (uintptr_t)memory < nigh_malloc_blocks_end;
}

/* How a block is wanted: with zeros in it; because one grows that cannot where it is. */
enum { NIGH_MALLOC_ZEROS = 1, NIGH_MALLOC_GROWS = 2 };

/* NULL: it is for the next malloc. `align`: a power of two. */
void *nigh_malloc_blocks_alloc(size_t bytes, size_t align, unsigned how);

/* For memory in the region. What is no block's ends the process, with a line that says so and names the `call`. */
size_t nigh_malloc_blocks_room(const void *memory, const char *call);
void nigh_malloc_blocks_free(void *memory, const char *call);

/* In place. False: it cannot be, or is not for here at that size. */
bool nigh_malloc_blocks_resize(void *memory, size_t bytes);

/* As nigh_memory(). */
int nigh_malloc_blocks_memory(struct nigh_memory *out);

/* Reads the environment, if nobody has. */
void nigh_malloc_blocks_settle(void);

/* Gives back what is free, address space too. False: there was nothing. */
bool nigh_malloc_blocks_trim(void);

/* Whether the process's address space is limited from now on: then it is given back as blocks are freed. */
void nigh_malloc_blocks_limit(bool limited);

/*
 * From now on all large blocks are the next malloc's, and peers do not use those that there are:
 * part    before a fork, with the lock: they become the process's own. Nothing happens where nobody has had a block
 * own     the same at any other time
 * foreign the program is about to map other memory at [begin, end), or to unmap what is there
 */
void nigh_malloc_blocks_part(void);
void nigh_malloc_blocks_own(void);
void nigh_malloc_blocks_foreign(uintptr_t begin, uintptr_t end);

/* Whether none of that has happened, or the second has. */
bool nigh_malloc_blocks_shared(void);
bool nigh_malloc_blocks_are_own(void);

/* In the child of a fork: a region of which nobody has had a block is the parent's alone. */
void nigh_malloc_blocks_forget(void);

#endif
