/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/entry.c - the calls of MPI that this object answers in the MPI's place, where it lies before it in a
 * process: reductions and broadcasts of long vectors, and reductions of a few elements, among ranks that share CPUs.
 * All others, and what it cannot judge, it hands on. What it decides by is the same in all ranks of a call, so all do
 * the same.
 */
#include "hosts/mpi/calls.h"
#include "hosts/mpi/device.h"
#include "hosts/mpi/flow.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/short.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

/*
 * Handles as they come: an int, or a pointer of the standard's own ABI (libmpi_abi), whose programs are given this
 * object, too, and go on to the MPI as they came. In registers and on the stack an int takes as much, with anything in
 * its upper half.
 */
#ifdef NIGH_MPI_OPENMPI
typedef nigh_mpi_comm comm_arg;
typedef nigh_mpi_type type_arg;
typedef nigh_mpi_op op_arg;
#else
typedef intptr_t comm_arg;
typedef intptr_t type_arg;
typedef intptr_t op_arg;
#endif

#define ENTRY(name, ...) EXPORTED int MPI_##name(__VA_ARGS__);
ENTRY(Reduce, const void *, void *, int, type_arg, op_arg, int, comm_arg)
ENTRY(Reduce_c, const void *, void *, nigh_mpi_count, type_arg, op_arg, int, comm_arg)
ENTRY(Allreduce, const void *, void *, int, type_arg, op_arg, comm_arg)
ENTRY(Allreduce_c, const void *, void *, nigh_mpi_count, type_arg, op_arg, comm_arg)
ENTRY(Bcast, void *, int, type_arg, int, comm_arg)
ENTRY(Bcast_c, void *, nigh_mpi_count, type_arg, int, comm_arg)

#define BYTES_MAX ((uint64_t)INT_MAX) /* MPI_Pack() takes no more */

/* What may be asked of a vector: its bytes, and whether they lie as they are sent. */
struct shape {
    uint64_t count, bytes, extent;
    bool dense;
};

/* From how many bytes on; 0: never. The same in all ranks. */
struct limit {
    const char *variable;
    uint64_t bytes;
};

/* Shorter reductions are as fast as messages; broadcasts of up to 1 MiB, as messages or in the MPI's shared memory, are
 * faster. */
static struct limit reductions = {"NIGH_MPI_REDUCE_FROM", 32768};
static struct limit broadcasts = {"NIGH_MPI_BCAST_FROM", 1572864};
static void read_limit(struct limit *limit)
{
    const char *text = getenv(limit->variable);
    uint64_t bytes;
    char *end;

    if (!text || !*text)
        return;
    errno = 0;
    bytes = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9')
        nigh_mpi_log("%s=%s is no number of bytes, so it stays at %llu; 0 leaves all to MPI", limit->variable,
                     text, (unsigned long long)limit->bytes);
    else
        limit->bytes = bytes;
}

/* Before the program has threads, and can change its environment. */
__attribute__((constructor)) static void read_limits(void)
{
    read_limit(&reductions);
    read_limit(&broadcasts);
}

/* False: too short, too long or nothing that MPI knows. */
static bool measure(struct shape *shape, const struct limit *limit, int64_t count, nigh_mpi_type type)
{
    int size;

    if (count <= 0 || (uint64_t)count > BYTES_MAX || limit->bytes == 0 || type == NIGH_MPI_DATATYPE_NULL ||
        nigh_mpi_calls()->Type_size(type, &size) || size <= 0)
        return false;
    shape->count = (uint64_t)count;
    shape->bytes = shape->count * (unsigned)size;
    shape->extent = (unsigned)size;
    return shape->bytes <= BYTES_MAX && shape->bytes >= limit->bytes;
}

/* Do elements lie close, without gaps between them and in them? */
static bool is_dense(const struct shape *shape, nigh_mpi_type type)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_aint low, extent, true_low, true_extent;

    return !mpi->Type_get_extent(type, &low, &extent) &&
           !mpi->Type_get_true_extent(type, &true_low, &true_extent) && low == 0 && true_low == 0 &&
           extent == true_extent && extent == (nigh_mpi_aint)shape->extent;
}

