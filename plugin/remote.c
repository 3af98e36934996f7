/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/remote.c - see remote.h. */
#include "plugin/remote.h"
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/device_receive.h"
#include "plugin/device_send.h"
#include "plugin/pieces.h"
#include "plugin/progress.h"
#include "plugin/receive.h"
#include "plugin/rma.h"
#include "plugin/send.h"

#include <errno.h>

/* What the peer refers to, in the payload of a put or of an answer. */
static bool take(struct nigh_endpoint *endpoint, struct nigh_wire_remote *out)
{
    nigh_arrive_payload(endpoint, out, sizeof(*out));
    return nigh_refer_is_device(out->refer.refer) && nigh_arrive_refer_is_sound(endpoint, &out->refer);
}

/* A put that comes by reference: its place is not there, or is none of a device's, so it ends, or is asked for in pieces. */
static bool put_is_over(struct nigh_endpoint *endpoint, const struct nigh_wire_remote *remote, uint64_t key,
                        uint64_t offset)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_region *region = nigh_region_copied(&context->regions, key);
    uint8_t *at;
    int status = nigh_region_at(&context->regions, key, offset, remote->refer.total, NIGH_REMOTE_WRITE, &at);

    if (!status && region && region->device)
        return false;
    if (status)
        nigh_link_answer(endpoint, NIGH_K_FINISH, 0, remote->refer.id, (uint64_t)(int64_t)status, NULL, 0);
    else
        nigh_link_answer(endpoint, NIGH_K_GRANT, 0, remote->refer.id, 0, NULL, 0);
    return true;
}

static struct nigh_message *create(struct nigh_endpoint *endpoint, const struct nigh_wire_remote *remote,
                                   enum nigh_message_kind kind)
{
    struct nigh_message *message = nigh_message_create(endpoint);

    if (!message)
        return NULL;
    message->kind = (uint8_t)kind;
    message->id = remote->refer.id;
    message->total = message->room = remote->refer.total;
    message->refer = (uint8_t)remote->refer.refer;
    message->where = remote->refer.where;
    return message;
}

enum nigh_verdict nigh_remote_put(struct nigh_endpoint *endpoint, uint64_t head, uint64_t key,
                                  uint64_t offset)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_region *region;
    struct nigh_wire_remote remote;
    struct nigh_message *message;
    uint64_t told;

    if (!take(endpoint, &remote))
        return NIGH_BAD;
    if (nigh_device_receive_is_crowded(endpoint))
        return NIGH_STAY;
    if (put_is_over(endpoint, &remote, key, offset))
        return NIGH_GO;
    message = create(endpoint, &remote, NIGH_MSG_PUT);
    if (!message)
        return NIGH_STAY;
    region = nigh_region_copied(&context->regions, key);
    nigh_rma_open_device(message, region->device->context, region->device->at + offset);
    message->notify =
        nigh_head_flags(head) & NIGH_F_NOTIFY || nigh_region_tells(&context->regions, key, &told);
    message->imm = nigh_head_flags(head) & NIGH_F_NOTIFY ? remote.imm : 0;
    if (!message->device || (message->notify && nigh_cq_reserve(&context->cq, 1))) {
        nigh_message_free(message);
        return NIGH_STAY;
    }
    message->key = key;
    message->pins = NIGH_PINS_REGION;
    nigh_region_pin(&context->regions, key, 1);
    nigh_device_reach_enter(message, remote.refer.number);
    return NIGH_GO;
}

void nigh_remote_unbegun(struct nigh_message *message)
{
    if (message->kind == NIGH_MSG_REPLY)
        message->get->granted = false; /* another answer comes */
    else if (message->notify)
        nigh_cq_unreserve(&message->endpoint->context->cq, 1);
    nigh_message_free(message);
}

enum nigh_verdict nigh_remote_reply(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status)
{
    struct nigh_wire_remote remote;
    struct nigh_message *message;

    if (!take(endpoint, &remote) || status || remote.refer.total != op->bytes || !op->cuda)
        return NIGH_BAD;
    message = create(endpoint, &remote, NIGH_MSG_REPLY);
    if (!message)
        return NIGH_STAY;
    op->granted = true;
    message->get = op;
    if (op->result)
        nigh_rma_open_device(message, op->cuda, (uintptr_t)op->result);
    if (!message->device) { /* it was cancelled, or there is no memory for the copy */
        nigh_link_answer(endpoint, NIGH_K_FINISH, 0, remote.refer.id, (uint64_t)(int64_t)message->status,
                         NULL, 0);
        nigh_rma_reply_done(message);
        return NIGH_GO;
    }
    nigh_device_reach_enter(message, remote.refer.number);
    return NIGH_GO;
}

bool nigh_remote_is_copied(const struct nigh_send_op *op)
{
    return (op->kind == NIGH_SEND_PUT || op->kind == NIGH_SEND_REPLY) && op->device &&
           nigh_device_send_refers(op->device) && op->sent == op->bytes;
}

bool nigh_remote_stage(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    int rc = nigh_device_send_may_stage(endpoint, op);

    nigh_device_send_unrefer(endpoint, op->device);
    if (rc && op->kind == NIGH_SEND_PUT) {
        nigh_send_complete(endpoint, op, rc, 0);
        return false;
    }
    if (rc)
        nigh_rma_refuse(endpoint, op, rc);
    return true;
}

void nigh_remote_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool again)
{
    op->sent = 0;
    if (again)
        nigh_device_send_lacks(endpoint, op->device);
    /* What the other side has given up, or lost, it is brought once more. */
    if (again && !op->granted)
        op->granted = true;
    else if (!nigh_remote_stage(endpoint, op))
        return;
    nigh_send_begin(endpoint, op);
}

/* ---- deregister ---------------------------------------------------------------------------------------- */

static bool has_reader(const struct nigh_context *context, uint64_t key)
{
    for (const struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        for (uint32_t id = 0; id < endpoint->out.size; id++) {
            const struct nigh_send_op *op = endpoint->out.at[id];

            if (op && op->pinned && op->key == key && nigh_remote_is_copied(op))
                return true;
        }
    return false;
}

/* As many as empty the largest ring. */
#define PASSES (NIGH_RING_SLOTS_MAX / NIGH_TURN)

int nigh_remote_check(struct nigh_context *context, const struct nigh_region *region)
{
    int rc = nigh_region_check(&context->regions, region);

    for (uint32_t i = 0; rc == -EBUSY && i < PASSES && has_reader(context, region->key); i++) {
        if (!nigh_progress_all(context))
            return rc;
        rc = nigh_region_check(&context->regions, region);
    }
    return rc;
}
