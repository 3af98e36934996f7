/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/post.h - from an operation to the plugin: the checks that all calls share, and the post itself. */
#ifndef NIGH_LIB_POST_H
#define NIGH_LIB_POST_H

#include "lib/comm.h"
#include "lib/request.h"

/* -ERANGE, -EFAULT, -EINVAL, said. The checks in front of them are inline: nigh_check_send(), nigh_check_recv(). */
int nigh_refuse_message(struct nigh_call call, const struct nigh_comm *comm, int peer, int tag,
                        const void *buffer, uint64_t bytes, bool receives);

/* Fits a message to `peer`? NIGH_PROC_NULL does not: nigh_refuse_message() lets it pass. */
static inline bool nigh_is_plain_send(const struct nigh_comm *comm, int dest, int tag, const void *buffer,
                                      uint64_t bytes)
{
    return nigh_comm_is_good(comm) && (uint32_t)dest < comm->size && tag >= 0 && (buffer || bytes == 0);
}

static inline int nigh_check_send(struct nigh_call call, const struct nigh_comm *comm, int dest, int tag,
                                  const void *buffer, uint64_t bytes)
{
    return nigh_likely(nigh_is_plain_send(comm, dest, tag, buffer, bytes))
               ? 0
               : nigh_refuse_message(call, comm, dest, tag, buffer, bytes, false);
}

static inline int nigh_check_recv(struct nigh_call call, const struct nigh_comm *comm, int source, int tag,
                                  const void *buffer, uint64_t bytes)
{
    return nigh_likely(nigh_comm_is_good(comm) && (uint32_t)source < comm->size && tag >= 0 &&
                       (buffer || bytes == 0))
               ? 0
               : nigh_refuse_message(call, comm, source, tag, buffer, bytes, true);
}

/* An operation that is ready to be posted; `flags` NIGH_OP_*. NULL with -ENOMEM said. */
struct nigh_operation *nigh_operation_new(struct nigh_call call, enum nigh_kind kind, struct nigh_comm *comm,
                                          int peer, int tag, const void *buffer, uint64_t bytes,
                                          uint32_t flags);

/*
 * Post an operation; it is ACTIVE or DONE then. May wait for room where 16384 sends to the same rank are under way. On
 * failure (said) it is as it was. Errors: -ECONNRESET, -EPROTO, -ENOMEM, -EINVAL; of the waiting -ETIMEDOUT, -EDEADLK.
 */
int nigh_operation_post(struct nigh_call call, struct nigh_operation *operation);

/*
 * Cancel an operation that is active. A receive whose message is arriving is waited for, at most for a second, and has ended
 * when this returns. A send may not have. True: it has ended by itself, and what it has brought counts.
 */
bool nigh_operation_recall(struct nigh_operation *operation);

/* Cancel an active receive at once; it has ended when this returns. Waits, for as long as it takes, only where its sender was
 * stopped in the middle of copying to the buffer, which is said after a second. */
void nigh_operation_stop(struct nigh_operation *operation);

/* Free the slot of an operation that was recalled. Where a send has not ended its buffer stays in use, which is said. */
void nigh_operation_abandon(struct nigh_operation *operation);

/* Both, where nobody wants the result any more. */
void nigh_operation_take_back(struct nigh_operation *operation);

/* The same receive once more, behind all others; nothing is said. */
int nigh_operation_repost(struct nigh_operation *operation);

/* Says why a post of `operation` was refused by the plugin; returns `error`. */
int nigh_post_refused(struct nigh_call call, const struct nigh_operation *operation, int error);

/* "rank 2 of the world (process 77) has died", or has left: why rank `rank` of `comm` cannot be reached. */
struct nigh_sentence nigh_loss_text(const struct nigh_comm *comm, int rank);
/* What it says that of: enum nigh_state, or NIGH_LOSS_REFUSED. */
enum { NIGH_LOSS_REFUSED = 15 }; /* one of the two has refused the other: they have never met */
uint32_t nigh_loss_state(const struct nigh_comm *comm, int rank);
/* The same of a rank that somebody else has found in that state; pid 0: not known. */
struct nigh_sentence nigh_loss_words(int rank, uint32_t state, int32_t pid);

/* The last nigh_recv or nigh_irecv. */
extern struct nigh_alike nigh_last_recv;

/* The body of nigh_isend, nigh_irecv and their like, for calls that end in one: under the lock, with all checks.
 * *request is NIGH_REQUEST_NULL where the post failed, as with the short ways, which have overwritten it by then. */
int nigh_start_general(struct nigh_call call, enum nigh_kind kind, const void *buffer, uint64_t bytes,
                       int peer, int tag, struct nigh_comm *comm, nigh_request *request);

#endif
