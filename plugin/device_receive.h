/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/device_receive.h - a message whose place is on a device: its bytes come together in slots of the host's memory and go on
 * to the device while more come. It is over when the device has all of them. What is read where it lies with its sender
 * comes together as a whole first.
 */
#ifndef NIGH_PLUGIN_DEVICE_RECEIVE_H
#define NIGH_PLUGIN_DEVICE_RECEIVE_H

#include "plugin/device_reach.h"
#include "plugin/device_slot.h"
#include "plugin/endpoint.h"

struct nigh_device_receive {
    struct nigh_message *next,
        **link; /* of the endpoint, while only the device is waited for; link NULL: not there */
    struct nigh_device_buffer buffer;
    uint64_t bytes; /* that go to the device */
    uint64_t got;   /* of those, in slots or beyond */
    uint32_t first, count;
    uint64_t filled; /* of the last slot, if it is being filled */
    bool filling;
    bool whole; /* slot[0] has memory for all of it */
    int error;
    struct nigh_device_reach reach; /* of bytes that come in no slot: slot[0] is their copy */
    struct nigh_device_slot slot[NIGH_DEVICE_SLOTS];
    struct nigh_device_slot spare; /* memory NULL: none */
};

/* A peer's puts that have come and wait for the device hold memory, and free its numbers: so many at once. */
#define NIGH_DEVICE_RECEIVES_MOST 16u

static inline bool nigh_device_receive_is_crowded(const struct nigh_endpoint *endpoint)
{
    return endpoint->device_receives_count >= NIGH_DEVICE_RECEIVES_MOST;
}

/* Of the first `bytes` of the message. Sets message->device. -ENOMEM. */
int nigh_device_receive_open(struct nigh_message *message, const struct nigh_device_buffer *buffer,
                             uint64_t bytes);
/* Stops what is copied. Nothing where the message has no such place. */
void nigh_device_receive_close(struct nigh_message *message);

/* Is there room for so many more bytes, at most NIGH_DEVICE_SLOT_BYTES, without waiting for the device? */
bool nigh_device_receive_has_room(struct nigh_message *message, uint64_t bytes);
/* The next bytes of the message; those that have no room there are dropped. Waits for the device where has_room() says that there
 * is none. `flags` as of nigh_arrive_copy(). */
void nigh_device_receive_add(struct nigh_message *message, const void *from, uint64_t bytes, uint32_t flags);
/* Where all of a message's bytes lie that is to be added next, at most a slot's; added() then. NULL: no memory. */
uint8_t *nigh_device_receive_next(struct nigh_message *message);
void nigh_device_receive_added(struct nigh_message *message, uint64_t bytes);
/* Memory for all of it, which message->to names. -ENOMEM. */
int nigh_device_receive_whole(struct nigh_message *message);

/* The message has come, or has ended with `status`. -EAGAIN: it is over later, when the device has it, by a pass; what it was asked
 * for is asked again then. Else how it ends: nobody writes to its place any more. */
int nigh_device_receive_end(struct nigh_message *message, int status);
/* Among those of the endpoint that wait for the device, and out of them. */
void nigh_device_receive_enlist(struct nigh_message *message);
void nigh_device_receive_leave(struct nigh_message *message);
/* Those of the endpoint that wait for the device; a pass. */
bool nigh_device_receive_progress(struct nigh_endpoint *endpoint);
/* We leave the endpoint: they end with -ECANCELED. */
void nigh_device_receive_abandon(struct nigh_endpoint *endpoint);
/* Moves their copies on and ends none. */
void nigh_device_receive_step(struct nigh_endpoint *endpoint);

#endif
