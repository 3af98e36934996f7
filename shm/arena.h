/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/arena.h - a context's own shared memory: create it, commit it, allocate rings in it; and a peer's,
 * mapped. */
#ifndef NIGH_SHM_ARENA_H
#define NIGH_SHM_ARENA_H

#include "shm/layout.h"
#include <stdbool.h>

struct nigh_arena_config {
    uint64_t incarnation;
    uint32_t peers_max;
    uint32_t ring_slots_max;         /* largest ring a pair may grow to */
    uint64_t pool_bytes, heap_bytes; /* reserved, not committed; rounded up to pages */
    bool huge;                       /* ask for huge pages in pool and heap */
};

struct nigh_arena {
    uint8_t *base; /* writable; NULL: not created */
    uint64_t bytes;
    int fd;
    bool huge;                       /* granted */
    struct nigh_arena_header layout; /* private copy */
    uint64_t rings_next;             /* offset of the first never used byte of the ring area */
    uint64_t rings_free[17];         /* heads of lists of free rings by log2(slots), offsets, links private */
    struct nigh_arena_free *free_nodes; /* private memory of those lists */
};

/*
 * Reserves, commits header, state and the pairs' first page, writes the header, seals. Logs and returns
 * -ENOMEM (naming the size and the limit: RLIMIT_AS, RLIMIT_FSIZE, cgroup, tmpfs), -EMFILE, -EPERM, -ENOSYS.
 * Nothing remains on failure.
 */
int nigh_arena_create(const struct nigh_arena_config *config, struct nigh_arena *out);
void nigh_arena_destroy(struct nigh_arena *arena);

/* Backs [offset, offset + bytes) with memory, so that writing it can never fault. Idempotent. -ENOMEM (logged
 * once a context with the limit that refused), nothing changed then. */
int nigh_arena_commit(struct nigh_arena *arena, uint64_t offset, uint64_t bytes);

/* Gives the memory of whole pages in the range back to the machine. Only for pool and heap ranges nobody
 * reads. */
void nigh_arena_decommit(struct nigh_arena *arena, uint64_t offset, uint64_t bytes);

/* A committed, zeroed ring of `slots` (power of two, >= 64). *offset is a multiple of NIGH_PAGE. -ENOMEM. */
int nigh_arena_ring_alloc(struct nigh_arena *arena, uint32_t slots, uint64_t *offset);
/* Back to the free list; zeroed again before it is handed out. Only when the peer no longer reads it. */
void nigh_arena_ring_free(struct nigh_arena *arena, uint64_t offset, uint32_t slots);

/* Commits pair `index` and returns it (zeroed unless used before). -ENOMEM through NULL. */
struct nigh_pair *nigh_arena_pair(struct nigh_arena *arena, uint32_t index);

/* Bytes of memory that the arena takes now. */
uint64_t nigh_arena_committed(const struct nigh_arena *arena);

static inline struct nigh_arena_state *nigh_arena_state(const struct nigh_arena *arena)
{
    return (struct nigh_arena_state *)(void *)(arena->base + NIGH_PAGE);
}

/* A peer's arena, mapped read-only. */
struct nigh_view {
    const uint8_t *base;
    uint64_t bytes;
    struct nigh_arena_header layout; /* copied once, validated; never read from the mapping again */
};

/*
 * Maps a peer's arena read-only after checking: the descriptor is a memfd with all four seals, its size
 * equals the header's, the header is sound (magic, version, areas in order, aligned, inside, no overflow),
 * incarnation as expected. Does not close fd. -EPROTO (logged, with what was wrong), -ENOMEM.
 */
int nigh_view_map(int fd, uint64_t incarnation, struct nigh_view *out);
void nigh_view_unmap(struct nigh_view *view);

/* The one function that turns a peer's offset into a pointer. NULL if [offset, offset + bytes) is not inside.
 */
static inline const void *nigh_view_at(const struct nigh_view *view, uint64_t offset, uint64_t bytes)
{
    return offset <= view->bytes && bytes <= view->bytes - offset ? view->base + offset : NULL;
}

#endif
