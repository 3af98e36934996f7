/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/deliver.c - how a message and a receive that have found each other come to an end: where the
 * bytes go, and what the host is told. */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_receive.h"
#include "plugin/fetch.h"
#include "plugin/pieces.h"
#include "plugin/progress.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "plugin/shuttle.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

struct nigh_message *nigh_message_create(struct nigh_endpoint *endpoint)
{
    struct nigh_message *message = nigh_slab_take(&endpoint->context->messages);

    if (!message)
        return NULL;
    nigh_slab_zero(message, sizeof(*message));
    message->endpoint = endpoint;
    message->id = NIGH_NO_ID;
    message->arrived.source = endpoint->index;
    return message;
}

static void unpin(struct nigh_message *message)
{
    if (message->pins == NIGH_PINS_REGION)
        nigh_region_pin(&message->endpoint->context->regions, message->key, -1);
    else
        nigh_progress_unpin(message->endpoint);
}

void nigh_message_free(struct nigh_message *message)
{
    if (message->pins)
        unpin(message);
    nigh_fetch_forget(message);
    nigh_device_receive_close(message);
    nigh_message_unkeep(message);
    free(message->staged);
    nigh_slab_give(&message->endpoint->context->messages, message);
}

static void op_free(struct nigh_context *context, struct nigh_recv_op *op)
{
    nigh_slab_give(&context->recv_ops, op);
}

void nigh_recv_end(struct nigh_context *context, struct nigh_recv_op *op, int status,
                   struct nigh_endpoint *endpoint)
{
    struct nigh_completion done = {
        .context = op->context,
        .status = status,
        .op = NIGH_OP_RECV,
        .flags = (uint16_t)((op->flags & NIGH_MULTI ? NIGH_DONE_RELEASED : 0) |
                            nigh_done_class(op->posted.tclass)),
        .source = endpoint ? endpoint->source : NIGH_SOURCE_NONE,
        .endpoint = endpoint && !endpoint->gone ? endpoint : NULL,
    };

    op_free(context, op);
    nigh_complete(context, &done);
}

/* ---- completion -------------------------------------------------------------------------------------- */

static void count_received(struct nigh_context *context, uint64_t bytes, bool cut)
{
    nigh_count(&context->counters->received, 1);
    nigh_count(&context->counters->received_bytes, bytes);
    nigh_count(&context->counters->truncated, cut);
}

static void complete(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, int status, uint64_t bytes,
                     uint64_t tag, uint64_t imm, void *data, uint16_t flags)
{
    struct nigh_context *context = endpoint->context;
    bool cut = status == -EMSGSIZE && !(op->flags & (NIGH_MULTI | NIGH_IN_PLACE));
    struct nigh_completion done = {
        .context = op->context,
        .status = status,
        .op = NIGH_OP_RECV,
        .flags = (uint16_t)(flags | (cut ? NIGH_DONE_CUT : 0) | nigh_done_class(op->posted.tclass)),
        .bytes = bytes,
        .tag = tag,
        .imm = imm,
        .source = endpoint->source,
        .endpoint = endpoint->gone ? NULL : endpoint,
        .data = cut ? (void *)(uintptr_t)op->bytes : data,
    };

    if (op->flags & NIGH_MULTI) {
        nigh_multi_complete(context, op, &done);
        return;
    }
    op_free(context, op);
    nigh_complete(context, &done);
}

