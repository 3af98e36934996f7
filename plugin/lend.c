/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/lend.c - heap memory handed over without a copy, and given back. */
#include "plugin/context.h"
#include <errno.h>
#include <stdlib.h>

int nigh_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op;
    uint64_t offset;
    int rc;

    if (nigh_check_size(lend, lend->size, sizeof(*lend)) || lend->reserved0 || lend->reserved ||
        lend->flags & ~NIGH_SILENT || lend->tclass >= NIGH_TCLASSES ||
        nigh_heap_find(context->heap, lend->buffer, lend->bytes, &offset))
        return -EINVAL;
    rc = nigh_send_check(endpoint);
    if (rc)
        return rc;
    op = nigh_send_create(context, NIGH_SEND_REFER, NIGH_OP_LEND);
    if (!op)
        return -ENOMEM;
    op->refer = NIGH_REFER_LEND;
    op->path = NIGH_PATH_LEND;
    op->bytes = lend->bytes;
    op->key = offset;
    op->tag = lend->tag;
    op->imm = lend->imm;
    op->context = lend->context;
    op->tclass = (uint8_t)lend->tclass;
    op->silent = lend->flags & NIGH_SILENT;
    op->held = lend->buffer;
    nigh_heap_hold(context->heap, lend->buffer);
    nigh_count_sent(context, NIGH_PATH_LEND, 1, lend->bytes);
    nigh_send_begin(endpoint, op);
    return 0;
}

int nigh_lend_release(struct nigh_context *context, void *data)
{
    struct nigh_lent lent;
    int rc = nigh_lents_take(&context->lents, data, &lent);

    if (rc)
        return rc;
    if (lent.id == NIGH_NO_ID) {
        free(data);
    } else {
        nigh_link_answer(lent.endpoint, NIGH_K_FINISH, 0, lent.id, 0, NULL, 0);
        lent.endpoint->pins--;
    }
    return 0;
}
