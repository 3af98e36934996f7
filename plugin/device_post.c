/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_post.c - see device_post.h. */
#include "plugin/device_post.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_give.h"
#include "plugin/device_send.h"
#include "plugin/device_way.h"
#include "plugin/lend.h"
#include "plugin/refuse.h"
#include "plugin/send.h"

#include <errno.h>
#include <sched.h>

/* Of at most NIGH_INJECT_BYTES: waits for the device. */
static int fetch_injected(struct nigh_context *context, const struct nigh_device_buffer *buffer, uint8_t *to,
                          uint64_t bytes)
{
    struct nigh_device_slot slot = {.memory = to, .bytes = bytes, .block = true};
    int rc;

    nigh_device_slot_copy(context, buffer, &slot, NIGH_CUDA_COPY_TO_HOST, 0);
    while ((rc = nigh_device_slot_step(context, &slot)) == -EAGAIN) {
        nigh_device_step(context); /* messages may have all events */
        sched_yield();
    }
    return rc;
}

/* What is injected has left the device when the post returns. */
static int post_injected(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                         const struct nigh_device_buffer *buffer)
{
    uint8_t bytes[NIGH_INJECT_BYTES];
    struct nigh_send host = *send;
    int rc = fetch_injected(endpoint->context, buffer, bytes, send->bytes);

    host.buffer = bytes;
    host.flags &= ~NIGH_DEVICE;
    return rc ? rc : nigh_send_post(endpoint, &host);
}

/* What is to be sent or lent, with its room to be staged. -ENOMEM. */
static int create(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                  const struct nigh_device_buffer *buffer, enum nigh_op what, struct nigh_send_op **out)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op = nigh_send_create(context, NIGH_SEND_CHUNKED, what);

    if (!op)
        return -ENOMEM;
    op->device = nigh_device_send_open(buffer, send->bytes);
    if (!op->device) {
        nigh_slab_give(&context->send_ops, op);
        nigh_cq_unreserve(&context->cq, 1);
        return -ENOMEM;
    }
    op->path = NIGH_PATH_CHUNKED;
    op->buffer = send->buffer;
    op->bytes = send->bytes;
    op->tag = send->tag;
    op->imm = send->imm;
    op->context = send->context;
    op->tclass = (uint8_t)send->tclass;
    op->silent = send->flags & NIGH_SILENT;
    op->sync = send->flags & NIGH_SYNC;
    *out = op;
    return 0;
}

static void begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    nigh_count_sent(endpoint->context, op->path, 1, op->bytes);
    nigh_send_begin(endpoint, op);
}

static int post_from_device(struct nigh_endpoint *endpoint, const struct nigh_send *send,
                            const struct nigh_device_buffer *buffer)
{
    bool is_short = nigh_device_gift_is_short(endpoint, send->bytes);
    struct nigh_send_op *op;
    int rc = is_short ? nigh_device_may_post(endpoint, "post_send", buffer)
                      : nigh_device_may_give(endpoint, "post_send", send->region, send->bytes, buffer);

    if (!rc)
        rc = create(endpoint, send, buffer, NIGH_OP_SEND, &op);
    if (rc)
        return rc;
    if (!is_short)
        nigh_device_send_offer(endpoint, op->device, send->region, true);
    if (nigh_device_send_refers(op->device)) {
        op->kind = NIGH_SEND_REFER;
        op->path = NIGH_PATH_DEVICE;
    }
    begin(endpoint, op);
    return 0;
}

static int refuse_lend(const struct nigh_endpoint *endpoint, const struct nigh_device_buffer *buffer,
                       enum nigh_device_reason why)
{
    if (!why)
        why = nigh_device_best(endpoint, buffer->cuda->ordinal, buffer->kind).reason;
    return nigh_refuse(endpoint->context, -ENOTSUP,
                       "post_lend: memory of CUDA device %d cannot be mapped by rank %d: %s; send it",
                       buffer->cuda->ordinal, (int)endpoint->rank,
                       why ? nigh_device_reason_text(why) : "it is not exported");
}

static int lend_from_device(struct nigh_endpoint *endpoint, const struct nigh_lend *lend,
                            const struct nigh_device_buffer *buffer)
{
    const struct nigh_send send = {.flags = lend->flags,
                                   .buffer = lend->buffer,
                                   .bytes = lend->bytes,
                                   .tag = lend->tag,
                                   .imm = lend->imm,
                                   .context = lend->context,
                                   .tclass = lend->tclass,
                                   .region = lend->region};
    struct nigh_device_gift gift = {.export = NULL};
    struct nigh_send_op *op;
    int rc;

    if (!nigh_device_gift_open(endpoint, send.region, send.bytes, buffer, &gift))
        return refuse_lend(endpoint, buffer, gift.why);
    rc = create(endpoint, &send, buffer, NIGH_OP_LEND, &op);
    if (rc) {
        nigh_device_gift_close(&gift);
        return rc;
    }
    nigh_device_send_give(op->device, &gift);
    op->kind = NIGH_SEND_REFER;
    op->path = NIGH_PATH_LEND;
    begin(endpoint, op);
    return 0;
}

int nigh_device_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend)
{
    struct nigh_device_buffer buffer = {0};
    struct nigh_lend host = *lend;
    int rc = nigh_send_check(endpoint);

    if (!rc && lend->bytes)
        rc = nigh_device_find(endpoint->context, "post_lend", lend->region, lend->buffer, lend->bytes,
                              &buffer);
    if (rc)
        return rc;
    host.flags &= ~NIGH_DEVICE;
    host.region = NULL;
    if (!buffer.cuda)
        return nigh_lend_post(endpoint, &host);
    return endpoint->state == NIGH_CONNECTING ? -EAGAIN : lend_from_device(endpoint, lend, &buffer);
}

int nigh_device_send_post(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_device_buffer buffer = {0};
    struct nigh_send host = *send;
    int rc = 0;

    if (send->bytes)
        rc = nigh_device_find(endpoint->context, "post_send", send->region, send->buffer, send->bytes,
                              &buffer);
    if (rc)
        return rc;
    if (buffer.cuda)
        return send->flags & NIGH_INJECT ? post_injected(endpoint, send, &buffer)
                                         : post_from_device(endpoint, send, &buffer);
    host.flags &= ~NIGH_DEVICE;
    return nigh_send_post(endpoint, &host);
}
