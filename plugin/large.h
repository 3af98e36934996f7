/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/large.h - the sending side of messages that do not fit a ring: in pieces, or whole. */
#ifndef NIGH_PLUGIN_LARGE_H
#define NIGH_PLUGIN_LARGE_H

#include "plugin/endpoint.h"

/* First slot of an operation with pieces; then as many pieces as can go. -EAGAIN: nothing sent. */
int nigh_large_start(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Sends a message of at most NIGH_WHOLE_MAX, one that fits a shuttle that we hold, and at most what goes
 * without asking, without an operation: in one piece up to NIGH_ONE_PIECE, in streams, and in a shuttle where ranks
 * share CPUs, else in several. -EAGAIN: it must go the long way. */
#define NIGH_WHOLE_MAX 65536u
#define NIGH_ONE_PIECE 4096u
int nigh_large_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send);
/* Sends pieces; true when something moved. */
bool nigh_large_flow(struct nigh_endpoint *endpoint);
/* The peer has matched it; `late`: its receive came behind it. */
void nigh_large_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late);
/* Of one that lies on a device: its first `bytes` have come from there and may go. */
void nigh_large_allow(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint64_t bytes);
/* The same: the rest of it cannot be read. Its peer is told, and it ends with `error`. */
void nigh_large_fail(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int error);
/* Chunks that the peer has read go back to the pool. */
bool nigh_large_reclaim(struct nigh_endpoint *endpoint, bool all);

#endif
