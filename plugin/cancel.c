/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/cancel.c - taking back what was posted. What has not begun is taken out of its queue. What is under way, a
 * receive, a get or an atomic, completes as soon as nobody writes to its memory, and what still comes for it is dropped.
 */
#include "plugin/context.h"
#include "plugin/device_receive.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "plugin/send.h"
#include <errno.h>

/* ---- what has not begun -------------------------------------------------------------------------------- */

static bool has_context(const struct nigh_posted *posted, void *data)
{
    return nigh_recv_op_of(posted)->context == *(uint64_t *)data;
}

static bool cancel_posted(struct nigh_context *context, uint64_t op_context)
{
    struct nigh_posted *posted = nigh_match_oldest(&context->matcher, has_context, &op_context);

    if (!posted)
        return false;
    nigh_match_withdraw(&context->matcher, posted);
    nigh_recv_cancel(context, nigh_recv_op_of(posted), -ECANCELED, NULL);
    return true;
}

static bool cancel_send(struct nigh_endpoint *endpoint, uint64_t op_context)
{
    struct nigh_send_op **link = &endpoint->queue.head, *op;

    for (; (op = *link) != NULL; link = &op->next) {
        if (!op->op || op->published || op->context != op_context)
            continue;
        nigh_queue_take(&endpoint->queue, link);
        nigh_send_complete(endpoint, op, -ECANCELED, 0);
        return true;
    }
    return false;
}

static bool cancel_queued(struct nigh_context *context, uint64_t op_context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (cancel_send(endpoint, op_context))
            return true;
    return false;
}

/* ---- messages under way -------------------------------------------------------------------------------- */

/* Whose message: of this receive, or, where that is NULL, of any receive or get with this context. */
struct wanted {
    const struct nigh_recv_op *recv;
    uint64_t context;
};

/* One that has `ended` completes by itself. */
static bool is_wanted(const struct nigh_message *message, const struct wanted *wanted)
{
    if (message->ended)
        return false;
    if (wanted->recv)
        return message->recv == wanted->recv;
    if (message->get)
        return message->get->op && message->get->context == wanted->context;
    return message->recv && message->recv->context == wanted->context;
}

static struct nigh_message *find_pull(struct nigh_message *message, const struct wanted *wanted)
{
    while (message && !is_wanted(message, wanted))
        message = message->next;
    return message;
}

static struct nigh_message *find_pieces(const struct nigh_endpoint *endpoint, const struct wanted *wanted)
{
    for (uint32_t id = 0; id < endpoint->in.size; id++) {
        struct nigh_message *message = endpoint->in.at[id];

        if (message && is_wanted(message, wanted))
            return message;
    }
    return NULL;
}

static struct nigh_message *find_reach(const struct nigh_endpoint *endpoint, const struct wanted *wanted)
{
    struct nigh_message *message = endpoint->device_receives;

    while (message && (!message->device->reach.on || !is_wanted(message, wanted)))
        message = message->device->next;
    return message;
}

static struct nigh_message *find(const struct nigh_context *context, const struct wanted *wanted)
{
    struct nigh_message *found = find_pull(context->copying, wanted);

    if (!found)
        found = find_pull(context->pulls, wanted);
    for (struct nigh_endpoint *endpoint = context->all; !found && endpoint; endpoint = endpoint->next_all) {
        found = find_reach(endpoint, wanted);
        if (!found)
            found = find_pieces(endpoint, wanted);
    }
    return found;
}

/* Completes an operation whose answer is still to come, and has that dropped. */
static void abandon(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    nigh_send_tell(endpoint, op->context, op->op, op->tclass, -ECANCELED, 0);
    op->op = 0;
    op->result = NULL;
}

static void drop(struct nigh_message *message)
{
    if (message->device && message->device->reach.on) {
        nigh_device_reach_cancel(message, -ECANCELED);
    } else if (message->kind == NIGH_MSG_REFER) {
        nigh_pull_cancel(message);
    } else if (message->kind == NIGH_MSG_REPLY) {
        nigh_device_receive_close(message);
        message->to = NULL;
        abandon(message->endpoint, message->get);
    } else {
        nigh_recv_drop(message);
    }
}

/* A multi-receive buffer that takes no more messages ends behind those that it has; asked once more, without them. */
static void cancel_multi(struct nigh_context *context, struct nigh_recv_op *op)
{
    struct wanted wanted = {.recv = op};
    struct nigh_message *message;

    if (!op->ended) {
        op->ended = -ECANCELED;
        return;
    }
    /* The last one frees the operation, which is only compared then. */
    while ((message = find(context, &wanted)) != NULL)
        drop(message);
}

static bool cancel_arriving(struct nigh_context *context, uint64_t op_context)
{
    struct wanted wanted = {.context = op_context};
    struct nigh_message *message = find(context, &wanted);

    if (!message)
        return false;
    if (message->recv && message->recv->flags & NIGH_MULTI)
        cancel_multi(context, message->recv);
    else
        drop(message);
    return true;
}

/* ---- requests whose answers have not come -------------------------------------------------------------- */

static bool cancel_asked_of(struct nigh_endpoint *endpoint, uint64_t op_context)
{
    for (uint32_t id = 0; id < endpoint->out.size; id++) {
        struct nigh_send_op *op = endpoint->out.at[id];

        if (!op || !op->op || op->context != op_context ||
            (op->kind != NIGH_SEND_GET && op->kind != NIGH_SEND_ATOMIC) ||
            (op->kind == NIGH_SEND_GET && op->granted))
            continue;
        abandon(endpoint, op);
        return true;
    }
    return false;
}

static bool cancel_asked(struct nigh_context *context, uint64_t op_context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (cancel_asked_of(endpoint, op_context))
            return true;
    return false;
}

/* ---- the slots ----------------------------------------------------------------------------------------- */

int nigh_cancel_unmatched(struct nigh_context *context, uint64_t op_context)
{
    return cancel_posted(context, op_context) || cancel_queued(context, op_context) ? 0 : -ENOENT;
}

int nigh_cancel(struct nigh_context *context, uint64_t op_context)
{
    if (!nigh_cancel_unmatched(context, op_context))
        return 0;
    return cancel_arriving(context, op_context) || cancel_asked(context, op_context) ? 0 : -ENOENT;
}
