/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/arena.h - a context's own shared memory: create it, commit it; and a peer's, mapped. Rings
 * are in shm/window.h. */
#ifndef NIGH_SHM_ARENA_H
#define NIGH_SHM_ARENA_H

#include "include/common/descriptor.h"
#include "shm/layout.h"
#include "shm/program.h"
#include <stdbool.h>

struct nigh_arena_config {
    uint64_t incarnation;   /* not 0 */
    uint64_t nonce_address; /* of a private copy of it */
    uint64_t job;           /* whose it is, for observers */
    uint32_t rank, ranks;
    uint32_t peers_max;              /* 1 .. NIGH_PEERS_MAX */
    uint64_t pool_bytes, heap_bytes; /* reserved, not committed; rounded up to chunks and pages; may be 0 */
    uint64_t share_bytes; /* behind the heap, in whole pages: the context's own copies for several peers */
    struct nigh_program_told program; /* the program's memory, told to peers; all zero: none */
    bool huge;                        /* ask for huge pages in pool and heap */
    const struct nigh_log_sink *log;  /* told of what is refused later; NULL: the thread's */
};

struct nigh_arena {
    uint8_t *base; /* writable; NULL: not created */
    uint64_t bytes;
    int fd;
    struct nigh_file_id id;          /* of fd */
    bool huge;                       /* the kernel's policy allows huge pages here and they were asked for */
    const char *huge_reason;         /* static text: why not, "" if so */
    struct nigh_arena_header layout; /* private copy */

    uint64_t *backed;   /* private: a bit for each page that has memory */
    uint64_t committed; /* bytes */
    uint64_t unchecked; /* bytes: may be committed before the limits are looked at again */
    bool refused;       /* a commit was refused and logged */
    /* Memory is asked for in posts, which do not say first whose lines the thread's are: another context's, or one's
     * that another thread has closed. */
    const struct nigh_log_sink *log;
};

/*
 * Reserves, commits header, state and the pairs' first page, writes the header, seals. The reservation takes
 * address space and no memory. Nothing remains on failure, and *out is not written. Logged:
 *   -EINVAL  a field of config out of range
 *   -ENOMEM  too large, or refused by RLIMIT_FSIZE, RLIMIT_AS, the cgroup or the machine (named with sizes)
 *   -EMFILE  no descriptor left
 *   -EPERM   the system refuses memfd or seals
 *   -ENOSYS  the kernel has no memfd, or no F_SEAL_FUTURE_WRITE (before 5.1)
 */
int nigh_arena_create(const struct nigh_arena_config *config, struct nigh_arena *out);
/* Only in the process that created it; all zero afterwards but fd, -1. Nothing happens if base is NULL. */
void nigh_arena_destroy(struct nigh_arena *arena);

/*
 * Backs [offset, offset + bytes) with memory, so that writing it can never fault. Idempotent: a range that is
 * backed costs no system call. The range must be inside of the arena. -ENOMEM, logged once a context with the
 * size and the limit that refused; what was backed before stays so. Refused is also what would end in the kernel
 * killing a process, of the machine or of our cgroup: as far as other processes leave that to be foreseen.
 *
 * There is no way back: the seal that keeps peers from writing refuses to punch holes for the owner too
 * (fallocate and madvise(MADV_REMOVE) are both EPERM), so pool and heap reuse what they have.
 */
int nigh_arena_commit(struct nigh_arena *arena, uint64_t offset, uint64_t bytes);

/* The same for what the caller can do without: a refusal is information. */
int nigh_arena_commit_if(struct nigh_arena *arena, uint64_t offset, uint64_t bytes);

/* A file of this context's, mapped from its beginning on. */
struct nigh_backed {
    int fd;
    struct nigh_file_id id;
    uint8_t *base;
};

/* The same for [offset, offset + bytes) of another file of this context, in whole pages that have none yet: by the same
 * limits, and counted here, until nigh_arena_unback() says that so many bytes are gone. Where the program has closed its
 * descriptor, by the mapping (Linux 5.14). */
int nigh_arena_back(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset,
                    uint64_t bytes);
/* The same for what the caller can do without: a refusal is information, and what is needed later has its own line. */
int nigh_arena_back_if(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset,
                       uint64_t bytes);
void nigh_arena_unback(struct nigh_arena *arena, uint64_t bytes);

/* Commits pair `index` and returns it (zeroed unless used before). NULL: -ENOMEM (logged), or index is not
 * below peers_max. */
struct nigh_pair *nigh_arena_pair(struct nigh_arena *arena, uint32_t index);

/* Why this machine gives no huge pages to shared memory: static text; "" if it does on request. */
const char *nigh_arena_huge_policy(void);

/* Bytes of memory that the arena, and what was backed with it, takes now. */
uint64_t nigh_arena_committed(const struct nigh_arena *arena);

static inline struct nigh_arena_state *nigh_arena_state(const struct nigh_arena *arena)
{
    return (struct nigh_arena_state *)(void *)(arena->base + NIGH_PAGE);
}

static inline struct nigh_arena_note *nigh_arena_note(const struct nigh_arena *arena)
{
    return (struct nigh_arena_note *)(void *)(arena->base + NIGH_PAGE + NIGH_NOTE_OFFSET);
}

static inline struct nigh_arena_counters *nigh_arena_counters(const struct nigh_arena *arena)
{
    return (struct nigh_arena_counters *)(void *)(arena->base + NIGH_PAGE + NIGH_COUNTERS_OFFSET);
}

static inline struct nigh_arena_devices *nigh_arena_devices(const struct nigh_arena *arena)
{
    return (struct nigh_arena_devices *)(void *)(arena->base + NIGH_PAGE + NIGH_DEVICES_OFFSET);
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
 * incarnation as expected. Does not close fd. -EPROTO (logged, with what was wrong), -EPROTONOSUPPORT another version
 * (logged), -ENOMEM (logged).
 */
int nigh_view_map(int fd, uint64_t incarnation, struct nigh_view *out);
/* What was in the way when that has said so: -EPROTONOSUPPORT the version, -ENOMEM the size; 0: not known. */
uint64_t nigh_view_stumble(int fd, int error);
void nigh_view_unmap(struct nigh_view *view);

/* The one function that turns a peer's offset into a pointer. NULL if [offset, offset + bytes) is not inside.
 */
static inline const void *nigh_view_at(const struct nigh_view *view, uint64_t offset, uint64_t bytes)
{
    return offset <= view->bytes && bytes <= view->bytes - offset ? view->base + offset : NULL;
}

#endif
