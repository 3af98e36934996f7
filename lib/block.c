/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/block.c - what happens around the sleep of a call that blocks: it can be seen, and it looks up now and then. */
#include "lib/block.h"

struct nigh_block *nigh_blocked;

void nigh_block_begin(struct nigh_block *block)
{
    block->look_ns = nigh_core.stall_ns ? block->since_ns + nigh_core.stall_ns : UINT64_MAX;
    block->next = nigh_blocked;
    nigh_blocked = block;
}

void nigh_block_end(struct nigh_block *block)
{
    struct nigh_block **link = &nigh_blocked;

    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
}

int nigh_block_look(struct nigh_block *block, uint64_t now_ns)
{
    (void)now_ns;
    block->look_ns = UINT64_MAX;
    return 0;
}
