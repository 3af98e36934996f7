/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/queue.h - a first-in first-out list of send operations. An operation is in one at most. */
#ifndef NIGH_PLUGIN_QUEUE_H
#define NIGH_PLUGIN_QUEUE_H

#include "plugin/op.h"

struct nigh_send_queue {
    struct nigh_send_op *head, **tail;
    uint32_t count;
};

/* Makes it an empty one; whose operations it had they stay. */
static inline void nigh_queue_clear(struct nigh_send_queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
    queue->count = 0;
}

static inline void nigh_queue_push(struct nigh_send_queue *queue, struct nigh_send_op *op)
{
    op->next = NULL;
    *queue->tail = op;
    queue->tail = &op->next;
    queue->count++;
}

/* NULL: it is empty. */
static inline struct nigh_send_op *nigh_queue_last(const struct nigh_send_queue *queue)
{
    static_assert(offsetof(struct nigh_send_op, next) == 0, "where `next` is, there is the operation");

    return queue->head ? (struct nigh_send_op *)(void *)queue->tail : NULL;
}

/* Takes out the operation that *link names: the head, or the `next` of one that is in the queue. */
static inline struct nigh_send_op *nigh_queue_take(struct nigh_send_queue *queue, struct nigh_send_op **link)
{
    struct nigh_send_op *op = *link;

    *link = op->next;
    if (!op->next)
        queue->tail = link;
    queue->count--;
    return op;
}

/* The one that was the head is so again. */
static inline void nigh_queue_put_back(struct nigh_send_queue *queue, struct nigh_send_op *op)
{
    op->next = queue->head;
    if (!queue->head)
        queue->tail = &op->next;
    queue->head = op;
    queue->count++;
}

#endif
