/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_peer.h - what two processes know of each other's device memory. An export is brought to a peer once, over the
 * rendezvous socket (shm/rendezvous.h), before the first message that refers to it; it lies here until the first copy imports it.
 *
 *   owner                                             peer
 *     | parcel: number, record, descriptors  ->         |  kept
 *     | REFER device: number, offset         ->         |  imported, copied from
 *     |                              <-  FINISH         |  or GRANT: send it in pieces; and, if it says so, bring it again
 *     | DROP: number                         ->         |  not found any more, closed
 *     |                             <-  DROPPED         |  when nothing of it is mapped
 */
#ifndef NIGH_PLUGIN_DEVICE_PEER_H
#define NIGH_PLUGIN_DEVICE_PEER_H

#include "shm/rendezvous.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked for again is waited for, and tried, so long. */
#define NIGH_DEVICE_BRING_NS UINT64_C(1000000000)

struct nigh_context;
struct nigh_cuda;
struct nigh_cuda_context;
struct nigh_cuda_mapping;
struct nigh_endpoint;

/* Of an endpoint; NULL: neither has handed anything over. */
struct nigh_device_peer;

/* Frees all of it: mappings that no copy uses are given up. */
void nigh_device_peer_close(struct nigh_endpoint *endpoint);

/* ---- the owner ---- */
/* Has the peer been brought it? */
bool nigh_device_peer_has(const struct nigh_endpoint *endpoint, uint64_t number);
/* Brings it. -EAGAIN: not now. Other errors: it cannot be brought, which is logged the first time, or -ENOMEM. */
int nigh_device_peer_bring(struct nigh_endpoint *endpoint, const struct nigh_parcel *parcel);
/* The peer has it no longer, or never got it. */
void nigh_device_peer_lacks(struct nigh_endpoint *endpoint, uint64_t number);
/* Tells it that the memory is given up, if it has it. With `wait` its DROPPED is awaited. */
void nigh_device_peer_take_back(struct nigh_endpoint *endpoint, uint64_t number, bool wait);
/* Tells all peers that have it that its memory is given up. With `wait`: returns when they have closed it, or after a second,
 * which is logged. */
void nigh_device_peers_drop(struct nigh_context *context, uint64_t number, bool wait);
/* DROPPED has come. */
void nigh_device_peer_dropped(struct nigh_endpoint *endpoint, uint64_t number);

/* ---- the peer ---- */
/* An event of the rendezvous: takes the descriptors. */
void nigh_device_peer_brought(struct nigh_context *context, const struct nigh_identity *from, int pid,
                              const struct nigh_parcel *parcel);
/*
 * The mapping under `number` for copies in this CUDA context, which the caller puts (cuda_ipc/import.h).
 *   -EAGAIN    it is not here: not yet, or it was lost, used up by another device, given up or dropped (device_reach.c)
 *   -ESTALE    it must be brought again
 *   -ENOTSUP   it can only be staged: known since the first trial; logged then, with the reason
 *   -EPROTO    what was brought is wrong: logged
 *   -ENOMEM, -EIO (logged), -ECHILD
 */
int nigh_device_peer_find(struct nigh_endpoint *endpoint, struct nigh_cuda_context *cuda, uint64_t number,
                          struct nigh_cuda_mapping **out);
/* DROP has come. */
void nigh_device_peer_drop(struct nigh_endpoint *endpoint, uint64_t number);
/* Answers those that are closed by now. True: some are not, look again. */
bool nigh_device_peer_progress(struct nigh_endpoint *endpoint);
/* The host has put a mapping that it held: a pass is to look whether that was given up meanwhile. */
void nigh_device_peer_released(struct nigh_endpoint *endpoint);

#endif
