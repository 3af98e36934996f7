/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/rma.h - remote memory: put and get, both sides. */
#ifndef NIGH_PLUGIN_RMA_H
#define NIGH_PLUGIN_RMA_H

#include "plugin/endpoint.h"

int nigh_rma_put(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
int nigh_rma_get(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
/* Requests and answers of peers. */
enum nigh_verdict nigh_rma_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm);
/* An operation of a peer on region `key` is done, and the host wants to hear of it: there is room for that. */
void nigh_rma_tell(struct nigh_endpoint *endpoint, enum nigh_op op, uint64_t key, uint64_t bytes,
                   uint64_t imm);
/* Before the answer to a get begins whose bytes the host copies: does that, once. A failure is the answer.
 * -EAGAIN: when others of this peer have gone. */
int nigh_rma_fetch(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* All of it goes to a device. Without memory message->status is -ENOMEM, and its bytes are dropped. */
void nigh_rma_open_device(struct nigh_message *message, struct nigh_cuda_context *cuda, uint64_t at);
/* The answer to a get, of whose bytes none has been sent, is this failure alone. */
void nigh_rma_refuse(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status);
/* It is over: `status` 0, its bytes are there, or on their way. */
void nigh_rma_answered(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status);
void nigh_rma_put_done(struct nigh_message *message);
void nigh_rma_reply_done(struct nigh_message *message);

#endif
