/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/peer.h - an endpoint's connections, made when a peer is first talked to. */
#ifndef NIGH_LIBFABRIC_PEER_H
#define NIGH_LIBFABRIC_PEER_H

#include "hosts/libfabric/provider.h"

/* Connects. NULL: it cannot be had, *rc says why. The lock is held. */
struct nigh_endpoint *nigh_fi_peer_connect(struct nigh_fi_ep *ep, fi_addr_t address, int *rc);
/* The same for a post. Where no completion is in hand: those that have ended are let go first, now and then. */
struct nigh_endpoint *nigh_fi_peer_meet(struct nigh_fi_ep *ep, fi_addr_t address, int *rc);

/* Ends the connection to an address that leaves the vector. */
void nigh_fi_peer_drop(struct nigh_fi_ep *ep, fi_addr_t address);

/* Frees the tables; the connections have gone with their context. */
void nigh_fi_peers_free(struct nigh_fi_ep *ep);

/* May `address` be talked to? 0, or what connecting would give. */
int nigh_fi_peer_check(struct nigh_fi_ep *ep, const struct nigh_address *address);

/* *rc is set on failure only. */
static inline struct nigh_endpoint *nigh_fi_peer_or(struct nigh_fi_ep *ep, fi_addr_t address, int *rc)
{
    if (NIGH_FI_LIKELY(address < ep->peer_count && ep->peers[address]))
        return ep->peers[address];
    return nigh_fi_peer_meet(ep, address, rc);
}

static inline struct nigh_endpoint *nigh_fi_peer(struct nigh_fi_ep *ep, fi_addr_t address)
{
    int rc;

    if (NIGH_FI_LIKELY(address < ep->peer_count && ep->peers[address]))
        return ep->peers[address];
    return nigh_fi_peer_connect(ep, address, &rc);
}

#endif
