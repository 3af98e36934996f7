/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/cancel.c - taking an operation back, and letting go of one. */
#include "lib/collective.h"
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/held.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

#define TAKE_BACK_NS UINT64_C(1000000000)

static const struct nigh_call none = {"nigh", NULL};

void nigh_operation_stop(struct nigh_operation *operation)
{
    (void)nigh_core.ops->cancel(nigh_core.context, (uintptr_t)operation);
    if (nigh_wait_one(none, operation, TAKE_BACK_NS) == 0)
        return;
    nigh_say(NIGH_LOG_WARN,
             "its sender was stopped in the middle of copying to the buffer of the %s: it can be given back "
             "when that "
             "rank goes on or ends",
             nigh_operation_text(operation).text);
    while (operation->phase != NIGH_PHASE_DONE)
        (void)nigh_wait_one(none, operation, TAKE_BACK_NS);
}

/* A message that is arriving has a second to be there; what comes later is dropped. */
static void recall_receive(struct nigh_operation *operation)
{
    if (nigh_core.ops->cancel_unmatched(nigh_core.context, (uintptr_t)operation) != 0)
        (void)nigh_wait_one(none, operation, TAKE_BACK_NS);
    if (operation->phase != NIGH_PHASE_DONE)
        nigh_operation_stop(operation);
}

bool nigh_operation_recall(struct nigh_operation *operation)
{
    if (operation->phase == NIGH_PHASE_ACTIVE && operation->kind >= NIGH_KIND_RECV)
        recall_receive(operation);
    /* A send that has left is its receiver's matter now. */
    else if (operation->phase == NIGH_PHASE_ACTIVE &&
             nigh_core.ops->cancel(nigh_core.context, (uintptr_t)operation) == 0)
        (void)nigh_wait_one(none, operation, TAKE_BACK_NS);
    return operation->phase == NIGH_PHASE_DONE && operation->error != -ECANCELED;
}

void nigh_operation_abandon(struct nigh_operation *operation)
{
    nigh_debug_forget(operation);
    if (operation->phase == NIGH_PHASE_DONE) {
        nigh_operation_give(operation);
        return;
    }
    operation->flags |= NIGH_OP_DETACHED | NIGH_OP_RARE;
    nigh_say(
        NIGH_LOG_ERROR,
        "its message has left and cannot be taken back, its buffer stays in use until it has arrived: %s",
        nigh_operation_text(operation).text);
}

void nigh_operation_take_back(struct nigh_operation *operation)
{
    (void)nigh_operation_recall(operation);
    nigh_operation_abandon(operation);
}

static int cancel(struct nigh_call call, nigh_request *request)
{
    struct nigh_operation *operation = NULL;
    int rc = nigh_request_find(call, request, &operation);

    if (rc)
        return rc;
    if (!operation || operation->phase == NIGH_PHASE_INACTIVE)
        return nigh_fail(call, -EINVAL, "the request is not active: there is nothing to take back");
    if (operation->kind == NIGH_KIND_COLLECTIVE)
        return nigh_fail(call, -EINVAL, "a collective cannot be taken back, others take part in it: %s",
                         nigh_operation_text(operation).text);
    /* -ENOENT: it has ended, or is about to; its own result tells. */
    if (operation->phase == NIGH_PHASE_ACTIVE)
        (void)nigh_core.ops->cancel(nigh_core.context, (uintptr_t)operation);
    return 0;
}

NIGH_PUBLIC int nigh_cancel(nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_cancel");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = cancel(call, request);
    nigh_leave();
    return rc;
}

/* A message that lies where it came would have no other name than its address, which only the request knows. */
static void release_what_came(const struct nigh_operation *operation)
{
    if (operation->kind != NIGH_KIND_RECV_IN_PLACE || operation->error || !operation->data)
        return;
    if (nigh_core.ops->release(nigh_core.context, operation->data) == 0)
        nigh_held_remove(operation->data);
}

static int let_go(struct nigh_call call, nigh_request *request)
{
    struct nigh_operation *operation = NULL;
    int rc = nigh_request_find(call, request, &operation);

    if (rc)
        return rc;
    if (!operation)
        return nigh_fail(call, -EINVAL, "the request is NIGH_REQUEST_NULL: there is nothing to free");
    if (operation->phase == NIGH_PHASE_ACTIVE) {
        if (operation->flags & NIGH_OP_PERSISTENT)
            return nigh_fail(call, -EBUSY, "still active, wait for it first: %s",
                             nigh_operation_text(operation).text);
        if (operation->kind == NIGH_KIND_COLLECTIVE)
            return nigh_fail(call, -EBUSY, "still active, wait for it: others take part in it: %s",
                             nigh_operation_text(operation).text);
        if (operation->kind == NIGH_KIND_RECV || operation->kind == NIGH_KIND_RECV_IN_PLACE)
            return nigh_fail(
                call, -EBUSY,
                "still active, and nobody could know when its buffer is filled: wait for it, or take it "
                "back with nigh_cancel and then wait: %s",
                nigh_operation_text(operation).text);
        operation->flags |= NIGH_OP_DETACHED | NIGH_OP_RARE;
        nigh_debug_forget(operation);
    } else if (operation->phase == NIGH_PHASE_DONE && operation->flags & NIGH_OP_PERSISTENT) {
        return nigh_fail(call, -EBUSY, "it was started and not waited for: %s",
                         nigh_operation_text(operation).text);
    } else {
        if (operation->phase == NIGH_PHASE_DONE)
            release_what_came(operation);
        nigh_debug_forget(operation);
        if (operation->kind == NIGH_KIND_COLLECTIVE)
            nigh_coll_release(operation);
        nigh_operation_end(operation);
    }
    *request = NIGH_REQUEST_NULL;
    return 0;
}

NIGH_PUBLIC int nigh_request_free(nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_request_free");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = let_go(call, request);
    nigh_leave();
    return rc;
}
