/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/complete.c - see complete.h. */
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/mr.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/stage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert((NIGH_FI_WITH_DATA >> 15) == FI_REMOTE_CQ_DATA && (NIGH_DONE_RELEASED << 16) == FI_MULTI_RECV,
              "nigh_fi_flags() shifts these");

const uint64_t nigh_fi_kinds[2][16] = {
    [NIGH_FI_MSG] =
        {
            [NIGH_OP_SEND] = FI_SEND | FI_MSG,
            [NIGH_OP_RECV] = FI_RECV | FI_MSG,
            [NIGH_OP_PUT] = FI_WRITE | FI_RMA,
            [NIGH_OP_GET] = FI_READ | FI_RMA,
            [NIGH_OP_ATOMIC] = FI_WRITE | FI_ATOMIC,
            [NIGH_OP_REMOTE_PUT] = FI_REMOTE_WRITE | FI_RMA,
        },
    [NIGH_FI_TAGGED] =
        {
            [NIGH_OP_SEND] = FI_SEND | FI_TAGGED,
            [NIGH_OP_RECV] = FI_RECV | FI_TAGGED,
        },
};

int nigh_fi_cq_grow(struct nigh_fi_cq *cq, uint64_t count)
{
    uint64_t waiting = cq->tail - cq->head, slots = cq->mask + 1;
    struct nigh_fi_staged *ring;

    while (slots < waiting + count)
        slots *= 2;
    ring = malloc(slots * sizeof(*ring));
    if (!ring)
        return -FI_ENOMEM;
    for (uint64_t i = 0; i < waiting; i++)
        ring[i] = cq->staged[(cq->head + i) & cq->mask];
    free(cq->staged);
    cq->staged = ring;
    cq->mask = slots - 1;
    cq->head = 0;
    cq->tail = waiting;
    return 0;
}

/* ---- counters ------------------------------------------------------------------------------------------ */

static enum nigh_fi_counted counted(const struct nigh_fi_ep *ep, const struct nigh_completion *done)
{
    const struct nigh_fi_op *op;

    switch (done->op) {
    case NIGH_OP_SEND:
        return NIGH_FI_SENDS;
    case NIGH_OP_RECV:
        return NIGH_FI_RECVS;
    case NIGH_OP_GET:
        return NIGH_FI_READS;
    case NIGH_OP_REMOTE_PUT:
        return NIGH_FI_REMOTE_WRITES;
    case NIGH_OP_REMOTE_GET:
        return NIGH_FI_REMOTE_READS;
    default:
        op = nigh_fi_op_is(&ep->domain->ops, done->context) ? (void *)(uintptr_t)done->context : NULL;
        return op && op->flags & FI_READ ? NIGH_FI_READS : NIGH_FI_WRITES;
    }
}

static void count_as(struct nigh_fi_cntr *cntr, bool failed)
{
    if (!cntr)
        return;
    if (failed)
        cntr->errors++;
    else
        cntr->value++;
    nigh_fi_news(cntr->domain, &cntr->waiter);
}

void nigh_fi_count(struct nigh_fi_ep *ep, const struct nigh_completion *done)
{
    const struct nigh_fi_op *op = (const void *)(uintptr_t)done->context;

    /* What is copied on to a device counts when it is there: take_record(). */
    if (nigh_fi_op_is(&ep->domain->ops, done->context) && op->devices)
        return;
    count_as(ep->cntr[counted(ep, done)], done->status != 0);
}

/* ---- odd ones ------------------------------------------------------------------------------------------ */

/* What libfabric has no code for, in that of its other providers. nigh's own stays in prov_errno. */
static int error_of(int status)
{
    switch (status) {
    case -EMSGSIZE:
        return FI_ETRUNC;
    case -ERANGE: /* outside the registered memory */
        return FI_EACCES;
    default:
        return -status;
    }
}

static bool is_there(const struct nigh_completion *done)
{
    return done->status == 0 || done->status == -EMSGSIZE;
}

/* A message in the copy of a multi-receive buffer, to the same place of the buffer. */
static int land_multi(struct nigh_fi_ep *ep, const struct nigh_fi_op *op, const struct nigh_completion *done,
                      struct nigh_fi_staged *out)
{
    size_t at = done->data ? (size_t)((char *)done->data - (char *)op->copy) : 0,
           room = op->iov->iov_len - at;
    char *to = (char *)op->iov->iov_base + at;

    if (!done->data)
        return 0;
    out->entry.buf = to;
    if (!is_there(done))
        return 0;
    return nigh_fi_refusal(ep->nigh->copy_device(ep->context, NULL, to, done->data,
                                                 done->bytes < room ? done->bytes : room, NIGH_COPY_IN));
}

/* What has come goes from our copy to where the host wants it. */
static int land(struct nigh_fi_ep *ep, const struct nigh_fi_op *op, const struct nigh_completion *done)
{
    size_t room = nigh_fi_iov_bytes(op->iov, op->count);

    return is_there(done) ? nigh_fi_scatter(ep, op, op->copy, done->bytes < room ? done->bytes : room) : 0;
}

