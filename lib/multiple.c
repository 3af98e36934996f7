/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/multiple.c - waiting for and testing several requests. All are checked before any is ended. */
#include "lib/error.h"
#include "lib/wait.h"

#include <errno.h>

static bool is_active(const struct nigh_operation *operation)
{
    return operation && operation->phase != NIGH_PHASE_INACTIVE;
}

static bool has_ended(const struct nigh_operation *operation)
{
    return !operation || operation->phase != NIGH_PHASE_ACTIVE;
}

/* Of a request that was checked. Valid until the next look, if it stands for one of lib/light.h. */
static struct nigh_operation *operation_of(nigh_request request)
{
    return request.id ? nigh_operation_find(request.id) : NULL;
}

static int check(struct nigh_call call, int count, const nigh_request *requests, int *active)
{
    if (count < 0 || (count > 0 && !requests))
        return nigh_fail(call, -EINVAL, "%d requests at %p", count, (const void *)requests);
    *active = 0;
    for (int i = 0; i < count; i++) {
        struct nigh_operation *operation;
        int rc = 0;

        if (nigh_light_find(requests[i].id)) {
            ++*active;
            continue;
        }
        operation = operation_of(requests[i]);
        if (nigh_unlikely(!operation ||
                          operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW | NIGH_OP_DETACHED) ||
                          operation->kind == NIGH_KIND_MATCHED))
            rc = nigh_request_check(call, requests[i], &operation);
        if (rc)
            return rc;
        *active += is_active(operation);
    }
    return 0;
}

/* The shortest time-out of all communicators that are waited on; 0: none has one. */
static uint64_t timeout_of(int count, const nigh_request *requests)
{
    uint64_t shortest = 0;

    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = operation_of(requests[i]);
        uint64_t its = has_ended(operation) ? 0 : operation->comm->timeout_ns;

        if (its && (shortest == 0 || its < shortest))
            shortest = its;
    }
    return shortest;
}

static bool any_over(struct nigh_block *block)
{
    for (int i = 0; i < block->count; i++) {
        const struct nigh_operation *operation = operation_of(block->requests[i]);

        if (operation && operation->phase == NIGH_PHASE_DONE)
            return true;
    }
    return false;
}

static int late(struct nigh_call call, int count, const nigh_request *requests, int error)
{
    int missing = 0;
    const struct nigh_operation *first = NULL;

    if (error != -ETIMEDOUT)
        return error;
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = operation_of(requests[i]);

        if (has_ended(operation))
            continue;
        if (missing++ == 0)
            first = operation;
    }
    return nigh_fail(call, error, "timed out: %d of %d requests have not ended, the first is: %s", missing,
                     count, first ? nigh_operation_text(first).text : "none");
}

/* Until one of them has ended: looks, polls for a while, blocks. */
static int wait_for_any(struct nigh_call call, int count, const nigh_request *requests)
{
    struct nigh_block block = {
        .call = call,
        .kind = NIGH_BLOCK_ANY,
        .requests = requests,
        .count = count,
        .over = any_over,
    };
    int rc;

    for (int i = 0; i < NIGH_SPINS; i++) {
        if (any_over(&block))
            return 0;
        /* As long as something comes it is no waiting. */
        if (nigh_poll() > 0)
            i = 0;
    }
    block.timeout_ns = timeout_of(count, requests);
    rc = nigh_block_until(&block);
    return rc ? late(call, count, requests, rc) : 0;
}

