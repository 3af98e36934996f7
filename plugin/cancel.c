/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/cancel.c - taking back what was posted and has not begun. */
#include "plugin/context.h"
#include "plugin/receive.h"
#include "plugin/send.h"
#include <errno.h>

static bool has_context(const struct nigh_posted *posted, void *data)
{
    return nigh_recv_op_of(posted)->context == *(uint64_t *)data;
}

static bool cancel_send(struct nigh_endpoint *endpoint, uint64_t op_context)
{
    struct nigh_send_op **link = &endpoint->queue.head, *op;

    for (; (op = *link) != NULL; link = &op->next) {
        if (!op->op || op->published || op->context != op_context)
            continue;
        nigh_queue_take(&endpoint->queue, link);
        nigh_send_complete(endpoint, op, -ECANCELED, 0);
        return true;
    }
    return false;
}

int nigh_cancel_unmatched(struct nigh_context *context, uint64_t op_context)
{
    struct nigh_posted *posted = nigh_match_oldest(&context->matcher, has_context, &op_context);

    if (posted) {
        nigh_match_withdraw(&context->matcher, posted);
        nigh_recv_cancel(context, nigh_recv_op_of(posted), -ECANCELED, NULL);
        return 0;
    }
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (cancel_send(endpoint, op_context))
            return 0;
    return -ENOENT;
}

int nigh_cancel(struct nigh_context *context, uint64_t op_context)
{
    return nigh_cancel_unmatched(context, op_context);
}
