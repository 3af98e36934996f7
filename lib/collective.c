/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective.c - the collective calls: what is checked here alone, and the beginning and the end of all of them. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/post.h"
#include "lib/reduce.h"
#include "lib/wait.h"

#include <errno.h>
#include <stdlib.h>

#define TAKE_BACK_NS UINT64_C(1000000000)
#define LITTLE       128u

int nigh_coll_begin(struct nigh_coll *coll)
{
    struct nigh_comm *comm = coll->comm;

    coll->me = comm->rank;
    coll->size = (int)comm->size;
    coll->told_by = -1;
    coll->tag = nigh_control_tag(NIGH_CONTROL_COLLECTIVES, ++comm->collectives);
    if (nigh_unlikely(comm->timeout_ns != 0))
        coll->deadline_ns = nigh_now_ns() + comm->timeout_ns;
    return nigh_likely(comm->lost == 0) ? 0 : nigh_coll_fail_again(coll);
}

static void stop(struct nigh_operation *operation)
{
    if (!operation)
        return;
    if (operation->phase == NIGH_PHASE_ACTIVE)
        nigh_operation_stop(operation);
    nigh_operation_abandon(operation);
}

/*
 * The buffer is the program's again when this returns, so a send that has left is waited for: its receiver has a sink,
 * or is about to have one. Only one that is stopped does not take it: false, said.
 */
static bool let_go(struct nigh_operation *operation, uint64_t until_ns)
{
    uint64_t now = nigh_now_ns();
    bool ended;

    if (!operation)
        return true;
    if (operation->phase == NIGH_PHASE_ACTIVE) {
        (void)nigh_core.ops->cancel(nigh_core.context, (uintptr_t)operation);
        (void)nigh_wait_one((struct nigh_call){"nigh", NULL}, operation, now < until_ns ? until_ns - now : 1);
    }
    ended = operation->phase == NIGH_PHASE_DONE;
    nigh_operation_abandon(operation);
    return ended;
}

/* Receives first, because their buffers are the program's; then sinks take what others still send,
 * and they what we do. */
static void take_back(struct nigh_coll *coll)
{
    uint64_t until_ns;
    bool all = true;

    stop(coll->round_in);
    for (int i = 0; coll->peers && i < coll->size; i++)
        stop(coll->peers[i].receiving);
    until_ns = nigh_now_ns() + TAKE_BACK_NS;
    if (coll->posted)
        nigh_coll_sink(coll);
    for (int i = 0; i < NIGH_COLL_ROUNDS; i++)
        all &= let_go(coll->round_out[i], until_ns);
    for (int i = 0; coll->peers && i < coll->size; i++)
        all &= let_go(coll->peers[i].sending, until_ns);
    /* What is still read from can never be freed. */
    if (!all)
        coll->room = coll->comm->little = NULL;
}

int nigh_coll_end(struct nigh_coll *coll, int rc)
{
    if (!rc && coll->peers)
        rc = nigh_coll_look_back(coll);
    if (nigh_unlikely(coll->failed != 0))
        take_back(coll);
    free(coll->peers);
    free(coll->room);
    return rc;
}

static void no_memory(struct nigh_coll *coll, uint64_t bytes)
{
    coll->refused =
        nigh_fail(coll->call, -ENOMEM, "no memory for %llu bytes on the way", (unsigned long long)bytes);
}

/* For so little malloc costs as much as the rest of the call. Not on the stack: see take_back(). */
static void *little_room(struct nigh_coll *coll)
{
    if (!coll->comm->little)
        coll->comm->little = aligned_alloc(64, LITTLE);
    if (!coll->comm->little)
        no_memory(coll, LITTLE);
    return coll->comm->little;
}

void *nigh_coll_room(struct nigh_coll *coll, uint64_t bytes)
{
    if (bytes <= LITTLE)
        return little_room(coll);
    coll->room = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!coll->room)
        no_memory(coll, bytes);
    return coll->room;
}

bool nigh_coll_meet_peers(struct nigh_coll *coll)
{
    coll->peers = calloc((size_t)coll->size, sizeof(*coll->peers));
    if (!coll->peers)
        no_memory(coll, (uint64_t)coll->size * sizeof(*coll->peers));
    return coll->peers != NULL;
}

/* ---- what one rank alone can find wrong ---- */

static int check_count(struct nigh_coll *coll)
{
    coll->width = nigh_type_width(coll->type);
    if (coll->width == 0)
        return nigh_fail(coll->call, -EINVAL, "%d is no type: see enum nigh_type", coll->type);
    if (coll->count > INT64_MAX / coll->width / (unsigned)coll->size)
        return nigh_fail(coll->call, -ERANGE,
                         "%llu elements for each of %d ranks are more than memory can hold",
                         (unsigned long long)coll->count, coll->size);
    coll->bytes = coll->count * coll->width;
    return 0;
}

