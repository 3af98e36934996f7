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

struct nigh_alike nigh_last_recv;

/* A receive from one rank with one tag, with nothing out of the ordinary: then the next one may be like it. */
static bool is_plain(struct nigh_comm *comm, uint64_t with, const void *buffer, uint64_t bytes,
                     const char *site)
{
    int source = NIGH_RANK_OF(with);

    if (nigh_core.guard != 0 || !nigh_comm_is_good(comm) || (uint32_t)source >= comm->size ||
        NIGH_TAG_OF(with) < 0 || !buffer || bytes > UINT32_MAX || !comm->endpoints[source])
        return false;
    nigh_alike_set(&nigh_last_recv, comm, with, bytes, site);
    return true;
}

static inline bool can_expect(struct nigh_comm *comm, uint64_t with, const void *buffer, uint64_t bytes,
                              const char *site)
{
    return nigh_likely(nigh_core.guard == 0 && buffer && nigh_core.operations_free != NIGH_NO_OPERATION &&
                       nigh_is_alike(&nigh_last_recv, comm, with, bytes, site));
}

static inline struct nigh_operation *start(struct nigh_comm *comm, uint64_t with, uint64_t bytes,
                                           const char *site)
{
    struct nigh_operation *operation = nigh_operation_take();

    nigh_operation_start(operation, NIGH_KIND_RECV, NIGH_PHASE_ACTIVE, comm, NIGH_RANK_OF(with),
                         NIGH_TAG_OF(with), bytes, site);
    return operation;
}

static inline int expect(struct nigh_operation *operation, void *buffer, uint64_t bytes,
                         nigh_refused_fn refused)
{
    return nigh_core.expect(nigh_last_recv.endpoint, buffer, NIGH_SHAPE(bytes, NIGH_CLASS_USER),
                            nigh_last_recv.tag, (uintptr_t)operation, refused);
}

/* What the plugin refuses is tried again in the general way, which knows what to say and when to wait. */
static int recv_refused(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                        uint64_t context, int error)
{
    (void)endpoint;
    (void)shape;
    (void)tag;
    ((struct nigh_operation *)(uintptr_t)context)->buffer = (void *)(uintptr_t)buffer;
    return error;
}

static __attribute__((noinline, cold)) int recv_again(struct nigh_operation *operation,
                                                      struct nigh_status *status)
{
    struct nigh_operation was = *operation;

    nigh_operation_give(operation);
    return recv_entered((struct nigh_call){"nigh_recv", was.site}, was.buffer, was.bytes, was.peer, was.tag,
                        was.comm, status);
}

/* It did not come at once, or not as it should. */
static __attribute__((noinline)) int recv_slowly(struct nigh_operation *operation, struct nigh_status *status)
{
    struct nigh_call call = {"nigh_recv", operation->site};

    return nigh_operation_finish(call, operation, nigh_wait_one(call, operation, operation->comm->timeout_ns),
                                 status, true);
}

NIGH_PUBLIC int nigh_recv_at(void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                             struct nigh_status *status, const char *site)
{
    struct nigh_operation *operation;

    if (nigh_unlikely(!can_expect(comm, with, buffer, bytes, site)) &&
        (!is_plain(comm, with, buffer, bytes, site) || nigh_core.operations_free == NIGH_NO_OPERATION))
        return recv_entered((struct nigh_call){"nigh_recv", site}, buffer, bytes, NIGH_RANK_OF(with),
                            NIGH_TAG_OF(with), comm, status);
    operation = start(comm, with, bytes, site);
    if (nigh_unlikely(expect(operation, buffer, bytes, recv_refused) != 0))
        return recv_again(operation, status);
    for (int i = 0; operation->phase != NIGH_PHASE_DONE && i < NIGH_SPINS; i++)
        (void)nigh_poll();
    if (nigh_unlikely(operation->phase != NIGH_PHASE_DONE || operation->error != 0))
        return recv_slowly(operation, status);
    nigh_status_set(status, operation->source, operation->done_tag, 0, operation->done_bytes, NULL);
    nigh_operation_give(operation);
    return 0;
}

NIGH_PUBLIC int nigh_recv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                          struct nigh_status *status)
{
    return nigh_recv_at(buffer, bytes, NIGH_WITH(source, tag), comm, status, NULL);
}

static __attribute__((noinline)) int irecv_entered(struct nigh_call call, void *buffer, uint64_t bytes,
                                                   int source, int tag, struct nigh_comm *comm,
                                                   nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_start_general(call, NIGH_KIND_RECV, buffer, bytes, source, tag, comm, request);
    nigh_leave();
    return rc;
}

static int irecv_refused(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                         uint64_t context, int error)
{
    struct nigh_operation was = *(struct nigh_operation *)(uintptr_t)context;
    int rc;

    (void)endpoint;
    (void)shape;
    (void)tag;
    (void)error;
    nigh_operation_give((struct nigh_operation *)(uintptr_t)context);
    rc = irecv_entered((struct nigh_call){"nigh_irecv", was.site}, (void *)(uintptr_t)buffer, was.bytes,
                       was.peer, was.tag, was.comm, was.request);
    if (rc)
        *was.request = NIGH_REQUEST_NULL;
    return rc;
}

/* All is written before the post, so that nothing has to outlast it. */
static inline int irecv_like_last(void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                                  nigh_request *request, const char *site)
{
    struct nigh_operation *operation = start(comm, with, bytes, site);

    operation->request = request;
    request->id = nigh_operation_handle(operation);
    return expect(operation, buffer, bytes, irecv_refused);
}

static __attribute__((noinline)) int irecv_unlike(void *buffer, uint64_t bytes, uint64_t with,
                                                  struct nigh_comm *comm, nigh_request *request,
                                                  const char *site)
{
    if (!request || !is_plain(comm, with, buffer, bytes, site) ||
        nigh_core.operations_free == NIGH_NO_OPERATION)
        return irecv_entered((struct nigh_call){"nigh_irecv", site}, buffer, bytes, NIGH_RANK_OF(with),
                             NIGH_TAG_OF(with), comm, request);
    return irecv_like_last(buffer, bytes, with, comm, request, site);
}

NIGH_PUBLIC int nigh_irecv_at(void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                              nigh_request *request, const char *site)
{
    if (nigh_unlikely(!request || !can_expect(comm, with, buffer, bytes, site)))
        return irecv_unlike(buffer, bytes, with, comm, request, site);
    return irecv_like_last(buffer, bytes, with, comm, request, site);
}

NIGH_PUBLIC int nigh_irecv(void *buffer, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    return nigh_irecv_at(buffer, bytes, NIGH_WITH(source, tag), comm, request, NULL);
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
