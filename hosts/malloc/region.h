/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/region.h - the file in memory that large blocks lie in, and where it is mapped (nigh/memory.h has what it
 * promises). What has not been reached yet is neither readable nor dumped, so that a program that locks all its memory,
 * or leaves a core behind, does not fill all of it.
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
    uint64_t reached; /* bytes from `base` on that the program may have */
    uint64_t id;
    dev_t device; /* and the file's number there: the descriptor is still the file's */
    ino_t number;
    int fd;
    bool gives; /* memory back to the system, while it is shared */
    bool own;   /* the mapping is the process's own: it no longer changes the file, nor do its peers see it */
};

/* Makes it. `tell`: says why there is none. Takes nothing from the heap. */
bool nigh_malloc_region_open(struct nigh_malloc_region *region, uint64_t bytes, bool huge, bool tell);
void nigh_malloc_region_close(struct nigh_malloc_region *region);

/* Whether its descriptor is open still: programs that close all there are do not spare it. */
bool nigh_malloc_region_held(const struct nigh_malloc_region *region);

/* The program may have what lies before `end`. False: the system says no. */
bool nigh_malloc_region_reach(struct nigh_malloc_region *region, uint64_t end);

/* Gives memory back to the system, behind which it reads as zeros. False: it was not given. */
bool nigh_malloc_region_empty(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes);

/* Tells peers, and puts a mapping of the process's own in the place of the shared one, with the same contents. False: it
 * could not. */
bool nigh_malloc_region_own(struct nigh_malloc_region *region);
/* Tells peers alone; and what is left to do when something else lies in the place of what was reached: what
 * was not is no longer the file's, either. */
bool nigh_malloc_region_tell(const struct nigh_malloc_region *region);
bool nigh_malloc_region_leave(struct nigh_malloc_region *region);

#endif
