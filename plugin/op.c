/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/op.c - an operation to be filled in: apart from send.c because lends and remote memory begin with one too. */
#include "plugin/context.h"

struct nigh_send_op *nigh_send_claim(struct nigh_context *context)
{
    struct nigh_send_op *op;

    if (nigh_cq_reserve(&context->cq, 1))
        return NULL;
    op = nigh_slab_take(&context->send_ops);
    if (!op)
        nigh_cq_unreserve(&context->cq, 1);
    return op;
}

void nigh_send_clear(struct nigh_send_op *op, enum nigh_send_kind kind, enum nigh_op what)
{
    nigh_slab_zero(op, sizeof(*op));
    op->kind = (uint8_t)kind;
    op->op = (uint16_t)what;
    op->id = NIGH_NO_ID;
}

struct nigh_send_op *nigh_send_create(struct nigh_context *context, enum nigh_send_kind kind,
                                      enum nigh_op what)
{
    struct nigh_send_op *op = nigh_send_claim(context);

    if (op)
        nigh_send_clear(op, kind, what);
    return op;
}
