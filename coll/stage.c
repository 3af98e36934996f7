/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/stage.c - see stage.h. */
#include "coll/stage.h"

#include <errno.h>

#define FIRST_BYTES (64u * 1024)

static uint64_t in_lines(uint64_t bytes)
{
    return (bytes + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE;
}

/* Four times what is asked for, so that calls overlap. */
static int grow(struct nigh_stage *stage, struct nigh_heap *heap, uint64_t bytes)
{
    uint64_t wanted = FIRST_BYTES;
    void *memory;
    int rc;

    while (wanted < 4 * bytes)
        wanted *= 2;
    rc = nigh_heap_alloc(heap, wanted, &memory);
    if (rc)
        return rc;
    nigh_stage_free(stage, heap);
    *stage = (struct nigh_stage){.base = memory, .bytes = wanted};
    return 0;
}

int nigh_stage_take(struct nigh_stage *stage, struct nigh_heap *heap, uint64_t bytes, void **out,
                    uint64_t *mark)
{
    uint64_t at, skipped;

    bytes = in_lines(bytes);
    if (stage->bytes < bytes) {
        int rc = stage->head == stage->tail ? grow(stage, heap, bytes) : -EAGAIN;

        if (rc)
            return rc;
    }
    at = stage->head % stage->bytes;
    skipped = stage->bytes - at < bytes ? stage->bytes - at : 0; /* a block does not go around the end */
    if (stage->head + skipped + bytes - stage->tail > stage->bytes) {
        if (stage->head != stage->tail)
            return -EAGAIN;
        stage->head = stage->tail = 0;
        at = skipped = 0;
    }
    *out = stage->base + (skipped ? 0 : at);
    stage->head += skipped + bytes;
    *mark = stage->head;
    return 0;
}

void nigh_stage_give(struct nigh_stage *stage, uint64_t mark)
{
    stage->tail = mark;
}

void nigh_stage_free(struct nigh_stage *stage, struct nigh_heap *heap)
{
    if (stage->base)
        nigh_heap_free(heap, stage->base);
    *stage = (struct nigh_stage){.base = NULL};
}