/* Does it read from `send`, or from `recv` when that is NULL; does it write `recv`? */
static bool reads(const struct nigh_coll *coll)
{
    return coll->what == NIGH_SCATTER ? coll->me == coll->root : coll->what != NIGH_BROADCAST;
}

static bool writes(const struct nigh_coll *coll)
{
    bool rooted = coll->what == NIGH_REDUCE || coll->what == NIGH_GATHER;

    return !rooted || coll->me == coll->root;
}

/* Of what is read, or written: one part of all, or a part of each rank. */
static uint64_t bytes_of(const struct nigh_coll *coll, bool parts)
{
    return parts ? coll->bytes * (unsigned)coll->size : coll->bytes;
}

/* Whole buffers are looked at: a part that nobody touches in between is none that a program means
 * to keep something in. */
static __attribute__((noinline)) int check_apart(const struct nigh_coll *coll)
{
    int what = coll->what;
    uint64_t sent =
        bytes_of(coll, what == NIGH_SCATTER || what == NIGH_ALLTOALL || what == NIGH_REDUCE_SCATTER);
    uint64_t received =
        bytes_of(coll, what == NIGH_GATHER || what == NIGH_ALLGATHER || what == NIGH_ALLTOALL);
    uintptr_t send = (uintptr_t)coll->send, recv = (uintptr_t)coll->recv;

    if (!reads(coll) || !writes(coll) || (what == NIGH_EXSCAN && coll->me == 0) || send >= recv + received ||
        recv >= send + sent)
        return 0;
    return nigh_fail(
        coll->call, -EINVAL,
        "send, %llu bytes at %p, and recv, %llu at %p, overlap: give each memory of its own, or NULL as "
        "send: then what is sent is taken from recv, in place",
        (unsigned long long)sent, coll->send, (unsigned long long)received, coll->recv);
}

/* As far apart as no buffers of this call are long; else it is looked at which they are. */
static inline bool is_far_apart(const struct nigh_coll *coll)
{
    uintptr_t send = (uintptr_t)coll->send, recv = (uintptr_t)coll->recv;

    return !coll->send || !coll->recv ||
           (send > recv ? send - recv : recv - send) >= coll->bytes * (unsigned)coll->size;
}

static int check_buffers(const struct nigh_coll *coll)
{
    if (coll->bytes == 0)
        return 0;
    if (writes(coll) && !coll->recv && !(coll->what == NIGH_EXSCAN && coll->me == 0 && coll->send))
        return nigh_fail(coll->call, -EFAULT, "the buffer of the result is NULL, of %llu elements each",
                         (unsigned long long)coll->count);
    if (coll->what == NIGH_GATHER && coll->me != coll->root && !coll->send)
        return nigh_fail(coll->call, -EFAULT, "send is NULL: in place is for the root, rank %d", coll->root);
    if (reads(coll) && !coll->send && !coll->recv)
        return nigh_fail(coll->call, -EFAULT, "send and recv are NULL, but there are %llu elements",
                         (unsigned long long)coll->count);
    return nigh_likely(is_far_apart(coll)) ? 0 : check_apart(coll);
}

static int check(struct nigh_coll *coll)
{
    int rc = coll->has & NIGH_COLL_COUNT ? check_count(coll) : 0;

    if (!rc && coll->has & NIGH_COLL_OP && !nigh_reduces(coll->op, coll->type))
        rc = nigh_fail(
            coll->call, -EOPNOTSUPP,
            "%s is not defined for %s: sum, product, minimum and maximum are for all types, logical "
            "and bitwise operations for integers",
            nigh_reduction_name(coll->op).text, nigh_type_name(coll->type).text);
    if (!rc && coll->has & NIGH_COLL_ROOT && (uint32_t)coll->root >= (uint32_t)coll->size)
        rc = nigh_fail(coll->call, -ERANGE, "there is no rank %d in %s: its ranks are 0 to %d", coll->root,
                       nigh_comm_text(coll->comm).text, coll->size - 1);
    return rc ? rc : check_buffers(coll);
}

/* ---- the calls ---- */

static int run(struct nigh_coll *coll, int (*body)(struct nigh_coll *coll))
{
    int rc = nigh_enter(coll->call);

    if (rc)
        return rc;
    rc = nigh_comm_check(coll->call, coll->comm);
    if (!rc) {
        rc = nigh_coll_begin(coll);
        if (!rc) {
            coll->refused = check(coll);
            rc = coll->refused ? nigh_coll_agree(coll) : body(coll);
        }
        rc = nigh_coll_end(coll, rc);
    }
    nigh_leave();
    return rc;
}

int nigh_coll_meet(struct nigh_call call, struct nigh_comm *comm, enum nigh_coll_what what, int refused)
{
    struct nigh_coll coll = {.call = call, .comm = comm, .what = what, .refused = refused};

    int rc = nigh_coll_begin(&coll);

    return nigh_coll_end(&coll, rc ? rc : nigh_coll_agree(&coll));
}

