/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with large counts (MPI_..._c), which hosts/mpi answers: some ranks of a call make that form, the others the one with an
 * int for a count. Against the MPI's own by the profiling interface, before the communicator has formed and behind it. Rank 0 says
 * how many results differ.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS  64
#define COUNT  5
#define ROUNDS 4

static MPI_Comm comm, reference;
static int me, ranks, is_large, root;

/* By rank: counts and where the blocks lie, with a gap behind each, for both forms. */
static int counts[RANKS], offsets[RANKS];
static MPI_Count large_counts[RANKS];
static MPI_Aint large_offsets[RANKS];

static int sent[RANKS * (COUNT + 1)], mine[RANKS * (COUNT + 1)], theirs[RANKS * (COUNT + 1)];

/* clang-format off */
#define BLOCK             COUNT, MPI_INT
#define OWN               counts[me], MPI_INT
#define LARGE_OWN         large_counts[me], MPI_INT
#define PARTS             counts, offsets, MPI_INT
#define LARGE_PARTS       large_counts, large_offsets, MPI_INT

/* CALL(name, name behind I, arguments with an int, arguments with large counts), of which IN and OUT are the buffers. */
#define CALLS(CALL) \
    CALL(Bcast, bcast, (OUT, BLOCK, root, COMM), (OUT, BLOCK, root, COMM)) \
    CALL(Reduce, reduce, (IN, OUT, BLOCK, MPI_SUM, root, COMM), (IN, OUT, BLOCK, MPI_SUM, root, COMM)) \
    CALL(Allreduce, allreduce, (IN, OUT, BLOCK, MPI_MAX, COMM), (IN, OUT, BLOCK, MPI_MAX, COMM)) \
    CALL(Gather, gather, (IN, BLOCK, OUT, BLOCK, root, COMM), (IN, BLOCK, OUT, BLOCK, root, COMM)) \
    CALL(Gatherv, gatherv, (IN, OWN, OUT, PARTS, root, COMM), (IN, LARGE_OWN, OUT, LARGE_PARTS, root, COMM)) \
    CALL(Scatter, scatter, (IN, BLOCK, OUT, BLOCK, root, COMM), (IN, BLOCK, OUT, BLOCK, root, COMM)) \
    CALL(Scatterv, scatterv, (IN, PARTS, OUT, OWN, root, COMM), (IN, LARGE_PARTS, OUT, LARGE_OWN, root, COMM)) \
    CALL(Allgather, allgather, (IN, BLOCK, OUT, BLOCK, COMM), (IN, BLOCK, OUT, BLOCK, COMM)) \
    CALL(Allgatherv, allgatherv, (IN, OWN, OUT, PARTS, COMM), (IN, LARGE_OWN, OUT, LARGE_PARTS, COMM)) \
    CALL(Alltoall, alltoall, (IN, BLOCK, OUT, BLOCK, COMM), (IN, BLOCK, OUT, BLOCK, COMM)) \
    CALL(Reduce_scatter, reduce_scatter, (IN, OUT, counts, MPI_INT, MPI_SUM, COMM), \
         (IN, OUT, large_counts, MPI_INT, MPI_SUM, COMM)) \
    CALL(Reduce_scatter_block, reduce_scatter_block, (IN, OUT, BLOCK, MPI_SUM, COMM), (IN, OUT, BLOCK, MPI_SUM, COMM)) \
    CALL(Scan, scan, (IN, OUT, BLOCK, MPI_SUM, COMM), (IN, OUT, BLOCK, MPI_SUM, COMM)) \
    CALL(Exscan, exscan, (IN, OUT, BLOCK, MPI_SUM, COMM), (IN, OUT, BLOCK, MPI_SUM, COMM))

#if MPI_VERSION < 4 /* the preloaded object has them nevertheless */
#define TYPES_Bcast          void *, MPI_Count, MPI_Datatype, int, MPI_Comm
#define TYPES_Reduce         const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm
#define TYPES_Allreduce      const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm
#define TYPES_Gather         const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm
#define TYPES_Gatherv        const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, int, MPI_Comm
#define TYPES_Scatter        TYPES_Gather
#define TYPES_Scatterv       const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm
#define TYPES_Allgather      const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm
#define TYPES_Allgatherv     const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, MPI_Comm
#define TYPES_Alltoall       TYPES_Allgather
#define TYPES_Alltoallv \
    const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, MPI_Comm
