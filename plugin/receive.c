/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/receive.c - post_recv, and how a message and a receive that have found each other come to an end. */
#include "plugin/context.h"
#include "shm/copy.h"
#include <errno.h>
#include <stdlib.h>

struct nigh_message *nigh_message_create(struct nigh_endpoint *endpoint)
{
    struct nigh_message *message = nigh_slab_take(&endpoint->context->messages);

    if (!message)
        return NULL;
    memset(message, 0, sizeof(*message));
    message->endpoint = endpoint;
    message->id = NIGH_NO_ID;
    message->arrived.source = endpoint->index;
    return message;
}

void nigh_message_free(struct nigh_message *message)
{
    if (message->pinned)
        nigh_region_pin(&message->endpoint->context->regions, message->key, -1);
    free(message->buffer);
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
        .flags = op->flags & NIGH_MULTI ? NIGH_DONE_RELEASED : 0,
        .source = endpoint ? endpoint->source : NIGH_SOURCE_NONE,
        .endpoint = endpoint && !endpoint->gone ? endpoint : NULL,
    };

    op_free(context, op);
    nigh_complete(context, &done);
}

/* ---- completion -------------------------------------------------------------------------------------- */

static void count_received(struct nigh_context *context, uint64_t bytes, bool cut)
{
    context->counters.received++;
    context->counters.received_bytes += bytes;
    context->counters.truncated += cut;
}

static void complete(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, int status, uint64_t bytes,
                     uint64_t tag, uint64_t imm, void *data, uint16_t flags)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_completion done = {
        .context = op->context,
        .status = status,
        .op = NIGH_OP_RECV,
        .flags = flags,
        .bytes = bytes,
        .tag = tag,
        .imm = imm,
        .source = endpoint->source,
        .endpoint = endpoint->gone ? NULL : endpoint,
        .data = data,
    };

    if (op->flags & NIGH_MULTI) {
        nigh_multi_complete(context, op, &done);
        return;
    }
    op_free(context, op);
    nigh_complete(context, &done);
}

void nigh_recv_finish(struct nigh_message *message, int status)
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
        nigh_lents_add(&context->lents, data, message->endpoint, NIGH_NO_ID);
        flags = NIGH_DONE_LENT;
    } else if (message->in_place) {
        nigh_lents_unreserve(&context->lents);
    }
    if (multi)
        op->busy--;
    count_received(context, message->total, status == -EMSGSIZE);
    complete(message->endpoint, op, status, message->total, message->tag, message->imm, data, flags);
    nigh_message_free(message);
}

/* ---- a message meets its receive ----------------------------------------------------------------------- */

void nigh_recv_lend(struct nigh_endpoint *endpoint, struct nigh_recv_op *op,
                    const struct nigh_wire_refer *refer, uint64_t tag, uint64_t imm)
{
    void *data = (void *)(uintptr_t)nigh_view_at(&endpoint->view, refer->where, refer->total);

    nigh_lents_add(&endpoint->context->lents, data, endpoint, refer->id);
    endpoint->pins++;
    count_received(endpoint->context, refer->total, false);
    complete(endpoint, op, 0, refer->total, tag, imm, data, NIGH_DONE_LENT);
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
    if (message->total > op->bytes)
        return 0;
    message->room = message->total;
    message->to = malloc(message->total ? message->total : 1);
    return message->to ? 0 : -ENOMEM;
}

static int place(struct nigh_message *message, struct nigh_recv_op *op)
{
    struct nigh_context *context = message->endpoint->context;

    message->in_place = op->flags & NIGH_IN_PLACE;
    if (message->in_place)
        return in_place_buffer(message, op);
    message->to = op->buffer;
    message->room = op->bytes;
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

    if (bytes && message->to)
        memcpy(message->to, early, bytes);
    free(message->buffer);
    message->buffer = NULL;
}

void nigh_recv_refuse(struct nigh_message *message, struct nigh_recv_op *op)
{
    message->recv = op;
    message->in_place = op->flags & NIGH_IN_PLACE;
    message->room = op->bytes;
    nigh_recv_finish(message, -ECONNRESET);
}

