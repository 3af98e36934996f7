/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/rma.c - put and get. Nobody can write another's memory: a put is pieces that the target copies into its own
 * region. A get of heap memory is a copy by the initiator, any other the target's pieces in return.
 */
#include "plugin/rma.h"
#include "cuda_ipc/pointer.h"
#include "plugin/answer.h"
#include "plugin/arrive.h"
#include "plugin/atomic.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_give.h"
#include "plugin/device_receive.h"
#include "plugin/device_send.h"
#include "plugin/device_way.h"
#include "plugin/pieces.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "plugin/refuse.h"
#include "plugin/remote.h"
#include "plugin/send.h"
#include "plugin/shown.h"
#include <errno.h>
#include <stdlib.h>

static int check(const struct nigh_endpoint *endpoint, const char *call, const struct nigh_rma *rma,
                 uint32_t flags)
{
    struct nigh_context *context = endpoint->context;
    int rc = nigh_check_struct(context, call, rma, rma->size, sizeof(*rma));

    if (rc)
        return rc;
    if (rma->region && !(rma->flags & NIGH_DEVICE))
        return nigh_refuse_reserved(context, call);
    if (rma->flags & ~flags)
        return nigh_refuse_flags(context, call, rma->flags, flags);
    if (rma->bytes && !rma->buffer)
        return nigh_refuse_null(context, call, rma->bytes);
    return nigh_send_check(endpoint);
}

static int op_create(struct nigh_endpoint *endpoint, const struct nigh_rma *rma, enum nigh_send_kind kind,
                     enum nigh_op what, struct nigh_send_op **out)
{
    struct nigh_send_op *op = nigh_send_create(endpoint->context, kind, what);

    if (!op)
        return -ENOMEM;
    op->bytes = rma->bytes;
    op->key = rma->key;
    op->offset = rma->offset;
    op->imm = rma->imm;
    op->context = rma->context;
    op->silent = rma->flags & NIGH_SILENT;
    op->notify = rma->flags & NIGH_NOTIFY;
    *out = op;
    return 0;
}

/* Where the local side lies: buffer->cuda is NULL for the host's memory. */
static int find_device(struct nigh_endpoint *endpoint, const char *call, const struct nigh_rma *rma,
                       struct nigh_device_buffer *buffer)
{
    *buffer = (struct nigh_device_buffer){0};
    if (__builtin_expect(!(rma->flags & NIGH_DEVICE) || !rma->bytes, 1))
        return 0;
    return nigh_device_find(endpoint->context, call, rma->region, rma->buffer, rma->bytes, buffer);
}

static void op_destroy(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    nigh_slab_give(&endpoint->context->send_ops, op);
    nigh_cq_unreserve(&endpoint->context->cq, 1);
}

int nigh_rma_put(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    struct nigh_device_buffer device;
    struct nigh_send_op *op;
    int rc = check(endpoint, "post_put", rma, NIGH_SILENT | NIGH_NOTIFY | NIGH_DEVICE);

    if (!rc)
        rc = find_device(endpoint, "post_put", rma, &device);
    if (!rc && device.cuda)
        rc = nigh_device_may_give(endpoint, "post_put", rma->region, rma->bytes, &device);
    if (!rc)
        rc = op_create(endpoint, rma, NIGH_SEND_PUT, NIGH_OP_PUT, &op);
    if (rc)
        return rc;
    if (device.cuda && !(op->device = nigh_device_send_open(&device, rma->bytes))) {
        op_destroy(endpoint, op);
        return -ENOMEM;
    }
    if (op->device)
        nigh_device_send_offer(endpoint, op->device, rma->region, false);
    op->buffer = rma->buffer;
    nigh_count(&endpoint->context->counters->put, 1);
    nigh_send_begin(endpoint, op);
    return 0;
}

/* The copy is ours alone to make: the engine for references makes it. */
static bool get_directly(struct nigh_endpoint *endpoint, struct nigh_send_op *op, uint64_t where)
{
    struct nigh_message *message = nigh_message_create(endpoint);

    if (!message)
        return false;
    message->kind = NIGH_MSG_REFER;
    message->refer = NIGH_REFER_HEAP;
    message->where = where;
    message->key = op->key;
    message->get = op;
    message->to = op->result;
    message->total = message->room = op->bytes;
    nigh_pull_begin(message);
    return true;
}