/* A type of MPI's own: of others the bytes may lie close, but in another order than that in which they are sent. */
static bool is_named(nigh_mpi_type type)
{
    int integers, addresses, types, combiner;

    return !nigh_mpi_calls()->Type_get_envelope(type, &integers, &addresses, &types, &combiner) &&
           combiner == NIGH_MPI_COMBINER_NAMED;
}

/* What there is a loop for, or an operation of the program's own that commutes, which goes with any type. MPI's own do
 * not, and what is wrong then the MPI is to say. */
static bool is_reducible(struct nigh_mpi_flow *flow, struct shape *shape, int64_t count)
{
    size_t width;
    int commutes;

    if (!measure(shape, &reductions, count, flow->type) || shape->extent > NIGH_MPI_PART_BYTES)
        return false;
    shape->dense = true;
    flow->add = nigh_mpi_add(flow->type, flow->op, &width);
    if (flow->add)
        return true;
    return !nigh_mpi_is_own_op(flow->op) && !nigh_mpi_calls()->Op_commutative(flow->op, &commutes) &&
           commutes && is_dense(shape, flow->type);
}

static int answer(int rc, nigh_mpi_comm comm)
{
    int error = rc == -EMSGSIZE ? NIGH_MPI_ERR_TRUNCATE
                : rc == -EIO    ? NIGH_MPI_ERR_INTERN
                                : NIGH_MPI_ERR_OTHER;

    if (!rc)
        return NIGH_MPI_SUCCESS;
    nigh_mpi_calls()->Comm_call_errhandler(comm, error);
    return error;
}

/* ---- vectors that are not to be touched here: MPI packs them, and unpacks the result -------------------- */

static int pack(const struct shape *shape, const void *from_buffer, nigh_mpi_type type, void *to,
                nigh_mpi_comm comm)
{
    int at = 0;

    if (nigh_mpi_calls()->Pack(from_buffer, (int)shape->count, type, to, (int)shape->bytes, &at, comm))
        return -EIO;
    return (uint64_t)at == shape->bytes ? 0 : -EIO;
}

static int unpack(const struct shape *shape, const void *packed, void *to, nigh_mpi_type type,
                  nigh_mpi_comm comm)
{
    int at = 0;

    return nigh_mpi_calls()->Unpack(packed, (int)shape->bytes, &at, to, (int)shape->count, type, comm) ? -EIO
                                                                                                       : 0;
}

static bool is_packed(const struct shape *shape)
{
    bool packed = !shape->dense;

    nigh_mpi_session_lock();
    packed |= nigh_mpi_device_possible();
    nigh_mpi_session_account.packed += packed;
    nigh_mpi_session_unlock();
    return packed;
}

static void give_up(struct nigh_mpi_group *group)
{
    nigh_mpi_session_lock();
    nigh_mpi_group_give_up(group);
    nigh_mpi_session_unlock();
}

/* `buffer` is what this rank reads, if it does, and `result` what it writes. */
static int run_packed(struct nigh_mpi_flow *flow, const struct shape *shape, const void *buffer, void *result,
                      nigh_mpi_comm comm)
{
    void *memory = malloc(shape->bytes);
    int rc = memory ? 0 : -ENOMEM;

    if (!memory)
        nigh_mpi_log("%s: no memory for %llu bytes to pack", flow->what, (unsigned long long)shape->bytes);
    if (!rc && nigh_mpi_flow_reads(flow))
        rc = pack(shape, buffer, flow->type, memory, comm);
    flow->in = flow->out = memory;
    if (!rc)
        rc = nigh_mpi_flow_run(flow);
    else
        give_up(flow->group);
    if (!rc && nigh_mpi_flow_writes(flow))
        rc = unpack(shape, memory, result, flow->type, comm);
    free(memory);
    return rc;
}

