/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/own.h - a region becomes the process's own, before a fork: its file is no longer changed, nor do peers see
 * what the program writes. Blocks stay where they are. All of it with the lock.
 */
#ifndef NIGH_MALLOC_OWN_H
#define NIGH_MALLOC_OWN_H

#include "hosts/malloc/space.h"

/* Tells peers, and puts mappings of the process's own in the place of shared ones, with the same contents and rights. False,
 * and errno: it could not. */
bool nigh_malloc_own_make(const struct nigh_malloc_space *space);

/* Gives back the memory of a block in such a region, or of one where the program has mapped other memory (`foreign`).
 * Without the lock. */
struct nigh_malloc_emptied nigh_malloc_own_empty(const struct nigh_malloc_space *space,
                                                 struct nigh_malloc_place place, uint32_t n, bool foreign);

#endif
