/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/shown.h - the table of readable heap regions that peers look at before they read. */
#ifndef NIGH_PLUGIN_SHOWN_H
#define NIGH_PLUGIN_SHOWN_H

#include "plugin/region.h"
#include "shm/arena.h"
#include "shm/heap.h"

/* Enters a region whose memory lies at `offset` of the arena. Where there is no memory for the table it is left out,
 * and peers ask for what they could have read: the heap has logged that it is full. */
void nigh_shown_add(struct nigh_arena *arena, struct nigh_heap *heap, struct nigh_region *region,
                    uint64_t offset);
/* Takes it out if it is there; its memory may be used for something else then. */
void nigh_shown_remove(struct nigh_arena *arena, struct nigh_region *region);
/* Does the owner of `view` show `key`, and do the bytes lie in it? Then *where is their offset in its arena. */
bool nigh_shown_find(const struct nigh_view *view, uint64_t key, uint64_t offset, uint64_t bytes,
                     uint64_t *where);
/* After a copy from there, and the fence LEAVE_HEAR: is it still shown? Else the copy may be of something else. */
bool nigh_shown_still(const struct nigh_view *view, uint64_t key);

#endif
