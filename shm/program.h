/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/program.h - memory of the program's, not of nigh's, that lies in a file which peers may map (nigh/memory.h): our
 * own, as the arena's header tells of it, and a peer's, mapped read-only beside its arena.
 */
#ifndef NIGH_SHM_PROGRAM_H
#define NIGH_SHM_PROGRAM_H

#include "shm/layout.h"
#include "shm/shared.h"
#include <stdbool.h>

/* What the header of this process's arenas says of it; all zero where there is none, or it is not sound (logged). */
struct nigh_program_told {
    uint64_t address, bytes, id;
    uint32_t fd; /* its number, + 1 */
};
void nigh_program_ask(struct nigh_program_told *out);

/* Whether all of [memory, memory + bytes) is in the program's memory that our header tells of, and peers that have mapped it
 * may still read it there. */
static inline bool nigh_program_holds(const struct nigh_arena_header *own, const void *memory, uint64_t bytes)
{
    uint64_t at = (uintptr_t)memory - own->memory_address;

    return own->memory_fd && at < own->memory_bytes && bytes <= own->memory_bytes - at &&
           !nigh_load_relaxed((const uint32_t *)(uintptr_t)(own->memory_address + NIGH_PROGRAM_TAKEN_BACK));
}

/* Whether what a peer's header says can be: in whole pages, inside the address space. Nothing at all can. */
bool nigh_program_is_sound(const struct nigh_arena_header *header);

/* A peer's. All zero: not mapped. */
struct nigh_program {
    const uint8_t *base;
    uint64_t address, bytes; /* where it lies in the peer */
};

/*
 * Maps what the header of process `pid` tells of, if anything, after checking that the descriptor is that file: sealed,
 * of that size, with that id, not taken back. Of a long one the first `most` bytes; none at all where the address space is
 * limited, since it would be missing for the program. 0, also where there is none; else it is not mapped, *out all zero:
 *   -EPERM   the peer lets nobody have its descriptors, or the sandbox this call
 *   -ENOSYS  no pidfd_getfd (before Linux 5.6)
 *   -ESRCH, -EBADF, -EMFILE, -ENOMEM (mapping fails), -EPROTO (it is another file)
 */
int nigh_program_map(int pid, const struct nigh_arena_header *header, uint64_t most,
                     struct nigh_program *out);
void nigh_program_unmap(struct nigh_program *program);

/* Where [address, address + bytes) of the peer's can be read; NULL: by process_vm_readv. */
static inline const void *nigh_program_at(const struct nigh_program *program, uint64_t address,
                                          uint64_t bytes)
{
    uint64_t at = address - program->address; /* below it becomes very large */

    if (at >= program->bytes || bytes > program->bytes - at)
        return NULL;
    /* Relaxed: what it holds back from has been said by the peer behind it, and that was acquired. */
    if (nigh_load_relaxed((const uint32_t *)(const void *)(program->base + NIGH_PROGRAM_TAKEN_BACK)))
        return NULL;
    return program->base + at;
}

#endif