/* The request of a message that needs no more than its status. */
static inline bool retire_plain(nigh_request *request, struct nigh_status *status)
{
    struct nigh_light *light = nigh_light_find(request->id);
    struct nigh_operation *operation;

    if (light) {
        nigh_light_give(light);
        nigh_status_set(status, NIGH_ANY_SOURCE, NIGH_ANY_TAG, 0, request->id & NIGH_LIGHT_BYTES, NULL);
        *request = NIGH_REQUEST_NULL;
        return true;
    }
    operation = operation_of(*request);
    if (nigh_unlikely(!operation || operation->phase != NIGH_PHASE_DONE || operation->flags ||
                      operation->error || operation->kind != NIGH_KIND_RECV ||
                      nigh_core.guard & NIGH_GUARD_DEBUG))
        return false;
    nigh_status_set(status, operation->source, operation->done_tag, 0, operation->done_bytes, NULL);
    nigh_operation_give(operation);
    *request = NIGH_REQUEST_NULL;
    return true;
}

/* Ends request `i`; a result that is 0 so far takes its error. */
static void retire(struct nigh_call call, nigh_request *request, struct nigh_status *status, int *result)
{
    struct nigh_operation *operation = operation_of(*request);
    int error;

    if (nigh_unlikely(request->id != 0 && !operation)) {
        *request = NIGH_REQUEST_NULL;
        error =
            nigh_fail(call, -EINVAL, "a request is listed twice: it ended at its first place in the list");
        *result = *result ? *result : error;
    }
    if (!is_active(operation)) {
        nigh_status_empty(status);
        return;
    }
    error = nigh_request_retire(call, operation, request, status, *result == 0);
    if (*result == 0)
        *result = error;
}

static void retire_all(struct nigh_call call, int count, nigh_request *requests, struct nigh_status *statuses,
                       int *result)
{
    for (int i = 0; i < count; i++)
        if (!retire_plain(&requests[i], statuses ? &statuses[i] : NULL))
            retire(call, &requests[i], statuses ? &statuses[i] : NULL, result);
}

/* Where a waitall stands: each request is checked when its turn comes and ended as soon as it can be, so that one pass does
 * for what is there already, which is most of a window. */
struct all {
    nigh_request *requests;
    struct nigh_status *statuses;
    int count, at, result;
};

/* The next one, which needs more than its status. False: it is still active. */
static __attribute__((noinline)) bool end_next(struct nigh_call call, struct all *all)
{
    nigh_request *request = &all->requests[all->at];
    struct nigh_status *status = all->statuses ? &all->statuses[all->at] : NULL;
    struct nigh_operation *operation;
    int rc = nigh_request_check(call, *request, &operation);

    if (rc) {
        all->result = all->result ? all->result : rc;
        return true;
    }
    if (!has_ended(operation))
        return false;
    retire(call, request, status, &all->result);
    return true;
}

static inline bool end_some(struct nigh_call call, struct all *all)
{
    for (; all->at < all->count; all->at++)
        if (!nigh_likely(
                retire_plain(&all->requests[all->at], all->statuses ? &all->statuses[all->at] : NULL)) &&
            !end_next(call, all))
            return false;
    return true;
}

static bool all_over(struct nigh_block *block)
{
    return end_some(block->call, block->data);
}

static __attribute__((noinline)) int block_for_all(struct nigh_call call, struct all *all)
{
    const struct nigh_operation *next = operation_of(all->requests[all->at]);
    struct nigh_block block = {
        .call = call,
        .kind = NIGH_BLOCK_ALL,
        .requests = all->requests,
        .count = all->count,
        .comm = next->comm,
        .over = all_over,
        .data = all,
        .timeout_ns = timeout_of(all->count, all->requests),
    };
    int rc = nigh_block_until(&block);

    return rc ? late(call, all->count, all->requests, rc) : all->result;
}

static int waitall(struct nigh_call call, int count, nigh_request *requests, struct nigh_status *statuses)
{
    struct all all = {.requests = requests, .statuses = statuses, .count = count};

    if (count < 0 || (count > 0 && !requests))
        return nigh_fail(call, -EINVAL, "%d requests at %p", count, (const void *)requests);
    for (int i = 0; i < NIGH_SPINS; i++) {
        if (end_some(call, &all))
            return all.result;
        /* As long as something comes it is no waiting. */
        if (nigh_poll() > 0)
            i = 0;
    }
    return block_for_all(call, &all);
}

