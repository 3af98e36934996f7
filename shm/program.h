/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/program.h - memory of the program's, not of nigh's, that lies in a file which peers may map (nigh/memory.h): our
 * own, as the arena's header tells of it, and a peer's, mapped read-only beside its arena.
 */
#ifndef NIGH_SHM_PROGRAM_H
#define NIGH_SHM_PROGRAM_H

#include "include/common/descriptor.h"
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

/*
 * The kernel's account of what is mapped where that memory is. A program may map something else there past its allocator,
 * by a system call of its own; the allocator, which sees the C library's calls, says the others itself
 * (docs/memory-model.md). `maps`: -1 where the kernel cannot be asked (before Linux 6.11), or there is no such memory.
 */
struct nigh_program_watch {
    int maps;
    struct nigh_file_id id;      /* of it */
    uint32_t major_of, minor_of; /* the file */
    uint64_t number;
};
void nigh_program_watch_open(const struct nigh_program_told *told, struct nigh_program_watch *out);
void nigh_program_watch_close(struct nigh_program_watch *watch);

/* Asked for a message of so many bytes and more: it takes half a microsecond. */
#define NIGH_PROGRAM_WATCH_FROM (256u * 1024)

/* Whether what [memory, memory + bytes) has of the program's memory is the file's still, as far as can be asked. */
bool nigh_program_is_there(const struct nigh_program_watch *watch, const struct nigh_arena_header *own,
                           const void *memory, uint64_t bytes);

/* Says in the file that peers may not read it there any more. 0, or -EBADF: the descriptor is not the file's. */
int nigh_program_take_back(const struct nigh_arena_header *own);

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
