/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_check.c - what one rank can find wrong with its own arguments, and the call of the table made of them. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/op.h"
#include "lib/type.h"

#include <errno.h>

#define BYTES_MAX (UINT64_C(1) << 55) /* as the table takes */

/* A call as it is checked. */
struct check {
    struct nigh_call call;
    const struct nigh_comm *comm;
    const struct nigh_coll_args *args;
    uint64_t width, sent, received; /* bytes from the beginning of send, and of recv */
};

static bool is_root(const struct check *check)
{
    return check->comm->rank == check->args->root;
}

/* Does it read from `send`, or from `recv` when that is NULL; does it write `recv`? */
static bool reads(const struct check *check)
{
    int what = check->args->what;

    if (what == NIGH_SCATTER)
        return is_root(check);
    return what != NIGH_BROADCAST && what != NIGH_BARRIER;
}

static bool writes(const struct check *check)
{
    int what = check->args->what;

    if (what == NIGH_BARRIER)
        return false;
    return (what != NIGH_REDUCE && what != NIGH_GATHER) || is_root(check);
}

static bool is_first_of_exscan(const struct check *check)
{
    return check->args->what == NIGH_EXSCAN && check->comm->rank == 0;
}

/* ---- how long the buffers are ---- */

static int too_many(const struct check *check, uint64_t count)
{
    return nigh_fail(check->call, -ERANGE, "%llu elements for each of %u ranks are more than memory can hold",
                     (unsigned long long)count, check->comm->size);
}

/* To the end of the last block. */
static int blocks(const struct check *check, const uint64_t *counts, const uint64_t *offsets, uint64_t *bytes)
{
    uint64_t most = BYTES_MAX / check->width, behind = 0, end = 0;

    if (!counts)
        return nigh_fail(check->call, -EFAULT, "the counts are NULL: one is needed for each of %u ranks",
                         check->comm->size);
    for (uint32_t rank = 0; rank < check->comm->size; rank++) {
        uint64_t offset = offsets ? offsets[rank] : behind;

        if (counts[rank] > most || offset > most - counts[rank] || behind > most - counts[rank])
            return nigh_fail(check->call, -ERANGE,
                             "%llu elements at %llu for rank %u are more than memory can hold",
                             (unsigned long long)counts[rank], (unsigned long long)offset, rank);
        behind += counts[rank];
        if (counts[rank] && offset + counts[rank] > end)
            end = offset + counts[rank];
    }
    *bytes = end * check->width;
    return 0;
}

static bool sends_parts(int what)
{
    return what == NIGH_SCATTER || what == NIGH_ALLTOALL || what == NIGH_REDUCE_SCATTER;
}

static bool receives_parts(int what)
{
    return what == NIGH_GATHER || what == NIGH_ALLGATHER || what == NIGH_ALLTOALL;
}

static int measure(struct check *check)
{
    const struct nigh_coll_args *args = check->args;
    int rc = 0;

    if (args->count > INT64_MAX / check->width / check->comm->size)
        return too_many(check, args->count);
    check->sent = check->received = args->count * check->width;
    if (args->has & NIGH_COLL_SEND_COUNTS) {
        if (reads(check))
            rc = blocks(check, args->send_counts, args->send_offsets, &check->sent);
    } else if (sends_parts(args->what)) {
        check->sent *= check->comm->size;
    }
    if (rc)
        return rc;
    if (args->has & NIGH_COLL_RECV_COUNTS && args->what == NIGH_REDUCE_SCATTER) {
        rc = blocks(check, args->recv_counts, NULL, &check->sent);
        if (!rc)
            check->received = args->recv_counts[check->comm->rank] * check->width;
    } else if (args->has & NIGH_COLL_RECV_COUNTS) {
        if (writes(check))
            rc = blocks(check, args->recv_counts, args->recv_offsets, &check->received);
    } else if (receives_parts(args->what)) {
        check->received *= check->comm->size;
    }
    return rc;
}

/* What a rank has of its own, by the counts of all. */
static int check_own(const struct check *check)
{
    const struct nigh_coll_args *args = check->args;
    const uint64_t *counts = args->what == NIGH_SCATTER ? args->send_counts : args->recv_counts;

    if (args->what == NIGH_ALLTOALL || args->what == NIGH_REDUCE_SCATTER || !counts || !args->send ||
        (args->has & NIGH_COLL_ROOT && !is_root(check)) || counts[check->comm->rank] == args->count)
        return 0;
    return nigh_fail(check->call, -EINVAL, "count is %llu, but the counts say %llu of this rank",
                     (unsigned long long)args->count, (unsigned long long)counts[check->comm->rank]);
}

/* ---- the buffers ---- */

/* Whole buffers are looked at: a part that nobody touches in between is none that a program means to keep something in. */
static int check_apart(const struct check *check)
{
    const struct nigh_coll_args *args = check->args;
    uintptr_t send = (uintptr_t)args->send, recv = (uintptr_t)args->recv;

    if (!args->send || !args->recv || !check->sent || !check->received || !reads(check) || !writes(check) ||
        is_first_of_exscan(check) || send >= recv + check->received || recv >= send + check->sent)
        return 0;
    return nigh_fail(
        check->call, -EINVAL,
        "send, %llu bytes at %p, and recv, %llu at %p, overlap: give each memory of its own, or NULL as "
        "send: then what is sent is taken from recv, in place",
        (unsigned long long)check->sent, args->send, (unsigned long long)check->received, args->recv);
}

