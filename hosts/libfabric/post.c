/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/post.c - sends and receives that are not of the common kind: vectors, flags, results that are counted
 * but not shown. */
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/stage.h"

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

/* What nigh cannot take as it lies is copied together; a little of it needs no memory that outlives the call. */
static ssize_t send_copy(struct nigh_fi_ep *ep, const struct nigh_fi_what *what,
                         const struct nigh_fi_parts *parts, struct nigh_send *send, struct nigh_fi_op *op)
{
    char small[NIGH_INJECT_BYTES];
    int rc;

    if (send->bytes <= sizeof(small)) {
        rc = nigh_fi_gather(ep, small, parts);
        send->buffer = small;
        send->flags |= NIGH_INJECT;
        return rc ? rc : post_send(ep, what, send);
    }
    if (send->flags & NIGH_INJECT)
        return -FI_EMSGSIZE;
    rc = nigh_fi_copy_room(op, send->bytes);
    if (!rc)
        rc = nigh_fi_gather(ep, op->copy, parts);
    if (rc)
        return rc;
    send->buffer = op->copy;
    send->flags &= ~NIGH_SILENT; /* the copy is freed when it completes */
    return post_send(ep, what, send);
}

static ssize_t send_locked(struct nigh_fi_ep *ep, const struct nigh_fi_what *what,
                           const struct nigh_fi_parts *parts, uint64_t flags)
{
    bool hidden = what->bare || is_hidden(ep->tx_selective, flags) || !ep->tx_cq;
    uint64_t bytes = nigh_fi_iov_bytes(parts->iov, parts->count);
    bool copied = parts->count > 1;
    bool recorded = (copied && bytes > NIGH_INJECT_BYTES) || (hidden && ep->tx_counted);
    struct nigh_fi_op *op = recorded ? nigh_fi_op_take(&ep->domain->ops, ep, what->context) : NULL;
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = (hidden && !recorded ? NIGH_SILENT : 0) | (flags & FI_MATCH_COMPLETE ? NIGH_SYNC : 0) |
                 (flags & FI_INJECT ? NIGH_INJECT : 0) | NIGH_MAY_WAIT |
                 (!copied && parts->devices ? NIGH_DEVICE : 0),
        .buffer = parts->count == 1 ? parts->iov->iov_base : NULL,
        .bytes = bytes,
        .tag = what->tag,
        .imm = what->imm,
        .context = op ? (uintptr_t)op : (uintptr_t)what->context,
        .tclass = what->tclass,
        .region = parts->region,
    };
    ssize_t rc;

    if (recorded && !op)
        return -FI_EAGAIN;
    if (op)
        op->hidden = hidden;
    rc = copied ? send_copy(ep, what, parts, &send, op) : post_send(ep, what, &send);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

ssize_t nigh_fi_send_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags)
{
    struct nigh_fi_parts parts;
    ssize_t rc;

    if (count > NIGH_FI_IOV)
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    nigh_fi_parts_find(ep, iov, what->desc, count, &parts);
    rc = send_locked(ep, what, &parts, flags);
    nigh_fi_unlock(ep->domain);
    return nigh_fi_refusal((int)rc);
}

ssize_t nigh_fi_send_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const void *buf,
                            size_t len)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = ep->send_flags | NIGH_MAY_WAIT,
        .buffer = nigh_fi_place(buf, len),
        .bytes = len,
        .tag = what->tag,
        .imm = what->imm,
        .context = (uintptr_t)what->context,
        .tclass = what->tclass,
    };
    ssize_t rc;

    if (ep->tx_record && !(ep->tx_by_desc && !*what->desc))
        return nigh_fi_send_any(ep, what, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, ep->tx_op_flags);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    rc = post_send(ep, what, &send);
    nigh_fi_unlock(ep->domain);
    return rc;
}

ssize_t nigh_fi_inject_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const void *buf,
                              size_t len)
{
    struct nigh_endpoint *peer;
    int rc;

    if (len > NIGH_INJECT_BYTES)
        return -FI_EMSGSIZE;
    if (ep->inject_record)
        return nigh_fi_send_any(ep, what, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, FI_INJECT);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    peer = nigh_fi_peer_or(ep, what->peer, &rc);
    if (peer)
        rc = ep->nigh->inject_imm(peer, nigh_fi_place(buf, len), NIGH_SHAPE(len, what->tclass), what->tag,
                                  what->imm);
    nigh_fi_unlock(ep->domain);
    return rc;
}

/* ---- receives ------------------------------------------------------------------------------------------ */

static ssize_t recv_locked(struct nigh_fi_ep *ep, const struct nigh_fi_what *what,
                           const struct nigh_fi_parts *parts, uint64_t flags)
{
    bool hidden = is_hidden(ep->rx_selective, flags), multi = flags & FI_MULTI_RECV, copied;
    struct nigh_fi_op *op = NULL;
    struct nigh_endpoint *from;
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .flags = multi ? NIGH_MULTI : 0,
        .tag = what->tag,
        .ignore = what->ignore,
        .context = (uintptr_t)what->context,
        .tclass = what->tclass,
        .min_free = multi ? (uint32_t)ep->min_multi : 0,
    };
    ssize_t rc = nigh_fi_from(ep, what->peer, &from);

    if (rc)
        return rc;
    if (multi && (hidden || parts->count != 1))
        return -FI_EINVAL;
    rc = nigh_fi_recv_is_copied(ep, parts, multi, &copied);
    if (rc)
        return rc;
    if (hidden || copied) {
        op = nigh_fi_op_take(&ep->domain->ops, ep, what->context);
        if (!op)
            return -FI_EAGAIN;
        op->hidden = hidden;
        recv.context = (uintptr_t)op;
    }
    rc = nigh_fi_recv_place(op, parts, copied, &recv);
    if (!rc)
        rc = ep->nigh->post_recv(ep->context, from, &recv);
    if (rc && op)
        nigh_fi_op_give(&ep->domain->ops, op);
    return rc;
}

ssize_t nigh_fi_recv_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags)
{
    struct nigh_fi_parts parts;
    ssize_t rc;

    if (count > NIGH_FI_IOV)
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    nigh_fi_parts_find(ep, iov, what->desc, count, &parts);
    rc = recv_locked(ep, what, &parts, flags);
    nigh_fi_unlock(ep->domain);
    return nigh_fi_refusal((int)rc);
}

ssize_t nigh_fi_recv_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, void *buf, size_t len)
{
    struct nigh_endpoint *from;
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = nigh_fi_place(buf, len),
        .bytes = len,
        .tag = what->tag,
        .ignore = what->ignore,
        .context = (uintptr_t)what->context,
        .tclass = what->tclass,
    };
    int rc;

    if (ep->rx_record && !(ep->rx_by_desc && !*what->desc))
        return nigh_fi_recv_any(ep, what, &(struct iovec){buf, len}, 1, ep->rx_op_flags);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    rc = nigh_fi_from(ep, what->peer, &from);
    if (!rc)
        rc = ep->nigh->post_recv(ep->context, from, &recv);
    nigh_fi_unlock(ep->domain);
    return rc;
}
