/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/peer.h - the other ranks of the world: connected when they are first needed, and which of them have died. */
#ifndef NIGH_LIB_PEER_H
#define NIGH_LIB_PEER_H

#include "lib/core.h"

int nigh_peers_open(void);
void nigh_peers_close(void);

/* The endpoint of a rank of the world. Never waits. Errors: those of connect(), said. */
int nigh_peer_connect(struct nigh_call call, int world_rank, struct nigh_endpoint **out);

/* enum nigh_state of a rank; 0 if it was never connected. */
uint32_t nigh_peer_state(int world_rank);

/* Why it has ended, or is not connected yet: enum nigh_reason, and in words. */
uint32_t nigh_peer_end(int world_rank, struct nigh_query_end *out);
/* Was it refused, so that it was never met? It has not left then. The words for it. */
bool nigh_peer_refused(int world_rank, struct nigh_query_end *out);

/* What the operating system calls it; 0 = not connected, or not visible from here. */
int32_t nigh_peer_pid(int world_rank);

/*
 * A death was reported to a receive from anyone, `source` being the dead or NIGH_SOURCE_NONE: the plugin tells one
 * receive, whichever communicator that is of. Every communicator that the dead is in hears of it once.
 */
void nigh_peer_died(uint64_t source);

#endif
