/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of which one rank alone has an argument that is unlike the others', as MPI allows it: all are answered in one place, or ranks
 * wait for each other for ever. Rank 0 says how many results are wrong.
 *     own [long]    long: also with elements of more than 2 GiB, of which the job needs 9 GiB
 *     own wraps     counts and types of which the bytes wrap: errors at all ranks
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 16
#define EVEN  ((1L << 29) + 16) /* integers: more than 2 GiB */

static MPI_Comm comm;
static int rank, ranks;
static MPI_Datatype swapped; /* pairs of integers, each the other way round: nothing sends it as it lies */
static long wrong;

/* ---- no element of a long type ------------------------------------------------------------------------- */

/* Rank 1 gives none, and of a type whose length no int says; the others give integers. */
static void none_of_a_long_type(void)
{
    int in[RANKS], out[RANKS * RANKS], counts[RANKS], offsets[RANKS], zeros[RANKS] = {0}, odd = rank == 1;
    MPI_Datatype type = odd ? swapped : MPI_INT;
    MPI_Request request;

    for (int r = 0; r < ranks; r++) {
        counts[r] = r != 1;
        offsets[r] = r;
        in[r] = rank * 100 + r;
    }
    memset(out, -1, sizeof(out));
    MPI_Gatherv(in, !odd, type, out, counts, offsets, MPI_INT, 0, comm);
    for (int r = 0; r < ranks && rank == 0; r++)
        wrong += out[r] != (r == 1 ? -1 : r * 100);
    memset(out, -1, sizeof(out));
    MPI_Scatterv(in, counts, offsets, MPI_INT, out, !odd, type, 0, comm);
    wrong += out[0] != (odd ? -1 : rank);
    memset(out, -1, sizeof(out));
    MPI_Allgatherv(in, !odd, type, out, counts, offsets, MPI_INT, comm);
    for (int r = 0; r < ranks; r++)
        wrong += out[r] != (r == 1 ? -1 : r * 100);
    memset(out, -1, sizeof(out));
    MPI_Ialltoallv(in, odd ? zeros : counts, offsets, type, out, odd ? zeros : counts, offsets, type, comm,
                   &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; r++)
        wrong += out[r] != (odd || r == 1 ? -1 : r * 100 + rank);
    MPI_Bcast(in, 0, type, 0, comm);
    MPI_Gather(in, 0, type, out, 0, MPI_INT, ranks - 1, comm);
    MPI_Alltoall(in, 0, type, out, 0, type, comm);
}

/* ---- elements of a long type --------------------------------------------------------------------------- */

static int value(long i)
{
    return (int)((unsigned)i * 2654435761u);
}

static void elements_of_a_long_type(int starts)
{
    int *in = malloc((size_t)EVEN * sizeof(*in)), *out = malloc((size_t)EVEN * sizeof(*out));
    int counts[RANKS] = {0}, offsets[RANKS] = {0};
    MPI_Request request;

    for (long i = 0; i < EVEN && rank == 1; i++)
        in[i] = value(i ^ 1);
    counts[1] = 1;
    /* Of rank 1 to rank 0, in another order; of the others nothing, and of another type. */
    if (starts && rank < 2)
        MPI_Igatherv(in, rank, swapped, out, counts, offsets, swapped, 0, comm, &request);
    else if (starts)
        MPI_Igatherv(in, 0, MPI_INT, out, counts, offsets, MPI_INT, 0, comm, &request);
    else if (rank < 2)
        MPI_Gatherv(in, rank, swapped, out, counts, offsets, swapped, 0, comm);
    else
        MPI_Gatherv(in, 0, MPI_INT, out, counts, offsets, MPI_INT, 0, comm);
    if (starts)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (long i = 0; i < EVEN && rank == 0; i++)
        wrong += out[i] != value(i ^ 1);
    free(in);
    free(out);
}

/* ---- one buffer for both ------------------------------------------------------------------------------- */

/* Where the MPI does not look at arguments the root may give one buffer for both. */
static void one_buffer(void)
{
    int both = rank + 1, out = 0, checks;
    MPI_Comm self;

    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    checks = MPI_Send(&both, -1, MPI_INT, MPI_PROC_NULL, 0, self) != MPI_SUCCESS;
    MPI_Comm_free(&self);
    if (checks)
        return;
    MPI_Reduce(&both, rank == 0 ? &both : &out, 1, MPI_INT, MPI_SUM, 0, comm);
    wrong += both != (rank == 0 ? ranks * (ranks + 1) / 2 : rank + 1);
}

/* ---- bytes that wrap ----------------------------------------------------------------------------------- */

static MPI_Comm formed(void)
{
    MPI_Comm made;

    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++)
        MPI_Barrier(made);
    return made;
}

static void judge(int error, MPI_Comm *made)
{
    int class = MPI_SUCCESS;

    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    wrong += class != MPI_ERR_COUNT;
    MPI_Comm_free(made);
}

/* 2^35 bytes of an element, 2^29 or 2^30 of them: 2^64 bytes and more, which wrap to none. */
static void wraps(void)
{
    int counts[RANKS] = {0}, far[RANKS] = {0}, none[RANKS] = {0}, in[4] = {0}, out[4] = {0};
    MPI_Datatype some, many;
    MPI_Comm made;

    MPI_Type_contiguous(8, MPI_INT, &some);
    MPI_Type_contiguous(1 << 30, some, &many);
    MPI_Type_commit(&many);
    made = formed();
    judge(MPI_Bcast(in, 1 << 29, many, 0, made), &made);
    made = formed();
    judge(MPI_Alltoall(in, 1 << 29, many, out, 1 << 29, many, made), &made);
    counts[0] = 1 << 29;
    made = formed();
    judge(MPI_Alltoallv(in, counts, none, many, out, counts, none, many, made), &made);
    /* Where a block lies wraps. */
    counts[0] = 1;
    far[0] = 1 << 30;
    made = formed();
    judge(MPI_Alltoallv(in, counts, none, many, out, counts, far, many, made), &made);
    MPI_Type_free(&many);
    MPI_Type_free(&some);
}

int main(int argc, char **argv)
{
    int lengths[2] = {1, 1}, places[2] = {1, 0};
    MPI_Datatype pair;
    long all;

    MPI_Init(&argc, &argv);
    alarm(120); /* a job that does not end must not stay */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &pair);
    MPI_Type_contiguous(EVEN / 2, pair, &swapped);
    MPI_Type_commit(&swapped);
    for (int i = 0; i < 20; i++) /* so that it forms */
        MPI_Barrier(comm);
    if (argc > 1 && !strcmp(argv[1], "wraps")) {
        wraps();
    } else {
        none_of_a_long_type();
        one_buffer();
        for (int starts = 0; starts < 2 && argc > 1; starts++)
            elements_of_a_long_type(starts);
    }
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld wrong\n", all);
    MPI_Type_free(&swapped);
    MPI_Type_free(&pair);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
