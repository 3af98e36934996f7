/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/post.c - sends and receives that are not of the common kind: vectors, flags, results that are counted
 * but not shown. */
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/op.h"

#include <stdlib.h>

/* ---- sends --------------------------------------------------------------------------------------------- */

/* Nothing is shown of it unless it fails. */
static bool is_hidden(bool selective, uint64_t flags)
{
    return selective && !(flags & FI_COMPLETION);
}

static ssize_t post_send(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, struct nigh_send *send)
{
    int rc;
    struct nigh_endpoint *peer = nigh_fi_peer_or(ep, what->peer, &rc);

    return peer ? ep->nigh->post_send(peer, send) : rc;
}

/* A vector is copied together; small ones need no memory that outlives the call. */
static ssize_t send_vector(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                           size_t count, struct nigh_send *send, struct nigh_fi_op *op)
{
    char small[NIGH_INJECT_BYTES];
    ssize_t rc;

    if (send->bytes <= sizeof(small)) {
        nigh_fi_gather(small, iov, count);
        send->buffer = small;
        send->flags |= NIGH_INJECT;
        return post_send(ep, what, send);
    }
    op->bounce = malloc(send->bytes);
    if (!op->bounce)
        return -FI_EAGAIN;
    nigh_fi_gather(op->bounce, iov, count);
    send->buffer = op->bounce;
    send->flags &= ~NIGH_SILENT; /* the copy is freed when it completes */
    rc = post_send(ep, what, send);
    return rc;
}

static ssize_t send_locked(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                           size_t count, uint64_t flags)
{
    bool hidden = what->bare || is_hidden(ep->tx_selective, flags) || !ep->tx_cq;
    uint64_t bytes = nigh_fi_iov_bytes(iov, count);
    bool big = count > 1 && bytes > NIGH_INJECT_BYTES, recorded = big || (hidden && ep->tx_counted);
    struct nigh_fi_op *op = recorded ? nigh_fi_op_take(&ep->domain->ops, what->context) : NULL;
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = (hidden && !recorded ? NIGH_SILENT : 0) | (flags & FI_MATCH_COMPLETE ? NIGH_SYNC : 0) |
                 (flags & FI_INJECT ? NIGH_INJECT : 0),
        .buffer = count == 1 ? iov->iov_base : NULL,
        .bytes = bytes,
        .tag = what->tag,
        .imm = what->imm,
        .context = op ? (uintptr_t)op : (uintptr_t)what->context,
        .tclass = what->tclass,
    };
    ssize_t rc;

    if (recorded && !op)
        return -FI_EAGAIN;
    if (op)
        op->hidden = hidden;
    rc = count > 1 ? send_vector(ep, what, iov, count, &send, op) : post_send(ep, what, &send);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

ssize_t nigh_fi_send_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags)
{
    ssize_t rc;

    if (count > NIGH_FI_IOV)
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    rc = send_locked(ep, what, iov, count, flags);
    nigh_fi_unlock(ep->domain);
    return rc;
}

/* ---- receives ------------------------------------------------------------------------------------------ */

static ssize_t recv_locked(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                           size_t count, uint64_t flags)
{
    bool hidden = is_hidden(ep->rx_selective, flags), multi = flags & FI_MULTI_RECV;
    struct nigh_fi_op *op = NULL;
    struct nigh_endpoint *from;
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .flags = multi ? NIGH_MULTI : 0,
        .buffer = count ? iov->iov_base : NULL,
        .bytes = nigh_fi_iov_bytes(iov, count),
        .tag = what->tag,
        .ignore = what->ignore,
        .context = (uintptr_t)what->context,
        .tclass = what->tclass,
        .min_free = multi ? (uint32_t)ep->min_multi : 0,
    };
    ssize_t rc = nigh_fi_from(ep, what->peer, &from);

    if (rc)
        return rc;
    if (multi && (hidden || count != 1))
        return -FI_EINVAL;
    if (hidden || count > 1) {
        op = nigh_fi_op_take(&ep->domain->ops, what->context);
        if (!op)
            return -FI_EAGAIN;
        op->hidden = hidden;
        recv.context = (uintptr_t)op;
    }
    if (count > 1) {
        recv.buffer = op->bounce = malloc(recv.bytes ? recv.bytes : 1);
        op->scatter = true;
        op->count = (uint8_t)count;
        for (size_t i = 0; i < count; i++)
            op->iov[i] = iov[i];
    }
    rc = count > 1 && !op->bounce ? -FI_EAGAIN : ep->nigh->post_recv(ep->context, from, &recv);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

ssize_t nigh_fi_recv_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags)
{
    ssize_t rc;

    if (count > NIGH_FI_IOV)
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    rc = recv_locked(ep, what, iov, count, flags);
    nigh_fi_unlock(ep->domain);
    return rc;
}
