/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/receive.h - posting a receive, what becomes of its operation, and where a message goes that it has matched. */
#ifndef NIGH_PLUGIN_RECEIVE_H
#define NIGH_PLUGIN_RECEIVE_H

#include "plugin/context.h"

/* The slot post_recv(). */
int nigh_recv_post(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);
/* The same without the short way of a plain one, which does not tell who has posted it. */
int nigh_recv_post_generally(struct nigh_context *context, struct nigh_endpoint *from,
                             const struct nigh_recv *recv);
/* In a crowd one was posted: while all before it, but for those that stand, have found their messages it is looked for
 * at once. Else who has posted one that is not there yet posts on, sends or waits, and a pass sees to all. 0. */
int nigh_recv_look(struct nigh_endpoint *from);
/* Why a receive that found no message cannot wait for one: its peer has ended, or somebody died while nobody waited
 * for anyone, which is told to the first who does. 0: it can. */
int nigh_recv_cannot_wait(struct nigh_context *context, const struct nigh_endpoint *from);
/* 0, -EINVAL, -EFAULT: what the host asks for. Told as `call`'s. */
int nigh_recv_check(struct nigh_context *context, const char *call, const struct nigh_recv *recv);
/* An operation with its room in the completion queue. -ENOMEM, and those of nigh_device_find(). */
int nigh_recv_create(struct nigh_context *context, const char *call, struct nigh_endpoint *from,
                     const struct nigh_recv *recv, struct nigh_recv_op **out);
/* Takes back a receive that is out of the matcher: it completes with `status`, a multi-receive buffer not before the
 * messages that are arriving in it. */
void nigh_recv_cancel(struct nigh_context *context, struct nigh_recv_op *op, int status,
                      struct nigh_endpoint *endpoint);

/* ---- message_memory.c ---- */
/* Private memory for what comes before its receive, in `buffer` until the message is freed. -ENOMEM. */
int nigh_message_early(struct nigh_message *message, uint64_t bytes);
/* The same for one in pieces, when `bytes` of it come: what came before is moved along, `to` and `room` name the new
 * place. -ENOMEM: all is as it was. */
int nigh_message_grow(struct nigh_message *message, uint64_t bytes);
/* Gives that back; where there is none nothing. */
void nigh_message_unkeep(struct nigh_message *message);
/* A place outside of its region for a put, when `bytes` of it come: `to` and `room`. Without memory it ends with -EIO, and
 * what else comes of it is dropped. */
void nigh_message_stage(struct nigh_message *message, uint64_t bytes);

/* ---- deliver.c ---- */
/* A message of the peer's, empty and without an id. NULL: no memory. */
struct nigh_message *nigh_message_create(struct nigh_endpoint *endpoint);
/* With its private buffer. */
void nigh_message_free(struct nigh_message *message);
/* A receive that took no message, or no more, ends: completes and is freed. */
void nigh_recv_end(struct nigh_context *context, struct nigh_recv_op *op, int status,
                   struct nigh_endpoint *endpoint);
/* A receive that a message of `total` bytes has matched takes it on: where do the bytes go? */
void nigh_recv_accept(struct nigh_message *message, struct nigh_recv_op *op);
/* Its sender has withdrawn a claimed message: the receive fails, the message is freed. */
void nigh_recv_refuse(struct nigh_message *message, struct nigh_recv_op *op);
/* The message is complete (or has failed): completion of its receive, message freed. */
void nigh_recv_finish(struct nigh_message *message, int status);
/* Cancels the receive of a message in pieces: it completes, and nothing is written to its buffer from then on. The message
 * stays until the sender has sent all of it, or ends. */
void nigh_recv_drop(struct nigh_message *message);
/* A whole message of `bytes` at the ring's cursor for a posted receive. */
void nigh_recv_deliver(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes, uint64_t tag,
                       uint64_t imm);
/* The same for one that lies in a chunk; `op` is a plain receive. */
void nigh_recv_deliver_piece(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, const void *from,
                             uint32_t bytes, uint64_t tag, uint64_t imm, uint32_t flags);
/* A lend whose receiver reads in place: nothing is copied, release() answers the lender. `op` takes it. */
void nigh_recv_lend(struct nigh_endpoint *endpoint, struct nigh_recv_op *op,
                    const struct nigh_wire_refer *refer, uint64_t tag, uint64_t imm);
/* Can it? */
static inline bool nigh_recv_takes_lend(const struct nigh_posted *posted, uint64_t bytes)
{
    const struct nigh_recv_op *op = nigh_recv_op_of(posted);

    return op->flags == NIGH_IN_PLACE && bytes <= op->bytes;
}
/* One of a device's memory, which is an address of ours now; `mapping` goes over to what the host holds. */
void nigh_recv_lend_device(struct nigh_message *message, void *data, struct nigh_cuda_mapping *mapping);
/* A multi-receive buffer needs an entry in the completion queue for each message: looked for before it is taken
 * further, so that nothing has to be undone. */
static inline bool nigh_recv_can_complete(struct nigh_context *context, const struct nigh_posted *posted)
{
    return !posted->keep || nigh_cq_reserve(&context->cq, 1) == 0;
}

/* ---- multi.c ---- */
/* Files a multi-receive buffer and fills it with what waits. */
void nigh_multi_post(struct nigh_context *context, struct nigh_endpoint *from, struct nigh_recv_op *op);
/* Gives the next `bytes` of it to a message. */
void nigh_multi_take(struct nigh_context *context, struct nigh_recv_op *op, uint64_t bytes);
/* Completes one message in it. The last frees the operation. */
void nigh_multi_complete(struct nigh_context *context, struct nigh_recv_op *op, struct nigh_completion *done);

/* ---- probe.c, cancel.c ---- */
int nigh_probe(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag, uint64_t ignore,
               uint32_t tclass, struct nigh_completion *found, struct nigh_message **out);
int nigh_recv_claim(struct nigh_context *context, struct nigh_message *message, const struct nigh_recv *recv);
int nigh_cancel(struct nigh_context *context, uint64_t op_context);
int nigh_cancel_unmatched(struct nigh_context *context, uint64_t op_context);

#endif
