/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/block.c - what happens around the sleep of a call that blocks: it can be seen, by its own
 * process and by others. */
#include "lib/block.h"
#include "lib/error.h"
#include "lib/line.h"

#include <errno.h>

struct nigh_block *nigh_blocked;

/* Of NIGH_GUARD_BLOCKED. Apart from nigh_blocked, which may be over, and its stack gone, while another thread looks. */
static struct {
    struct nigh_call call;
    pthread_t thread;
} alone;

int nigh_block_alone(struct nigh_call call)
{
    if (!(nigh_core.guard & NIGH_GUARD_BLOCKED) || pthread_equal(alone.thread, pthread_self()))
        return 0;
    return nigh_fail(call, -EPERM,
                     "another thread of this rank is in %s%s: one thread at a time may call; for several set "
                     "NIGH_THREADS=multiple, or nigh_config.threads",
                     alone.call.name, nigh_where(alone.call.site).text);
}

void nigh_block_begin(struct nigh_block *block)
{
    block->look_every_ns = nigh_core.stall_ns;
    block->look_ns = nigh_core.stall_ns ? block->since_ns + nigh_core.stall_ns : UINT64_MAX;
    block->next = nigh_blocked;
    nigh_blocked = block;
    block->begun = true;
    if (!nigh_core.threads) {
        alone.call = block->call;
        alone.thread = pthread_self();
        nigh_core.guard |= NIGH_GUARD_BLOCKED;
    }
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
    /* With threads others read it outside of the lock. */
    if (!nigh_blocked && !nigh_core.threads)
        nigh_core.guard &= ~(uint32_t)NIGH_GUARD_BLOCKED;
}

static uint64_t serial_now(void)
{
    struct nigh_note note;

    return nigh_line_read(nigh_core.rank, &note) == 0 ? note.serial : 0;
}

/* Whoever is seen to be blocked posts nothing without saying so first; and there is no room before
 * something has moved. */
bool nigh_block_try(struct nigh_block *block, int (*post)(void *data))
{
    bool seen = block->begun && !(nigh_core.guard & NIGH_GUARD_THREADS);
    int rc;

    if (seen && block->tried == serial_now())
        return false;
    if (seen)
        nigh_line_run(block);
    rc = post(block->data);
    if (rc == -EAGAIN && seen) {
        nigh_line_block(block);
        block->tried = serial_now();
    }
    return rc != -EAGAIN;
}
