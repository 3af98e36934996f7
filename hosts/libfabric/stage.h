/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/stage.h - the parts of an operation, and copies of several in one piece, which nigh takes. One part goes
 * to nigh as it is, on a device with NIGH_DEVICE. Copied are
 *
 *     vectors          together before they are sent, apart when they have come
 *     multi-receives   for a device, message by message
 *     injected writes, and operands and results of atomics on a device
 */
#ifndef NIGH_LIBFABRIC_STAGE_H
#define NIGH_LIBFABRIC_STAGE_H

#include "hosts/libfabric/op.h"

/* The parts of a message as a host gave them. */
struct nigh_fi_parts {
    const struct iovec *iov;
    size_t count;
    uint8_t devices;            /* bits: which may lie on a device */
    struct nigh_region *region; /* of the only one, if it was registered and may lie on a device */
};

/* Which may lie on a device: those whose descriptor says so, and for endpoints that must find out all without one. */
void nigh_fi_parts_find(struct nigh_fi_ep *ep, const struct iovec *iov, void *const *desc, size_t count,
                        struct nigh_fi_parts *out);

/* Memory for a copy at op->copy, freed with the record. -FI_EAGAIN. */
int nigh_fi_copy_room(struct nigh_fi_op *op, size_t bytes);

/* What goes to op->copy is for `parts` when it is there. */
void nigh_fi_copy_for(struct nigh_fi_op *op, const struct nigh_fi_parts *parts);

/* Together, and apart. -FI_EIO, and errors of nigh's copy_device(). */
int nigh_fi_gather(struct nigh_fi_ep *ep, void *to, const struct nigh_fi_parts *parts);
int nigh_fi_scatter(struct nigh_fi_ep *ep, const struct nigh_fi_op *op, const void *from, size_t bytes);

/* Does a receive of these parts need a record with a copy? -FI_EIO. */
int nigh_fi_recv_is_copied(struct nigh_fi_ep *ep, const struct nigh_fi_parts *parts, bool multi,
                           bool *copied);
/* The buffer of a receive, its size and flags: the part itself, or a copy that `op` holds. */
int nigh_fi_recv_place(struct nigh_fi_op *op, const struct nigh_fi_parts *parts, bool copied,
                       struct nigh_recv *recv);

/* What nigh refuses of device memory, in libfabric's codes. */
int nigh_fi_refusal(int rc);

#endif
