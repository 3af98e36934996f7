/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/op.c - the life of a send operation: it is made, starts at once or from the queue, completes. Messages, lends,
 * remote memory and answers are such; what a post sends without one is in send.c. */
#include "plugin/context.h"
#include "plugin/device_send.h"
#include "plugin/here.h"
#include "plugin/large.h"
#include "plugin/progress.h"
#include "plugin/remote.h"
#include "plugin/rma.h"
#include "plugin/send.h"
#include "shm/heap.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <stdlib.h>

/* Operations that wait on one endpoint; beyond it the host hears -EAGAIN. */
#define QUEUED_MAX 16384u

struct nigh_send_op *nigh_send_claim(struct nigh_context *context)
{
    struct nigh_send_op *op;

    if (nigh_cq_reserve(&context->cq, 1))
        return NULL;
    op = nigh_slab_take(&context->send_ops);
    if (!op)
        nigh_cq_unreserve(&context->cq, 1);
    return op;
}

void nigh_send_clear(struct nigh_send_op *op, enum nigh_send_kind kind, enum nigh_op what)
{
    nigh_slab_zero(op, sizeof(*op));
    op->kind = (uint8_t)kind;
    op->op = (uint16_t)what;
    op->id = NIGH_NO_ID;
}

struct nigh_send_op *nigh_send_create(struct nigh_context *context, enum nigh_send_kind kind,
                                      enum nigh_op what)
{
    struct nigh_send_op *op = nigh_send_claim(context);

