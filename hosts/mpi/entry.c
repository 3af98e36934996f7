/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/entry.c - the calls of MPI that this object answers in the MPI's place, where it lies before it in a
 * process. All others, and what it cannot judge, it hands on. What it decides by is the same in all ranks of a call, so
 * all do the same.
 */
#include "hosts/mpi/alltoall.h"
#include "hosts/mpi/answer.h"
#include "hosts/mpi/broadcast.h"
#include "hosts/mpi/calls.h"
#include "hosts/mpi/gather.h"
#include "hosts/mpi/log.h"
#include "hosts/mpi/reduce.h"

#include <errno.h>
#include <limits.h>

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
ENTRY(Alltoall, const void *, int, type_arg, void *, int, type_arg, comm_arg)
ENTRY(Alltoall_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg, comm_arg)
ENTRY(Allgather, const void *, int, type_arg, void *, int, type_arg, comm_arg)
ENTRY(Allgather_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg, comm_arg)
ENTRY(Gather, const void *, int, type_arg, void *, int, type_arg, int, comm_arg)
ENTRY(Gather_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg, int, comm_arg)

/* An MPI before 4 has no calls with large counts, but programs that look whether it has find ours. */
static int too_large(const char *what, int64_t count, nigh_mpi_comm comm)
{
    nigh_mpi_log("%s_c of %lld elements: this MPI has no such call, and %s takes %d at most", what,
                 (long long)count, what, INT_MAX);
    return nigh_mpi_answer(-EOVERFLOW, comm);
}

/* The MPI's function with handles as they came. */
#define ON(name, ...) (((int (*)(__VA_ARGS__))(void (*)(void))nigh_mpi_calls()->name))

int MPI_Reduce(const void *send, void *recv, int count, type_arg type, op_arg op, int root, comm_arg comm)
{
    int result;

    if (!nigh_mpi_calls()->foreign && nigh_mpi_reduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op,
                                                      root, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Reduce, const void *, void *, int, type_arg, op_arg, int, comm_arg)(send, recv, count, type, op,
                                                                                  root, comm);
}

int MPI_Reduce_c(const void *send, void *recv, nigh_mpi_count count, type_arg type, op_arg op, int root,
                 comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign && nigh_mpi_reduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op, root,
                                         (nigh_mpi_comm)comm, &result))
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

    if (!nigh_mpi_calls()->foreign && nigh_mpi_allreduce(send, recv, count, (nigh_mpi_type)type,
                                                         (nigh_mpi_op)op, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Allreduce, const void *, void *, int, type_arg, op_arg, comm_arg)(send, recv, count, type, op,
                                                                                comm);
}

int MPI_Allreduce_c(const void *send, void *recv, nigh_mpi_count count, type_arg type, op_arg op,
                    comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign && nigh_mpi_allreduce(send, recv, count, (nigh_mpi_type)type, (nigh_mpi_op)op,
                                            (nigh_mpi_comm)comm, &result))
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
        nigh_mpi_broadcast(buffer, count, (nigh_mpi_type)type, root, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Bcast, void *, int, type_arg, int, comm_arg)(buffer, count, type, root, comm);
}

