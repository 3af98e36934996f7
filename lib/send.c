/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/send.c - sends: small ones in one post without an operation, all others through one. */
#include "lib/debug.h"
#include "lib/error.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>

static __attribute__((noinline)) int send_general(struct nigh_call call, enum nigh_kind kind,
                                                  const void *buffer, uint64_t bytes, int dest, int tag,
                                                  struct nigh_comm *comm)
{
    struct nigh_operation *operation;
    int rc = nigh_check_send(call, comm, dest, tag, buffer, bytes);

    if (rc || dest == NIGH_PROC_NULL)
        return rc;
    operation = nigh_operation_new(call, kind, comm, dest, tag, buffer, bytes, NIGH_OP_BLOCKING);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (!rc)
        return nigh_operation_finish(call, operation, nigh_wait_one(call, operation, comm->timeout_ns), NULL,
                                     true);
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
    if (!nigh_hot_is_open(nigh_hot()))
        nigh_hot_open(nigh_hot());
    rc = send_general(call, kind, buffer, bytes, dest, tag, comm);
    nigh_leave();
    return rc;
}

static inline bool can_inject(const struct nigh_hot *hot, const struct nigh_comm *comm, int dest, int tag,
                              const void *buffer, uint64_t bytes)
{
    return nigh_likely(nigh_core.guard == 0 && nigh_is_plain_send(comm, dest, tag, buffer, bytes) &&
                       bytes < nigh_core.inject_below && comm->endpoints[dest] != NULL &&
                       nigh_hot_is_open(hot));
}

/* What is as it was in the last send is not stored again: a window goes to one rank with one tag. */
static inline int inject(struct nigh_hot *hot, struct nigh_comm *comm, int dest, int tag, const void *buffer,
                         uint64_t bytes)
{
    uint64_t full = nigh_comm_tag(comm, tag);

    hot->send.buffer = buffer;
    if (hot->send.bytes != bytes)
        hot->send.bytes = bytes;
    if (hot->send.tag != full)
        hot->send.tag = full;
    return nigh_core.ops->post_send(comm->endpoints[dest], &hot->send);
}

NIGH_PUBLIC int nigh_send(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm)
{
    struct nigh_call call = NIGH_CALL("nigh_send");
    struct nigh_hot *hot = nigh_hot();

    if (can_inject(hot, comm, dest, tag, buffer, bytes) &&
        nigh_likely(inject(hot, comm, dest, tag, buffer, bytes) == 0))
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
    if (!nigh_hot_is_open(nigh_hot()))
        nigh_hot_open(nigh_hot());
    else if (nigh_light_place(nigh_hot()->next)->id)
        nigh_hot()->next = (nigh_hot()->next + NIGH_LIGHT_STEP) | NIGH_LIGHT; /* one may be kept for long */
    rc = nigh_isend_general(call, kind, buffer, bytes, dest, tag, comm, request);
    nigh_leave();
    return rc;
}

/* The plugin has refused what the short way has prepared; all that it was lies in the hot line and in the light request,
 * which stays one, or the call fails. */
static __attribute__((noinline, cold)) int isend_refused(struct nigh_hot *hot, uint64_t id)
{
    struct nigh_light *light = nigh_light_find(id);
    struct nigh_call call = {.name = "nigh_isend", .site = nigh_light_site(light)};
    nigh_request *request = light->request;
    int rc = send_entered(call, NIGH_KIND_SEND, hot->send.buffer, hot->send.bytes, nigh_light_rank(light),
                          (int)(uint32_t)light->tag, nigh_comm_by_id((uint32_t)(light->tag >> 32)));

    if (rc) {
        nigh_light_give(light);
        *request = NIGH_REQUEST_NULL;
    }
    return rc;
}

/*
 * A small send is over when it is posted; its request only waits to be waited for. All is written before the post, so that
 * nothing has to outlast it: saved registers are stores, too.
 */
NIGH_PUBLIC int nigh_isend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    struct nigh_hot *hot = nigh_hot();
    uint64_t next = hot->next;
    struct nigh_light *light = nigh_light_place(next);

    if (nigh_unlikely(!request || light->id || !can_inject(hot, comm, dest, tag, buffer, bytes)))
        return isend_entered(NIGH_CALL("nigh_isend"), NIGH_KIND_SEND, buffer, bytes, dest, tag, comm,
                             request);
    request->id = next | bytes;
    nigh_store_two(light, next | bytes, nigh_light_who(dest, hot->site));
    nigh_store_two(&light->tag, nigh_comm_tag(comm, tag), (uintptr_t)request);
    nigh_store_two(hot, 0, (next + NIGH_LIGHT_STEP) | NIGH_LIGHT);
    return nigh_likely(inject(hot, comm, dest, tag, buffer, bytes) == 0) ? 0
                                                                         : isend_refused(hot, next | bytes);
}

NIGH_PUBLIC int nigh_issend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                            nigh_request *request)
{
    return isend_entered(NIGH_CALL("nigh_issend"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm, request);
}