int nigh_rma_get(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    struct nigh_device_buffer device;
    struct nigh_send_op *op;
    uint64_t where;
    int rc = check(endpoint, "post_get", rma, NIGH_SILENT | NIGH_DEVICE);

    if (!rc)
        rc = find_device(endpoint, "post_get", rma, &device);
    if (!rc && device.cuda)
        rc = nigh_device_may_take(endpoint, "post_get", &device);
    if (!rc)
        rc = op_create(endpoint, rma, NIGH_SEND_GET, NIGH_OP_GET, &op);
    if (rc)
        return rc;
    op->result = rma->buffer;
    op->cuda = device.cuda;
    nigh_count(&endpoint->context->counters->get, 1);
    /* What the peer does not show it is asked for, and says why not. */
    if (!op->cuda && endpoint->attached &&
        nigh_shown_find(&endpoint->view, rma->key, rma->offset, rma->bytes, &where) &&
        get_directly(endpoint, op, where))
        return 0;
    nigh_send_begin(endpoint, op);
    return 0;
}

/* ---- the target ---------------------------------------------------------------------------------------- */

void nigh_rma_tell(struct nigh_endpoint *endpoint, enum nigh_op op, uint64_t key, uint64_t bytes,
                   uint64_t imm)
{
    struct nigh_completion done = {
        .op = (uint16_t)op,
        .bytes = bytes,
        .imm = imm,
        .source = endpoint->source,
        .endpoint = endpoint->gone ? NULL : endpoint,
    };

    nigh_region_tells(&endpoint->context->regions, key, &done.context);
    nigh_complete(endpoint->context, &done);
}

/* What has come together goes to a region that the host copies to. */
static void move(struct nigh_message *message)
{
    const struct nigh_regions *regions = &message->endpoint->context->regions;
    const struct nigh_region *region = nigh_region_copied(regions, message->key);

    message->status = nigh_region_write(region, message->staged, message->offset, message->total);
}

void nigh_rma_put_done(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    int status = nigh_device_receive_end(message, message->status);

    if (status == -EAGAIN)
        return;
    message->status = status;
    if (message->staged && !message->status)
        move(message);
    if (message->notify && message->status)
        nigh_cq_unreserve(&endpoint->context->cq, 1);
    else if (message->notify)
        nigh_rma_tell(endpoint, NIGH_OP_REMOTE_PUT, message->key, message->total, message->imm);
    nigh_link_answer(endpoint, NIGH_K_FINISH, 0, message->id, (uint64_t)(int64_t)message->status, NULL, 0);
    nigh_message_free(message);
}

/* All of it goes to a device. Without memory it ends with that, and its bytes are dropped. */
void nigh_rma_open_device(struct nigh_message *message, struct nigh_cuda_context *cuda, uint64_t at)
{
    const struct nigh_device_buffer buffer = {.cuda = cuda, .at = at};

    message->to = NULL;
    if (nigh_device_receive_open(message, &buffer, message->total))
        message->status = -ENOMEM;
}

/* A message in pieces whose place is known when it begins. */
static struct nigh_message *begin(struct nigh_endpoint *endpoint, const struct nigh_wire_first *first,
                                  enum nigh_message_kind kind)
{
    struct nigh_message *message;

    if (nigh_ids_fit(&endpoint->in, first->id))
        return NULL;
    message = nigh_message_create(endpoint);
    if (!message)
        return NULL;
    message->kind = (uint8_t)kind;
    message->id = first->id;
    message->total = message->room = first->total;
    return message;
}

/* In a region that the CPU may not touch: bytes for a device go there in slots, those that the host copies come together first. */
static void place_copied(struct nigh_message *message, const struct nigh_region *region, uint64_t offset,
                         uint32_t bytes)
{
    if (!region)
        return;
    if (region->device) {
        nigh_rma_open_device(message, region->device->context, region->device->at + offset);
        if (message->device)
            message->device->buffer.stores = region->stores;
        return;
    }
    message->offset = offset;
    nigh_message_stage(message, bytes);
}

