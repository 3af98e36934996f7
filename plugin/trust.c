/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/trust.c - how much of a long message goes before its receive is known to be there: the first NIGH_EAGER bytes,
 * or, to a peer whose receives were there lately, all of it, as long as no more than the chunks in rotation hold is
 * unmatched. What has no room there is announced, and comes in its turn, or when it is matched.
 */
#include "plugin/trust.h"
#include "plugin/context.h"

/* Messages in a row that found their receives before the next one may be sent unasked: where they do by chance
 * only, what comes early is copied twice. */
#define TRUSTED_FROM 8u
/* Of longer ones what the first part costs does not count, and the buffer of one that comes early would be as long. */
#define WHOLE_MOST (1024u * 1024)
/* Announced ones; each is looked for among them when it is matched out of turn. */
#define WAITING_MOST 256u

static uint64_t unmatched_most(const struct nigh_endpoint *endpoint)
{
    return (uint64_t)endpoint->context->pool.span * NIGH_CHUNK;
}

static bool is_room(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return endpoint->unmatched + bytes <= unmatched_most(endpoint);
}

static void go_ahead(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    op->ahead = true;
    op->allowed = op->bytes;
    endpoint->unmatched += op->bytes;
}

static void wait_for_room(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    op->allowed = 0;
    op->waiting = true;
    nigh_queue_push(&endpoint->waiting, op);
}

static void leave(struct nigh_send_queue *waiting, struct nigh_send_op *op)
{
    struct nigh_send_op **link = &waiting->head;

    while (*link != op)
        link = &(*link)->next;
    nigh_queue_take(waiting, link);
    op->waiting = false;
}

bool nigh_trust_whole(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    if (endpoint->trusted < TRUSTED_FROM || op->bytes > WHOLE_MOST ||
        endpoint->waiting.count == WAITING_MOST || op->bytes > unmatched_most(endpoint))
        return false;
    if (!endpoint->waiting.head && is_room(endpoint, op->bytes))
        go_ahead(endpoint, op);
    else
        wait_for_room(endpoint, op);
    /* Its GRANT says how it was received, whether it is needed or not. */
    op->sync = true;
    return true;
}

void nigh_trust_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late)
{
    if (op->ahead)
        endpoint->unmatched -= op->bytes;
    op->ahead = false;
    if (op->waiting)
        leave(&endpoint->waiting, op);
    endpoint->trusted = late ? 0 : endpoint->trusted < TRUSTED_FROM ? endpoint->trusted + 1 : TRUSTED_FROM;
}

struct nigh_send_op *nigh_trust_next(struct nigh_endpoint *endpoint)
{
    struct nigh_send_op *op = endpoint->waiting.head;

    if (!op || endpoint->trusted < TRUSTED_FROM || !is_room(endpoint, op->bytes))
        return NULL;
    leave(&endpoint->waiting, op);
    go_ahead(endpoint, op);
    return op;
}
