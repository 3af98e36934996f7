/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/entry.c - the calls of MPI that this object answers in the MPI's place, where it lies before it in a
 * process: reductions and broadcasts of long vectors among ranks that share CPUs. All others, and what it cannot
 * judge, it hands on. What it decides by is the same in all ranks of a call, so all do the same.
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

/* As an mpi.h declares them. */
#define DECLARED(name, arguments) EXPORTED int MPI_##name arguments;
NIGH_MPI_ANSWERED(DECLARED)
NIGH_MPI_LARGE_CALLS(DECLARED)

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

    if (count <= 0 || (uint64_t)count > BYTES_MAX || limit->bytes == 0 ||
        nigh_mpi_calls()->Type_size(type, &size) || size <= 0)
        return false;
    shape->count = (uint64_t)count;
    shape->bytes = shape->count * (unsigned)size;
    shape->extent = (unsigned)size;
    return shape->bytes <= BYTES_MAX && shape->bytes >= limit->bytes;
}

static void look_closer(struct shape *shape, nigh_mpi_type type)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    nigh_mpi_aint low, extent, true_low, true_extent;

    shape->dense = !mpi->Type_get_extent(type, &low, &extent) &&
                   !mpi->Type_get_true_extent(type, &true_low, &true_extent) && low == 0 && true_low == 0 &&
                   extent == true_extent && extent == (nigh_mpi_aint)shape->extent;
}

/* Elements of any type that lies close, added in any order. */
static struct nigh_mpi_group *reducible(struct shape *shape, int64_t count, nigh_mpi_type type,
                                        nigh_mpi_op op, nigh_mpi_comm comm)
{
    int commutes;

    if (!measure(shape, &reductions, count, type) || shape->extent > NIGH_MPI_PART_BYTES ||
        nigh_mpi_calls()->Op_commutative(op, &commutes) || !commutes)
        return NULL;
    look_closer(shape, type);
    return shape->dense ? nigh_mpi_group_of(comm) : NULL;
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
    nigh_mpi_session_account()->packed += packed;
    nigh_mpi_session_unlock();
    return packed;
}

static void give_up(struct nigh_mpi_group *group)
{
    nigh_mpi_session_lock();
    nigh_mpi_group_give_up(group);
    nigh_mpi_session_unlock();
}

/* `reads`, `writes`: this rank's buffers, or NULL where the call leaves one alone. */
static int run_packed(struct nigh_mpi_flow *flow, const struct shape *shape, const void *reads, void *writes,
                      nigh_mpi_comm comm)
{
    void *memory = malloc(shape->bytes);
    int rc = memory ? 0 : -ENOMEM;

    if (!memory)
        nigh_mpi_log("%s: no memory for %llu bytes to pack", flow->what, (unsigned long long)shape->bytes);
    if (!rc && reads)
        rc = pack(shape, reads, flow->type, memory, comm);
    flow->in = flow->out = memory;
    if (!rc)
        rc = nigh_mpi_flow_run(flow);
    else
        give_up(flow->group);
    if (!rc && writes)
        rc = unpack(shape, memory, writes, flow->type, comm);
    free(memory);
    return rc;
}

static int run(struct nigh_mpi_flow *flow, const struct shape *shape, const void *reads, void *writes,
               nigh_mpi_comm comm)
{
    flow->bytes = shape->bytes;
    flow->extent = shape->extent;
    if (is_packed(shape))
        return answer(run_packed(flow, shape, reads, writes, comm), comm);
    flow->in = reads;
    flow->out = writes;
    return answer(nigh_mpi_flow_run(flow), comm);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static bool are_apart(const void *send, const void *recv)
{
    return send && recv && send != recv;
}

/* Few elements of a type and an operation that there is a loop for: known without asking MPI, to which asking costs as
 * much as all else. */
static bool is_short(int64_t count, nigh_mpi_type type, nigh_mpi_op op, struct shape *shape,
                     nigh_mpi_add_fn *add)
{
    if (count <= 0 || count > NIGH_MPI_SHORT_BYTES || reductions.bytes == 0)
        return false;
    *add = nigh_mpi_add(type, op);
    if (!*add)
        return false;
    shape->count = (uint64_t)count;
    shape->bytes = shape->count * nigh_mpi_width(type);
    shape->dense = true;
    return shape->bytes <= NIGH_MPI_SHORT_BYTES;
}

static int run_short(struct nigh_mpi_group *group, const struct shape *shape, nigh_mpi_add_fn add, int root,
                     const void *reads, void *writes)
{
    return nigh_mpi_short_reduce(group, reads, writes, (uint32_t)shape->count, (uint32_t)shape->bytes, add,
                                 root);
}

static int run_short_packed(struct nigh_mpi_group *group, const struct shape *shape, nigh_mpi_type type,
                            nigh_mpi_add_fn add, int root, const void *reads, void *writes,
                            nigh_mpi_comm comm)
{
    char memory[NIGH_MPI_SHORT_BYTES];
    int rc = pack(shape, reads, type, memory, comm);

    if (rc)
        give_up(group);
    else
        rc = run_short(group, shape, add, root, memory, memory);
    return !rc && writes ? unpack(shape, memory, writes, type, comm) : rc;
}

/* False: MPI is to do it, or to say what is wrong with it. */
static bool reduce_short(const void *send, void *recv, const struct shape *shape, nigh_mpi_type type,
                         nigh_mpi_add_fn add, int root, nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_group *group = nigh_mpi_group_of(comm);
    const void *reads = send == NIGH_MPI_IN_PLACE ? recv : send;
    bool mine;
    int rc;

    if (!group || root < 0 || root >= group->ranks)
        return false;
    mine = group->me == root;
    if (mine ? !are_apart(send, recv) : !send || send == NIGH_MPI_IN_PLACE)
        return false;
    if (is_packed(shape))
        rc = run_short_packed(group, shape, type, add, root, reads, mine ? recv : NULL, comm);
    else
        rc = run_short(group, shape, add, root, reads, recv);
    *result = answer(rc, comm);
    return true;
}

static bool reduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op, int root,
                   nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Reduce", .type = type, .op = op, .root = root, .up = true};
    nigh_mpi_add_fn add;
    struct shape shape;
    bool mine;

    if (is_short(count, type, op, &shape, &add))
        return reduce_short(send, recv, &shape, type, add, root, comm, result);
    flow.group = reducible(&shape, count, type, op, comm);
    if (!flow.group || root < 0 || root >= flow.group->ranks)
        return false;
    mine = flow.group->me == root;
    if (mine ? !are_apart(send, recv) : !send || send == NIGH_MPI_IN_PLACE)
        return false;
    *result = run(&flow, &shape, send == NIGH_MPI_IN_PLACE ? recv : send, mine ? recv : NULL, comm);
    return true;
}