/* Completes the receive of a message. */
static inline void finish_recv(struct nigh_message *message, int status)
{
    struct nigh_context *context = message->endpoint->context;
    struct nigh_recv_op *op = message->recv;
    bool multi = op->flags & NIGH_MULTI;
    void *data = multi || message->in_place ? message->to : NULL;
    uint16_t flags = 0;

    if (!status && message->total > message->room)
        status = -EMSGSIZE;
    if (message->in_place && data && status != 0) {
        free(data);
        data = NULL;
    }
    if (message->in_place && data) {
        /* The table has room: it was reserved when the message was accepted. */
        nigh_lents_add(&context->lents,
                       &(struct nigh_lent){.data = data, .endpoint = message->endpoint, .id = NIGH_NO_ID});
        flags = NIGH_DONE_LENT;
    } else if (message->in_place) {
        nigh_lents_unreserve(&context->lents);
    }
    if (multi)
        op->busy--;
    count_received(context, message->total, status == -EMSGSIZE);
    complete(message->endpoint, op, status, message->total, message->tag, message->imm, data, flags);
}

void nigh_recv_finish(struct nigh_message *message, int status)
{
    if (__builtin_expect(message->device != NULL, 0)) {
        status = nigh_device_receive_end(message, status);
        if (status == -EAGAIN)
            return;
    }
    finish_recv(message, status);
    nigh_message_free(message);
}

void nigh_recv_drop(struct nigh_message *message)
{
    nigh_device_receive_close(message);
    finish_recv(message, -ECANCELED);
    message->kind = NIGH_MSG_DROPPED;
    message->recv = NULL;
    message->to = NULL;
}

/* ---- a message meets its receive ----------------------------------------------------------------------- */

void nigh_recv_lend(struct nigh_endpoint *endpoint, struct nigh_recv_op *op,
                    const struct nigh_wire_refer *refer, uint64_t tag, uint64_t imm)
{
    void *data = (void *)(uintptr_t)nigh_view_at(&endpoint->view, refer->where, refer->total);
    struct nigh_context *context = endpoint->context;
    struct nigh_completion *done = nigh_cq_next(&context->cq);

    nigh_completion_fill(done, op->context, NIGH_OP_RECV, op->posted.tclass, refer->total, tag, imm,
                         endpoint->source, endpoint->gone ? NULL : endpoint);
    done->flags |= NIGH_DONE_LENT;
    done->data = data;
    op_free(context, op);
    nigh_lents_add(&context->lents, &(struct nigh_lent){.data = data, .endpoint = endpoint, .id = refer->id});
    endpoint->pins++;
    count_received(context, refer->total, false);
}

void nigh_recv_lend_device(struct nigh_message *message, void *data, struct nigh_cuda_mapping *mapping)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    struct nigh_context *context = endpoint->context;
    const struct nigh_lent lent = {.data = data, .endpoint = endpoint, .mapping = mapping, .id = message->id};

    nigh_lents_add(&context->lents, &lent);
    endpoint->pins++;
    count_received(context, message->total, false);
    complete(endpoint, message->recv, 0, message->total, message->tag, message->imm, data, NIGH_DONE_LENT);
    nigh_message_free(message);
}

/* The same for a lend that waited as a message. */
static void accept_lend(struct nigh_message *message, struct nigh_recv_op *op)
{
    struct nigh_endpoint *endpoint = message->endpoint;
    struct nigh_wire_refer refer = {.total = message->total, .where = message->where, .id = message->id};

    message->recv = op;
    if (message->total > op->bytes) {
        nigh_link_answer(endpoint, NIGH_K_FINISH, 0, message->id, 0, NULL, 0);
        message->room = op->bytes;
        message->in_place = true;
        nigh_recv_finish(message, -EMSGSIZE);
        return;
    }
    nigh_recv_lend(endpoint, op, &refer, message->tag, message->imm);
    nigh_message_free(message);
}

/* In place, but not a lend: memory of our own, given to the host until release(). Shorter than the message if that is
 * more than the receive wants: then it fails anyway. */
static int in_place_buffer(struct nigh_message *message, struct nigh_recv_op *op)
{
    message->room = op->bytes;
    message->to = NULL; /* it may be where what came early was kept */
    if (message->total > op->bytes)
        return 0;
    message->room = message->total;
    message->to = malloc(message->total ? message->total : 1);
    return message->to ? 0 : -ENOMEM;
}

