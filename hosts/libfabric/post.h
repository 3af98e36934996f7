/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/post.h - sends and receives, for the tagged and the untagged interface alike: they differ in nigh's
 * traffic class and nothing else. The common call is inline down to nigh's table.
 */
#ifndef NIGH_LIBFABRIC_POST_H
#define NIGH_LIBFABRIC_POST_H

#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/provider.h"

/* A message without its memory. */
struct nigh_fi_what {
    fi_addr_t peer;
    uint64_t tag, ignore; /* receives: bits not compared */
    uint64_t imm;
    void *context;
    void *const *desc; /* of the memory, one a part; or NULL */
    uint32_t tclass;
    bool bare; /* fi_inject() and its kin: nobody hears of it unless it fails */
};

/* Any send or receive: vectors, all flags, counted or hidden. `flags` are libfabric's, whole: FI_COMPLETION included. */
ssize_t nigh_fi_send_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags);
ssize_t nigh_fi_recv_any(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                         size_t count, uint64_t flags);

/* FI_PEEK, FI_CLAIM and FI_DISCARD. */
ssize_t nigh_fi_peek(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, uint64_t flags);
ssize_t nigh_fi_claim(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                      size_t count, uint64_t flags);

/* Forgets what is claimed: nigh drops the messages with its context. */
void nigh_fi_claimed_free(struct nigh_fi_ep *ep);

static inline uint64_t nigh_fi_imm(uint64_t data)
{
    return (data & NIGH_FI_DATA) | NIGH_FI_WITH_DATA;
}

/* What MPIs send in barriers is no bytes from nowhere; nigh's short way wants an address. */
static inline void *nigh_fi_place(const void *buf, size_t len)
{
    static char nowhere;

    return buf || len ? (void *)(uintptr_t)buf : &nowhere;
}

/* A send of one buffer with the endpoint's own flags. what->desc is not NULL, what it points to may be. */
static inline ssize_t nigh_fi_send_one(struct fid_ep *fid, const void *buf, size_t len,
                                       const struct nigh_fi_what *what)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_endpoint *peer;
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = ep->send_flags,
        .buffer = nigh_fi_place(buf, len),
        .bytes = len,
        .tag = what->tag,
        .imm = what->imm,
        .context = (uintptr_t)what->context,
        .tclass = what->tclass,
    };
    int rc;

    if (NIGH_FI_UNLIKELY(ep->tx_record) && !(ep->tx_by_desc && !*what->desc))
        return nigh_fi_send_any(ep, what, &(struct iovec){(void *)(uintptr_t)buf, len}, 1, ep->tx_op_flags);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    peer = nigh_fi_peer_or(ep, what->peer, &rc);
    if (NIGH_FI_LIKELY(peer != NULL))
        rc = ep->nigh->post_send(peer, &send);
    nigh_fi_unlock(ep->domain);
    return rc;
}

/* A send whose buffer is free on return, and that nobody hears of unless it fails. */
static inline ssize_t nigh_fi_inject_one(struct fid_ep *fid, const void *buf, size_t len,
                                         const struct nigh_fi_what *what)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_endpoint *peer;
    int rc;

    if (NIGH_FI_UNLIKELY(len > NIGH_INJECT_BYTES))
        return -FI_EMSGSIZE;
    if (NIGH_FI_UNLIKELY(ep->inject_record))
        return nigh_fi_send_any(
            ep,
            &(struct nigh_fi_what){
                .peer = what->peer, .tag = what->tag, .imm = what->imm, .tclass = what->tclass, .bare = true},
            &(struct iovec){(void *)(uintptr_t)buf, len}, 1, FI_INJECT);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    peer = nigh_fi_peer_or(ep, what->peer, &rc);
    if (NIGH_FI_LIKELY(peer != NULL))
        rc = ep->nigh->inject_imm(peer, nigh_fi_place(buf, len), NIGH_SHAPE(len, what->tclass), what->tag,
                                  what->imm);
    nigh_fi_unlock(ep->domain);
    return rc;
}

/* Whom a receive is from: *from, NULL for anyone. */
static inline int nigh_fi_from(struct nigh_fi_ep *ep, fi_addr_t address, struct nigh_endpoint **from)
{
    int rc = 0;

    *from = NULL;
    if (NIGH_FI_UNLIKELY(!ep->context))
        return -FI_EOPBADSTATE;
    if (ep->directed && address != FI_ADDR_UNSPEC)
        *from = nigh_fi_peer_or(ep, address, &rc);
    return *from ? 0 : rc;
}

static inline ssize_t nigh_fi_recv_one(struct fid_ep *fid, void *buf, size_t len,
                                       const struct nigh_fi_what *what)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
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

    if (NIGH_FI_UNLIKELY(ep->rx_record) && !(ep->rx_by_desc && !*what->desc))
        return nigh_fi_recv_any(ep, what, &(struct iovec){buf, len}, 1, ep->rx_op_flags);
    nigh_fi_lock(ep->domain);
    nigh_fi_posted(ep);
    rc = nigh_fi_from(ep, what->peer, &from);
    if (NIGH_FI_LIKELY(!rc))
        rc = ep->nigh->post_recv(ep->context, from, &recv);
    nigh_fi_unlock(ep->domain);
    return rc;
}

#endif
