/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_receive.c - see device_receive.h. */
#include "plugin/device_receive.h"
#include "plugin/context.h"
#include "plugin/device_store.h"
#include "plugin/pieces.h"
#include "plugin/progress.h"
#include "plugin/receive.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

static struct nigh_device_slot *slot_of(struct nigh_device_receive *receive, uint32_t number)
{
    return &receive->slot[(receive->first + number) % NIGH_DEVICE_SLOTS];
}

/* Slots that are copied to the device, or were. */
static uint32_t on_their_way(const struct nigh_device_receive *receive)
{
    return receive->count - receive->filling;
}

int nigh_device_receive_open(struct nigh_message *message, const struct nigh_device_buffer *buffer,
                             uint64_t bytes)
{
    struct nigh_device_receive *receive = calloc(1, sizeof(*receive));

    if (!receive)
        return -ENOMEM;
    receive->buffer = *buffer;
    receive->bytes = bytes;
    message->device = receive;
    return 0;
}

static void drop_first(struct nigh_device_receive *receive)
{
    nigh_device_slot_give(&receive->buffer, slot_of(receive, 0));
    receive->first = (receive->first + 1) % NIGH_DEVICE_SLOTS;
    receive->count--;
}

static void stop(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;

    nigh_device_slots_stop(message->endpoint->context, receive->slot);
    while (receive->count)
        drop_first(receive);
    receive->filling = false;
    nigh_device_reach_close(&receive->reach);
    if (receive->spare.memory)
        nigh_device_slot_give(&receive->buffer, &receive->spare);
}

void nigh_device_receive_leave(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    struct nigh_endpoint *endpoint = message->endpoint;

    if (!receive->link)
        return;
    *receive->link = receive->next;
    if (receive->next)
        receive->next->device->link = receive->link;
    receive->link = NULL;
    endpoint->device_receives_count--;
    nigh_progress_unpin(endpoint);
}

void nigh_device_receive_close(struct nigh_message *message)
{
    if (!message->device)
        return;
    nigh_device_receive_leave(message);
    stop(message);
    free(message->device);
    message->device = NULL;
}

/* ---- to the device ---- */

static void move_slots(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    struct nigh_context *context = message->endpoint->context;
    uint32_t full = on_their_way(receive);

    for (uint32_t i = 0; i < full; i++) {
        int rc = nigh_device_slot_step(context, slot_of(receive, i));

        if (rc && rc != -EAGAIN && !receive->error)
            receive->error = rc;
    }
    while (on_their_way(receive) && !slot_of(receive, 0)->copying)
        drop_first(receive);
}

static void begin_slot(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    struct nigh_device_slot *slot = slot_of(receive, receive->count - 1);
    struct nigh_context *context = message->endpoint->context;
    uint64_t offset = receive->got - receive->filled;

    slot->bytes = receive->filled;
    receive->filling = receive->whole = false;
    if (!nigh_device_store(context, &receive->buffer, offset, slot->memory, slot->bytes))
        nigh_device_slot_copy(context, &receive->buffer, slot, NIGH_CUDA_COPY_TO_DEVICE, offset);
    move_slots(message);
}

/* ---- from the peer ---- */

/* The next slot, in `spare` until it is begun. */
static bool take_spare(struct nigh_device_receive *receive, bool may_be_private)
{
    uint64_t used = receive->filling ? slot_of(receive, receive->count - 1)->bytes - receive->filled : 0;
    uint64_t rest = receive->bytes - receive->got - used;

    return receive->spare.memory ||
           nigh_device_slot_take(&receive->buffer,
                                 rest < NIGH_DEVICE_SLOT_BYTES ? rest : NIGH_DEVICE_SLOT_BYTES,
                                 may_be_private, &receive->spare) == 0;
}

/* One slot more will do. It may be private where no other of ours is on its way to the device, which empties it without the peer. */
bool nigh_device_receive_has_room(struct nigh_message *message, uint64_t bytes)
{
    struct nigh_device_receive *receive = message->device;
    uint64_t rest = receive->bytes - receive->got, room;

    if (receive->error)
        return true; /* it is dropped */
    move_slots(message);
    room = receive->filling ? slot_of(receive, receive->count - 1)->bytes - receive->filled : 0;
    if (room >= (bytes < rest ? bytes : rest))
        return true;
    if (receive->count == NIGH_DEVICE_SLOTS)
        return false;
    if (take_spare(receive, !on_their_way(receive)))
        return true;
    receive->error = on_their_way(receive) ? 0 : -ENOMEM;
    return receive->error != 0;
}

