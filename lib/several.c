/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/several.c - checking, awaiting and ending one of several requests. */
#include "lib/several.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/near.h"

#include <errno.h>

int nigh_several_check(struct nigh_call call, int count, const nigh_request *requests, int *active)
{
    if (count < 0 || (count > 0 && !requests))
        return nigh_fail(call, -EINVAL, "%d requests at %p", count, (const void *)requests);
    *active = 0;
    for (int i = 0; i < count; i++) {
        struct nigh_operation *operation;
        int rc = 0;

        if (nigh_light_stands(requests[i].id)) {
            ++*active;
            continue;
        }
        operation = nigh_several_operation(requests[i]);
        if (nigh_unlikely(!operation ||
                          operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW | NIGH_OP_DETACHED) ||
                          operation->kind == NIGH_KIND_MATCHED))
            rc = nigh_request_check(call, requests[i], &operation);
        if (rc)
            return rc;
        *active += nigh_several_is_active(operation);
    }
    return 0;
}

uint64_t nigh_several_timeout(int count, const nigh_request *requests)
{
    uint64_t shortest = 0;

    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = nigh_several_operation(requests[i]);
        uint64_t its = nigh_several_has_ended(operation) ? 0 : operation->comm->timeout_ns;

        if (its && (shortest == 0 || its < shortest))
            shortest = its;
    }
    return shortest;
}

int nigh_several_late(struct nigh_call call, int count, const nigh_request *requests, int error)
{
    int missing = 0;
    const struct nigh_operation *first = NULL;

    if (error != -ETIMEDOUT)
        return error;
    for (int i = 0; i < count; i++) {
        const struct nigh_operation *operation = nigh_several_operation(requests[i]);

        if (nigh_several_has_ended(operation))
            continue;
        if (missing++ == 0)
            first = operation;
    }
    if (!first)
        return nigh_fail(call, error, "timed out: %d requests", count);
    return nigh_fail(call, error, "timed out: %d of %d requests have not ended, the first is: %s; %s%s",
                     missing, count, nigh_operation_text(first).text, nigh_operation_missing(first).text,
                     nigh_near_operation(first).text);
}

static bool any_over(struct nigh_block *block)
{
    for (int i = 0; i < block->count; i++) {
        const struct nigh_operation *operation = nigh_several_operation(block->requests[i]);

        if (operation && operation->phase == NIGH_PHASE_DONE)
            return true;
    }
    return false;
}

int nigh_several_await(struct nigh_call call, int count, const nigh_request *requests)
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
    block.timeout_ns = nigh_several_timeout(count, requests);
    rc = nigh_block_until(&block);
    return rc ? nigh_several_late(call, count, requests, rc) : 0;
}

void nigh_several_retire(struct nigh_call call, nigh_request *request, struct nigh_status *status,
                         int *result)
{
    struct nigh_operation *operation = nigh_several_operation(*request);
    int error;

    if (nigh_unlikely(request->id != 0 && !operation)) {
        *request = NIGH_REQUEST_NULL;
        error =
            nigh_fail(call, -EINVAL, "a request is listed twice: it ended at its first place in the list");
        *result = *result ? *result : error;
    }
    if (!nigh_several_is_active(operation)) {
        nigh_status_empty(status);
        return;
    }
    error = nigh_request_retire(call, operation, request, status, *result == 0);
    if (*result == 0)
        *result = error;
}
