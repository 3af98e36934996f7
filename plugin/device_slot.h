/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_slot.h - a piece of the host's memory that bytes pass on their way between a device and a message: a pinned
 * block of the domain's (cuda_ipc/staging.h), or, while those are in use, private memory. A slot may be kept for as long as
 * its peer likes, so some blocks are left for copies that only pass through.
 */
#ifndef NIGH_PLUGIN_DEVICE_SLOT_H
#define NIGH_PLUGIN_DEVICE_SLOT_H

#include "cuda_ipc/copy.h"
#include "cuda_ipc/pointer.h"

struct nigh_context;

/* Slots of a message, whose copies are under way at once. */
enum { NIGH_DEVICE_SLOTS = 4, NIGH_DEVICE_SLOT_BYTES = NIGH_STAGING_BYTES };

struct nigh_device_slot {
    uint8_t *memory;
    uint64_t bytes; /* in use */
    bool block;     /* of the domain's, else private */
    bool copying;
    struct nigh_cuda_copy copy;
};

/* The context and address of a buffer on a device. */
struct nigh_device_buffer {
    struct nigh_cuda_context *cuda;
    uint64_t at;
    enum nigh_cuda_kind kind;
    bool stores; /* its region says so */
};

/* For `bytes` of at most NIGH_DEVICE_SLOT_BYTES. -ENOMEM; -EAGAIN: no block is left, and private memory was not asked for. */
int nigh_device_slot_take(const struct nigh_device_buffer *buffer, uint64_t bytes, bool may_be_private,
                          struct nigh_device_slot *slot);
void nigh_device_slot_give(const struct nigh_device_buffer *buffer, struct nigh_device_slot *slot);

/* A copy between slot->bytes of it and the buffer's from `offset` on; step() moves it on. */
void nigh_device_slot_copy(struct nigh_context *context, const struct nigh_device_buffer *buffer,
                           struct nigh_device_slot *slot, enum nigh_cuda_copy_kind kind, uint64_t offset);
/* A copy to the buffer of slot->bytes at `from`, an address of `cuda`'s. The slot has no memory. */
void nigh_device_slot_reach(struct nigh_context *context, const struct nigh_device_buffer *buffer,
                            struct nigh_device_slot *slot, struct nigh_cuda_context *cuda, uint64_t from);
/* 0, also where nothing is copied: done. -EAGAIN. -EIO, -ECHILD: over, logged; -ECANCELED of stop(). */
int nigh_device_slot_step(struct nigh_context *context, struct nigh_device_slot *slot);
/* Ends a message's copies before their time: when it returns nobody writes to the buffer, or the slots, any more. Waits for what the
 * device has begun; after 5 s that is said, and a slot's memory is left to it. */
void nigh_device_slots_stop(struct nigh_context *context, struct nigh_device_slot *slots);
/* Moves the copies of all messages of the context on, and ends none: for who waits in a pass for what they hold. */
void nigh_device_step(struct nigh_context *context);

#endif
