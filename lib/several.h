/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/several.h - what waiting for and testing several requests have in common. All are checked before any is ended,
 * but by nigh_waitall, whose requests are checked one by one as they end.
 */
#ifndef NIGH_LIB_SEVERAL_H
#define NIGH_LIB_SEVERAL_H

#include "lib/wait.h"

static inline bool nigh_several_is_active(const struct nigh_operation *operation)
{
    return operation && operation->phase != NIGH_PHASE_INACTIVE;
}

static inline bool nigh_several_has_ended(const struct nigh_operation *operation)
{
    return !operation || operation->phase != NIGH_PHASE_ACTIVE;
}

/* Of a request that was checked. Valid until the next look, if it stands for one of lib/light.h. */
static inline struct nigh_operation *nigh_several_operation(nigh_request request)
{
    return request.id ? nigh_operation_find(request.id) : NULL;
}

/* Is each of them a request or NIGH_REQUEST_NULL? *active: how many are not ended or may have ended. -EINVAL, said. */
int nigh_several_check(struct nigh_call call, int count, const nigh_request *requests, int *active);

/* The shortest time-out of all communicators that are waited on; 0: none has one. */
uint64_t nigh_several_timeout(int count, const nigh_request *requests);

/* Says which of them have not ended in time; of other errors nothing. Returns `error`. */
int nigh_several_late(struct nigh_call call, int count, const nigh_request *requests, int error);

/* Waits until one of them has ended: looks, polls for a while, blocks. Errors (said): -ETIMEDOUT, -EDEADLK. */
int nigh_several_await(struct nigh_call call, int count, const nigh_request *requests);

/* Ends one of them; a result that is 0 so far takes its error. */
void nigh_several_retire(struct nigh_call call, nigh_request *request, struct nigh_status *status,
                         int *result);

#endif