#define TYPES_Reduce_scatter const void *, void *, const MPI_Count *, MPI_Datatype, MPI_Op, MPI_Comm
#define TYPES_Reduce_scatter_block TYPES_Allreduce
#define TYPES_Scan           TYPES_Allreduce
#define TYPES_Exscan         TYPES_Allreduce
#define DECLARE(name, lower, small, large) \
    __attribute__((weak)) int MPI_##name##_c(TYPES_##name); \
    __attribute__((weak)) int MPI_I##lower##_c(TYPES_##name, MPI_Request *);
CALLS(DECLARE)
DECLARE(Alltoallv, alltoallv, , )
#endif

#define UNPACK(...) __VA_ARGS__
#define COMM comm
#define IN   sent
#define OUT  mine
#define MAKE(name, lower, small, large)                               \
    static void make_##lower(int starts, MPI_Request *request)        \
    {                                                                 \
        if (starts && is_large)                                       \
            MPI_I##lower##_c(UNPACK large, request);                  \
        else if (starts)                                              \
            MPI_I##lower(UNPACK small, request);                      \
        else if (is_large)                                            \
            MPI_##name##_c large;                                     \
        else                                                          \
            MPI_##name small;                                         \
    }
CALLS(MAKE)
#undef OUT
#undef COMM
#define COMM reference
#define OUT  theirs
#define MAKE_REFERENCE(name, lower, small, large) static void refer_##lower(void) { PMPI_##name small; }
CALLS(MAKE_REFERENCE)

static const struct {
    void (*make)(int, MPI_Request *);
    void (*refer)(void);
} calls[] = {
#define ENTRY(name, lower, small, large) {make_##lower, refer_##lower},
    CALLS(ENTRY)
};
/* clang-format on */

static int has_differed(unsigned which, int starts)
{
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < RANKS * (COUNT + 1); i++) {
        sent[i] = me * 1000 + i;
        mine[i] = theirs[i] = me;
    }
    calls[which].make(starts, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    calls[which].refer();
    if (memcmp(mine, theirs, sizeof(mine)) == 0)
        return 0;
    printf("rank %d: call %u, %s, %s differs\n", me, which, is_large ? "large" : "small",
           starts ? "as a request" : "blocking");
    return 1;
}

/* What each two send each other is the same. */
static int alltoallv(int starts)
{
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < RANKS * (COUNT + 1); i++)
        mine[i] = theirs[i] = -1;
    for (int r = 0; r < ranks; r++)
        large_counts[r] = counts[r] = (me + r) % COUNT;
    if (!starts && is_large)
        MPI_Alltoallv_c(sent, large_counts, large_offsets, MPI_INT, mine, large_counts, large_offsets,
                        MPI_INT, comm);
    else if (!starts)
        MPI_Alltoallv(sent, counts, offsets, MPI_INT, mine, counts, offsets, MPI_INT, comm);
    else if (is_large)
        MPI_Ialltoallv_c(sent, large_counts, large_offsets, MPI_INT, mine, large_counts, large_offsets,
                         MPI_INT, comm, &request);
    else
        MPI_Ialltoallv(sent, counts, offsets, MPI_INT, mine, counts, offsets, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Alltoallv(sent, counts, offsets, MPI_INT, theirs, counts, offsets, MPI_INT, reference);
    return memcmp(mine, theirs, sizeof(mine)) != 0;
}

static void set_counts(void)
{
    for (int r = 0; r < ranks; r++) {
        large_counts[r] = counts[r] = r % (COUNT + 1);
        large_offsets[r] = offsets[r] = r * (COUNT + 1);
    }
}

int main(int argc, char **argv)
{
    long wrong = 0, all;

    MPI_Init(&argc, &argv);
    alarm(120); /* a job that does not end must not stay */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &reference);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    for (int round = 0; round < ROUNDS; round++) {
        root = round % ranks;
        /* In the first of them the root alone; in the last all ranks. */
        is_large = round == 0 ? me == root : round == ROUNDS - 1 || (me + round) % 2;
        for (int starts = 0; starts < 2; starts++) {
            set_counts();
            for (unsigned which = 0; which < sizeof(calls) / sizeof(*calls); which++)
                wrong += has_differed(which, starts);
            wrong += alltoallv(starts);
        }
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0)
        printf("%ld wrong\n", all);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&reference);
    MPI_Finalize();
    return 0;
}
