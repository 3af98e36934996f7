/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/recv.c - receives, and send and receive at once. */
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

static __attribute__((noinline)) int recv_general(struct nigh_call call, void *buffer, uint64_t bytes,
                                                  int source, int tag, struct nigh_comm *comm,
                                                  struct nigh_status *status)
{
    struct nigh_operation *operation;
    int rc = nigh_check_recv(call, comm, source, tag, buffer, bytes);

    if (rc)
        return rc;
    if (source == NIGH_PROC_NULL) {
        nigh_status_nobody(status);
        return 0;
    }
    operation = nigh_operation_new(call, NIGH_KIND_RECV, comm, source, tag, buffer, bytes, NIGH_OP_BLOCKING);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (!rc)
        return nigh_operation_finish(call, operation, nigh_wait_one(call, operation, comm->timeout_ns),
                                     status, true);
    nigh_operation_give(operation);
    nigh_status_set(status, source, tag, rc, 0, NULL);
    return rc;
}

static __attribute__((noinline)) int recv_entered(struct nigh_call call, void *buffer, uint64_t bytes,
                                                  int source, int tag, struct nigh_comm *comm,
                                                  struct nigh_status *status)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = recv_general(call, buffer, bytes, source, tag, comm, status);
    nigh_leave();
    return rc;
}

/* A receive from one rank, any tag or not, with nothing out of the ordinary. */
static inline bool can_post(const struct nigh_comm *comm, int source, int tag, const void *buffer)
{
    return nigh_likely(nigh_core.guard == 0 && nigh_comm_is_good(comm) && (uint32_t)source < comm->size &&
                       tag >= 0 && buffer && comm->endpoints[source] != NULL &&
                       nigh_core.operations_free != NIGH_NO_OPERATION);
}

/* What is as it was in the last receive is not stored again: the plugin loads what was just stored with a delay. */
static inline int post(struct nigh_operation *operation, struct nigh_comm *comm, void *buffer, uint64_t bytes,
                       int source, int tag)
{
    uint64_t full = nigh_comm_tag(comm, tag);

    comm->recv.buffer = buffer;
    comm->recv.context = (uintptr_t)operation;
    if (comm->recv.bytes != bytes)
        comm->recv.bytes = bytes;
    if (comm->recv.tag != full)
        comm->recv.tag = full;
    return nigh_core.ops->post_recv(nigh_core.context, comm->endpoints[source], &comm->recv);
}

/* An operation whose post the plugin has refused, as a call: its receive is tried again in the general way, which knows what to
 * say and when to wait. The short ways keep nothing but the operation across the post; saved registers cost as much as all of
 * their checks. */
struct refused {
    struct nigh_comm *comm;
    void *buffer;
    uint64_t bytes;
    int source, tag;
};

static struct refused undo(struct nigh_operation *operation)
{
    struct nigh_comm *comm = operation->comm;
    struct refused refused = {comm, comm->recv.buffer, operation->bytes, operation->peer, operation->tag};

    nigh_operation_give(operation);
    return refused;
}

static __attribute__((noinline, cold)) int recv_refused(struct nigh_operation *operation,
                                                        struct nigh_status *status)
{
    struct nigh_call call = {"nigh_recv", operation->site};
    struct refused r = undo(operation);

    return recv_entered(call, r.buffer, r.bytes, r.source, r.tag, r.comm, status);
}

/* It did not come at once, or not as it should. */
static __attribute__((noinline)) int recv_slowly(struct nigh_operation *operation, struct nigh_status *status)
{
    struct nigh_call call = {"nigh_recv", operation->site};

    return nigh_operation_finish(call, operation, nigh_wait_one(call, operation, operation->comm->timeout_ns),
                                 status, true);
}

NIGH_PUBLIC int nigh_recv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                          struct nigh_status *status)
{
    struct nigh_operation *operation;

    if (!can_post(comm, source, tag, buffer))
        return recv_entered(NIGH_CALL("nigh_recv"), buffer, bytes, source, tag, comm, status);
    operation = nigh_operation_take();
    nigh_operation_start(operation, NIGH_KIND_RECV, NIGH_PHASE_ACTIVE, comm, source, tag, bytes,
                         nigh_site_take());
    if (nigh_unlikely(post(operation, comm, buffer, bytes, source, tag) != 0))
        return recv_refused(operation, status);
    for (int i = 0; operation->phase != NIGH_PHASE_DONE && i < NIGH_SPINS; i++)
        (void)nigh_poll();
    if (nigh_unlikely(operation->phase != NIGH_PHASE_DONE || operation->error != 0))
        return recv_slowly(operation, status);
    nigh_status_set(status, operation->source, operation->done_tag, 0, operation->done_bytes, NULL);
    nigh_operation_give(operation);
    return 0;
}

