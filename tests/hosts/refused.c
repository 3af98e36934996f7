/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that MPI refuses: each gets the error class that the MPI's own call has, before and after the ranks of its communicator meet
 * in nigh, and calls behind it are good. Rank 0 says how many were other.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static MPI_Comm comm;
static int rank, ranks;
static long wrong;

static int class_of(int error)
{
    int class = error;

    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    return class;
}

static void judge(int line, int ours, int mpis)
{
    if (class_of(ours) == class_of(mpis) && ours != MPI_SUCCESS)
        return;
    if (wrong++ < 5)
        printf("rank %d: line %d: error class %d, the MPI's %d\n", rank, line, class_of(ours),
               class_of(mpis));
}

#define REFUSED(name, ...) judge(__LINE__, MPI_##name(__VA_ARGS__), PMPI_##name(__VA_ARGS__))

static void refused(void)
{
    int in[64] = {0}, out[64] = {0};
    MPI_Request request;

    REFUSED(Bcast, in, -1, MPI_INT, 0, comm);
    REFUSED(Bcast, in, 1, MPI_INT, ranks, comm);
    REFUSED(Bcast, in, 1, MPI_INT, -1, comm);
    REFUSED(Bcast, in, 1, MPI_DATATYPE_NULL, 0, comm);
    REFUSED(Reduce, in, out, 1, MPI_INT, MPI_SUM, ranks, comm);
    REFUSED(Reduce, in, out, -1, MPI_INT, MPI_SUM, 0, comm);
    REFUSED(Allreduce, in, out, 1, MPI_INT, MPI_OP_NULL, comm);
    REFUSED(Allreduce, in, out, 1, MPI_DOUBLE, MPI_BAND, comm);
    REFUSED(Allreduce, in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm);
    REFUSED(Gather, in, -1, MPI_INT, out, 1, MPI_INT, 0, comm);
    REFUSED(Gather, in, 1, MPI_INT, out, 1, MPI_INT, ranks + 3, comm);
    REFUSED(Scatter, in, 1, MPI_INT, out, -1, MPI_INT, 0, comm);
    REFUSED(Allgather, in, 1, MPI_DATATYPE_NULL, out, 1, MPI_INT, comm);
    REFUSED(Alltoall, in, -1, MPI_INT, out, -1, MPI_INT, comm);
    REFUSED(Scan, in, out, -1, MPI_INT, MPI_SUM, comm);
    REFUSED(Iallreduce, in, out, -1, MPI_INT, MPI_SUM, comm, &request);
    REFUSED(Ibcast, in, 1, MPI_INT, ranks, comm, &request);
}

int main(int argc, char **argv)
{
    int sum = 0;
    long all;

    MPI_Init(&argc, &argv);
    alarm(60);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* some are told of there */
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    refused();
    for (int i = 0; i < 20; i++) /* they meet, at the latest */
        MPI_Barrier(comm);
    refused();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    wrong += sum != ranks * (ranks - 1) / 2;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld wrong\n", all);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
