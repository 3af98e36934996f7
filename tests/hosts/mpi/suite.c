/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite's main program, and the count of what the program itself sends: the MPI_ functions below stand in front of
 * the MPI's own, as the standard's profiling interface provides for. The last line that rank 0 prints is what all ranks
 * have sent to other ranks, messages and bytes; the transport must have carried at least that.
 */
#include "tests/hosts/mpi/suite.h"

#include <unistd.h>

int suite_rank, suite_ranks;

static long long sent_messages, sent_bytes;
static int failures;

/* ---- counting ------------------------------------------------------------------------------------------ */

static void count(int number, MPI_Datatype type, int to, MPI_Comm comm)
{
    int size, rank;

    PMPI_Comm_rank(comm, &rank);
    if (to == MPI_PROC_NULL || to == rank)
        return;
    PMPI_Type_size(type, &size);
    sent_messages++;
    sent_bytes += (long long)number * size;
}

#define COUNTED(name)                                                                                 \
    int MPI_##name(const void *buffer, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm) \
    {                                                                                                 \
        count(number, type, to, comm);                                                                \
        return PMPI_##name(buffer, number, type, to, tag, comm);                                      \
    }

#define COUNTED_REQUEST(name)                                                                         \
    int MPI_##name(const void *buffer, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                   MPI_Request *request)                                                              \
    {                                                                                                 \
        count(number, type, to, comm);                                                                \
        return PMPI_##name(buffer, number, type, to, tag, comm, request);                             \
    }

COUNTED(Send)
COUNTED(Ssend)
COUNTED(Bsend)
COUNTED(Rsend)
COUNTED_REQUEST(Isend)
COUNTED_REQUEST(Issend)
COUNTED_REQUEST(Ibsend)
COUNTED_REQUEST(Irsend)

/* ---- helpers of cases ---------------------------------------------------------------------------------- */

int suite_right(void)
{
    return (suite_rank + 1) % suite_ranks;
}

int suite_left(void)
{
    return (suite_rank + suite_ranks - 1) % suite_ranks;
}

void suite_failed(const char *file, int line, const char *what, long long found, long long wanted)
{
    /* one of a loop says what the others would */
    if (failures++ < 5)
        printf("# rank %d, %s:%d: %s is %lld, not %lld\n", suite_rank, file, line, what, found, wanted);
    fflush(stdout);
}

static unsigned char byte_of(size_t at, unsigned seed)
{
    return (unsigned char)((at + seed) * 2654435761u >> 13);
}

void suite_fill(void *bytes, size_t number, unsigned seed)
{
    for (size_t i = 0; i < number; i++)
        ((unsigned char *)bytes)[i] = byte_of(i, seed);
}

size_t suite_wrong(const void *bytes, size_t number, unsigned seed)
{
    size_t wrong = 0;

    for (size_t i = 0; i < number; i++)
        wrong += ((const unsigned char *)bytes)[i] != byte_of(i, seed);
    return wrong;
}

void *suite_memory(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);

    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return memory;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static int run_case(const struct suite_case *one, int number)
{
    int all;

    failures = 0;
    one->run();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (suite_rank == 0) {
        printf("%s %d - %s\n", all ? "not ok" : "ok", number, one->name);
        fflush(stdout);
    }
    return all != 0;
}

int main(int argc, char **argv)
{
    const struct suite_case *const groups[] = {suite_counts,  suite_messages, suite_requests,
                                               suite_wild,    suite_types,    suite_collectives,
                                               suite_windows, suite_long,     suite_rooted};
    long long mine[2], all[2];
    int number = 0, failed = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &suite_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &suite_ranks);
    alarm(argc > 1 ? (unsigned)atoi(argv[1]) : 300); /* a hang ends here rather than in the harness */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (const struct suite_case *one = groups[i]; one->name; one++)
            failed += run_case(one, ++number);
    mine[0] = sent_messages;
    mine[1] = sent_bytes;
    MPI_Reduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (suite_rank == 0)
        printf("1..%d\n# sent %lld messages %lld bytes\n", number, all[0], all[1]);
    MPI_Finalize();
    return failed != 0;
}