void nigh_recv_accept(struct nigh_message *message, struct nigh_recv_op *op)
{
    const uint8_t *early = message->buffer ? message->buffer : message->small;

    if (message->kind == NIGH_MSG_REFER && message->refer == NIGH_REFER_LEND && op->flags & NIGH_IN_PLACE) {
        accept_lend(message, op);
        return;
    }
    message->recv = op;
    if (place(message, op)) {
        /* Taken and dropped: the message is spent, and the host hears why. */
        message->status = -ENOMEM;
        message->room = 0;
    }
    if (message->kind == NIGH_MSG_REFER) {
        nigh_pull_begin(message);
        return;
    }
    if (message->got)
        move_early(message, early);
    if (message->sync || message->total > message->eager)
        nigh_link_answer(message->endpoint, NIGH_K_GRANT, 0, message->id, 0, NULL, 0);
    if (message->lost)
        nigh_recv_finish(message, -ECONNRESET);
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
    if (place(message, op)) {
        message->status = -ENOMEM;
        message->room = 0;
    }
    copied = bytes < message->room ? bytes : (uint32_t)message->room;
    if (message->to)
        nigh_ring_read_body(&endpoint->rx, message->to, copied);
    message->got = bytes;
    nigh_recv_finish(message, message->status);
}

void nigh_recv_deliver_piece(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, const void *from,
                             uint32_t bytes, uint64_t tag, uint64_t imm, uint32_t flags)
{
    uint32_t copied = bytes <= op->bytes ? bytes : (uint32_t)op->bytes;

    nigh_arrive_copy(op->buffer, from, copied, flags);
    count_received(endpoint->context, bytes, copied < bytes);
    complete(endpoint, op, copied < bytes ? -EMSGSIZE : 0, bytes, tag, imm, NULL, 0);
}

void nigh_recv_deliver(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes, uint64_t tag,
                       uint64_t imm)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_completion *done;
    uint32_t copied;

    if (__builtin_expect(op->flags != 0, 0)) {
        deliver_special(endpoint, op, bytes, tag, imm);
        return;
    }
    copied = bytes <= op->bytes ? bytes : (uint32_t)op->bytes;
    if (copied <= NIGH_SLOT_PAYLOAD)
        nigh_copy_small(op->buffer, endpoint->rx.at->payload, copied);
    else
        nigh_ring_read_body(&endpoint->rx, op->buffer, copied);
    count_received(context, bytes, copied < bytes);
    done = nigh_cq_next(&context->cq);
    *done = (struct nigh_completion){
        .context = op->context,
        .status = copied < bytes ? -EMSGSIZE : 0,
        .op = NIGH_OP_RECV,
        .bytes = bytes,
        .tag = tag,
        .imm = imm,
        .source = endpoint->source,
        .endpoint = endpoint,
    };
    op_free(context, op);
}

/* ---- posting ------------------------------------------------------------------------------------------ */

void nigh_recv_cancel(struct nigh_context *context, struct nigh_recv_op *op, int status,
                      struct nigh_endpoint *endpoint)
{
    if (op->flags & NIGH_MULTI && op->busy) {
        /* Messages are still arriving in it: they come first. */
        op->retired = true;
        op->ended = status;
        return;
    }
    if (op->flags & NIGH_IN_PLACE)
        nigh_lents_unreserve(&context->lents);
    nigh_recv_end(context, op, status, endpoint);
}

int nigh_recv_check(const struct nigh_recv *recv)
{
    if (nigh_check_size(recv, recv->size, sizeof(*recv)) || recv->flags & ~(NIGH_MULTI | NIGH_IN_PLACE))
        return -EINVAL;
    if (recv->tclass >= NIGH_TCLASSES || recv->flags == (NIGH_MULTI | NIGH_IN_PLACE))
        return -EINVAL;
    if (recv->flags & NIGH_MULTI && (!recv->min_free || recv->min_free > recv->bytes))
        return -EINVAL;
    if (!(recv->flags & NIGH_IN_PLACE) && recv->bytes && !recv->buffer)
        return -EFAULT;
    return 0;
}

int nigh_recv_create(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv,
                     struct nigh_recv_op **out)
{
    struct nigh_recv_op *op;

