/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/multi.c - multi-receive buffers: one posted receive that takes message after message. It stays in the matcher
 * until what is left is less than its min_free, and is given back when the last message in it is complete. */
#include "plugin/context.h"
#include "plugin/receive.h"

/* Room in the buffer is given out in steps of this, so that every message begins aligned for its reader. */
#define MULTI_ALIGN 8u

static uint64_t used_after(const struct nigh_recv_op *op, uint64_t bytes)
{
    uint64_t room = op->bytes - op->used;

    return bytes > room || room - bytes < MULTI_ALIGN
               ? op->bytes
               : op->used + (bytes + MULTI_ALIGN - 1) / MULTI_ALIGN * MULTI_ALIGN;
}

static bool is_last(const struct nigh_recv_op *op, uint64_t bytes)
{
    return op->bytes - used_after(op, bytes) < op->min_free;
}

void nigh_multi_take(struct nigh_context *context, struct nigh_recv_op *op, uint64_t bytes)
{
    bool last = is_last(op, bytes);

    op->used = used_after(op, bytes);
    if (!last || op->retired)
        return;
    op->retired = true;
    nigh_match_withdraw(&context->matcher, &op->posted);
}

/* One message of the buffer is complete. The last one gives the buffer back, or what ended the receive does, behind it:
 * it kept its own room in the queue for that. */
void nigh_multi_complete(struct nigh_context *context, struct nigh_recv_op *op, struct nigh_completion *done)
{
    bool last = op->retired && !op->busy;

    if (last && !op->ended) {
        nigh_cq_unreserve(&context->cq, 1);
        done->flags |= NIGH_DONE_RELEASED;
    }
    nigh_complete(context, done);
    if (last && op->ended)
        nigh_recv_end(context, op, op->ended, op->from);
    else if (last)
        nigh_slab_give(&context->recv_ops, op);
}

static struct nigh_message *find(struct nigh_context *context, const struct nigh_recv_op *op, bool take)
{
    return (struct nigh_message *)(void *)nigh_match_find(
        &context->matcher, op->posted.source, op->posted.tclass, op->posted.tag, op->posted.ignore, take);
}

enum { USED_UP = 1 };

/* Messages that wait are taken by a multi-receive buffer until it or they are used up. It is in the matcher. USED_UP:
 * it may be gone. -ENOMEM: one waits, for which there is no room; left there, later ones would overtake it. */
static int feed(struct nigh_context *context, struct nigh_recv_op *op)
{
    bool last = false;

    while (!last) {
        struct nigh_message *message;

        if (nigh_cq_reserve(&context->cq, 1))
            return find(context, op, false) ? -ENOMEM : 0;
        message = find(context, op, true);
        if (!message) {
            nigh_cq_unreserve(&context->cq, 1);
            return 0;
        }
        /* The last one may free the operation. */
        last = is_last(op, message->total);
        nigh_recv_accept(message, op);
    }
    return USED_UP;
}

void nigh_multi_post(struct nigh_context *context, struct nigh_endpoint *from, struct nigh_recv_op *op)
{
    int error;

    nigh_match_post(&context->matcher, &op->posted);
    error = feed(context, op);
    if (error == USED_UP)
        return;
    if (!error)
        error = nigh_recv_cannot_wait(context, from);
    if (!error)
        return;
    nigh_match_withdraw(&context->matcher, &op->posted);
    nigh_recv_cancel(context, op, error, from);
}
