/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/send.c - sends: small ones in one post without an operation, all others through one. */
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

static int wait_and_free(struct nigh_call call, struct nigh_operation *operation)
{
    nigh_request unused;
    int rc = nigh_wait_one(call, operation, operation->comm->timeout_ns);

    if (rc == 0)
        return nigh_request_retire(call, operation, &unused, NULL, true);
    rc = nigh_operation_late(call, operation, rc);
    nigh_operation_take_back(operation);
    return rc;
}

static __attribute__((noinline)) int send_general(struct nigh_call call, enum nigh_kind kind,
                                                  const void *buffer, uint64_t bytes, int dest, int tag,
                                                  struct nigh_comm *comm)
{
    struct nigh_operation *operation;
    int rc = nigh_check_send(call, comm, dest, tag, buffer, bytes);

    if (rc || dest == NIGH_PROC_NULL)
        return rc;
    operation = nigh_operation_new(call, kind, comm, dest, tag, buffer, bytes, 0);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (!rc)
        return wait_and_free(call, operation);
    nigh_operation_give(operation);
    return rc;
}

static __attribute__((noinline)) int send_entered(struct nigh_call call, enum nigh_kind kind,
                                                  const void *buffer, uint64_t bytes, int dest, int tag,
                                                  struct nigh_comm *comm)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = send_general(call, kind, buffer, bytes, dest, tag, comm);
    nigh_leave();
    return rc;
}

/* The plugin's struct is the communicator's: of four fields that change, three are stored. */
static inline int inject(struct nigh_comm *comm, int dest, int tag, const void *buffer, uint64_t bytes)
{
    comm->send.buffer = buffer;
    comm->send.bytes = bytes;
    comm->send.tag = nigh_comm_tag(comm, tag);
    return nigh_core.ops->post_send(comm->endpoints[dest], &comm->send);
}

static inline bool can_inject(const struct nigh_comm *comm, int dest, int tag, const void *buffer,
                              uint64_t bytes)
{
    return nigh_likely(nigh_core.guard == 0 && nigh_is_plain_send(comm, dest, tag, buffer, bytes) &&
                       bytes < nigh_core.inject_below && comm->endpoints[dest] != NULL);
}

NIGH_PUBLIC int nigh_send(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm)
{
    struct nigh_call call = NIGH_CALL("nigh_send");

    if (can_inject(comm, dest, tag, buffer, bytes) &&
        nigh_likely(inject(comm, dest, tag, buffer, bytes) == 0))
        return 0;
    return send_entered(call, NIGH_KIND_SEND, buffer, bytes, dest, tag, comm);
}

NIGH_PUBLIC int nigh_ssend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm)
{
    return send_entered(NIGH_CALL("nigh_ssend"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm);
}

int nigh_isend_general(struct nigh_call call, enum nigh_kind kind, const void *buffer, uint64_t bytes,
                       int dest, int tag, struct nigh_comm *comm, nigh_request *request)
{
    struct nigh_operation *operation;
    int rc = nigh_check_send(call, comm, dest, tag, buffer, bytes);

    if (!rc && !request)
        rc = nigh_fail(call, -EINVAL, "the request is NULL");
    if (rc)
        return rc;
    operation = nigh_operation_new(call, kind, comm, dest, tag, buffer, bytes, 0);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (rc)
        nigh_operation_give(operation);
    else
        request->id = nigh_operation_handle(operation);
    return rc;
}

static __attribute__((noinline)) int isend_entered(struct nigh_call call, enum nigh_kind kind,
                                                   const void *buffer, uint64_t bytes, int dest, int tag,
                                                   struct nigh_comm *comm, nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_isend_general(call, kind, buffer, bytes, dest, tag, comm, request);
    nigh_leave();
    return rc;
}

/* A small send is over when it is posted; its request only waits to be waited for. */
NIGH_PUBLIC int nigh_isend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_isend");

    if (request && nigh_core.operations_free != NIGH_NO_OPERATION &&
        can_inject(comm, dest, tag, buffer, bytes) &&
        nigh_likely(inject(comm, dest, tag, buffer, bytes) == 0)) {
        struct nigh_operation *operation = nigh_operation_take();

        nigh_operation_start(operation, NIGH_KIND_SEND, NIGH_PHASE_DONE, comm, dest, tag, bytes, call.site);
        request->id = nigh_operation_handle(operation);
        return 0;
    }
    return isend_entered(call, NIGH_KIND_SEND, buffer, bytes, dest, tag, comm, request);
}

NIGH_PUBLIC int nigh_issend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                            nigh_request *request)
{
    return isend_entered(NIGH_CALL("nigh_issend"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm, request);
}
