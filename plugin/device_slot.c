/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_slot.c - see device_slot.h. */
#include "plugin/device_slot.h"
#include "plugin/context.h"
#include "plugin/device_receive.h"
#include "plugin/device_send.h"
#include "shm/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define STOP_NS UINT64_C(5000000000)

int nigh_device_slot_take(const struct nigh_device_buffer *buffer, uint64_t bytes, bool may_be_private,
                          struct nigh_device_slot *slot)
{
    *slot =
        (struct nigh_device_slot){.memory = nigh_staging_hold(&buffer->cuda->cuda->staging), .bytes = bytes};
    slot->block = slot->memory != NULL;
    if (!slot->block && !may_be_private)
        return -EAGAIN;
    if (!slot->block)
        slot->memory = malloc(bytes);
    return slot->memory ? 0 : -ENOMEM;
}

void nigh_device_slot_give(const struct nigh_device_buffer *buffer, struct nigh_device_slot *slot)
{
    if (slot->block)
        nigh_staging_give(&buffer->cuda->cuda->staging, slot->memory);
    else
        free(slot->memory);
    slot->memory = NULL;
}

void nigh_device_slot_copy(struct nigh_context *context, const struct nigh_device_buffer *buffer,
                           struct nigh_device_slot *slot, enum nigh_cuda_copy_kind kind, uint64_t offset)
{
    uint64_t host = (uintptr_t)slot->memory, device = buffer->at + offset;
    bool to_host = kind == NIGH_CUDA_COPY_TO_HOST;

    nigh_cuda_copy_begin(&slot->copy, buffer->cuda, buffer->cuda, kind, to_host ? host : device,
                         to_host ? device : host, slot->bytes, slot->block);
    slot->copying = true;
    context->devices.copies++;
}

void nigh_device_slot_reach(struct nigh_context *context, const struct nigh_device_buffer *buffer,
                            struct nigh_device_slot *slot, struct nigh_cuda_context *cuda, uint64_t from)
{
    nigh_cuda_copy_begin(&slot->copy, cuda, buffer->cuda, NIGH_CUDA_COPY_ON_DEVICE, buffer->at, from,
                         slot->bytes, false);
    slot->copying = true;
    context->devices.copies++;
}

int nigh_device_slot_step(struct nigh_context *context, struct nigh_device_slot *slot)
{
    const struct nigh_log_sink *before;
    int rc;

    if (!slot->copying)
        return 0;
    before = nigh_log_use(&context->log); /* a poll does not say whose the thread's lines are */
    rc = nigh_cuda_copy_step(&slot->copy);
    nigh_log_use(before);
    if (rc == -EAGAIN)
        return rc;
    slot->copying = false;
    context->devices.copies--;
    return rc;
}

static void give_up(struct nigh_context *context, struct nigh_device_slot *slot)
{
    slot->copying = false;
    context->devices.copies--;
    slot->block = false;
    slot->memory = NULL;
    nigh_log(NIGH_LOG_WARN,
             "rank %u: device %d is copying for %u s what was given up, and may go on: free no memory of "
             "that message before the device is idle",
             context->config.rank, slot->copy.context->ordinal, (unsigned)(STOP_NS / 1000000000));
}

void nigh_device_slots_stop(struct nigh_context *context, struct nigh_device_slot *slots)
{
    uint64_t until = nigh_clock_ns() + STOP_NS;

    for (uint32_t i = 0; i < NIGH_DEVICE_SLOTS; i++)
        if (slots[i].copying)
            nigh_cuda_copy_cancel(&slots[i].copy);
    for (uint32_t i = 0; i < NIGH_DEVICE_SLOTS; i++) {
        while (nigh_device_slot_step(context, &slots[i]) == -EAGAIN && nigh_clock_ns() < until)
            sched_yield();
        if (slots[i].copying)
            give_up(context, &slots[i]);
    }
}

void nigh_device_step(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all) {
        nigh_device_send_step(endpoint);
        nigh_device_receive_step(endpoint);
    }
}
