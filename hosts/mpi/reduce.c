/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/reduce.c - see reduce.h. */
#include "hosts/mpi/reduce.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/flat.h"

#include <errno.h>

/* What there is a loop for, or an operation of the program's own that commutes, which goes with any type. MPI's own do
 * not, and what is wrong then the MPI is to say. */
static bool is_reducible(struct nigh_mpi_flow *flow, struct nigh_mpi_vector *vector, int64_t count)
{
    size_t width;
    int commutes;

    if (!nigh_mpi_limits.reduce_from || !nigh_mpi_vector_measure(vector, count, flow->type) ||
        vector->bytes < nigh_mpi_limits.reduce_from || vector->width > NIGH_MPI_PART_BYTES)
        return false;
    vector->dense = true;
    flow->add = nigh_mpi_add(flow->type, flow->op, &width);
    if (flow->add)
        return true;
    return !nigh_mpi_is_own_op(flow->op) && !nigh_mpi_calls()->Op_commutative(flow->op, &commutes) &&
           commutes && nigh_mpi_vector_is_close(vector, flow->type);
}

/* Buffers that MPI does not refuse: `send` alone at ranks other than the root. */
static bool has_buffers(const struct nigh_mpi_group *group, int root, const void *send, const void *recv)
{
    if (group->me == root)
        return send && recv && send != recv;
    return send && send != NIGH_MPI_IN_PLACE;
}

/* ---- all to the root ----------------------------------------------------------------------------------- */

static bool goes_to_root(uint64_t bytes)
{
    return nigh_mpi_is_short(bytes) ||
           (bytes >= NIGH_MPI_FLAT_FROM && bytes <= NIGH_MPI_FLAT_TO && bytes < nigh_mpi_limits.reduce_from);
}

static int run_packed(struct nigh_mpi_rooted *call, const struct nigh_mpi_vector *vector, nigh_mpi_type type,
                      nigh_mpi_comm comm)
{
    void *recv = call->recv, *memory = nigh_mpi_answer_memory(call->what, vector->bytes);
    int rc = memory ? nigh_mpi_vector_pack(vector, call->send, type, memory, comm) : -ENOMEM;

    nigh_mpi_answer_count_packed();
    call->send = call->recv = memory;
    rc = rc ? nigh_mpi_answer_give_up(call->group, rc) : nigh_mpi_rooted_run(call);
    if (!rc && call->group->me == call->root)
        rc = nigh_mpi_vector_unpack(vector, memory, recv, type, comm);
    nigh_mpi_answer_release(memory);
    return rc;
}

/* Of a type and an operation that there is a loop for: known without asking MPI, to which asking costs as much as all
 * else. */
static bool reduce_at_root(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                           int root, nigh_mpi_comm comm, int *result)
{
    size_t width;
    nigh_mpi_add_fn add = nigh_mpi_add(type, op, &width);
    struct nigh_mpi_vector vector = {
        .count = (uint64_t)count, .bytes = (uint64_t)count * width, .width = width, .dense = true};
    struct nigh_mpi_group *group =
        add && goes_to_root(vector.bytes) ? nigh_mpi_group_of(comm, vector.bytes) : NULL;
    struct nigh_mpi_rooted call = {
        .group = group,
        .what = "MPI_Reduce",
        .send = send == NIGH_MPI_IN_PLACE ? recv : send,
        .recv = recv,
        .bytes = (uint32_t)vector.bytes,
        .count = (uint32_t)count,
        .add = add,
        .root = root,
    };

    if (!nigh_mpi_has_root(group, root) || !has_buffers(group, root, send, recv) ||
        (!nigh_mpi_is_short(vector.bytes) && group->ranks > NIGH_MPI_FLAT_RANKS))
        return false;
    if (nigh_mpi_answer_packs(&vector))
        *result = nigh_mpi_answer(run_packed(&call, &vector, type, comm), comm);
    else
        *result = nigh_mpi_answer(nigh_mpi_rooted_run(&call), comm);
    return true;
}

/* ---- by a tree ----------------------------------------------------------------------------------------- */

/* Apart, as to clear a flow takes as long as a short reduction. */
static __attribute__((noinline)) bool reduce_long(const void *send, void *recv, int64_t count,
                                                  nigh_mpi_type type, nigh_mpi_op op, int root,
                                                  nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Reduce", .type = type, .op = op, .root = root, .up = true};
    struct nigh_mpi_vector vector;

    if (!is_reducible(&flow, &vector, count))
        return false;
    flow.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!nigh_mpi_has_root(flow.group, root) || !has_buffers(flow.group, root, send, recv))
        return false;
    *result = nigh_mpi_answer_flow(&flow, &vector, send == NIGH_MPI_IN_PLACE ? recv : send, recv, comm);
    return true;
}

bool nigh_mpi_reduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                     int root, nigh_mpi_comm comm, int *result)
{
    if (count > 0 && count <= NIGH_MPI_FLAT_TO && nigh_mpi_limits.reduce_from &&
        reduce_at_root(send, recv, count, type, op, root, comm, result))
        return true;
    return reduce_long(send, recv, count, type, op, root, comm, result);
}

bool nigh_mpi_allreduce(const void *send, void *recv, int64_t count, nigh_mpi_type type, nigh_mpi_op op,
                        nigh_mpi_comm comm, int *result)
{
    struct nigh_mpi_flow flow = {.what = "MPI_Allreduce", .type = type, .op = op, .up = true, .down = true};
    struct nigh_mpi_vector vector;

    if (!is_reducible(&flow, &vector, count))
        return false;
    flow.group = nigh_mpi_group_of(comm, vector.bytes);
    if (!flow.group || !send || !recv || send == recv)
        return false;
    *result = nigh_mpi_answer_flow(&flow, &vector, send == NIGH_MPI_IN_PLACE ? recv : send, recv, comm);
    return true;
}
