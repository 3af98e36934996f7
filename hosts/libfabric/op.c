/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/op.c - see op.h. */
#include "hosts/libfabric/op.h"

#include <stdlib.h>
#include <sys/mman.h>

int nigh_fi_ops_create(struct nigh_fi_ops *ops)
{
    size_t span = NIGH_FI_OPS_MAX * sizeof(struct nigh_fi_op);
    void *base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        return -FI_ENOMEM;
    *ops = (struct nigh_fi_ops){.base = base, .span = span};
    return 0;
}

void nigh_fi_ops_destroy(struct nigh_fi_ops *ops)
{
    munmap(ops->base, ops->span);
}

struct nigh_fi_op *nigh_fi_op_take(struct nigh_fi_ops *ops, struct nigh_fi_ep *ep, void *context)
{
    struct nigh_fi_op *op = ops->free;

    if (op) {
        ops->free = op->next;
    } else if (ops->used < ops->span) {
        op = (void *)(ops->base + ops->used);
        ops->used += sizeof(*op);
    } else {
        return NULL;
    }
    *op = (struct nigh_fi_op){.context = context, .live = true, .ep = ep};
    ops->live++;
    return op;
}

void nigh_fi_op_give(struct nigh_fi_ops *ops, struct nigh_fi_op *op)
{
    free(op->copy);
    op->copy = NULL;
    op->live = false;
    ops->live--;
    op->next = ops->free;
    ops->free = op;
}

void nigh_fi_ops_leave(struct nigh_fi_ops *ops, const struct nigh_fi_ep *ep)
{
    for (size_t at = 0; at < ops->used; at += sizeof(struct nigh_fi_op)) {
        struct nigh_fi_op *op = (void *)(ops->base + at);

        if (op->live && op->ep == ep)
            nigh_fi_op_give(ops, op);
    }
}

struct nigh_fi_op *nigh_fi_op_find(struct nigh_fi_ops *ops, const void *context, struct nigh_fi_op *after)
{
    size_t at = after ? (size_t)((char *)after - ops->base) + sizeof(*after) : 0;

    for (; at < ops->used; at += sizeof(struct nigh_fi_op)) {
        struct nigh_fi_op *op = (void *)(ops->base + at);

        if (op->live && op->context == context)
            return op;
    }
    return NULL;
}

size_t nigh_fi_iov_bytes(const struct iovec *iov, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}
