/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/post.h - sends and receives, for the tagged and the untagged interface alike: they differ in nigh's
 * traffic class and nothing else. The common call is inline down to nigh's table.
 */
#ifndef NIGH_LIBFABRIC_POST_H
#define NIGH_LIBFABRIC_POST_H

#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/provider.h"

/* What is handed to nigh in registers, most often: it may be injected. */
#define NIGH_FI_SHORT NIGH_INJECT_BYTES

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

/* Any send or receive: vectors, all flags, counted or hidden. `flags` are libfabric's, whole:
 * FI_COMPLETION included. */
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

/* Calls that carry no flags, in whatever shape the endpoint and its buffers are. what->desc is not
 * NULL, what it points to may be. */
ssize_t nigh_fi_send_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const void *buf,
                            size_t len);
ssize_t nigh_fi_recv_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, void *buf, size_t len);
ssize_t nigh_fi_inject_slowly(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const void *buf,
                              size_t len);

/*
 * The short way of all three: nothing odd about the endpoint, as a lock is (enable.c), nobody to wake, a peer that has
 * been talked to. Then a call is one of nigh's with everything in registers: a record of the message, stored to be read
 * again in the same call, was a third of its instructions. NULL: it must go slowly.
 */
static inline struct nigh_endpoint *nigh_fi_peer_now(const struct nigh_fi_ep *ep, uint32_t odd,
                                                     const void *desc, fi_addr_t address)
{
    if (NIGH_FI_UNLIKELY(odd) && (odd & NIGH_FI_ODD || desc))
        return NULL;
    if (NIGH_FI_UNLIKELY(ep->domain->pending || address >= ep->peer_count))
        return NULL;
    return ep->peers[address];
}

/* A send of one buffer with the endpoint's own flags. */
static inline ssize_t nigh_fi_send_one(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                                       fi_addr_t dest, uint64_t tag, uint64_t imm, void *context,
                                       uint32_t tclass)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_endpoint *peer =
        NIGH_FI_LIKELY(len <= NIGH_FI_SHORT) ? nigh_fi_peer_now(ep, ep->tx_odd, desc, dest) : NULL;

    if (NIGH_FI_UNLIKELY(!peer))
        return nigh_fi_send_slowly(ep,
                                   &(struct nigh_fi_what){.peer = dest,
                                                          .tag = tag,
                                                          .imm = imm,
                                                          .context = context,
                                                          .desc = (void *const[]){desc},
                                                          .tclass = tclass},
                                   buf, len);
    nigh_fi_posted(ep);
    return ep->nigh->send_imm(peer, nigh_fi_place(buf, len), NIGH_SHAPE(len, tclass), tag, imm,
                              (uintptr_t)context);
}

/* A send whose buffer is free on return, and that nobody hears of unless it fails. */
static inline ssize_t nigh_fi_inject_one(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                                         uint64_t tag, uint64_t imm, uint32_t tclass)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_endpoint *peer =
        NIGH_FI_LIKELY(len <= NIGH_FI_SHORT) ? nigh_fi_peer_now(ep, ep->inject_odd, NULL, dest) : NULL;

    if (NIGH_FI_UNLIKELY(!peer))
        return nigh_fi_inject_slowly(
            ep, &(struct nigh_fi_what){.peer = dest, .tag = tag, .imm = imm, .tclass = tclass, .bare = true},
            buf, len);
    nigh_fi_posted(ep);
    return ep->nigh->inject_imm(peer, nigh_fi_place(buf, len), NIGH_SHAPE(len, tclass), tag, imm);
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

/* A receive that names its peer, if endpoints have receives do so. */
static inline ssize_t nigh_fi_recv_one(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
                                       uint64_t tag, uint64_t ignore, void *context, uint32_t tclass)
{
    struct nigh_fi_ep *ep = NIGH_FI_EP(fid);
    struct nigh_endpoint *from =
        NIGH_FI_LIKELY(len <= UINT32_MAX) ? nigh_fi_peer_now(ep, ep->rx_odd, desc, src) : NULL;

    if (NIGH_FI_UNLIKELY(!from))
        return nigh_fi_recv_slowly(ep,
                                   &(struct nigh_fi_what){.peer = src,
                                                          .tag = tag,
                                                          .ignore = ignore,
                                                          .context = context,
                                                          .desc = (void *const[]){desc},
                                                          .tclass = tclass},
                                   buf, len);
    nigh_fi_posted(ep);
    return ep->nigh->recv_imm(from, nigh_fi_place(buf, len), NIGH_SHAPE(len, tclass), tag, ignore,
                              (uintptr_t)context);
}

#endif
