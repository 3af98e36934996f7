/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/window.h - the memory of the ring from one context to one peer: a memfd of its own that nobody but these two ever
 * gets. Apart from the arena because its reader, too, maps it writable, which is for speed alone (shm/layout.h).
 */
#ifndef NIGH_SHM_WINDOW_H
#define NIGH_SHM_WINDOW_H

#include "shm/arena.h"

struct nigh_window {
    uint8_t *base; /* NULL: none */
    uint64_t bytes;
    int fd;            /* the sender's, to be handed to the peer; a reader keeps none: -1 */
    uint64_t used;     /* the sender's: bytes that rings have taken, from the beginning; they have memory */
    uint64_t shuttled; /* the sender's: bytes of the shuttle that have memory, from its beginning */
    struct nigh_file_id id; /* which file it is */
};

/*
 * The sender's: address space for a ring of NIGH_RING_SLOTS_MIN, if that is more the one of `slots_max` (a power of
 * two, up to NIGH_RING_SLOTS_MAX) that replaces it, and the shuttle. No memory is taken. Logged: -EMFILE no
 * descriptor left, -ENOMEM refused by a limit of address space or mappings, -EPERM, -ENOSYS the system refuses
 * memfd or seals. *out is not written then.
 */
int nigh_window_create(uint32_t slots_max, struct nigh_window *out);

/* The next ring in it, of `slots` (a power of two, from NIGH_RING_SLOTS_MIN): zeroed, backed with memory within the
 * limits of `arena`, which counts it. *offset is a multiple of NIGH_PAGE. -ENOMEM: no room, or no memory (logged by the
 * arena). There is no way back but nigh_window_close(). */
int nigh_window_take(struct nigh_window *window, struct nigh_arena *arena, uint32_t slots, uint64_t *offset);

/* The shuttle, of NIGH_SHUTTLE_BYTES, of either's window. */
static inline uint8_t *nigh_window_shuttle(const struct nigh_window *window)
{
    return window->base + window->bytes - NIGH_SHUTTLE_BYTES;
}

/* The sender's: gives the first `bytes` of the shuttle (whole pages, at most all of it) memory and page table
 * entries, as nigh_window_take() does for rings; what has them keeps them. -ENOMEM: no more than before have, which
 * is information (nigh_arena_back_if). */
int nigh_window_back_shuttle(struct nigh_window *window, struct nigh_arena *arena, uint64_t bytes);

/* Ends the sender's; `arena` counts its memory no longer. A peer that has mapped it keeps what it
 * holds. Nothing happens if there is none. */
void nigh_window_close(struct nigh_window *window, struct nigh_arena *arena);

/*
 * The reader's: maps what a peer has handed over after checking that it is a memfd of ordinary pages, that its size is
 * sealed and one that a window can have, and that it may be mapped writable. Does not close fd. -EPROTO (logged,
 * with what was wrong), -ENOMEM (logged).
 */
int nigh_window_map(int fd, struct nigh_window *out);
/* Is what a reader has mapped this one? */
bool nigh_window_is(const struct nigh_window *window, int fd);
void nigh_window_unmap(struct nigh_window *window);

/* The ring that the directory word of a peer names, and how many slots it has; NULL if it is none or not inside. Its
 * pages are mapped at once, where the kernel can. */
const void *nigh_window_ring(const struct nigh_window *window, uint64_t word, uint32_t *slots);

/* The directory word of a ring. */
static inline uint64_t nigh_window_word(uint64_t offset, uint32_t slots)
{
    return offset / NIGH_PAGE << 8 | (31 - (uint32_t)__builtin_clz(slots));
}

#endif
