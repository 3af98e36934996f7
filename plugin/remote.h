/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/remote.h - puts and gets whose bytes lie on a device on both sides: whoever has the place copies them, a put's target or a
 * get's initiator, by a reference to the other side's memory (device_give.h, device_reach.h). Where that cannot be the
 * other side is asked for pieces.
 */
#ifndef NIGH_PLUGIN_REMOTE_H
#define NIGH_PLUGIN_REMOTE_H

#include "plugin/answer.h"
#include "plugin/arrive.h"
#include "plugin/op.h"

struct nigh_context;
struct nigh_endpoint;
struct nigh_region;

/* A PUT with NIGH_F_REFERS. */
enum nigh_verdict nigh_remote_put(struct nigh_endpoint *endpoint, uint64_t head, uint64_t key,
                                  uint64_t offset);
/* A REPLY with it, to the get `op`. */
enum nigh_verdict nigh_remote_reply(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status);
/* A put, or an answer to a get, that the other side was told of, and copies by itself. */
bool nigh_remote_is_copied(const struct nigh_send_op *op);
/* Ours that was to go by reference, a put or an answer, goes in pieces: true, begin it. False: NIGH_CUDA=require, and it is a put,
 * which has ended; an answer says so. */
bool nigh_remote_stage(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* The other side cannot copy it; `again`: it lacks what it was brought. */
void nigh_remote_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool again);
/* What came by reference cannot be copied: the other side was asked for it anew, and the message is freed. */
void nigh_remote_unbegun(struct nigh_message *message);
/* nigh_region_check(), behind passes where peers copy from it: the FINISH of what is over lies in the ring before its peer can tell
 * that by other ways, mostly. */
int nigh_remote_check(struct nigh_context *context, const struct nigh_region *region);

#endif