uint8_t *nigh_device_receive_next(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;

    while (!receive->filling && receive->count == NIGH_DEVICE_SLOTS) {
        move_slots(message);
        nigh_device_step(message->endpoint->context);
        sched_yield();
    }
    if (receive->error)
        return NULL;
    if (!receive->filling && !take_spare(receive, true)) {
        receive->error = -ENOMEM;
        return NULL;
    }
    if (!receive->filling) {
        *slot_of(receive, receive->count++) = receive->spare;
        receive->spare.memory = NULL;
        receive->filling = true;
        receive->filled = 0;
    }
    return slot_of(receive, receive->count - 1)->memory + receive->filled;
}

void nigh_device_receive_added(struct nigh_message *message, uint64_t bytes)
{
    struct nigh_device_receive *receive = message->device;

    receive->filled += bytes;
    receive->got += bytes;
    if (receive->filled == slot_of(receive, receive->count - 1)->bytes)
        begin_slot(message);
}

void nigh_device_receive_add(struct nigh_message *message, const void *from, uint64_t bytes, uint32_t flags)
{
    struct nigh_device_receive *receive = message->device;
    uint64_t rest = receive->bytes - receive->got;

    if (bytes > rest)
        bytes = rest;
    for (uint64_t at = 0, some; at < bytes; at += some) {
        uint8_t *to = nigh_device_receive_next(message);

        if (!to)
            return;
        some = slot_of(receive, receive->count - 1)->bytes - receive->filled;
        some = bytes - at < some ? bytes - at : some;
        nigh_arrive_copy(to, (const uint8_t *)from + at, some, flags);
        nigh_device_receive_added(message, some);
    }
}

int nigh_device_receive_whole(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    uint8_t *memory = receive->bytes ? malloc(receive->bytes) : NULL;

    if (!memory && receive->bytes)
        return -ENOMEM;
    receive->whole = memory != NULL;
    receive->slot[0] = (struct nigh_device_slot){.memory = memory, .bytes = receive->bytes};
    receive->count = receive->whole;
    receive->filling = receive->whole;
    message->to = memory;
    return 0;
}

/* ---- the end ---- */

static int outcome(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;

    if (receive->whole) { /* what was read where it lay */
        receive->got = receive->filled = receive->bytes;
        begin_slot(message);
    }
    move_slots(message);
    return on_their_way(receive) ? -EAGAIN : receive->error;
}

void nigh_device_receive_enlist(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    struct nigh_endpoint *endpoint = message->endpoint;

    receive->next = endpoint->device_receives;
    receive->link = &endpoint->device_receives;
    if (receive->next)
        receive->next->device->link = &receive->next;
    endpoint->device_receives = message;
    endpoint->device_receives_count++;
    endpoint->pins++;
    nigh_progress_busy(endpoint);
}

int nigh_device_receive_end(struct nigh_message *message, int status)
{
    struct nigh_device_receive *receive = message->device;

    if (!receive)
        return status;
    if (status) {
        nigh_device_receive_leave(message);
        stop(message);
        return status;
    }
    status = outcome(message);
    if (status != -EAGAIN || receive->link)
        return status;
    nigh_device_receive_enlist(message);
    return -EAGAIN;
}

bool nigh_device_receive_progress(struct nigh_endpoint *endpoint)
{
    bool moved = false;

    for (struct nigh_message *message = endpoint->device_receives, *next; message; message = next) {
        bool reaches = message->device->reach.on;
        int rc = reaches ? nigh_device_reach_step(message) : outcome(message);

        next = message->device->next;
        if (rc == -EAGAIN)
            continue;
        nigh_device_receive_leave(message);
        if (reaches)
            nigh_device_reach_end(message, rc);
        else
            nigh_arrive_done(message, rc);
        moved = true;
    }
    return moved;
}

void nigh_device_receive_abandon(struct nigh_endpoint *endpoint)
{
    struct nigh_message *message;

    while ((message = endpoint->device_receives) != NULL) {
        nigh_device_receive_leave(message);
        if (message->device->reach.on)
            nigh_device_reach_end(message, -ECANCELED);
        else
            nigh_arrive_done(message, -ECANCELED);
    }
}

void nigh_device_receive_step(struct nigh_endpoint *endpoint)
{
    for (struct nigh_message *message = endpoint->device_receives; message; message = message->device->next)
        if (message->device->reach.on)
            nigh_device_reach_move(message);
        else
            move_slots(message);
}
