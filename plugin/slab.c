/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/slab.c - what is rare about slabs: create, grow, destroy. */
#include "plugin/slab.h"

#include "shm/os.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { LINE = 64, COUNT_MIN = 16, GROW_MAX = 1024 };

/* Heads a block of objects, which begin on the next line behind it. */
struct nigh_slab_block {
    struct nigh_slab_block *next;
    size_t bytes; /* of the whole block */
};
static_assert(sizeof(struct nigh_slab_block) <= LINE, "a line and its rounding are set aside for it");

static int add_block(struct nigh_slab *slab, uint32_t count)
{
    struct nigh_slab_block *block;
    size_t bytes;
    char *first;

    if (count > (SIZE_MAX - 2 * LINE) / slab->bytes || count > UINT32_MAX - slab->total)
        return -ENOMEM;
    bytes = 2 * LINE + count * slab->bytes;
    block = nigh_os.calloc(1, bytes);
    if (block == NULL)
        return -ENOMEM;
    first = (char *)(((uintptr_t)block + sizeof(*block) + LINE - 1) & ~(uintptr_t)(LINE - 1));
    block->next = slab->blocks;
    block->bytes = bytes;
    slab->blocks = block;
    slab->total += count;
    for (uint32_t i = count; i-- > 0;) {
        struct nigh_slab_free *object = (void *)(first + i * slab->bytes);

        object->next = slab->free;
        slab->free = object;
        NIGH_SLAB_HIDE(object, slab->bytes);
    }
    return 0;
}

int nigh_slab_create(struct nigh_slab *slab, size_t bytes, uint32_t count)
{
    struct nigh_slab fresh = {0};
    int rc;

    if (bytes > SIZE_MAX - LINE)
        return -ENOMEM;
    fresh.bytes = bytes < LINE ? LINE : (bytes + LINE - 1) / LINE * LINE;
    rc = add_block(&fresh, count < COUNT_MIN ? COUNT_MIN : count);
    if (rc == 0)
        *slab = fresh;
    return rc;
}

void nigh_slab_destroy(struct nigh_slab *slab)
{
    while (slab->blocks != NULL) {
        struct nigh_slab_block *block = slab->blocks;

        slab->blocks = block->next;
        NIGH_SLAB_SHOW(block, block->bytes);
        free(block);
    }
    *slab = (struct nigh_slab){0};
}

int nigh_slab_grow(struct nigh_slab *slab)
{
    uint32_t count = slab->total < GROW_MAX ? slab->total : GROW_MAX;

    for (; count >= COUNT_MIN; count /= 2) {
        if (add_block(slab, count) == 0)
            return 0;
    }
    return -ENOMEM;
}

int nigh_slab_reserve(struct nigh_slab *slab, uint32_t count)
{
    uint32_t free_now = slab->total - slab->used, missing;

    if (count <= free_now)
        return 0;
    missing = count - free_now;
    return add_block(slab, missing < COUNT_MIN ? COUNT_MIN : missing);
}
