/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/op.h - records of operations that need more than a completion of nigh tells: vectors that go through
 * a copy, results that are not to be shown, kinds that nigh does not know apart. Most operations need none: nigh's
 * context is then the host's own. A record is told from a host's context by its address, which lies in a range of ours.
 */
#ifndef NIGH_LIBFABRIC_OP_H
#define NIGH_LIBFABRIC_OP_H

#include "hosts/libfabric/provider.h"

#define NIGH_FI_OPS_MAX 65536u /* records of a domain */

struct nigh_fi_mr;

struct nigh_fi_op {
    struct nigh_fi_op *next; /* in the free list */
    void *context;           /* the host's */
    uint64_t flags;          /* of the completion; 0: as nigh's completion says */
    bool hidden;             /* no completion in the queue unless it fails */
    bool mute;               /* not even then */
    bool live;
    bool event;            /* not an operation: what peers do to `mr` */
    bool scatter;          /* what comes goes on to `iov` */
    bool multi;            /* message by message */
    uint8_t devices;       /* bits: which of `iov` may lie on a device */
    uint8_t count;         /* of `iov` */
    struct nigh_fi_ep *ep; /* whose operation it is */
    struct nigh_fi_mr *mr; /* with `event`; NULL: it is closed */
    void *copy;            /* of malloc(), freed with the record: see stage.h */
    struct iovec iov[NIGH_FI_IOV];
};

/* The table's address space is reserved, its memory taken as used. -FI_ENOMEM. */
int nigh_fi_ops_create(struct nigh_fi_ops *ops);
void nigh_fi_ops_destroy(struct nigh_fi_ops *ops);

/* A record, all else zero; `ep` NULL: of no endpoint. NULL: too many are in use. */
struct nigh_fi_op *nigh_fi_op_take(struct nigh_fi_ops *ops, struct nigh_fi_ep *ep, void *context);
void nigh_fi_op_give(struct nigh_fi_ops *ops, struct nigh_fi_op *op);
/* Gives all that `ep` still has. Its context is closed: nothing completes any more. */
void nigh_fi_ops_leave(struct nigh_fi_ops *ops, const struct nigh_fi_ep *ep);

/* The first live record of a host's context behind `after`, NULL: in the table. NULL: none. */
struct nigh_fi_op *nigh_fi_op_find(struct nigh_fi_ops *ops, const void *context, struct nigh_fi_op *after);

/* Is `context` a record? */
static inline bool nigh_fi_op_is(const struct nigh_fi_ops *ops, uint64_t context)
{
    return context - (uintptr_t)ops->base < ops->span;
}

size_t nigh_fi_iov_bytes(const struct iovec *iov, size_t count);

#endif
