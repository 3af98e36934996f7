/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/probe.c - looking at what has arrived, and taking one message out for a receive of its own. */
#include "plugin/context.h"
#include "plugin/progress.h"
#include "plugin/receive.h"
#include "plugin/refuse.h"
#include <errno.h>

static void claim_message(struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    message->claimed = true;
    message->endpoint->pins++;
    message->next = context->claimed;
    context->claimed = message;
}

/* Which class a blocked host probes is that of its last look before it said so: other looks see nothing of that. */
static void note_miss(struct nigh_context *context, uint32_t tclass)
{
    if (context->probing && tclass != context->probed_class)
        return;
    context->probed_class = tclass;
    context->probed = nigh_load_relaxed(&context->counters->unexpected);
}

int nigh_probe(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag, uint64_t ignore,
               uint32_t tclass, struct nigh_completion *found, struct nigh_message **out)
{
    struct nigh_message *message;
    int rc;

    if (!found)
        return nigh_refuse_missing("probe");
    if (tclass >= NIGH_TCLASSES)
        return nigh_refuse_tclass(context, "probe", tclass);
    context->looks_for = true; /* what lies in a ring is not found */
    nigh_progress(context);
    context->looks_for = false;
    message = (struct nigh_message *)(void *)nigh_match_find(&context->matcher, from ? from->index : NIGH_ANY,
                                                             tclass, tag, ignore, out != NULL);
    if (!message) {
        note_miss(context, tclass);
        rc = from ? nigh_endpoint_check(from) : 0;
        return rc ? rc : -ENOMSG;
    }
    *found = (struct nigh_completion){
        .op = NIGH_OP_RECV,
        .flags = nigh_done_class(tclass),
        .bytes = message->total,
        .tag = message->tag,
        .imm = message->imm,
        .source = message->endpoint->source,
        .endpoint = message->endpoint->gone ? NULL : message->endpoint,
    };
    if (out) {
        claim_message(message);
        *out = message;
    }
    return 0;
}

/* Its sender has left since: the memory that it lies in may be in other use by now. */
static bool is_withdrawn(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;

    if (message->kind != NIGH_MSG_REFER)
        return false;
    if (endpoint->gone)
        return true;
    if (message->refer == NIGH_REFER_COPY)
        return false;
    if (nigh_endpoint_let_go(endpoint))
        return true;
    /* What the dead had sent is as they left it, unless we had left them before. */
    return endpoint->state != NIGH_READY && endpoint->state != NIGH_PEER_DEAD;
}

int nigh_recv_claim(struct nigh_context *context, struct nigh_message *message, const struct nigh_recv *recv)
{
    struct nigh_message **link = &context->claimed;
    struct nigh_recv_op *op;
    int rc;

    while (*link && *link != message)
        link = &(*link)->next;
    if (!*link)
        return nigh_refuse(context, -EINVAL,
                           "claim: no probe() has claimed the message %p, or it has been received",
                           (void *)message);
    rc = nigh_recv_check(context, "claim", recv);
    if (!rc && recv->flags & NIGH_MULTI)
        rc = nigh_refuse(context, -EINVAL, "claim: not with NIGH_MULTI");
    if (!rc)
        rc = nigh_recv_create(context, "claim", message->endpoint, recv, &op);
    if (rc)
        return rc;
    *link = message->next;
    message->claimed = false;
    nigh_progress_unpin(message->endpoint);
    if (is_withdrawn(message))
        nigh_recv_refuse(message, op);
    else
        nigh_recv_accept(message, op);
    return 0;
}
