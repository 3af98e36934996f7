/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/send.h - posting a send, and what becomes of its operation. */
#ifndef NIGH_PLUGIN_SEND_H
#define NIGH_PLUGIN_SEND_H

#include "plugin/context.h"

/* The slot post_send(). */
int nigh_send_post(struct nigh_endpoint *endpoint, const struct nigh_send *send);

/* ---- op.c: what becomes of an operation ---- */
/* May one more be posted? 0; -ECONNRESET, -EPROTO by the state; -EAGAIN: as many are queued as one
 * endpoint may have. */
int nigh_send_check(const struct nigh_endpoint *endpoint);
/* May peers read these bytes where they lie, as far as can be asked? */
bool nigh_send_may_be_read(const struct nigh_context *context, const void *buffer, uint64_t bytes);
/* Posts an operation that is filled in: starts it or queues it. The CQ entry is reserved. */
void nigh_send_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Starts queued and continues flowing sends. Returns whether anything moved. */
bool nigh_send_progress(struct nigh_endpoint *endpoint);
/* Completes an operation and frees it. */
void nigh_send_complete(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status, uint64_t bytes);
/* Frees without a completion. */
void nigh_send_discard(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Tells the host that one has ended; its room in the completion queue is reserved. */
static inline void nigh_send_tell(struct nigh_endpoint *endpoint, uint64_t context, uint16_t op,
                                  uint32_t tclass, int status, uint64_t bytes)
{
    /* Field by field: one that is put together on the stack is loaded in wider pieces than it was stored in, which
     * waits for all stores before, that of the slot among them. */
    struct nigh_completion *done = nigh_cq_next(&endpoint->context->cq);

    nigh_completion_fill(done, context, op, tclass, bytes, 0, 0, endpoint->source, endpoint);
    done->status = status;
}

#endif