static int run(struct nigh_mpi_flow *flow, const struct shape *shape, const void *buffer, void *result,
               nigh_mpi_comm comm)
{
    flow->bytes = shape->bytes;
    flow->extent = flow->up ? shape->extent : 1;
    if (is_packed(shape))
        return answer(run_packed(flow, shape, buffer, result, comm), comm);
    flow->in = buffer;
    flow->out = result;
    return answer(nigh_mpi_flow_run(flow), comm);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static bool has_root(const struct nigh_mpi_group *group, int root)
{
    return group && root >= 0 && root < group->ranks;
}

/* Buffers that MPI does not refuse: `send` alone at ranks other than the root. */
static bool has_buffers(const struct nigh_mpi_group *group, int root, const void *send, const void *recv)
{
    if (group->me == root)
        return send && recv && send != recv;
    return send && send != NIGH_MPI_IN_PLACE;
}

static int run_short(struct nigh_mpi_group *group, const struct shape *shape, nigh_mpi_add_fn add, int root,
                     const void *send, void *recv)
{
    return nigh_mpi_short_reduce(group, send, recv, (uint32_t)shape->count, (uint32_t)shape->bytes, add,
                                 root);
}

static int run_short_packed(struct nigh_mpi_group *group, const struct shape *shape, nigh_mpi_type type,
                            nigh_mpi_add_fn add, int root, const void *send, void *recv, nigh_mpi_comm comm)
{
    char memory[NIGH_MPI_SHORT_BYTES];
    int rc = pack(shape, send, type, memory, comm);

    if (rc)
        give_up(group);
    else
        rc = run_short(group, shape, add, root, memory, memory);
    return !rc && group->me == root ? unpack(shape, memory, recv, type, comm) : rc;
}

/* Few elements of a type and an operation that there is a loop for: known without asking MPI, to which asking costs as
 * much as all else. False: that they are not, or as below. */
static bool reduce_short(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                         int root, nigh_mpi_comm comm, int *result)
{
    size_t width;
    nigh_mpi_add_fn add = nigh_mpi_add(type, op, &width);
    struct shape shape = {.count = (uint64_t)count, .bytes = (uint64_t)count * width, .dense = true};
    struct nigh_mpi_group *group =
        add && shape.bytes <= NIGH_MPI_SHORT_BYTES ? nigh_mpi_group_of(comm, shape.bytes) : NULL;
    const void *mine = send == NIGH_MPI_IN_PLACE ? recv : send;
    int rc;

    if (!has_root(group, root) || !has_buffers(group, root, send, recv))
        return false;
    if (is_packed(&shape))
        rc = run_short_packed(group, &shape, type, add, root, mine, recv, comm);
    else
        rc = run_short(group, &shape, add, root, mine, recv);
    *result = answer(rc, comm);
    return true;
}

/* Apart, as to clear a flow takes as long as a short reduction. */
static __attribute__((noinline)) bool reduce_long(const void *send, void *recv, int64_t count,
                                                  nigh_mpi_type type, nigh_mpi_op op, int root,
                                                  nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Reduce", .type = type, .op = op, .root = root, .up = true};
    struct shape shape;

    if (!is_reducible(&flow, &shape, count))
        return false;
    flow.group = nigh_mpi_group_of(comm, shape.bytes);
    if (!has_root(flow.group, root) || !has_buffers(flow.group, root, send, recv))
        return false;
    *result = run(&flow, &shape, send == NIGH_MPI_IN_PLACE ? recv : send, recv, comm);
    return true;
}

/* False: MPI is to do it, or to say what is wrong with it. */
static bool reduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op, int root,
                   nigh_mpi_comm comm, int *result)
{
    if (count > 0 && count <= NIGH_MPI_SHORT_BYTES && reductions.bytes &&
        reduce_short(send, recv, count, type, op, root, comm, result))
        return true;
    return reduce_long(send, recv, count, type, op, root, comm, result);
}

static bool allreduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                      nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Allreduce", .type = type, .op = op, .up = true, .down = true};
    struct shape shape;

    if (!is_reducible(&flow, &shape, count))
        return false;
    flow.group = nigh_mpi_group_of(comm, shape.bytes);
    if (!flow.group || !send || !recv || send == recv)
        return false;
    *result = run(&flow, &shape, send == NIGH_MPI_IN_PLACE ? recv : send, recv, comm);
    return true;
}

