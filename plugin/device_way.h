/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_way.h - what processes tell each other of the CUDA devices that they use (struct nigh_arena_devices), and what
 * follows for memory of ours: device_path.h decides.
 */
#ifndef NIGH_PLUGIN_DEVICE_WAY_H
#define NIGH_PLUGIN_DEVICE_WAY_H

#include "plugin/device_path.h"
#include "plugin/device_slot.h"
#include "shm/layout.h"

struct nigh_context;
struct nigh_endpoint;

/* Tells peers of this process' devices: once, when the driver has been started. */
void nigh_device_tell(struct nigh_context *context);

/* A checked copy of what the peer has told; `count` is 0 if it uses none yet. Errors of NIGH_QUERY_DEVICE_PATHS. */
int nigh_device_told(const struct nigh_endpoint *endpoint, struct nigh_arena_devices *out);

/* How messages from such memory of our device `ordinal` get to one of the peer's; NULL: the peer uses none. */
struct nigh_device_path nigh_device_way(const struct nigh_endpoint *endpoint, int ordinal,
                                        enum nigh_device_memory memory, const struct nigh_arena_devices *told,
                                        const struct nigh_arena_device *to);

/* Over all devices that the peer uses: the first that is reached, else why the first one is not. */
struct nigh_device_path nigh_device_best(const struct nigh_endpoint *endpoint, int ordinal,
                                         enum nigh_cuda_kind kind);

/* Whether what is posted from there, or to there, may go to the peer: 0. -ENOTSUP: NIGH_CUDA=require, and it would be staged
 * (logged, with the reason). */
int nigh_device_may_post(const struct nigh_endpoint *endpoint, const char *call,
                         const struct nigh_device_buffer *buffer);
/* The same of a get's place. Whatever lies there, what counts is the peer's memory, of which it may have several kinds. */
int nigh_device_may_take(const struct nigh_endpoint *endpoint, const char *call,
                         const struct nigh_device_buffer *buffer);
/* Logs that it may not. -ENOTSUP. */
int nigh_device_refuse_post(const struct nigh_endpoint *endpoint, const char *call,
                            const struct nigh_device_buffer *buffer, enum nigh_device_reason why);

/* Whether what the peer asks of the region with this key may be staged through the host: 0. -ENOTSUP: NIGH_CUDA=require, and the
 * region is a device's (logged, with the reason). */
int nigh_device_may_stage(const struct nigh_endpoint *endpoint, uint64_t key);
/* The same of an answer to a get of ours that has its place on a device, and comes in pieces. */
int nigh_device_may_receive(const struct nigh_endpoint *endpoint, const struct nigh_cuda_context *cuda);

#endif