    if (recv->flags & NIGH_IN_PLACE && nigh_lents_reserve(&context->lents))
        return -ENOMEM;
    if (nigh_cq_reserve(&context->cq, 1))
        goto unreserve_lent;
    op = nigh_slab_take(&context->recv_ops);
    if (!op)
        goto unreserve_cq;
    op->posted.source = from ? from->index : NIGH_ANY;
    op->posted.tclass = (uint16_t)recv->tclass;
    op->posted.tag = recv->tag;
    op->posted.ignore = recv->ignore;
    op->posted.keep = recv->flags & NIGH_MULTI;
    op->buffer = recv->buffer;
    op->bytes = recv->bytes;
    op->context = recv->context;
    op->flags = recv->flags;
    if (recv->flags & NIGH_MULTI) {
        op->from = from;
        op->min_free = recv->min_free;
        op->used = 0;
        op->busy = 0;
        op->ended = 0;
        op->retired = false;
    }
    *out = op;
    return 0;

unreserve_cq:
    nigh_cq_unreserve(&context->cq, 1);
unreserve_lent:
    if (recv->flags & NIGH_IN_PLACE)
        nigh_lents_unreserve(&context->lents);
    return -ENOMEM;
}

static struct nigh_message *find(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag,
                                 uint64_t ignore, uint32_t tclass, bool take)
{
    struct nigh_arrived *arrived =
        nigh_match_find(&context->matcher, from ? from->index : NIGH_ANY, tclass, tag, ignore, take);

    return (struct nigh_message *)(void *)arrived;
}

int nigh_recv_cannot_wait(struct nigh_context *context, const struct nigh_endpoint *from)
{
    if (from)
        return nigh_endpoint_check(from);
    if (!context->deaths_untold)
        return 0;
    context->deaths_untold--;
    return -ECONNRESET;
}

static int post_general(struct nigh_context *context, struct nigh_endpoint *from,
                        const struct nigh_recv *recv)
{
    struct nigh_message *message = NULL;
    struct nigh_recv_op *op;
    int rc = nigh_recv_check(recv);

    if (rc)
        return rc;
    if (__builtin_expect(from && from->state >= NIGH_PEER_CLOSED, 0) &&
        !find(context, from, recv->tag, recv->ignore, recv->tclass, false))
        return nigh_endpoint_check(from);
    rc = nigh_recv_create(context, from, recv, &op);
    if (rc)
        return rc;
    if (__builtin_expect(op->flags & NIGH_MULTI, 0)) {
        nigh_multi_post(context, from, op);
        return 0;
    }
    if (__builtin_expect(context->matcher.arrived_count != 0, 0))
        message = find(context, from, recv->tag, recv->ignore, recv->tclass, true);
    if (message)
        nigh_recv_accept(message, op);
    else if (!from && __builtin_expect(context->deaths_untold != 0, 0))
        nigh_recv_cancel(context, op, nigh_recv_cannot_wait(context, NULL), NULL);
    else
        nigh_match_post(&context->matcher, &op->posted);
    return 0;
}

/* The common case in one look: a plain receive, nothing waits to be matched or told. */
static inline bool is_plain(const struct nigh_context *context, const struct nigh_endpoint *from,
                            const struct nigh_recv *recv)
{
    return NIGH_FIELD(recv->size) == sizeof(*recv) && !NIGH_FIELD(recv->flags) &&
           NIGH_FIELD(recv->tclass) < NIGH_TCLASSES && recv->buffer && !context->matcher.arrived_count &&
           (from ? from->state < NIGH_PEER_CLOSED : !context->deaths_untold);
}

static inline int post_plain(struct nigh_context *context, struct nigh_endpoint *from,
                             const struct nigh_recv *recv)
{
    struct nigh_recv_op *op;

    if (nigh_cq_reserve(&context->cq, 1))
        return -ENOMEM;
    op = nigh_slab_take(&context->recv_ops);
    if (!op) {
        nigh_cq_unreserve(&context->cq, 1);
        return -ENOMEM;
    }
    op->posted.source = from ? from->index : NIGH_ANY;
    op->posted.tclass = (uint16_t)NIGH_FIELD(recv->tclass);
    op->posted.keep = false;
    op->posted.tag = NIGH_FIELD(recv->tag);
    op->posted.ignore = nigh_field_halves(&recv->ignore);
    op->buffer = NIGH_FIELD(recv->buffer);
    op->bytes = NIGH_FIELD(recv->bytes);
    op->context = NIGH_FIELD(recv->context);
    op->flags = 0;
    nigh_match_post(&context->matcher, &op->posted);
    return 0;
}

int nigh_recv_post(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    if (__builtin_expect(is_plain(context, from, recv), 1))
        return post_plain(context, from, recv);
    return post_general(context, from, recv);
}