/* What a peer has done counts; only what it sent data with is shown. */
static bool take_event(const struct nigh_fi_mr *mr, const struct nigh_completion *done,
                       struct nigh_fi_staged *out)
{
    if (mr)
        count_as(mr->cntr[done->op == NIGH_OP_REMOTE_GET ? NIGH_FI_MR_READS : NIGH_FI_MR_WRITES], false);
    out->entry.op_context = NULL;
    return done->imm & NIGH_FI_WITH_DATA;
}

/* What the record knows better. False: nothing is to be shown. */
static bool take_record(struct nigh_fi_ep *ep, const struct nigh_completion *done, struct nigh_fi_staged *out)
{
    struct nigh_fi_op *op = (void *)(uintptr_t)done->context;
    bool mute = op->mute, hidden = op->hidden;
    int rc = 0;

    if (op->event)
        return take_event(op->mr, done, out);
    out->entry.op_context = op->context;
    if (op->flags)
        out->entry.flags = op->flags;
    if (op->scatter)
        rc = op->multi ? land_multi(ep, op, done, out) : land(ep, op, done);
    if (rc && !out->err) {
        out->err = -rc;
        out->prov_errno = -rc;
    }
    if (op->devices)
        count_as(ep->cntr[counted(ep, done)], out->err != 0);
    if (!op->multi || done->flags & NIGH_DONE_RELEASED)
        nigh_fi_op_give(&ep->domain->ops, op);
    return !mute && (out->err || !hidden);
}

/* A peer that was refused has not left, and the host's user can do something about it. */
static void take_reason(const struct nigh_fi_ep *ep, struct nigh_endpoint *peer, struct nigh_fi_staged *out)
{
    struct nigh_query_end end = {.size = sizeof(end)};
    uint64_t bytes = sizeof(end);

    if (ep->nigh->query(ep->context, peer, NIGH_QUERY_END, &end, &bytes) || !end.text[0])
        return;
    if (end.error)
        out->prov_errno = -end.error;
    out->why = strdup(end.text);
}

/* What was received, and what did not fit: multi-receive buffers do not tell the one from the other. */
static void take_error(const struct nigh_fi_ep *ep, const struct nigh_completion *done,
                       struct nigh_fi_staged *out)
{
    out->err = error_of(done->status);
    out->prov_errno = -done->status;
    if (nigh_fi_is_loss(out->err) && done->endpoint)
        take_reason(ep, done->endpoint, out);
    if (!(done->flags & NIGH_DONE_CUT))
        return;
    out->entry.len = (size_t)(uintptr_t)done->data;
    out->entry.buf = NULL;
    out->olen = done->bytes - out->entry.len;
}

static bool is_received(const struct nigh_completion *done)
{
    return done->op == NIGH_OP_RECV || done->op == NIGH_OP_REMOTE_PUT || done->op == NIGH_OP_REMOTE_GET;
}

void nigh_fi_complete(struct nigh_fi_ep *ep, const struct nigh_completion *done)
{
    struct nigh_fi_cq *cq = is_received(done) ? ep->rx_cq : ep->tx_cq;
    struct nigh_fi_staged staged = {.source = FI_ADDR_NOTAVAIL};

    nigh_fi_entry(done, &staged.entry);
    if (done->op == NIGH_OP_RECV && ep->caps & FI_SOURCE)
        staged.source = nigh_fi_source(ep, done);
    if (done->status)
        take_error(ep, done, &staged);
    if ((!nigh_fi_op_is(&ep->domain->ops, done->context) || take_record(ep, done, &staged)) && cq)
        nigh_fi_cq_put(cq, &staged);
    else if (nigh_fi_is_loss(staged.err))
        free(staged.why);
}

int nigh_fi_ep_progress(struct nigh_fi_ep *ep)
{
    struct nigh_completion done[NIGH_FI_BATCH];
    uint32_t count = NIGH_FI_BATCH;
    int n;

    /* Nothing is taken that has no place to go. */
    if ((ep->tx_cq && nigh_fi_cq_room(ep->tx_cq, count)) || (ep->rx_cq && nigh_fi_cq_room(ep->rx_cq, count)))
        return -FI_ENOMEM;
    n = ep->nigh->poll_completions(ep->context, done, count);
    for (int i = 0; i < n; i++) {
        if (ep->counts)
            nigh_fi_count(ep, &done[i]);
        nigh_fi_complete(ep, &done[i]);
    }
    return n;
}

/* ---- sources ------------------------------------------------------------------------------------------- */

fi_addr_t nigh_fi_source(struct nigh_fi_ep *ep, const struct nigh_completion *done)
{
    if (done->source != NIGH_SOURCE_NONE || !done->endpoint)
        return done->source;
    /* It talked to us before we to it. Whoever is connected to is known by the same endpoint. */
    for (fi_addr_t i = 0; ep->av && i < ep->av->count; i++)
        if (nigh_fi_peer(ep, i) == done->endpoint)
            return i;
    return FI_ADDR_NOTAVAIL;
}