    if (op)
        nigh_send_clear(op, kind, what);
    return op;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

void nigh_send_discard(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    if (op->device)
        nigh_device_send_close(op->device);
    if (op->id != NIGH_NO_ID)
        nigh_ids_give(&endpoint->out, op->id);
    nigh_help_forget(endpoint, op);
    endpoint->context->referred -= op->counted;
    nigh_spread_end(endpoint, op);
    if (op->held)
        nigh_heap_unhold(endpoint->context->heap, op->held);
    if (op->share)
        nigh_share_end(endpoint->context, op);
    if (op->tells)
        nigh_cq_unreserve(&endpoint->context->cq, 1);
    if (op->pinned)
        nigh_region_pin(&endpoint->context->regions, op->key, -1);
    if (op->kind == NIGH_SEND_CONTROL || op->kind == NIGH_SEND_REPLY)
        endpoint->answers--;
    if (op->copied && op->owned)
        endpoint->fetched -= op->bytes;
    free(op->owned);
    nigh_slab_give(&endpoint->context->send_ops, op);
}

void nigh_send_complete(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status, uint64_t bytes)
{
    /* Its buffer is the host's again when that is told. */
    if (__builtin_expect(op->device != NULL, 0)) {
        nigh_device_send_close(op->device);
        op->device = NULL;
    }
    if (op->op && op->silent && !status)
        nigh_cq_unreserve(&endpoint->context->cq, 1);
    else if (op->op)
        nigh_send_tell(endpoint, op->context, op->op, op->tclass, status, bytes);
    nigh_send_discard(endpoint, op);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

static bool take_id(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    return op->id != NIGH_NO_ID || nigh_ids_take(&endpoint->out, op, &op->id) == 0;
}

static uint64_t body_head(const struct nigh_send_op *op)
{
    return nigh_head_make(NIGH_K_MESSAGE, 0, op->tclass, 0);
}

static int start_body(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    int rc = 0;

    if (op->published)
        nigh_link_published(endpoint);
    else
        rc = nigh_link_send(endpoint, body_head(op), op->tag, op->imm, op->buffer, (uint32_t)op->bytes);
    if (!rc)
        nigh_send_complete(endpoint, op, 0, op->bytes);
    return rc;
}

static int send_refer(struct nigh_endpoint *endpoint, struct nigh_send_op *op, struct nigh_wire_refer *refer,
                      uint32_t flags)
{
    if (!take_id(endpoint, op))
        return -EAGAIN;
    refer->id = op->id;
    refer->total = op->bytes;
    return nigh_link_send(endpoint, nigh_head_make(NIGH_K_REFER, 0, op->tclass, flags), op->tag, op->imm,
                          refer, sizeof(*refer));
}

static int start_refer(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_wire_refer refer = {.where = op->key, .refer = op->refer};

    if (op->refer == NIGH_REFER_CMA)
        refer.cpu = nigh_here_cpu();
    return send_refer(endpoint, op, &refer, op->early ? NIGH_F_EARLY : 0);
}

static int start_pieces(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    if (!take_id(endpoint, op) || (op->copied && nigh_rma_fetch(endpoint, op)))
        return -EAGAIN;
    return nigh_large_start(endpoint, op);
}

static int start_device(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_wire_refer refer = {.total = op->bytes};
    int rc = nigh_device_send_refer(endpoint, op->device, &refer);

    if (rc == 0 || rc == -EAGAIN)
        return rc ? rc : send_refer(endpoint, op, &refer, op->op == NIGH_OP_LEND ? NIGH_F_LENT : 0);
    rc = nigh_device_send_may_stage(endpoint, op);
    if (rc) {
        nigh_send_complete(endpoint, op, rc, 0);
        return 0;
    }
    nigh_device_send_stage(endpoint, op);
    return start_pieces(endpoint, op);
}

/* A put, or the answer to a get, that the other side's device copies. Where it cannot be handed over it is staged. */
static int start_remote(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    bool put = op->kind == NIGH_SEND_PUT;
    struct nigh_wire_remote remote = {.imm = op->imm};
    int rc = nigh_device_send_refer(endpoint, op->device, &remote.refer);
    uint32_t flags = NIGH_F_REFERS | (op->notify ? NIGH_F_NOTIFY : 0);

    if (rc && rc != -EAGAIN)
        return nigh_remote_stage(endpoint, op) ? start_pieces(endpoint, op) : 0;
    if (rc || !take_id(endpoint, op))
        return -EAGAIN;
    remote.refer.total = op->bytes;
    remote.refer.id = op->id;
    rc = nigh_link_send(endpoint, nigh_head_make(put ? NIGH_K_PUT : NIGH_K_REPLY, 0, 0, flags),
                        put ? op->key : op->tag, put ? op->offset : op->imm, &remote, sizeof(remote));
    if (!rc)
        op->sent = op->bytes; /* nothing more is to be sent: FINISH may come */
    return rc;
}

static int start_get(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_wire_get get = {.total = op->bytes};

    if (op->cuda)
        get.flags = NIGH_GET_REFER | (endpoint->context->config.cuda_required ? NIGH_GET_SHORT : 0);
    if (!take_id(endpoint, op))
        return -EAGAIN;
    get.id = op->id;
    return nigh_link_send(endpoint, nigh_head_make(NIGH_K_GET, 0, 0, 0), op->key, op->offset, &get,
                          sizeof(get));
}

/* The request was made when it was posted, but for the id. */
static int start_atomic(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_wire_atomic *request = (struct nigh_wire_atomic *)(void *)op->owned;

    if (!take_id(endpoint, op))
        return -EAGAIN;
    request->id = op->id;
    return nigh_link_send(endpoint, nigh_head_make(NIGH_K_ATOMIC, 0, 0, 0), op->key, op->offset, request,
                          (uint32_t)op->imm);
}

static int start_control(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    int rc = nigh_link_send(endpoint, op->head, op->tag, op->imm, op->buffer, (uint32_t)op->bytes);

    if (!rc)
        nigh_send_discard(endpoint, op);
    return rc;
}

/* Sends the first slot of an operation, and completes it if that was all. Not 0: nothing was sent. */
static int start_kind(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    switch ((enum nigh_send_kind)op->kind) {
    case NIGH_SEND_BODY:
        return start_body(endpoint, op);
    case NIGH_SEND_REFER:
        return op->device ? start_device(endpoint, op) : start_refer(endpoint, op);
    case NIGH_SEND_GET:
        return start_get(endpoint, op);
    case NIGH_SEND_ATOMIC:
        return start_atomic(endpoint, op);
    case NIGH_SEND_CONTROL:
        return start_control(endpoint, op);
    case NIGH_SEND_CHUNKED:
    case NIGH_SEND_PUT:
    case NIGH_SEND_REPLY:
        if (op->device && nigh_device_send_refers(op->device))
            return start_remote(endpoint, op);
        return start_pieces(endpoint, op);
    }
    return -EINVAL;
}

static int start(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    int rc = start_kind(endpoint, op);

    /* A number stands for what the peer has been told of. What still waits must not have one: the peer could end it
     * while it is in the queue. */
    if (rc && op->id != NIGH_NO_ID) {
        nigh_ids_give(&endpoint->out, op->id);
        op->id = NIGH_NO_ID;
    }
    return rc;
}

/*
 * What was done with when it was posted must not wait until its host polls again: that may compute, or wait for its
 * receiver by other ways. So it is published at once: the greeting has gone with the window, if the peer was there to
 * be dialled, and a peer reads the ring when it has attached. Behind something that is not published nothing may be.
 */
static bool publish_ahead(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_send_op *last = nigh_queue_last(&endpoint->queue);

    return op->silent && op->kind == NIGH_SEND_BODY && (!last || last->published) &&
           nigh_link_ahead(endpoint, body_head(op), op->tag, op->imm, op->buffer, (uint32_t)op->bytes) == 0;
}

/* A peer that attached before it could see that sleeps, perhaps: then its answer is here. What another thread of ours
 * would have been woken for may be gone from the sockets then. Operations that are queued may be gone when this
 * returns. */
static void look_for_answer(struct nigh_context *context)
{
    uint32_t asleep;

    nigh_fence_full(ATTACH_LOOK);
    nigh_log_use(&context->log);
    if (!nigh_rendezvous_progress(context->rendezvous))
        return;
    asleep = nigh_load_relaxed(&nigh_arena_state(&context->arena)->asleep);
    if (asleep)
        nigh_bell_ring(&context->bell, asleep);
}

void nigh_send_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    if (!endpoint->queue.head && endpoint->state == NIGH_READY && start(endpoint, op) == 0)
        return;
    if (endpoint->state == NIGH_CONNECTING)
        op->published = publish_ahead(endpoint, op);
    nigh_queue_push(&endpoint->queue, op);
    endpoint->can_post = false;
    nigh_progress_busy(endpoint);
    /* Also where it had no room: with an answer all that is queued can go. */
    if (endpoint->state == NIGH_CONNECTING && op->silent)
        look_for_answer(endpoint->context);
}

bool nigh_send_progress(struct nigh_endpoint *endpoint)
{
    bool moved = nigh_large_flow(endpoint);

    while (endpoint->queue.head && endpoint->state == NIGH_READY) {
        /* Before: what is sent at once is freed. */
        struct nigh_send_op *op = nigh_queue_take(&endpoint->queue, &endpoint->queue.head);

        endpoint->no_room = false;
        if (start(endpoint, op)) {
            nigh_queue_put_back(&endpoint->queue, op);
            endpoint->starved |= !endpoint->no_room;
            break;
        }
        moved = true;
    }
    nigh_plan_watch(endpoint);
    endpoint->can_post = !endpoint->queue.head && endpoint->state == NIGH_READY && endpoint->tx.slots;
    return moved;
}

int nigh_send_check(const struct nigh_endpoint *endpoint)
{
    int rc = nigh_endpoint_check(endpoint);

    return !rc && endpoint->queue.count >= QUEUED_MAX ? -EAGAIN : rc;
}