/* Ranks may describe the same bytes by different types, and by addresses without a buffer. */
static bool broadcast(void *buffer, int64_t count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                      int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Bcast", .type = type, .root = root, .down = true};
    struct shape shape;

    if (!measure(&shape, &broadcasts, count, type))
        return false;
    flow.group = nigh_mpi_group_of(comm, shape.bytes);
    if (!has_root(flow.group, root))
        return false;
    shape.dense = buffer && is_named(type) && is_dense(&shape, type);
    *result = run(&flow, &shape, buffer, buffer, comm);
    return true;
}

/* An MPI before 4 has no calls with large counts, but programs that look whether it has find ours. */
static int too_large(const char *what, int64_t count, nigh_mpi_comm comm)
{
    nigh_mpi_log("%s_c of %lld elements: this MPI has no such call, and %s takes %d at most", what,
                 (long long)count, what, INT_MAX);
    return answer(-EOVERFLOW, comm);
}

/* The MPI's function with handles as they came. */
#define ON(name, ...) (((int (*)(__VA_ARGS__))(void (*)(void))nigh_mpi_calls()->name))

int MPI_Reduce(const void *send, void *recv, int count, type_arg type, op_arg op, int root, comm_arg comm)
{
    int result;

    if (!nigh_mpi_calls()->foreign &&
        reduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op, root, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Reduce, const void *, void *, int, type_arg, op_arg, int, comm_arg)(send, recv, count, type, op,
                                                                                  root, comm);
}

int MPI_Reduce_c(const void *send, void *recv, nigh_mpi_count count, type_arg type, op_arg op, int root,
                 comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign &&
        reduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op, root, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Reduce_c)
        return ON(Reduce_c, const void *, void *, nigh_mpi_count, type_arg, op_arg, int,
                  comm_arg)(send, recv, count, type, op, root, comm);
    if (count > INT_MAX)
        return too_large("MPI_Reduce", count, (nigh_mpi_comm)comm);
    return ON(Reduce, const void *, void *, int, type_arg, op_arg, int, comm_arg)(send, recv, (int)count,
                                                                                  type, op, root, comm);
}

int MPI_Allreduce(const void *send, void *recv, int count, type_arg type, op_arg op, comm_arg comm)
{
    int result;

    if (!nigh_mpi_calls()->foreign &&
        allreduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Allreduce, const void *, void *, int, type_arg, op_arg, comm_arg)(send, recv, count, type, op,
                                                                                comm);
}

int MPI_Allreduce_c(const void *send, void *recv, nigh_mpi_count count, type_arg type, op_arg op,
                    comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign &&
        allreduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Allreduce_c)
        return ON(Allreduce_c, const void *, void *, nigh_mpi_count, type_arg, op_arg,
                  comm_arg)(send, recv, count, type, op, comm);
    if (count > INT_MAX)
        return too_large("MPI_Allreduce", count, (nigh_mpi_comm)comm);
    return ON(Allreduce, const void *, void *, int, type_arg, op_arg, comm_arg)(send, recv, (int)count, type,
                                                                                op, comm);
}

int MPI_Bcast(void *buffer, int count, type_arg type, int root, comm_arg comm)
{
    int result;

    if (!nigh_mpi_calls()->foreign &&
        broadcast(buffer, count, (nigh_mpi_type)type, root, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Bcast, void *, int, type_arg, int, comm_arg)(buffer, count, type, root, comm);
}

int MPI_Bcast_c(void *buffer, nigh_mpi_count count, type_arg type, int root, comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign && broadcast(buffer, count, (nigh_mpi_type)type, root, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Bcast_c)
        return ON(Bcast_c, void *, nigh_mpi_count, type_arg, int, comm_arg)(buffer, count, type, root, comm);
    if (count > INT_MAX)
        return too_large("MPI_Bcast", count, (nigh_mpi_comm)comm);
    return ON(Bcast, void *, int, type_arg, int, comm_arg)(buffer, (int)count, type, root, comm);
}