static enum nigh_verdict arrive_put(struct nigh_endpoint *endpoint, uint64_t head, uint64_t key,
                                    uint64_t offset)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_wire_first first;
    struct nigh_message *message;
    uint64_t told;

    if (nigh_head_flags(head) & NIGH_F_REFERS)
        return nigh_remote_put(endpoint, head, key, offset);
    nigh_arrive_payload(endpoint, &first, sizeof(first));
    if (!nigh_arrive_first_is_sound(endpoint, &first, nigh_head_flags(head)))
        return NIGH_BAD;
    message = nigh_device_receive_is_crowded(endpoint) ? NULL : begin(endpoint, &first, NIGH_MSG_PUT);
    if (!message)
        return NIGH_STAY;
    message->status =
        nigh_region_at(&context->regions, key, offset, first.total, NIGH_REMOTE_WRITE, &message->to);
    if (!message->status && context->regions.copied && first.total)
        message->status = nigh_device_may_stage(endpoint, key);
    if (message->status)
        message->to = NULL; /* what still comes of it goes nowhere */
    message->notify = nigh_head_flags(head) & NIGH_F_NOTIFY;
    message->imm = message->notify ? first.imm : 0;
    if (!message->status && nigh_region_tells(&context->regions, key, &told))
        message->notify = true;
    if (message->notify && nigh_cq_reserve(&context->cq, 1)) {
        nigh_message_free(message);
        return NIGH_STAY;
    }
    message->key = key;
    message->pins = message->status ? NIGH_PINS_NOTHING : NIGH_PINS_REGION;
    if (message->pins)
        nigh_region_pin(&context->regions, key, 1);
    if (message->pins && first.total)
        place_copied(message, nigh_region_copied(&context->regions, key), offset, first.bytes);
    return nigh_arrive_first_piece(message, first.line, first.bytes, nigh_head_flags(head));
}

/* Of a region on a device; elsewhere *out stays. */
static int read_device(struct nigh_endpoint *endpoint, uint64_t key, uint64_t offset, uint64_t bytes,
                       uint32_t flags, struct nigh_device_send **out)
{
    struct nigh_region *region = nigh_region_copied(&endpoint->context->regions, key);
    struct nigh_device_buffer buffer;

    if (!region || !region->device)
        return 0;
    buffer = (struct nigh_device_buffer){
        .cuda = region->device->context, .at = region->device->at + offset, .kind = region->device->kind};
    *out = nigh_device_send_open(&buffer, bytes);
    if (*out && flags & NIGH_GET_REFER)
        nigh_device_send_offer(endpoint, *out, region, flags & NIGH_GET_SHORT);
    return *out ? 0 : -ENOMEM;
}

/* The answer to a get: pieces out of the region, or a status alone. */
static enum nigh_verdict arrive_get(struct nigh_endpoint *endpoint, uint64_t key, uint64_t offset)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_wire_get get;
    struct nigh_device_send *device = NULL;
    struct nigh_send_op *op;
    uint8_t *from = NULL;
    uint64_t told;
    bool tells;
    int status;

    nigh_arrive_payload(endpoint, &get, sizeof(get));
    if (endpoint->answers >= NIGH_IDS_MAX)
        return NIGH_BAD;
    status = nigh_region_at(&context->regions, key, offset, get.total, NIGH_REMOTE_READ, &from);
    if (!status && get.total && read_device(endpoint, key, offset, get.total, get.flags, &device))
        return NIGH_STAY;
    if (!status && context->regions.copied && get.total && !(device && nigh_device_send_refers(device)))
        status = nigh_device_may_stage(endpoint, key);
    tells = !status && nigh_region_tells(&context->regions, key, &told);
    if (tells && nigh_cq_reserve(&context->cq, 1))
        goto stay;
    op = nigh_slab_take(&context->send_ops);
    if (!op) {
        if (tells)
            nigh_cq_unreserve(&context->cq, 1);
        goto stay;
    }
    nigh_slab_zero(op, sizeof(*op));
    if (device && status) {
        nigh_device_send_close(device);
        device = NULL;
    }
    op->device = device;
    op->kind = NIGH_SEND_REPLY;
    op->id = NIGH_NO_ID;
    op->buffer = from;
    op->bytes = status ? 0 : get.total;
    op->tag = get.id;
    op->imm = (uint64_t)(int64_t)status;
    op->key = key;
    op->offset = offset;
    endpoint->answers++;
    op->tells = tells;
    op->pinned = !status;
    if (op->pinned)
        nigh_region_pin(&context->regions, key, 1);
    op->copied = op->bytes && !op->device && nigh_region_copied(&context->regions, key);
    nigh_send_begin(endpoint, op);
    return NIGH_GO;

