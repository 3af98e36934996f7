/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/collective_sink.c - what a collective that has failed leaves behind: a receive without room from each other rank,
 * put up again after every message, until that rank's abort has come. A long message completes at its sender only when
 * somebody receives it; and what nobody receives would lie about for ever.
 *
 * Those of a communicator are a list through `owner`, beginning in comm->extra. A rank that had finished
 * the collective before it failed sends no abort: its sink goes when the next collective has begun
 * everywhere, or with the communicator.
 */
#include "lib/collective.h"
#include "lib/post.h"

#include <errno.h>

static void unlink_sink(struct nigh_operation *sink)
{
    struct nigh_operation *first = sink->comm->extra;

    if (first == sink) {
        sink->comm->extra = sink->owner;
        return;
    }
    while (first && first->owner != sink)
        first = first->owner;
    if (first)
        first->owner = sink->owner;
}

static void ended(struct nigh_operation *sink, const struct nigh_completion *completion)
{
    bool more =
        (completion->status == 0 || completion->status == -EMSGSIZE) && !nigh_coll_is_abort(completion->imm);

    if (more && nigh_operation_repost(sink) == 0)
        return;
    unlink_sink(sink);
    nigh_operation_give(sink);
}

static void take_back(struct nigh_comm *comm)
{
    for (struct nigh_operation *sink = comm->extra; sink; sink = sink->owner)
        (void)nigh_core.ops->cancel(nigh_core.context, (uintptr_t)sink);
}

void nigh_coll_unsink(struct nigh_comm *comm)
{
    take_back(comm);
}

/* With the library itself, after the plugin's context, they have gone already. */
static void forget(struct nigh_comm *comm)
{
    if (nigh_core.context)
        take_back(comm);
}

static void sink_one(const struct nigh_coll *coll, int rank)
{
    struct nigh_operation *sink = nigh_operation_new(coll->call, NIGH_KIND_RECV, coll->comm, rank, coll->tag,
                                                     NULL, 0, NIGH_OP_INTERNAL | NIGH_OP_RARE | NIGH_OP_HOOK);

    if (!sink)
        return;
    sink->ended = ended;
    /* Quietly: that a rank is gone has been said. */
    if (!coll->comm->endpoints[rank] || nigh_operation_repost(sink)) {
        nigh_operation_give(sink);
        return;
    }
    sink->owner = coll->comm->extra;
    coll->comm->extra = sink;
    coll->comm->forget = forget;
}

void nigh_coll_sink(const struct nigh_coll *coll)
{
    for (int rank = 0; rank < coll->size; rank++)
        if (rank != coll->me && rank != coll->told_by)
            sink_one(coll, rank);
}