static bool allreduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                      nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Allreduce", .type = type, .op = op, .up = true, .down = true};
    struct shape shape;

    flow.group = reducible(&shape, count, type, op, comm);
    if (!flow.group || !are_apart(send, recv))
        return false;
    *result = run(&flow, &shape, send == NIGH_MPI_IN_PLACE ? recv : send, recv, comm);
    return true;
}

/* Ranks may describe the same bytes by different types. */
static bool broadcast(void *buffer, int64_t count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                      int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Bcast", .type = type, .root = root, .down = true};
    struct shape shape;
    bool mine;

    if (!measure(&shape, &broadcasts, count, type))
        return false;
    flow.group = nigh_mpi_group_of(comm);
    if (!flow.group || root < 0 || root >= flow.group->ranks || !buffer)
        return false;
    look_closer(&shape, type);
    shape.extent = 1;
    mine = flow.group->me == root;
    *result = run(&flow, &shape, mine ? buffer : NULL, mine ? NULL : buffer, comm);
    return true;
}

/* An MPI before 4 has no calls with large counts, but programs that look whether it has find ours. */
static int too_large(const char *what, int64_t count, nigh_mpi_comm comm)
{
    nigh_mpi_log("%s_c of %lld elements: this MPI has no such call, and %s takes %d at most", what,
                 (long long)count, what, INT_MAX);
    return answer(-EOVERFLOW, comm);
}

int MPI_Reduce(const void *send, void *recv, int count, nigh_mpi_type type, nigh_mpi_op op, int root,
               nigh_mpi_comm comm)
{
    int result;

    if (reduce(send, recv, count, type, op, root, comm, &result))
        return result;
    return nigh_mpi_calls()->Reduce(send, recv, count, type, op, root, comm);
}

int MPI_Reduce_c(const void *send, void *recv, nigh_mpi_count count, nigh_mpi_type type, nigh_mpi_op op,
                 int root, nigh_mpi_comm comm)
{
    int result;

    if (reduce(send, recv, count, type, op, root, comm, &result))
        return result;
    if (nigh_mpi_calls()->Reduce_c)
        return nigh_mpi_calls()->Reduce_c(send, recv, count, type, op, root, comm);
    if (count > INT_MAX)
        return too_large("MPI_Reduce", count, comm);
    return nigh_mpi_calls()->Reduce(send, recv, (int)count, type, op, root, comm);
}

int MPI_Allreduce(const void *send, void *recv, int count, nigh_mpi_type type, nigh_mpi_op op,
                  nigh_mpi_comm comm)
{
    int result;

    if (allreduce(send, recv, count, type, op, comm, &result))
        return result;
    return nigh_mpi_calls()->Allreduce(send, recv, count, type, op, comm);
}

int MPI_Allreduce_c(const void *send, void *recv, nigh_mpi_count count, nigh_mpi_type type, nigh_mpi_op op,
                    nigh_mpi_comm comm)
{
    int result;

    if (allreduce(send, recv, count, type, op, comm, &result))
        return result;
    if (nigh_mpi_calls()->Allreduce_c)
        return nigh_mpi_calls()->Allreduce_c(send, recv, count, type, op, comm);
    if (count > INT_MAX)
        return too_large("MPI_Allreduce", count, comm);
    return nigh_mpi_calls()->Allreduce(send, recv, (int)count, type, op, comm);
}

int MPI_Bcast(void *buffer, int count, nigh_mpi_type type, int root, nigh_mpi_comm comm)
{
    int result;

    if (broadcast(buffer, count, type, root, comm, &result))
        return result;
    return nigh_mpi_calls()->Bcast(buffer, count, type, root, comm);
}

int MPI_Bcast_c(void *buffer, nigh_mpi_count count, nigh_mpi_type type, int root, nigh_mpi_comm comm)
{
    int result;

    if (broadcast(buffer, count, type, root, comm, &result))
        return result;
    if (nigh_mpi_calls()->Bcast_c)
        return nigh_mpi_calls()->Bcast_c(buffer, count, type, root, comm);
    if (count > INT_MAX)
        return too_large("MPI_Bcast", count, comm);
    return nigh_mpi_calls()->Bcast(buffer, (int)count, type, root, comm);
}