stay:
    if (device)
        nigh_device_send_close(device);
    return NIGH_STAY;
}

/* Bytes that have been fetched for one peer and are not yet with it: one get may be longer. */
#define FETCHED_MOST (UINT64_C(16) << 20)

void nigh_rma_refuse(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status)
{
    if (op->device)
        nigh_device_send_close(op->device);
    op->device = NULL;
    op->copied = false;
    op->bytes = 0;
    op->imm = (uint64_t)(int64_t)status;
    if (op->tells)
        nigh_cq_unreserve(&endpoint->context->cq, 1);
    op->tells = false;
}

void nigh_rma_answered(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status)
{
    if (op->tells && !status) {
        nigh_rma_tell(endpoint, NIGH_OP_REMOTE_GET, op->key, op->bytes, 0);
        op->tells = false;
    }
    nigh_send_discard(endpoint, op);
}

int nigh_rma_fetch(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    const struct nigh_region *region;

    if (op->owned)
        return 0;
    if (endpoint->fetched && endpoint->fetched + op->bytes > FETCHED_MOST)
        return -EAGAIN;
    region = nigh_region_copied(&endpoint->context->regions, op->key);
    op->buffer = op->owned = malloc(op->bytes);
    if (op->owned && nigh_region_read(region, op->owned, op->offset, op->bytes) == 0) {
        endpoint->fetched += op->bytes;
        return 0;
    }
    nigh_rma_refuse(endpoint, op, -EIO);
    return 0;
}

/* ---- the initiator ------------------------------------------------------------------------------------- */

void nigh_rma_reply_done(struct nigh_message *message)
{
    struct nigh_endpoint *endpoint = message->endpoint;

    int status = nigh_device_receive_end(message, message->status);

    if (status == -EAGAIN)
        return;
    nigh_send_complete(endpoint, message->get, status, message->get->bytes);
    nigh_message_free(message);
}

static enum nigh_verdict arrive_reply(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id,
                                      uint64_t imm)
{
    struct nigh_send_op *op = nigh_ids_get(&endpoint->out, id);
    int status = nigh_answer_status(imm);
    struct nigh_wire_first first;
    struct nigh_message *message;

    if (nigh_head_flags(head) & NIGH_F_REFERS)
        return op && op->kind == NIGH_SEND_GET && !op->granted ? nigh_remote_reply(endpoint, op, status)
                                                               : NIGH_BAD;
    nigh_arrive_payload(endpoint, &first, sizeof(first));
    if (!op || op->kind != NIGH_SEND_GET || op->granted ||
        !nigh_arrive_first_is_sound(endpoint, &first, nigh_head_flags(head)) ||
        first.total != (status ? 0 : op->bytes))
        return NIGH_BAD;
    message = begin(endpoint, &first, NIGH_MSG_REPLY);
    if (!message)
        return NIGH_STAY;
    op->granted = true; /* answered: a second answer breaks the peer */
    message->get = op;
    message->to = op->cuda ? NULL : op->result;
    message->status = status;
    if (op->cuda && op->result && first.total)
        message->status = nigh_device_may_receive(endpoint, op->cuda);
    if (op->cuda && op->result && first.total && !message->status)
        nigh_rma_open_device(message, op->cuda, (uintptr_t)op->result);
    return nigh_arrive_first_piece(message, first.line, first.bytes, nigh_head_flags(head));
}

enum nigh_verdict nigh_rma_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm)
{
    switch (nigh_head_kind(head)) {
    case NIGH_K_PUT:
        return arrive_put(endpoint, head, tag, imm);
    case NIGH_K_GET:
        return arrive_get(endpoint, tag, imm);
    case NIGH_K_REPLY:
        return arrive_reply(endpoint, head, tag, imm);
    case NIGH_K_ATOMIC:
        return nigh_atomic_arrive(endpoint, head, tag, imm);
    case NIGH_K_RESULT:
        return nigh_atomic_result(endpoint, head, tag, imm);
    default:
        return NIGH_BAD;
    }
}
