/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/block.c - what happens around the sleep of a call that blocks: it can be seen, by its own process and by others. */
#include "lib/block.h"
#include "lib/line.h"

struct nigh_block *nigh_blocked;

void nigh_block_begin(struct nigh_block *block)
{
    block->look_every_ns = nigh_core.stall_ns;
    block->look_ns = nigh_core.stall_ns ? block->since_ns + nigh_core.stall_ns : UINT64_MAX;
    block->next = nigh_blocked;
    nigh_blocked = block;
    block->begun = true;
    nigh_line_block(block);
}

void nigh_block_end(struct nigh_block *block)
{
    struct nigh_block **link = &nigh_blocked;

    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (nigh_blocked)
        nigh_line_block(nigh_blocked);
    else
        nigh_line_run(block);
}
