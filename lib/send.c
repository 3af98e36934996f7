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
    rc = send_general(call, kind, buffer, bytes, dest, tag, comm);
    nigh_leave();
    return rc;
}

static inline bool can_inject(const struct nigh_comm *comm, int dest, int tag, const void *buffer,
                              uint64_t bytes)
{
    return nigh_likely(nigh_core.guard == 0 && nigh_is_plain_send(comm, dest, tag, buffer, bytes) &&
                       bytes < nigh_core.inject_below && comm->endpoints[dest] != NULL);
}

/* The last thing that a call does, so that nothing has to outlast it: saved registers are stores, too. */
static inline int inject(struct nigh_comm *comm, int dest, const void *buffer, uint64_t bytes, uint64_t full,
                         uint64_t context, nigh_refused_fn refused)
{
    return nigh_core.inject(comm->endpoints[dest], buffer, NIGH_SHAPE(bytes, NIGH_CLASS_USER), full, context,
                            refused);
}

/*
 * What the plugin has refused is tried again in the general way, which knows what to say and when to wait. The
 * communicator is the only one of this process with the number in the tag: its members agree on one above all that any
 * of them has seen, and nothing can free it in this call, as no other thread may call.
 */
static int try_again(const char *name, uint64_t who, const void *buffer, uint64_t shape, uint64_t full)
{
    return send_entered((struct nigh_call){name, nigh_who_site(who)}, NIGH_KIND_SEND, buffer,
                        NIGH_SHAPE_BYTES(shape), nigh_who_rank(who), (int)(uint32_t)full,
                        nigh_comm_by_id((uint32_t)(full >> 32)));
}

static int send_refused(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t full,
                        uint64_t who, int error)
{
    (void)endpoint;
    (void)error; /* the next try finds it */
    return try_again("nigh_send", who, buffer, shape, full);
}

NIGH_PUBLIC int nigh_send_at(const void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                             const char *site)
{
    int dest = NIGH_RANK_OF(with), tag = NIGH_TAG_OF(with);

    if (!can_inject(comm, dest, tag, buffer, bytes))
        return send_entered((struct nigh_call){"nigh_send", site}, NIGH_KIND_SEND, buffer, bytes, dest, tag,
                            comm);
    return inject(comm, dest, buffer, bytes, nigh_comm_tag(comm, tag), nigh_light_who(dest, site),
                  send_refused);
}

NIGH_PUBLIC int nigh_send(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm)
{
    return nigh_send_at(buffer, bytes, NIGH_WITH(dest, tag), comm, NULL);
}

NIGH_PUBLIC int nigh_ssend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm)
{
    return send_entered(NIGH_CALL("nigh_ssend"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm);
}

static __attribute__((noinline)) int isend_entered(struct nigh_call call, enum nigh_kind kind,
                                                   const void *buffer, uint64_t bytes, int dest, int tag,
                                                   struct nigh_comm *comm, nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_start_general(call, kind, buffer, bytes, dest, tag, comm, request);
    nigh_leave();
    return rc;
}

/* Its request stays a light one, or the call fails. */
static int isend_refused(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t full,
                         uint64_t context, int error)
{
    nigh_request *request = (nigh_request *)(uintptr_t)context;
    uint64_t id = request->id;
    int rc;

    (void)endpoint;
    (void)error; /* the next try finds it */
    rc = try_again("nigh_isend", nigh_lights_who(), buffer, shape, full);
    if (rc) {
        nigh_light_end(id);
        *request = NIGH_REQUEST_NULL;
    }
    return rc;
}

static inline int isend_like_last(const void *buffer, nigh_request *request)
{
    uint64_t bytes = nigh_lights.last.bytes;

    request->id = nigh_light_take(bytes);
    return nigh_core.inject(nigh_lights.last.endpoint, buffer, NIGH_SHAPE(bytes, NIGH_CLASS_USER),
                            nigh_lights.last.tag, (uintptr_t)request, isend_refused);
}

/* It is unlike the one before it, or some of those have grown old, or it cannot be light. */
static __attribute__((noinline)) int isend_unlike(const void *buffer, uint64_t bytes, uint64_t with,
                                                  struct nigh_comm *comm, nigh_request *request,
                                                  const char *site)
{
    int dest = NIGH_RANK_OF(with), tag = NIGH_TAG_OF(with);

    if (nigh_unlikely(!request || !can_inject(comm, dest, tag, buffer, bytes) || !nigh_lights_more()))
        return isend_entered((struct nigh_call){"nigh_isend", site}, NIGH_KIND_SEND, buffer, bytes, dest, tag,
                             comm, request);
    nigh_lights_turn(comm, with, bytes, site);
    return isend_like_last(buffer, request);
}

/* A small send is over when it is posted; its request only waits to be waited for. */
NIGH_PUBLIC int nigh_isend_at(const void *buffer, uint64_t bytes, uint64_t with, struct nigh_comm *comm,
                              nigh_request *request, const char *site)
{
    if (nigh_unlikely(nigh_core.guard != 0 || !buffer || !request ||
                      !nigh_light_goes_on(comm, with, bytes, site)))
        return isend_unlike(buffer, bytes, with, comm, request, site);
    return isend_like_last(buffer, request);
}

NIGH_PUBLIC int nigh_isend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    return nigh_isend_at(buffer, bytes, NIGH_WITH(dest, tag), comm, request, NULL);
}

NIGH_PUBLIC int nigh_issend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                            nigh_request *request)
{
    return isend_entered(NIGH_CALL("nigh_issend"), NIGH_KIND_SSEND, buffer, bytes, dest, tag, comm, request);
}
