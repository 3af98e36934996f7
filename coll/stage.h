/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/stage.h - memory of a group in our arena for data on its way: blocks are taken and given back in the order of the
 * calls, so it is a circular buffer. Grows when it is empty. */
#ifndef NIGH_COLL_STAGE_H
#define NIGH_COLL_STAGE_H

#include "shm/arena.h"
#include "shm/heap.h"

struct nigh_stage {
    uint8_t *base; /* NULL: none yet */
    uint64_t bytes;
    uint64_t head, tail; /* bytes taken and given back, ever */
};

/*
 * A block of `bytes` (at least 1) on a line; *mark is what nigh_stage_give() takes to give it back with all before it.
 * -EAGAIN: blocks that were taken must be given back first; -ENOMEM: the heap is full (logged by it). Nothing changed then.
 */
int nigh_stage_take(struct nigh_stage *stage, struct nigh_heap *heap, uint64_t bytes, void **out,
                    uint64_t *mark);
void nigh_stage_give(struct nigh_stage *stage, uint64_t mark);
/* No peer reads it any more. */
void nigh_stage_free(struct nigh_stage *stage, struct nigh_heap *heap);

#endif
