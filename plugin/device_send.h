/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_send.h - a send whose bytes lie on a device: they are copied to slots of the host's memory, one behind the
 * other, and what has come there may go to the peer in pieces (large.c), so that the device, this side and the peer work at
 * once. What nobody has matched is not copied, but for short messages.
 */
#ifndef NIGH_PLUGIN_DEVICE_SEND_H
#define NIGH_PLUGIN_DEVICE_SEND_H

#include "plugin/device_slot.h"
#include "plugin/wire.h"

struct nigh_device_gift;
struct nigh_endpoint;
struct nigh_region;
struct nigh_send_op;

/* NULL: no memory. `bytes` is not 0. close() frees it. */
struct nigh_device_send *nigh_device_send_open(const struct nigh_device_buffer *buffer, uint64_t bytes);
/* Stops what is copied. */
void nigh_device_send_close(struct nigh_device_send *send);

/* Is it to be referred to? Else it is staged. */
bool nigh_device_send_refers(const struct nigh_device_send *send);
/* The other side may copy it by itself: from now on it refers(), if that can be, and, but for `always`, is worth it. `region`: or
 * NULL. */
void nigh_device_send_offer(struct nigh_endpoint *endpoint, struct nigh_device_send *send,
                            struct nigh_region *region, bool always);
/* The same, of what was opened before: it is the send's. */
void nigh_device_send_give(struct nigh_device_send *send, const struct nigh_device_gift *gift);
/* Before it is told: 0, and refer->where, ->refer and ->number; -EAGAIN: call again; others: it is to be staged. */
int nigh_device_send_refer(struct nigh_endpoint *endpoint, struct nigh_device_send *send,
                           struct nigh_wire_refer *refer);
/* The other side has lost what it was brought, if it ever had it. */
void nigh_device_send_lacks(struct nigh_endpoint *endpoint, const struct nigh_device_send *send);
void nigh_device_send_unrefer(struct nigh_endpoint *endpoint, struct nigh_device_send *send);
/* 0. -ENOTSUP: NIGH_CUDA=require, logged. */
int nigh_device_send_may_stage(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op);
/* FINISH has come. */
void nigh_device_send_over(struct nigh_endpoint *endpoint, const struct nigh_device_send *send);
/* It is sent in pieces, from the start. */
void nigh_device_send_stage(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* The same, as the peer has asked for; `again`: it lacks(). */
void nigh_device_send_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool again);
/* The peer asks for the memory of a lend again, and for nothing else: passes try that for as long as it waits. */
void nigh_device_send_bring(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* From now on passes move it on, and its operation may send what has come. */
void nigh_device_send_start(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Where its bytes from `offset` on lie, which have come; *left is lowered to how many lie there. */
const uint8_t *nigh_device_send_at(const struct nigh_device_send *send, uint64_t offset, uint64_t *left);
/* Those before `offset` have been sent. */
void nigh_device_send_sent(struct nigh_device_send *send, uint64_t offset);
/* Moves the copies of all the endpoint's on, and nothing else. */
void nigh_device_send_step(struct nigh_endpoint *endpoint);
/* All of the endpoint's; a pass. Those that fail end their operations. */
bool nigh_device_send_progress(struct nigh_endpoint *endpoint);

#endif