static int device_place(struct nigh_message *message, struct nigh_recv_op *op)
{
    const struct nigh_device_buffer buffer = {
        .cuda = op->cuda, .at = (uintptr_t)op->buffer, .stores = op->stores};

    message->to = NULL;
    return nigh_device_receive_open(message, &buffer,
                                    message->total < message->room ? message->total : message->room);
}

/* What only a peer's device memory can be. */
static int place_on_device(struct nigh_message *message, struct nigh_recv_op *op)
{
    message->room = op->bytes;
    message->to = NULL;
    return message->lent ? device_place(message, op) : -EOPNOTSUPP;
}

static int place(struct nigh_message *message, struct nigh_recv_op *op)
{
    struct nigh_context *context = message->endpoint->context;

    message->in_place = op->flags & NIGH_IN_PLACE;
    if (message->in_place && op->flags & NIGH_DEVICE)
        return place_on_device(message, op);
    if (message->in_place)
        return in_place_buffer(message, op);
    message->room = op->bytes;
    if (op->flags & NIGH_DEVICE)
        return device_place(message, op);
    message->to = op->buffer;
    if (op->flags & NIGH_MULTI) {
        message->to = op->buffer + op->used;
        message->room = op->bytes - op->used;
        op->busy++;
        nigh_multi_take(context, op, message->total);
    }
    return 0;
}

/* Pieces that came before the receive was posted. */
static void move_early(struct nigh_message *message, const uint8_t *early)
{
    uint64_t bytes = message->got < message->room ? message->got : message->room;

    if (bytes && message->device)
        nigh_device_receive_add(message, early, bytes, message->lies ? message->shuttle : 0);
    else if (bytes && message->to)
        nigh_arrive_copy(message->to, early, bytes, message->lies ? message->shuttle : 0);
    if (message->lies && message->got == message->total)
        nigh_shuttle_received(message->endpoint, message->shuttle);
    message->lies = NULL;
    nigh_message_unkeep(message);
}

void nigh_recv_refuse(struct nigh_message *message, struct nigh_recv_op *op)
{
    message->recv = op;
    message->in_place = op->flags & NIGH_IN_PLACE;
    message->room = op->bytes;
    nigh_recv_finish(message, -ECONNRESET);
}

/* Out of its sender's process the bytes come in pieces, so that the device has them while more come; elsewhere they are read as a
 * whole. */
static void accept_refer_to_device(struct nigh_message *message)
{
    if (message->refer == NIGH_REFER_CMA && !message->status && nigh_pull_divert(message))
        return;
    if (!message->status && nigh_device_receive_whole(message)) {
        message->status = -ENOMEM;
        message->room = 0;
    }
    nigh_pull_begin(message);
}

void nigh_recv_accept(struct nigh_message *message, struct nigh_recv_op *op)
{
    const uint8_t *early = message->lies ? message->lies : message->buffer ? message->buffer : message->small;
    int rc;

    if (message->kind == NIGH_MSG_REFER && message->refer == NIGH_REFER_LEND && op->flags == NIGH_IN_PLACE) {
        accept_lend(message, op);
        return;
    }
    message->recv = op;
    message->endpoint->hurried = false;
    message->endpoint->full_for = 0;
    message->endpoint->context->met++;
    rc = place(message, op);
    if (rc) {
        /* Taken and dropped: the message is spent, and the host hears why. */
        message->status = rc;
        message->room = 0;
    }
    if (message->kind == NIGH_MSG_REFER) {
        if (nigh_refer_is_device(message->refer))
            nigh_device_reach_begin(message);
        else if (message->device)
            accept_refer_to_device(message);
        else
            nigh_pull_begin(message);
        return;
    }
    if (message->got)
        move_early(message, early);
    if (message->sync || message->total > message->eager)
        nigh_link_answer(message->endpoint, NIGH_K_GRANT, 0, message->id, message->late, NULL, 0);
    if (message->lost)
        nigh_recv_finish(message, message->status ? message->status : -ECONNRESET);
    else if (message->got == message->total)
        nigh_recv_finish(message, message->status);
}