NIGH_PUBLIC int nigh_barrier(struct nigh_comm *comm)
{
    struct nigh_coll coll = {.call = NIGH_CALL("nigh_barrier"), .comm = comm, .what = NIGH_BARRIER};

    return run(&coll, nigh_coll_agree);
}

NIGH_PUBLIC int nigh_bcast(void *buffer, uint64_t count, int type, int root, struct nigh_comm *comm)
{
    struct nigh_coll coll = {.call = NIGH_CALL("nigh_bcast"),
                             .comm = comm,
                             .what = NIGH_BROADCAST,
                             .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT,
                             .count = count,
                             .type = type,
                             .root = root,
                             .recv = buffer};

    return run(&coll, nigh_coll_run_moving);
}

NIGH_PUBLIC int nigh_gather(const void *send, void *recv, uint64_t count, int type, int root,
                            struct nigh_comm *comm)
{
    struct nigh_coll coll = {.call = NIGH_CALL("nigh_gather"),
                             .comm = comm,
                             .what = NIGH_GATHER,
                             .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT,
                             .count = count,
                             .type = type,
                             .root = root,
                             .send = send,
                             .recv = recv};

    return run(&coll, nigh_coll_run_moving);
}

NIGH_PUBLIC int nigh_scatter(const void *send, void *recv, uint64_t count, int type, int root,
                             struct nigh_comm *comm)
{
    struct nigh_coll coll = {.call = NIGH_CALL("nigh_scatter"),
                             .comm = comm,
                             .what = NIGH_SCATTER,
                             .has = NIGH_COLL_COUNT | NIGH_COLL_ROOT,
                             .count = count,
                             .type = type,
                             .root = root,
                             .send = send,
                             .recv = recv};

    return run(&coll, nigh_coll_run_moving);
}

static struct nigh_coll among_all(struct nigh_call call, int what, const void *send, void *recv,
                                  uint64_t count, int type, struct nigh_comm *comm)
{
    return (struct nigh_coll){.call = call,
                              .comm = comm,
                              .what = what,
                              .has = NIGH_COLL_COUNT,
                              .count = count,
                              .type = type,
                              .send = send,
                              .recv = recv};
}

NIGH_PUBLIC int nigh_allgather(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm)
{
    struct nigh_coll coll =
        among_all(NIGH_CALL("nigh_allgather"), NIGH_ALLGATHER, send, recv, count, type, comm);

    return run(&coll, nigh_coll_run_moving);
}

NIGH_PUBLIC int nigh_alltoall(const void *send, void *recv, uint64_t count, int type, struct nigh_comm *comm)
{
    struct nigh_coll coll =
        among_all(NIGH_CALL("nigh_alltoall"), NIGH_ALLTOALL, send, recv, count, type, comm);

    return run(&coll, nigh_coll_run_moving);
}

static int reduce(struct nigh_coll coll, int op)
{
    coll.has |= NIGH_COLL_OP;
    coll.op = op;
    return run(&coll, nigh_coll_run_reducing);
}

NIGH_PUBLIC int nigh_reduce(const void *send, void *recv, uint64_t count, int type, int op, int root,
                            struct nigh_comm *comm)
{
    struct nigh_coll coll = among_all(NIGH_CALL("nigh_reduce"), NIGH_REDUCE, send, recv, count, type, comm);

    coll.has |= NIGH_COLL_ROOT;
    coll.root = root;
    return reduce(coll, op);
}

NIGH_PUBLIC int nigh_allreduce(const void *send, void *recv, uint64_t count, int type, int op,
                               struct nigh_comm *comm)
{
    return reduce(among_all(NIGH_CALL("nigh_allreduce"), NIGH_ALLREDUCE, send, recv, count, type, comm), op);
}

NIGH_PUBLIC int nigh_reduce_scatter(const void *send, void *recv, uint64_t count, int type, int op,
                                    struct nigh_comm *comm)
{
    return reduce(
        among_all(NIGH_CALL("nigh_reduce_scatter"), NIGH_REDUCE_SCATTER, send, recv, count, type, comm), op);
}

NIGH_PUBLIC int nigh_scan(const void *send, void *recv, uint64_t count, int type, int op,
                          struct nigh_comm *comm)
{
    return reduce(among_all(NIGH_CALL("nigh_scan"), NIGH_SCAN, send, recv, count, type, comm), op);
}

NIGH_PUBLIC int nigh_exscan(const void *send, void *recv, uint64_t count, int type, int op,
                            struct nigh_comm *comm)
{
    return reduce(among_all(NIGH_CALL("nigh_exscan"), NIGH_EXSCAN, send, recv, count, type, comm), op);
}