int MPI_Bcast_c(void *buffer, nigh_mpi_count count, type_arg type, int root, comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    int result;

    if (!mpi->foreign &&
        nigh_mpi_broadcast(buffer, count, (nigh_mpi_type)type, root, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Bcast_c)
        return ON(Bcast_c, void *, nigh_mpi_count, type_arg, int, comm_arg)(buffer, count, type, root, comm);
    if (count > INT_MAX)
        return too_large("MPI_Bcast", count, (nigh_mpi_comm)comm);
    return ON(Bcast, void *, int, type_arg, int, comm_arg)(buffer, (int)count, type, root, comm);
}

int MPI_Gather(const void *send, int sends, type_arg type, void *recv, int recvs, type_arg into, int root,
               comm_arg comm)
{
    struct nigh_mpi_gather call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into, root};
    int result;

    if (!nigh_mpi_calls()->foreign && nigh_mpi_gather(&call, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Gather, const void *, int, type_arg, void *, int, type_arg, int,
              comm_arg)(send, sends, type, recv, recvs, into, root, comm);
}

int MPI_Gather_c(const void *send, nigh_mpi_count sends, type_arg type, void *recv, nigh_mpi_count recvs,
                 type_arg into, int root, comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_gather call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into, root};
    int result;

    if (!mpi->foreign && nigh_mpi_gather(&call, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Gather_c)
        return ON(Gather_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg, int,
                  comm_arg)(send, sends, type, recv, recvs, into, root, comm);
    if (sends > INT_MAX || recvs > INT_MAX)
        return too_large("MPI_Gather", sends > recvs ? sends : recvs, (nigh_mpi_comm)comm);
    return ON(Gather, const void *, int, type_arg, void *, int, type_arg, int,
              comm_arg)(send, (int)sends, type, recv, (int)recvs, into, root, comm);
}

int MPI_Allgather(const void *send, int sends, type_arg type, void *recv, int recvs, type_arg into,
                  comm_arg comm)
{
    struct nigh_mpi_gather call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into, 0};
    int result;

    if (!nigh_mpi_calls()->foreign && nigh_mpi_allgather(&call, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Allgather, const void *, int, type_arg, void *, int, type_arg,
              comm_arg)(send, sends, type, recv, recvs, into, comm);
}

int MPI_Allgather_c(const void *send, nigh_mpi_count sends, type_arg type, void *recv, nigh_mpi_count recvs,
                    type_arg into, comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_gather call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into, 0};
    int result;

    if (!mpi->foreign && nigh_mpi_allgather(&call, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Allgather_c)
        return ON(Allgather_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg,
                  comm_arg)(send, sends, type, recv, recvs, into, comm);
    if (sends > INT_MAX || recvs > INT_MAX)
        return too_large("MPI_Allgather", sends > recvs ? sends : recvs, (nigh_mpi_comm)comm);
    return ON(Allgather, const void *, int, type_arg, void *, int, type_arg,
              comm_arg)(send, (int)sends, type, recv, (int)recvs, into, comm);
}

int MPI_Alltoall(const void *send, int sends, type_arg type, void *recv, int recvs, type_arg into,
                 comm_arg comm)
{
    struct nigh_mpi_alltoall call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into};
    int result;

    if (!nigh_mpi_calls()->foreign && nigh_mpi_alltoall(&call, (nigh_mpi_comm)comm, &result))
        return result;
    return ON(Alltoall, const void *, int, type_arg, void *, int, type_arg, comm_arg)(send, sends, type, recv,
                                                                                      recvs, into, comm);
}

int MPI_Alltoall_c(const void *send, nigh_mpi_count sends, type_arg type, void *recv, nigh_mpi_count recvs,
                   type_arg into, comm_arg comm)
{
    const struct nigh_mpi_calls *mpi = nigh_mpi_calls();
    struct nigh_mpi_alltoall call = {send, sends, (nigh_mpi_type)type, recv, recvs, (nigh_mpi_type)into};
    int result;

    if (!mpi->foreign && nigh_mpi_alltoall(&call, (nigh_mpi_comm)comm, &result))
        return result;
    if (mpi->Alltoall_c)
        return ON(Alltoall_c, const void *, nigh_mpi_count, type_arg, void *, nigh_mpi_count, type_arg,
                  comm_arg)(send, sends, type, recv, recvs, into, comm);
    if (sends > INT_MAX || recvs > INT_MAX)
        return too_large("MPI_Alltoall", sends > recvs ? sends : recvs, (nigh_mpi_comm)comm);
    return ON(Alltoall, const void *, int, type_arg, void *, int, type_arg,
              comm_arg)(send, (int)sends, type, recv, (int)recvs, into, comm);
}