static int check_buffers(const struct check *check)
{
    const struct nigh_coll_args *args = check->args;

    if (writes(check) && check->received && !args->recv && !(is_first_of_exscan(check) && args->send))
        return nigh_fail(check->call, -EFAULT, "the buffer of the result is NULL, of %llu bytes",
                         (unsigned long long)check->received);
    if (args->what == NIGH_GATHER && !is_root(check) && check->sent && !args->send)
        return nigh_fail(check->call, -EFAULT, "send is NULL: in place is for the root, rank %d", args->root);
    if (reads(check) && check->sent && !args->send && !args->recv)
        return nigh_fail(check->call, -EFAULT, "send and recv are NULL, but there are %llu bytes",
                         (unsigned long long)check->sent);
    return check_apart(check);
}

static int check_op(const struct check *check)
{
    int op = check->args->op, type = check->args->type;
    const struct nigh_own_op *own = nigh_op_find(op);

    if (op >= NIGH_OP_FIRST && !own)
        return nigh_fail(check->call, -EINVAL, "%d is no operation: was it freed?", op);
    if (own ? own->function || own->type == type : nigh_reduces(op, type))
        return 0;
    if (own)
        return nigh_fail(check->call, -EOPNOTSUPP, "the factor is of %s, the elements are of %s",
                         nigh_type_name(own->type).text, nigh_type_name(type).text);
    return nigh_fail(check->call, -EOPNOTSUPP, "%s is not defined for %s: see the table of nigh_bcast(3)",
                     nigh_reduction_name(op).text, nigh_type_name(type).text);
}

static int check_type(struct check *check)
{
    const struct nigh_coll_args *args = check->args;
    int rc;

    check->width = nigh_type_width(args->type);
    if (!check->width && args->has & NIGH_COLL_COUNT)
        return nigh_fail(check->call, -EINVAL, "%d is no type: see enum nigh_type", args->type);
    rc = args->has & NIGH_COLL_OP ? check_op(check) : 0;
    if (rc)
        return rc;
    if (args->has & NIGH_COLL_ROOT && (uint32_t)args->root >= check->comm->size)
        return nigh_fail(check->call, -ERANGE, "there is no rank %d in %s: its ranks are 0 to %u", args->root,
                         nigh_comm_text(check->comm).text, check->comm->size - 1);
    return 0;
}

int nigh_coll_check(struct nigh_call call, const struct nigh_comm *comm, const struct nigh_coll_args *args)
{
    struct check check = {.call = call, .comm = comm, .args = args};
    int rc;

    if (args->what == NIGH_BARRIER)
        return 0;
    rc = check_type(&check);
    if (!rc)
        rc = measure(&check);
    if (!rc)
        rc = check_own(&check);
    return rc ? rc : check_buffers(&check);
}

/* ---- the table's call ---- */

/* In place is said by NULL here; a root of scatter keeps its part, and other ranks than the root of reduce may send from recv. */
static void set_buffers(const struct nigh_comm *comm, const struct nigh_coll_args *args,
                        struct nigh_collective *what)
{
    bool root = comm->rank == args->root;

    if (args->what == NIGH_BARRIER)
        return;
    if (args->what == NIGH_BROADCAST) {
        what->send = root ? args->recv : NULL;
        what->recv = root ? NULL : args->recv;
    } else if (!args->send && args->what == NIGH_SCATTER && root) {
        what->send = args->recv;
        what->flags = NIGH_COLLECTIVE_IN_PLACE;
    } else if (!args->send && args->what == NIGH_REDUCE && !root) {
        what->send = args->recv;
    } else {
        what->send = args->send;
        what->recv = args->recv;
        /* Of no elements NULL is no less than other buffers. */
        what->flags = args->send || args->what == NIGH_SCATTER ? 0 : NIGH_COLLECTIVE_IN_PLACE;
    }
}

static void set_counts(const struct nigh_comm *comm, const struct nigh_coll_args *args,
                       struct nigh_collective *what)
{
    bool all = !(args->has & NIGH_COLL_ROOT) || comm->rank == args->root;
    const uint64_t *own = args->what == NIGH_SCATTER ? args->send_counts : args->recv_counts;

    what->count = args->count;
    if (!all || !(args->has & (NIGH_COLL_SEND_COUNTS | NIGH_COLL_RECV_COUNTS)))
        return;
    if (args->what != NIGH_ALLTOALL || args->send) {
        what->send_counts = args->send_counts;
        what->send_offsets = args->send_offsets;
    }
    what->recv_counts = args->recv_counts;
    what->recv_offsets = args->recv_offsets;
    if (!args->send && args->what != NIGH_ALLTOALL && args->what != NIGH_REDUCE_SCATTER)
        what->count = own[comm->rank];
}

static void set_type(const struct nigh_coll_args *args, struct nigh_collective *what)
{
    const struct nigh_own_op *own = nigh_op_find(args->op);

    what->type = (uint16_t)args->type;
    what->reduction = (uint16_t)args->op;
    if (args->type > NIGH_OPAQUE) {
        what->type = NIGH_OPAQUE;
        what->width = nigh_type_width(args->type);
    }
    if (!own)
        return;
    what->reduction = own->function ? NIGH_FUNCTION : NIGH_PREMUL;
    what->function = own->function;
    what->function_arg = own->arg;
    what->factor = own->function ? NULL : own->factor;
}

struct nigh_collective nigh_coll_make(const struct nigh_comm *comm, const struct nigh_coll_args *args)
{
    struct nigh_collective what = {
        .size = sizeof(what),
        .op = (uint16_t)args->what,
        .root = (uint32_t)args->root,
    };

    set_type(args, &what);
    set_buffers(comm, args, &what);
    set_counts(comm, args, &what);
    return what;
}