/* No memory to place a message: its receive says so, the message is spent. */
static void deliver_nothing(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes,
                            uint64_t tag, uint64_t imm)
{
    struct nigh_context *context = endpoint->context;

    if (op->flags & NIGH_IN_PLACE)
        nigh_lents_unreserve(&context->lents);
    complete(endpoint, op, -ENOMEM, bytes, tag, imm, NULL, 0);
}

static void deliver_to_device(struct nigh_message *message, uint32_t copied)
{
    uint8_t *to = copied ? nigh_device_receive_next(message) : NULL;

    if (!to)
        return;
    nigh_ring_read_body(&message->endpoint->rx, to, (uint32_t)message->total, copied);
    nigh_device_receive_added(message, copied);
}

/* Where a whole message in the ring goes for receives that are not plain. */
static void deliver_special(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes,
                            uint64_t tag, uint64_t imm)
{
    struct nigh_message *message = nigh_message_create(endpoint);
    uint32_t copied;

    if (!message) {
        deliver_nothing(endpoint, op, bytes, tag, imm);
        return;
    }
    message->kind = NIGH_MSG_BODY;
    message->total = message->eager = bytes;
    message->tag = tag;
    message->imm = imm;
    message->recv = op;
    message->status = place(message, op);
    if (message->status)
        message->room = 0;
    copied = bytes < message->room ? bytes : (uint32_t)message->room;
    if (message->device)
        deliver_to_device(message, copied);
    else if (message->to)
        nigh_ring_read_body(&endpoint->rx, message->to, bytes, copied);
    message->got = bytes;
    nigh_recv_finish(message, message->status);
}

void nigh_recv_deliver_piece(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, const void *from,
                             uint32_t bytes, uint64_t tag, uint64_t imm, uint32_t flags)
{
    uint32_t copied = bytes <= op->bytes ? bytes : (uint32_t)op->bytes;
    struct nigh_context *context = endpoint->context;

    nigh_arrive_copy(op->buffer, from, copied, flags);
    count_received(context, bytes, copied < bytes);
    if (copied < bytes) {
        complete(endpoint, op, -EMSGSIZE, bytes, tag, imm, NULL, 0);
        return;
    }
    nigh_completion_fill(nigh_cq_next(&context->cq), op->context, NIGH_OP_RECV, op->posted.tclass, bytes, tag,
                         imm, endpoint->source, endpoint);
    op_free(context, op);
}

void nigh_recv_deliver(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes, uint64_t tag,
                       uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_completion *done;
    uint32_t copied;
    bool cut;

    if (__builtin_expect(op->flags != 0, 0)) {
        deliver_special(endpoint, op, bytes, tag, imm);
        return;
    }
    copied = bytes <= op->bytes ? bytes : (uint32_t)op->bytes;
    cut = copied < bytes;
    if (copied <= NIGH_SLOT_PAYLOAD)
        nigh_copy_small(op->buffer, endpoint->rx.at->payload, copied);
    else
        nigh_ring_read_body(&endpoint->rx, op->buffer, bytes, copied);
    count_received(context, bytes, cut);
    done = nigh_cq_next(&context->cq);
    *done = (struct nigh_completion){
        .context = op->context,
        .status = cut ? -EMSGSIZE : 0,
        .op = NIGH_OP_RECV,
        .flags = (uint16_t)((cut ? NIGH_DONE_CUT : 0) | nigh_done_class(op->posted.tclass)),
        .bytes = bytes,
        .tag = tag,
        .imm = imm,
        .source = endpoint->source,
        .endpoint = endpoint,
        .data = cut ? (void *)(uintptr_t)op->bytes : NULL,
    };
    op_free(context, op);
}
