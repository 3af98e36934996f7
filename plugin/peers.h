/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/peers.h - a context's endpoints by who is at their other end, found in constant time. */
#ifndef NIGH_PLUGIN_PEERS_H
#define NIGH_PLUGIN_PEERS_H

#include "plugin/endpoint.h"
#include "shm/rendezvous.h"

struct nigh_peers {
    struct nigh_endpoint **buckets; /* by job and rank */
    struct nigh_endpoint **aside; /* bare ones by incarnation: there may be any number of one job and rank */
    uint32_t mask;
};

/* -ENOMEM. */
int nigh_peers_create(struct nigh_peers *peers, uint32_t peers_max);
/* Frees the table; endpoints may still be in it. */
void nigh_peers_destroy(struct nigh_peers *peers);
/* Its job and rank do not change while it is in the table. */
void nigh_peers_insert(struct nigh_peers *peers, struct nigh_endpoint *endpoint);
void nigh_peers_remove(struct nigh_endpoint *endpoint);
/* One that is bare will never be found as living: out of the way of those that may. */
void nigh_peers_set_aside(struct nigh_peers *peers, struct nigh_endpoint *endpoint);
/*
 * The living endpoint to `who`, the latest if there are several, or NULL. One that the peer has left lives no more,
 * noticed or not: a host that has heard of it by other means must not be given it. Incarnations are compared where both
 * are known; who has the same one has the same job and rank.
 */
struct nigh_endpoint *nigh_peers_find(const struct nigh_peers *peers, const struct nigh_identity *who);
/* One that has left or ended, of that very incarnation. */
struct nigh_endpoint *nigh_peers_find_left(const struct nigh_peers *peers, const struct nigh_identity *who);
/* Has any of them, though it has left or ended, mapped that window of theirs? */
bool nigh_peers_reads(const struct nigh_peers *peers, const struct nigh_identity *who, int window_fd);

#endif
