/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/matched.c - receiving a message that a matched probe has taken out of the queue. */
#include "lib/error.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

static int find(struct nigh_call call, const nigh_matched *message, struct nigh_operation **out)
{
    struct nigh_operation *operation = NULL;

    if (!message)
        return nigh_fail(call, -EINVAL, "the message is NULL");
    operation = message->id ? nigh_operation_find(message->id) : NULL;
    if (!operation || operation->kind != NIGH_KIND_MATCHED)
        return nigh_fail(call, -EINVAL, "%s",
                         message->id == 0
                             ? "the message is NIGH_MATCHED_NULL: it was received, or none was taken"
                         : operation ? "this is a request, not a message of a matched probe"
                                     : "this message was received before (a copy of it was kept?)");
    *out = operation;
    return 0;
}

/* The slot of the message becomes that of its receive. */
static int post(struct nigh_call call, void *buffer, uint64_t bytes, nigh_matched *message,
                struct nigh_operation **out)
{
    struct nigh_operation *operation = NULL;
    uint64_t whole;
    int rc = find(call, message, &operation);

    if (rc)
        return rc;
    if (!buffer && bytes != 0)
        return nigh_fail(call, -EFAULT, "the buffer is NULL, but %llu bytes are to be received",
                         (unsigned long long)bytes);
    whole = operation->bytes;
    operation->kind = NIGH_KIND_RECV;
    operation->buffer = buffer;
    operation->bytes = bytes;
    operation->site = call.site;
    rc = nigh_operation_post(call, operation);
    if (rc) {
        operation->kind = NIGH_KIND_MATCHED;
        operation->bytes = whole;
        return rc;
    }
    *message = NIGH_MATCHED_NULL;
    *out = operation;
    return 0;
}

static int receive(struct nigh_call call, void *buffer, uint64_t bytes, nigh_matched *message,
                   struct nigh_status *status)
{
    struct nigh_operation *operation = NULL;
    int rc = post(call, buffer, bytes, message, &operation);

    if (rc)
        return rc;
    rc = nigh_wait_one(call, operation, operation->comm->timeout_ns);
    return nigh_operation_finish(call, operation, rc, status, true);
}

NIGH_PUBLIC int nigh_mrecv(void *buffer, uint64_t bytes, nigh_matched *message, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_mrecv");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = receive(call, buffer, bytes, message, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_imrecv(void *buffer, uint64_t bytes, nigh_matched *message, nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_imrecv");
    struct nigh_operation *operation = NULL;
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = request ? post(call, buffer, bytes, message, &operation)
                 : nigh_fail(call, -EINVAL, "the request is NULL");
    if (!rc)
        request->id = nigh_operation_handle(operation);
    nigh_leave();
    return rc;
}
