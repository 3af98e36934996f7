/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_reach.h - a message whose bytes lie on a device, at the sender's or in this process, and go straight to a place on
 * a device: one copy by the device, made here. It is among the endpoint's device_receives meanwhile. Where the memory
 * cannot be reached the sender is asked for pieces.
 */
#ifndef NIGH_PLUGIN_DEVICE_REACH_H
#define NIGH_PLUGIN_DEVICE_REACH_H

#include "plugin/op.h"
#include "plugin/wire.h"

struct nigh_cuda_mapping;

/* Of a message's receive. */
struct nigh_device_reach {
    bool on;                           /* it goes so */
    struct nigh_cuda_mapping *mapping; /* NULL: none yet, or its address is used */
    uint64_t number;                   /* of the memory: plugin/wire.h */
    uint64_t at;                       /* in place: its address here */
    bool listens;                      /* what it refers to was not there at the last look */
    uint32_t silences;                 /* of the context then */
    uint64_t until_ns;                 /* even among parcels without end it must have come by then */
    uint64_t again_ns; /* in place: it is to be asked for again then; 0: it has not been yet */
};

/* A reference to device memory. */
static inline bool nigh_refer_is_device(uint32_t refer)
{
    return refer == NIGH_REFER_DEVICE || refer == NIGH_REFER_POINTER;
}

/* A reference of that kind has met its receive, wherever that wants the bytes. */
void nigh_device_reach_begin(struct nigh_message *message);
/* The same of a put or a get, whose place is open. `number` as in the reference. */
void nigh_device_reach_enter(struct nigh_message *message, uint64_t number);
/* Its copy: -EAGAIN; 0 done, or how it ends. -EREMOTE: the sender is to be asked for pieces, -ESTALE: and to bring its memory again. */
int nigh_device_reach_step(struct nigh_message *message);
/* Moves its copy on, if that has begun; step() says how it ends. */
void nigh_device_reach_move(struct nigh_message *message);
/* Ends as step() has said. */
void nigh_device_reach_end(struct nigh_message *message, int rc);
/* Before its time. */
void nigh_device_reach_cancel(struct nigh_message *message, int status);
/* Its copy is over. */
void nigh_device_reach_close(struct nigh_device_reach *reach);

#endif
