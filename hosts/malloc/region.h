/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/region.h - the file in memory that large blocks lie in, and where it is mapped (nigh/memory.h has what it
 * promises). The file is mapped where blocks are, not as a whole: address space that no block has had is not taken from
 * the program (RLIMIT_AS), nor locked, nor dumped. It has a place of its own, far from where the kernel puts mappings.
 */
#ifndef NIGH_MALLOC_REGION_H
#define NIGH_MALLOC_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct nigh_malloc_region {
    uintptr_t base;
    uint64_t bytes;
    uint64_t id;
    dev_t device; /* and the file's number there: the descriptor is still the file's */
    ino_t number;
    int fd;
    bool gives; /* memory back to the system, while it is shared */
    bool huge;
};

/* Makes it, of so many bytes, of which at most `used` will hold memory. `tell`: says why there is none. Takes nothing from
 * the heap. */
bool nigh_malloc_region_open(struct nigh_malloc_region *region, uint64_t bytes, uint64_t used, bool huge,
                             bool tell);
void nigh_malloc_region_close(struct nigh_malloc_region *region);

/* Whether its descriptor is open still: programs that close all there are do not spare it. */
bool nigh_malloc_region_held(const struct nigh_malloc_region *region);

/* Maps a part that is not mapped. 0, or -EEXIST: somebody else has mapped something there; -EBADF: the descriptor is no
 * longer the file's; other errors: as mmap(). */
int nigh_malloc_region_map(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes);
bool nigh_malloc_region_unmap(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes);

/* Gives the file's memory there back to the system, behind which it reads as zeros. False: it was not given. */
bool nigh_malloc_region_empty(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes);

/* Tells peers that the program's memory may differ from the file from now on. */
bool nigh_malloc_region_tell(const struct nigh_malloc_region *region);

#endif
