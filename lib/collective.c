/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective.c - the collective calls of nigh.h, each in three forms: nigh_NAME waits, nigh_iNAME is a request, nigh_NAME_init
 * a persistent one. */
#include "lib/collective.h"
#include "lib/error.h"

#include <errno.h>

enum form { WAITS, STARTS, PERSISTS };

static int make(struct nigh_call call, struct nigh_comm *comm, const struct nigh_coll_args *args,
                enum form form, nigh_request *request)
{
    struct nigh_collective what;
    int rc = form == WAITS || request ? 0 : nigh_fail(call, -EINVAL, "the request is NULL");

    if (!rc)
        rc = nigh_coll_check(call, comm, args);
    if (rc) {
        /* A request that was never made can still be made: only calls that the others make now are ended for them. */
        if (form != PERSISTS)
            nigh_coll_say_refused(call, comm, nigh_coll_arguments(args).text, rc);
        return rc;
    }
    what = nigh_coll_make(comm, args);
    return form == WAITS ? nigh_coll_run(call, comm, &what)
                         : nigh_coll_request(call, comm, &what, form == PERSISTS, request);
}

static int call_it(struct nigh_call call, struct nigh_comm *comm, const struct nigh_coll_args *args,
                   enum form form, nigh_request *request)
{
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_comm_check(call, comm);
    if (!rc)
        rc = make(call, comm, args, form, request);
    if (rc && form == STARTS && request)
        *request = NIGH_REQUEST_NULL;
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_barrier(struct nigh_comm *comm)
{
    return call_it(NIGH_CALL("nigh_barrier"), comm, &(struct nigh_coll_args){.what = NIGH_BARRIER}, WAITS,
                   NULL);
}

NIGH_PUBLIC int nigh_ibarrier(struct nigh_comm *comm, nigh_request *request)
{
    return call_it(NIGH_CALL("nigh_ibarrier"), comm, &(struct nigh_coll_args){.what = NIGH_BARRIER}, STARTS,
                   request);
}

NIGH_PUBLIC int nigh_barrier_init(struct nigh_comm *comm, nigh_request *request)
{
    return call_it(NIGH_CALL("nigh_barrier_init"), comm, &(struct nigh_coll_args){.what = NIGH_BARRIER},
                   PERSISTS, request);
}

/* clang-format off */
#define UNPACK(...) __VA_ARGS__
#define CALL(name, form, request, ...) \
    call_it(NIGH_CALL(name), comm, &(struct nigh_coll_args){__VA_ARGS__}, form, request)

#define FORMS(name, parameters, ...)                                                                     \
    NIGH_PUBLIC int nigh_##name(UNPACK parameters, struct nigh_comm *comm)                               \
    {                                                                                                    \
        return CALL("nigh_" #name, WAITS, NULL, __VA_ARGS__);                                            \
    }                                                                                                    \
    NIGH_PUBLIC int nigh_i##name(UNPACK parameters, struct nigh_comm *comm, nigh_request *request)       \
    {                                                                                                    \
        return CALL("nigh_i" #name, STARTS, request, __VA_ARGS__);                                       \
    }                                                                                                    \
    NIGH_PUBLIC int nigh_##name##_init(UNPACK parameters, struct nigh_comm *comm, nigh_request *request) \
    {                                                                                                    \
        return CALL("nigh_" #name "_init", PERSISTS, request, __VA_ARGS__);                              \
    }

FORMS(bcast, (void *buffer, uint64_t count, int type, int root),
      .what = NIGH_BROADCAST, .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT,
      .recv = buffer, .count = count, .type = type, .root = root)

#define VECTORS .send = send, .recv = recv, .count = count, .type = type

FORMS(reduce, (const void *send, void *recv, uint64_t count, int type, int op, int root),
      .what = NIGH_REDUCE, .has = NIGH_COLL_COUNT | NIGH_COLL_OP | NIGH_COLL_ROOT,
      VECTORS, .op = op, .root = root)
FORMS(allreduce, (const void *send, void *recv, uint64_t count, int type, int op),
      .what = NIGH_ALLREDUCE, .has = NIGH_COLL_COUNT | NIGH_COLL_OP, VECTORS, .op = op)
FORMS(reduce_scatter, (const void *send, void *recv, uint64_t count, int type, int op),
      .what = NIGH_REDUCE_SCATTER, .has = NIGH_COLL_COUNT | NIGH_COLL_OP, VECTORS, .op = op)
FORMS(scan, (const void *send, void *recv, uint64_t count, int type, int op),
      .what = NIGH_SCAN, .has = NIGH_COLL_COUNT | NIGH_COLL_OP, VECTORS, .op = op)
FORMS(exscan, (const void *send, void *recv, uint64_t count, int type, int op),
      .what = NIGH_EXSCAN, .has = NIGH_COLL_COUNT | NIGH_COLL_OP, VECTORS, .op = op)

FORMS(gather, (const void *send, void *recv, uint64_t count, int type, int root),
      .what = NIGH_GATHER, .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT, VECTORS, .root = root)
FORMS(scatter, (const void *send, void *recv, uint64_t count, int type, int root),
      .what = NIGH_SCATTER, .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT, VECTORS, .root = root)
FORMS(allgather, (const void *send, void *recv, uint64_t count, int type),
      .what = NIGH_ALLGATHER, .has = NIGH_COLL_COUNT, VECTORS)
FORMS(alltoall, (const void *send, void *recv, uint64_t count, int type),
      .what = NIGH_ALLTOALL, .has = NIGH_COLL_COUNT, VECTORS)

/* ---- blocks of lengths of their own ---- */

FORMS(gatherv, (const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                const uint64_t *recv_offsets, int type, int root),
      .what = NIGH_GATHER, .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT | NIGH_COLL_RECV_COUNTS,
      VECTORS, .root = root, .recv_counts = recv_counts, .recv_offsets = recv_offsets)
FORMS(scatterv, (const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                 uint64_t count, int type, int root),
      .what = NIGH_SCATTER, .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT | NIGH_COLL_SEND_COUNTS,
      VECTORS, .root = root, .send_counts = send_counts, .send_offsets = send_offsets)
FORMS(allgatherv, (const void *send, uint64_t count, void *recv, const uint64_t *recv_counts,
                   const uint64_t *recv_offsets, int type),
      .what = NIGH_ALLGATHER, .has = NIGH_COLL_COUNT | NIGH_COLL_RECV_COUNTS,
      VECTORS, .recv_counts = recv_counts, .recv_offsets = recv_offsets)
FORMS(alltoallv, (const void *send, const uint64_t *send_counts, const uint64_t *send_offsets, void *recv,
                  const uint64_t *recv_counts, const uint64_t *recv_offsets, int type),
      .what = NIGH_ALLTOALL, .has = NIGH_COLL_COUNT | NIGH_COLL_SEND_COUNTS | NIGH_COLL_RECV_COUNTS,
      .send = send, .recv = recv, .type = type, .send_counts = send_counts, .send_offsets = send_offsets,
      .recv_counts = recv_counts, .recv_offsets = recv_offsets)
FORMS(reduce_scatterv, (const void *send, void *recv, const uint64_t *counts, int type, int op),
      .what = NIGH_REDUCE_SCATTER, .has = NIGH_COLL_COUNT | NIGH_COLL_OP | NIGH_COLL_RECV_COUNTS,
      .send = send, .recv = recv, .type = type, .op = op, .recv_counts = counts)
/* clang-format on */
