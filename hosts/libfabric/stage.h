/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/stage.h - where bytes wait that cannot go straight between nigh and the host's memory: vectors, which
 * nigh takes in one piece, and device memory, which the CPU cannot touch.
 *
 *     send     parts -> copy -> nigh        the copy is free when the send completes
 *     receive  nigh -> copy -> parts        nigh's own memory or the sender's, where the message is for a device
 *
 * Long copies for devices lie in nigh's heap, where peers read them in place, bounded by the heap (NIGH_HEAP). Short
 * ones do not: what lies in the heap waits for its receiver, and hosts expect of short messages that they do
 * not, unless many of them wait there (plugin/crammed.h).
 *
 * The first NIGH_FI_PINNED_BYTES of blocks are pinned for the device and stay so until the endpoint closes: to let go
 * of pinned memory the driver waits for all kernels of the host's, and one may be waiting for a message. Of the others
 * those that are not in use are kept, up to NIGH_FI_IDLE_BYTES.
 */
#ifndef NIGH_LIBFABRIC_STAGE_H
#define NIGH_LIBFABRIC_STAGE_H

#include "hosts/libfabric/device.h"
#include "hosts/libfabric/op.h"

#define NIGH_FI_PINNED_BYTES (UINT64_C(256) << 20)
#define NIGH_FI_IDLE_BYTES   (UINT64_C(64) << 20)
#define NIGH_FI_BLOCK_LEAST  (UINT64_C(128) << 10)

/* Staging memory of an endpoint, for one copy. */
struct nigh_fi_block {
    struct nigh_fi_block *next, *next_idle;
    struct nigh_fi_ep *ep;
    struct nigh_fi_device *pinned_by; /* NULL: it is not */
    void *memory;
    uint64_t bytes;
    bool idle;
};

/* The parts of a message as a host gave them. */
struct nigh_fi_parts {
    const struct iovec *iov;
    size_t count;
    bool on_device; /* any is */
    struct nigh_fi_device *on[NIGH_FI_IOV];
};

/* Where each part lies: by its descriptor, or for endpoints that must find out by asking the driver. -FI_EIO. */
int nigh_fi_parts_find(struct nigh_fi_ep *ep, const struct iovec *iov, void *const *desc, size_t count,
                       struct nigh_fi_parts *out);

/* Memory for a copy of `parts` at op->copy, freed with the record. -FI_EAGAIN: when others complete;
 * -FI_ENOMEM: more than the heap is. */
int nigh_fi_copy_room(struct nigh_fi_ep *ep, struct nigh_fi_op *op, const struct nigh_fi_parts *parts,
                      size_t bytes);

/* What goes to op->copy is for `parts` when it is there. */
void nigh_fi_copy_for(struct nigh_fi_op *op, const struct nigh_fi_parts *parts);

bool nigh_fi_copy_is_pinned(const struct nigh_fi_op *op);

/* Together, and apart; `pinned`: `to` is. -FI_EIO. */
int nigh_fi_gather(void *to, const struct nigh_fi_parts *parts, bool pinned);
int nigh_fi_scatter(const struct nigh_fi_op *op, const void *from, size_t bytes);

/* The buffer of a receive, its size and flags: the parts themselves, or a copy that `op` holds. */
int nigh_fi_recv_place(struct nigh_fi_ep *ep, struct nigh_fi_op *op, const struct nigh_fi_parts *parts,
                       struct nigh_recv *recv);

void nigh_fi_block_put(struct nigh_fi_block *block);
/* Before its context is closed: the driver must let go of the memory. */
void nigh_fi_blocks_close(struct nigh_fi_ep *ep);

#endif