int nigh_irecv_general(struct nigh_call call, void *buffer, uint64_t bytes, int source, int tag,
                       struct nigh_comm *comm, nigh_request *request)
{
    struct nigh_operation *operation;
    int rc = nigh_check_recv(call, comm, source, tag, buffer, bytes);

    if (!rc && !request)
        rc = nigh_fail(call, -EINVAL, "the request is NULL");
    if (rc)
        return rc;
    operation = nigh_operation_new(call, NIGH_KIND_RECV, comm, source, tag, buffer, bytes, 0);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (rc)
        nigh_operation_give(operation);
    else
        request->id = nigh_operation_handle(operation);
    return rc;
}

static __attribute__((noinline)) int irecv_entered(struct nigh_call call, void *buffer, uint64_t bytes,
                                                   int source, int tag, struct nigh_comm *comm,
                                                   nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_irecv_general(call, buffer, bytes, source, tag, comm, request);
    nigh_leave();
    return rc;
}

static __attribute__((noinline, cold)) int irecv_refused(struct nigh_operation *operation,
                                                         nigh_request *request)
{
    struct nigh_call call = {"nigh_irecv", operation->site};
    struct refused r = undo(operation);

    return irecv_entered(call, r.buffer, r.bytes, r.source, r.tag, r.comm, request);
}

NIGH_PUBLIC int nigh_irecv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    struct nigh_operation *operation;

    if (!can_post(comm, source, tag, buffer) || !request)
        return irecv_entered(NIGH_CALL("nigh_irecv"), buffer, bytes, source, tag, comm, request);
    operation = nigh_operation_take();
    nigh_operation_start(operation, NIGH_KIND_RECV, NIGH_PHASE_ACTIVE, comm, source, tag, bytes,
                         nigh_site_take());
    if (nigh_unlikely(post(operation, comm, buffer, bytes, source, tag) != 0))
        return irecv_refused(operation, request);
    request->id = nigh_operation_handle(operation);
    return 0;
}

static int sendrecv(struct nigh_call call, const void *send, uint64_t send_bytes, int dest, int send_tag,
                    void *recv, uint64_t recv_bytes, int source, int recv_tag, struct nigh_comm *comm,
                    struct nigh_status *status)
{
    struct nigh_operation *in, *out;
    int rc = nigh_check_send(call, comm, dest, send_tag, send, send_bytes), result;

    if (!rc)
        rc = nigh_check_recv(call, comm, source, recv_tag, recv, recv_bytes);
    if (rc)
        return rc;
    in = nigh_operation_new(call, NIGH_KIND_RECV, comm, source, recv_tag, recv, recv_bytes, 0);
    if (!in)
        return -ENOMEM;
    out = nigh_operation_new(call, NIGH_KIND_SEND, comm, dest, send_tag, send, send_bytes, 0);
    if (!out) {
        nigh_operation_give(in);
        return -ENOMEM;
    }
    rc = nigh_operation_post(call, in);
    if (rc) {
        nigh_operation_give(in);
        nigh_operation_give(out);
        nigh_status_set(status, source, recv_tag, rc, 0, NULL);
        return rc;
    }
    rc = nigh_operation_post(call, out);
    if (rc) {
        nigh_operation_give(out);
        nigh_operation_take_back(in);
        nigh_status_set(status, source, recv_tag, -ECANCELED, 0, NULL);
        return rc;
    }
    result = nigh_operation_finish(call, in, nigh_wait_one(call, in, comm->timeout_ns), status, true);
    rc = nigh_wait_one(call, out, comm->timeout_ns);
    rc = nigh_operation_finish(call, out, rc, NULL, result == 0);
    return result ? result : rc;
}

NIGH_PUBLIC int nigh_sendrecv(const void *send, uint64_t send_bytes, int dest, int send_tag, void *recv,
                              uint64_t recv_bytes, int source, int recv_tag, struct nigh_comm *comm,
                              struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_sendrecv");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = sendrecv(call, send, send_bytes, dest, send_tag, recv, recv_bytes, source, recv_tag, comm, status);
    nigh_leave();
    return rc;
}