NIGH_PUBLIC int nigh_waitall(int count, nigh_request *requests, struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_waitall");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = waitall(call, count, requests, statuses);
    nigh_leave();
    return rc;
}

static int testall(struct nigh_call call, int count, nigh_request *requests, int *flag,
                   struct nigh_status *statuses)
{
    int active, rc = flag ? check(call, count, requests, &active) : nigh_fail(call, -EINVAL, "flag is NULL");
    bool all = true;

    if (rc)
        return rc;
    (void)nigh_poll();
    for (int i = 0; all && i < count; i++)
        all = has_ended(operation_of(requests[i]));
    *flag = all;
    if (all)
        retire_all(call, count, requests, statuses, &rc);
    return rc;
}

NIGH_PUBLIC int nigh_testall(int count, nigh_request *requests, int *flag, struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_testall");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = testall(call, count, requests, flag, statuses);
    nigh_leave();
    return rc;
}

/* The first that has ended, -1 if none has. */
static int find_ended(int count, const nigh_request *requests)
{
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = operation_of(requests[i]);

        if (operation && operation->phase == NIGH_PHASE_DONE)
            return i;
    }
    return -1;
}

/* `flag` NULL: waits. */
static int any(struct nigh_call call, int count, nigh_request *requests, int *index, int *flag,
               struct nigh_status *status)
{
    int active, at, rc;

    if (!index)
        return nigh_fail(call, -EINVAL, "index is NULL");
    rc = check(call, count, requests, &active);
    if (rc)
        return rc;
    if (active == 0) {
        *index = NIGH_UNDEFINED;
        if (flag)
            *flag = 1;
        nigh_status_empty(status);
        return 0;
    }
    if (flag) {
        (void)nigh_poll();
    } else {
        rc = wait_for_any(call, count, requests);
        if (rc)
            return rc;
    }
    at = find_ended(count, requests);
    if (flag)
        *flag = at >= 0;
    if (at < 0)
        return 0;
    *index = at;
    retire(call, &requests[at], status, &rc);
    return rc;
}

NIGH_PUBLIC int nigh_waitany(int count, nigh_request *requests, int *index, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_waitany");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = any(call, count, requests, index, NULL, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_testany(int count, nigh_request *requests, int *index, int *flag,
                             struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_testany");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = flag ? any(call, count, requests, index, flag, status) : nigh_fail(call, -EINVAL, "flag is NULL");
    nigh_leave();
    return rc;
}

static int some(struct nigh_call call, int count, nigh_request *requests, int *outcount, int *indices,
                struct nigh_status *statuses, bool waits)
{
    int active, found = 0, rc;

    if (!outcount || (count > 0 && !indices))
        return nigh_fail(call, -EINVAL, "outcount or indices is NULL");
    rc = check(call, count, requests, &active);
    if (rc)
        return rc;
    if (active == 0) {
        *outcount = NIGH_UNDEFINED;
        return 0;
    }
    if (!waits) {
        (void)nigh_poll();
    } else {
        rc = wait_for_any(call, count, requests);
        if (rc)
            return rc;
    }
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = operation_of(requests[i]);

        if (!operation || operation->phase != NIGH_PHASE_DONE)
            continue;
        indices[found] = i;
        retire(call, &requests[i], statuses ? &statuses[found] : NULL, &rc);
        found++;
    }
    *outcount = found;
    return rc;
}

NIGH_PUBLIC int nigh_waitsome(int count, nigh_request *requests, int *outcount, int *indices,
                              struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_waitsome");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = some(call, count, requests, outcount, indices, statuses, true);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_testsome(int count, nigh_request *requests, int *outcount, int *indices,
                              struct nigh_status *statuses)
{
    struct nigh_call call = NIGH_CALL("nigh_testsome");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = some(call, count, requests, outcount, indices, statuses, false);
    nigh_leave();
    return rc;
}
