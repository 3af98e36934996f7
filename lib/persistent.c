/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/persistent.c - requests that are made once and started many times. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/post.h"

#include <errno.h>

static int make(struct nigh_call call, enum nigh_kind kind, const void *buffer, uint64_t bytes, int peer,
                int tag, struct nigh_comm *comm, nigh_request *request)
{
    struct nigh_operation *operation = NULL;
    int rc = kind == NIGH_KIND_RECV ? nigh_check_recv(call, comm, peer, tag, buffer, bytes)
                                    : nigh_check_send(call, comm, peer, tag, buffer, bytes);

    if (!rc && !request)
        rc = nigh_fail(call, -EINVAL, "the request is NULL");
    if (rc)
        return rc;
    operation = nigh_operation_new(call, kind, comm, peer, tag, buffer, bytes, NIGH_OP_PERSISTENT);
    if (!operation)
        return -ENOMEM;
    request->id = nigh_operation_handle(operation);
    return 0;
}

static int make_entered(struct nigh_call call, enum nigh_kind kind, const void *buffer, uint64_t bytes,
                        int peer, int tag, struct nigh_comm *comm, nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = make(call, kind, buffer, bytes, peer, tag, comm, request);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_send_init(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                               nigh_request *request)
{
    return make_entered(NIGH_CALL("nigh_send_init"), NIGH_KIND_SEND, buffer, bytes, dest, tag, comm, request);
}

NIGH_PUBLIC int nigh_ssend_init(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                                nigh_request *request)
{
    return make_entered(NIGH_CALL("nigh_ssend_init"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm,
                        request);
}

NIGH_PUBLIC int nigh_recv_init(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                               nigh_request *request)
{
    return make_entered(NIGH_CALL("nigh_recv_init"), NIGH_KIND_RECV, buffer, bytes, source, tag, comm,
                        request);
}

static int start(struct nigh_call call, nigh_request *request)
{
    struct nigh_operation *operation = NULL;
    int rc = nigh_request_find(call, request, &operation);

    if (rc)
        return rc;
    if (!operation || !(operation->flags & NIGH_OP_PERSISTENT))
        return nigh_fail(
            call, -EINVAL,
            "%s is not persistent: make it with nigh_send_init, nigh_ssend_init, nigh_recv_init or that of a "
            "collective, as nigh_bcast_init",
            operation ? nigh_operation_text(operation).text : "NIGH_REQUEST_NULL");
    if (operation->phase != NIGH_PHASE_INACTIVE)
        return nigh_fail(call, -EBUSY, "started before and not waited for: %s",
                         nigh_operation_text(operation).text);
    rc = nigh_comm_check(call, operation->comm);
    if (rc)
        return rc;
    if (call.site)
        operation->site = call.site;
    return operation->kind == NIGH_KIND_COLLECTIVE ? nigh_coll_restart(call, operation)
                                                   : nigh_operation_post(call, operation);
}

NIGH_PUBLIC int nigh_start(nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_start");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = start(call, request);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_startall(int count, nigh_request *requests)
{
    struct nigh_call call = NIGH_CALL("nigh_startall");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    if (count < 0 || (count > 0 && !requests))
        rc = nigh_fail(call, -EINVAL, "%d requests at %p", count, (void *)requests);
    for (int i = 0; !rc && i < count; i++)
        rc = start(call, &requests[i]);
    nigh_leave();
    return rc;
}
