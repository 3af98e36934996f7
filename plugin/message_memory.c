/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/message_memory.c - private memory of messages: of unexpected ones, and of puts into regions that the host copies
 * to. A peer may announce what it never sends, so long messages get memory as their bytes come.
 */
#include "plugin/context.h"
#include "plugin/crammed.h"
#include "plugin/receive.h"
#include <errno.h>
#include <stdlib.h>

/* So much a peer may have reserved by announcements alone, which saves the copies of growing. Flow control stops honest
 * senders far below it (crammed.h), but for silent messages. */
#define ANNOUNCED_MOST (UINT64_C(64) << 20)

/* Of a message of `most` bytes that has come as far as `need`: at most twice that. */
static uint64_t grown(uint64_t need, uint64_t most)
{
    uint64_t room = 2 * need > NIGH_EARLY_MIN ? 2 * need : NIGH_EARLY_MIN;

    return room < most ? room : most;
}

static uint64_t first_room(const struct nigh_message *message, uint64_t need)
{
    uint64_t announced = message->eager < NIGH_EARLY_MAX ? message->eager : NIGH_EARLY_MAX;

    return need <= announced && message->endpoint->early + announced <= ANNOUNCED_MOST
               ? announced
               : grown(need, message->eager);
}

int nigh_message_early(struct nigh_message *message, uint64_t bytes)
{
    message->buffer = nigh_early_take(&message->endpoint->context->early, bytes);
    if (!message->buffer)
        return -ENOMEM;
    message->kept = message->eager = bytes;
    nigh_crammed_add(message->endpoint, bytes);
    return 0;
}

int nigh_message_grow(struct nigh_message *message, uint64_t bytes)
{
    uint64_t room = message->buffer ? grown(bytes, message->eager) : first_room(message, bytes);
    void *buffer = nigh_early_grow(&message->endpoint->context->early, message->buffer, message->kept, room,
                                   message->got);

    if (!buffer)
        return -ENOMEM;
    nigh_crammed_add(message->endpoint, room - message->kept);
    message->buffer = message->to = buffer;
    message->kept = message->room = room;
    return 0;
}

void nigh_message_unkeep(struct nigh_message *message)
{
    if (!message->buffer)
        return;
    nigh_early_give(&message->endpoint->context->early, message->buffer, message->kept);
    message->buffer = NULL;
    nigh_crammed_take_off(message->endpoint, message->kept);
    message->kept = 0;
}

void nigh_message_stage(struct nigh_message *message, uint64_t bytes)
{
    uint64_t room = grown(bytes, message->total);
    uint8_t *staged = realloc(message->staged, room);

    if (staged) {
        message->staged = message->to = staged;
        message->room = room;
        return;
    }
    free(message->staged);
    message->staged = message->to = NULL;
    message->status = -EIO;
}
