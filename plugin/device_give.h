/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_give.h - device memory of ours that a peer copies from by itself: exported (cuda_ipc/export.h), brought to the peer
 * (device_peer.h), and named in the message. Within a process its address will do. What no peer can map is staged
 * (device_send.h), as is what is short enough to be sent before it is matched.
 */
#ifndef NIGH_PLUGIN_DEVICE_GIVE_H
#define NIGH_PLUGIN_DEVICE_GIVE_H

#include "cuda_ipc/settle.h"
#include "nigh/transport.h"
#include "plugin/device_slot.h"

struct nigh_cuda_export;
struct nigh_endpoint;
struct nigh_region;
struct nigh_send_op;

/* Of a send, zeroed before. */
struct nigh_device_gift {
    struct nigh_cuda_export *export; /* NULL: the peer is in this process */
    uint64_t number;                 /* of a REFER, as what follows: plugin/wire.h */
    uint64_t where;
    uint32_t refer; /* 0: it is staged */
    enum nigh_device_reason
        why; /* for that, of this memory: NIGH_DEVICE_WHY_NONE where it is none of its own */
    struct nigh_settling settling;
    bool settled;
    bool seen; /* of memory that is not registered */
};

/* Whether what is copied from this buffer, of a region or not, may be posted: 0. -ENOTSUP: NIGH_CUDA=require, and it would be
 * staged (logged). -ENOMEM, -ECHILD. */
int nigh_device_may_give(struct nigh_endpoint *endpoint, const char *call, struct nigh_region *region,
                         uint64_t bytes, const struct nigh_device_buffer *buffer);
/* Is it over before anybody has matched it? Then it is staged. */
bool nigh_device_gift_is_short(const struct nigh_endpoint *endpoint, uint64_t bytes);
/* Whether the peer can be given these bytes, of a region or not: gift->refer is set then. close() undoes it. */
bool nigh_device_gift_open(struct nigh_endpoint *endpoint, struct nigh_region *region, uint64_t bytes,
                           const struct nigh_device_buffer *buffer, struct nigh_device_gift *gift);
void nigh_device_gift_close(struct nigh_device_gift *gift);
/* The peer is done with it. What was brought to it after it had been given up here is dropped there, too. */
void nigh_device_gift_over(struct nigh_endpoint *endpoint, const struct nigh_device_gift *gift);

/* Before the peer is told: the host's copies to it have ended, and the peer has it. -EAGAIN: call again. Other errors: it is
 * to be staged. */
int nigh_device_gift_ready(struct nigh_endpoint *endpoint, const struct nigh_device_buffer *buffer,
                           struct nigh_device_gift *gift);
/* Removes a region, which may be of the host's memory. Peers close what they have mapped of a device's: where the driver has it so,
 * they are waited for by progress passes, a second at most. */
void nigh_device_region_remove(struct nigh_context *context, struct nigh_region *region);

#endif
