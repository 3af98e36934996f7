/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/all.c - waiting for and testing all of several requests. */
#include "lib/error.h"
#include "lib/several.h"

#include <errno.h>
#include <string.h>

/* The request of a message that needs no more than its status. */
static inline bool retire_plain(nigh_request *request, struct nigh_status *status)
{
    struct nigh_operation *operation;

    if (nigh_light_end(request->id)) {
        nigh_status_set(status, NIGH_ANY_SOURCE, NIGH_ANY_TAG, 0, request->id & NIGH_LIGHT_BYTES, NULL);
        *request = NIGH_REQUEST_NULL;
        return true;
    }
    operation = nigh_several_operation(*request);
    if (nigh_unlikely(!operation || operation->phase != NIGH_PHASE_DONE || operation->flags ||
                      operation->error || operation->kind != NIGH_KIND_RECV ||
                      nigh_core.guard & NIGH_GUARD_DEBUG))
        return false;
    nigh_status_set(status, operation->source, operation->done_tag, 0, operation->done_bytes, NULL);
    nigh_operation_give(operation);
    *request = NIGH_REQUEST_NULL;
    return true;
}

static void retire_all(struct nigh_call call, int count, nigh_request *requests, struct nigh_status *statuses,
                       int *result)
{
    for (int i = 0; i < count; i++)
        if (!retire_plain(&requests[i], statuses ? &statuses[i] : NULL))
            nigh_several_retire(call, &requests[i], statuses ? &statuses[i] : NULL, result);
}

/* Where a waitall stands: each request is checked when its turn comes and ended as soon as it can be, so that one pass
 * does for what is there already, which is most of a window. */
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
    if (!nigh_several_has_ended(operation))
        return false;
    nigh_several_retire(call, request, status, &all->result);
    return true;
}

/* As many light ones as were made one behind the other: 0 to 64. They are forgotten together, since a store each would
 * be one more that waits behind what they have sent (docs/rationale/libnigh.md). */
static inline uint32_t end_lights(const struct all *all)
{
    nigh_request *requests = &all->requests[all->at];
    uint64_t first = requests->id;
    uint32_t most = nigh_lights_standing(first), left = (uint32_t)(all->count - all->at), count = 0;

    if (!most)
        return 0;
    most = most < left ? most : left;
    while (count < most && requests[count].id == first + count * NIGH_LIGHT_NEXT)
        count++;
    nigh_lights_end(first, count);
    for (uint32_t i = 0; all->statuses && i < count; i++)
        nigh_status_set(&all->statuses[all->at + (int)i], NIGH_ANY_SOURCE, NIGH_ANY_TAG, 0,
                        first & NIGH_LIGHT_BYTES, NULL);
    memset(requests, 0, count * sizeof(*requests));
    return count;
}

static inline bool end_some(struct nigh_call call, struct all *all)
{
    while (all->at < all->count) {
        nigh_request *request = &all->requests[all->at];
        uint32_t lights = request->id & NIGH_LIGHT ? end_lights(all) : 0;

        if (lights)
            all->at += (int)lights;
        else if (nigh_likely(retire_plain(request, all->statuses ? &all->statuses[all->at] : NULL)) ||
                 end_next(call, all))
            all->at++;
        else
            return false;
    }
    return true;
}

/*
 * Mostly what comes next is what is waited for next: then it is not noted in the operation first, to be read from there
 * by the walk over the requests, but ends at once.
 */
static inline bool ends_next(struct all *all, const struct nigh_completion *completion)
{
    struct nigh_operation *operation = (struct nigh_operation *)(uintptr_t)completion->context;

    if (all->at == all->count || !nigh_is_operation(operation) ||
        all->requests[all->at].id != nigh_operation_handle(operation) || completion->status != 0 ||
        operation->state != NIGH_STATE_PLAIN_RECV)
        return false;
    if (all->statuses)
        nigh_status_set(&all->statuses[all->at], nigh_comm_rank_of(operation->comm, completion->source),
                        (int32_t)completion->tag, 0, completion->bytes, NULL);
    nigh_operation_give(operation);
    all->requests[all->at++] = NIGH_REQUEST_NULL;
    return true;
}

static inline int poll_for(struct all *all)
{
    struct nigh_completion done[NIGH_POLL_ROOM];
    int count = nigh_poll_into(done, NIGH_POLL_ROOM);

    for (int i = 0; i < count; i++)
        if (nigh_unlikely(!ends_next(all, &done[i])))
            nigh_complete(&done[i]);
    return nigh_poll_told(done, count);
}

static bool all_over(struct nigh_block *block)
{
    return end_some(block->call, block->data);
}

static __attribute__((noinline)) int block_for_all(struct nigh_call call, struct all *all)
{
    const struct nigh_operation *next = nigh_several_operation(all->requests[all->at]);
    struct nigh_block block = {
        .call = call,
        .kind = NIGH_BLOCK_ALL,
        .requests = all->requests,
        .count = all->count,
        .comm = next->comm,
        .over = all_over,
        .data = all,
        .timeout_ns = nigh_several_timeout(all->count, all->requests),
    };
    int rc = nigh_block_until(&block);

    return rc ? nigh_several_late(call, all->count, all->requests, rc) : all->result;
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
        if ((nigh_core.guard & NIGH_GUARD_DEBUG ? nigh_poll() : poll_for(&all)) > 0)
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
    int active, rc = flag ? nigh_several_check(call, count, requests, &active)
                          : nigh_fail(call, -EINVAL, "flag is NULL");
    bool all = true;

    if (rc)
        return rc;
    (void)nigh_poll();
    for (int i = 0; all && i < count; i++)
        all = nigh_several_has_ended(nigh_several_operation(requests[i]));
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
