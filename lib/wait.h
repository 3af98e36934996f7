/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/wait.h - until an operation has ended; and what it leaves: a status, an error with its sentence, a free slot. */
#ifndef NIGH_LIB_WAIT_H
#define NIGH_LIB_WAIT_H

#include "lib/block.h"
#include "lib/progress.h"

/* Polls before a call goes to sleep: about two microseconds, in which an answer of a peer on another CPU arrives. */
#define NIGH_SPINS 100

/* For nigh_wait_one() alone. */
int nigh_wait_slowly(struct nigh_call call, struct nigh_operation *operation, uint64_t timeout_ns);

/* Waits for one operation. -ETIMEDOUT, -EDEADLK (said): it is still active. */
static inline int nigh_wait_one(struct nigh_call call, struct nigh_operation *operation, uint64_t timeout_ns)
{
    for (int i = 0; i < NIGH_SPINS; i++) {
        if (nigh_likely(operation->phase == NIGH_PHASE_DONE))
            return 0;
        (void)nigh_poll();
    }
    return nigh_wait_slowly(call, operation, timeout_ns);
}

static inline void nigh_status_set(struct nigh_status *status, int source, int tag, int error, uint64_t bytes,
                                   void *data)
{
    if (status)
        *status =
            (struct nigh_status){.source = source, .tag = tag, .error = error, .bytes = bytes, .data = data};
}

/* Of NIGH_REQUEST_NULL and inactive persistent requests. */
static inline void nigh_status_empty(struct nigh_status *status)
{
    nigh_status_set(status, NIGH_ANY_SOURCE, NIGH_ANY_TAG, 0, 0, NULL);
}

static inline void nigh_status_nobody(struct nigh_status *status)
{
    nigh_status_set(status, NIGH_PROC_NULL, NIGH_ANY_TAG, 0, 0, NULL);
}

/* The status of an operation that has ended. */
void nigh_status_of(const struct nigh_operation *operation, struct nigh_status *status);

/* Says why an operation has ended with an error, which it returns. -ECANCELED is not logged: it was asked for. */
int nigh_operation_failed(struct nigh_call call, const struct nigh_operation *operation);

/* Those that an operation waits for, and what they do: of time-outs. */
struct nigh_sentence nigh_operation_missing(const struct nigh_operation *operation);

/* Says what a time-out or a deadlock waited for; returns `error`. */
int nigh_operation_late(struct nigh_call call, const struct nigh_operation *operation, int error);

/* The end of the operation of a call that ends with it, `rc` being what nigh_wait_one() has said. One that comes to its
 * end together with a time-out or a deadlock has ended: no message is lost. Errors (said if `say`): its own;
 * -ETIMEDOUT, -EDEADLK: it was taken back. */
int nigh_operation_finish(struct nigh_call call, struct nigh_operation *operation, int rc,
                          struct nigh_status *status, bool say);

/* Ends the request of an operation that has ended: status, error (said if `say`), and a slot that
 * is free or inactive. */
int nigh_request_retire(struct nigh_call call, struct nigh_operation *operation, nigh_request *request,
                        struct nigh_status *status, bool say);

#endif
