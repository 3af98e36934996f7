/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/peek.c - looking at messages before they are received: FI_PEEK, FI_CLAIM, FI_DISCARD. What is found,
 * or that nothing is, comes as a completion, as the interface wants it. */
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/stage.h"

#include <errno.h>
#include <stdlib.h>

/* A message that is claimed, until it is received or discarded. */
struct nigh_fi_claimed {
    struct nigh_fi_claimed *next;
    struct nigh_message *message;
    const void *context; /* by which the host names it */
    struct nigh_completion found;
};

static int take_away(struct nigh_fi_ep *ep, struct nigh_message *message, const struct nigh_fi_what *what,
                     struct nigh_fi_op *op)
{
    struct nigh_recv recv = {.size = sizeof(recv), .context = (uintptr_t)op, .tclass = what->tclass};

    op->mute = true;
    return ep->nigh->claim(ep->context, message, &recv);
}

static void stage_found(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, struct nigh_completion *found)
{
    struct nigh_fi_staged staged = {.source = FI_ADDR_NOTAVAIL};

    found->context = (uintptr_t)what->context;
    nigh_fi_entry(found, &staged.entry);
    if (ep->caps & FI_SOURCE)
        staged.source = nigh_fi_source(ep, found);
    nigh_fi_cq_put(ep->rx_cq, &staged);
}

static void stage_none(struct nigh_fi_ep *ep, const struct nigh_fi_what *what)
{
    struct nigh_fi_staged staged = {
        .entry.op_context = what->context,
        .entry.flags = nigh_fi_kinds[what->tclass][NIGH_OP_RECV],
        .entry.tag = what->tag,
        .source = FI_ADDR_NOTAVAIL,
        .err = FI_ENOMSG,
        .prov_errno = ENOMSG,
    };

    nigh_fi_cq_put(ep->rx_cq, &staged);
}

/* Whatever may fail is had before the message is taken. */
static ssize_t peek(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, uint64_t flags,
                    struct nigh_fi_claimed *claimed, struct nigh_fi_op *op)
{
    struct nigh_completion found;
    struct nigh_message *message = NULL;
    struct nigh_endpoint *from;
    int rc = nigh_fi_from(ep, what->peer, &from);

    if (!rc)
        rc = ep->nigh->probe(ep->context, from, what->tag, what->ignore, what->tclass, &found,
                             claimed || op ? &message : NULL);
    if (rc == -ENOMSG || rc == -ECONNRESET) {
        stage_none(ep, what);
        return 1;
    }
    if (rc)
        return rc;
    if (flags & FI_DISCARD) {
        rc = take_away(ep, message, what, op);
        if (rc)
            return rc;
    } else if (claimed) {
        *claimed = (struct nigh_fi_claimed){ep->claimed, message, what->context, found};
        ep->claimed = claimed;
    }
    stage_found(ep, what, &found);
    return 0;
}

ssize_t nigh_fi_peek(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, uint64_t flags)
{
    struct nigh_fi_claimed *claimed = NULL;
    struct nigh_fi_op *op = NULL;
    ssize_t rc = -FI_EAGAIN;

    if (!ep->context || !ep->rx_cq)
        return -FI_EOPBADSTATE;
    nigh_fi_lock(ep->domain);
    if (flags & FI_DISCARD)
        op = nigh_fi_op_take(&ep->domain->ops, ep, what->context);
    else if (flags & FI_CLAIM)
        claimed = malloc(sizeof(*claimed));
    if (nigh_fi_cq_room(ep->rx_cq, 1) == 0 && !op == !(flags & FI_DISCARD) &&
        (claimed || flags & FI_DISCARD || !(flags & FI_CLAIM)))
        rc = peek(ep, what, flags, claimed, op);
    if (rc) {
        free(claimed);
        if (op)
            nigh_fi_op_give(&ep->domain->ops, op);
    }
    nigh_fi_unlock(ep->domain);
    return rc > 0 ? 0 : rc;
}

static struct nigh_fi_claimed **find(struct nigh_fi_ep *ep, const void *context)
{
    struct nigh_fi_claimed **link = &ep->claimed;

    while (*link && (*link)->context != context)
        link = &(*link)->next;
    return link;
}

/* Claimed messages are received into one buffer, or away. */
static ssize_t claim(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                     size_t count, uint64_t flags)
{
    struct nigh_fi_claimed **link = find(ep, what->context), *claimed = *link;
    bool away = flags & FI_DISCARD;
    struct nigh_fi_op *op = NULL;
    struct nigh_fi_parts parts;
    struct nigh_recv recv = {
        .size = sizeof(recv), .context = (uintptr_t)what->context, .tclass = what->tclass};
    int rc = 0;

    if (!claimed)
        return -FI_EINVAL;
    nigh_fi_parts_find(ep, iov, what->desc, away ? 0 : count, &parts);
    if (away || parts.count > 1) {
        op = nigh_fi_op_take(&ep->domain->ops, ep, what->context);
        if (!op)
            return -FI_EAGAIN;
        recv.context = (uintptr_t)op;
    }
    if (!away)
        rc = nigh_fi_recv_place(op, &parts, parts.count > 1, &recv);
    if (!rc)
        rc = away ? take_away(ep, claimed->message, what, op)
                  : ep->nigh->claim(ep->context, claimed->message, &recv);
    if (rc) {
        if (op)
            nigh_fi_op_give(&ep->domain->ops, op);
        return rc;
    }
    if (away)
        stage_found(ep, what, &claimed->found);
    *link = claimed->next;
    free(claimed);
    return 0;
}

ssize_t nigh_fi_claim(struct nigh_fi_ep *ep, const struct nigh_fi_what *what, const struct iovec *iov,
                      size_t count, uint64_t flags)
{
    ssize_t rc = -FI_EAGAIN;

    if (!ep->context || !ep->rx_cq)
        return -FI_EOPBADSTATE;
    if (count > NIGH_FI_IOV)
        return -FI_EINVAL;
    nigh_fi_lock(ep->domain);
    if (nigh_fi_cq_room(ep->rx_cq, 1) == 0)
        rc = nigh_fi_refusal((int)claim(ep, what, iov, count, flags));
    nigh_fi_unlock(ep->domain);
    return rc;
}

void nigh_fi_claimed_free(struct nigh_fi_ep *ep)
{
    struct nigh_fi_claimed *next;

    for (; ep->claimed; ep->claimed = next) {
        next = ep->claimed->next;
        free(ep->claimed);
    }
}
