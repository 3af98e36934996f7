/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in which ranks count the same elements in different ways: so many integers here, a third as many triples
 * of them there. Some algorithms of MPIs take a count for another one, and hand over bytes of nobody's.
 */
#include "tests/hosts/mpi/suite.h"

static MPI_Datatype triple;
static const int counts[] = {10, 60, 1000, 4000};

/* How a buffer of so many triples is described: every other way, from call to call and rank to rank. */
struct way {
    MPI_Datatype type;
    int count;
};

static struct way way_of(int triples, int odd)
{
    return odd % 2 ? (struct way){triple, triples} : (struct way){MPI_INT, 3 * triples};
}

static int value(int from, int to, int i)
{
    return from * 1000003 + to * 12007 + i;
}

static void fill(int *out, int triples, int from, int to)
{
    for (int i = 0; i < 3 * triples; i++)
        out[i] = value(from, to, i);
}

static long wrong(const int *in, int triples, int from, int to)
{
    long found = 0;

    for (int i = 0; i < 3 * triples; i++)
        found += in[i] != value(from, to, i);
    return found;
}

static int *block(int *all, int triples, int rank)
{
    return all + 3 * (size_t)triples * (size_t)rank;
}

static int *blocks(int triples, int ranks)
{
    return suite_memory(12 * (size_t)triples * (size_t)ranks);
}

/* ---- one call each, of so many triples from rank to rank ------------------------------------------------ */

static void allgather(int triples, int odd)
{
    int *out = blocks(triples, 1), *in = blocks(triples, suite_ranks);
    struct way sent = way_of(triples, odd), kept = way_of(triples, odd + 1);

    fill(out, triples, suite_rank, 0);
    MPI_Allgather(out, sent.count, sent.type, in, kept.count, kept.type, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++)
        EQUAL(wrong(block(in, triples, r), triples, r, 0), 0);
    free(in);
    free(out);
}

static void alltoall(int triples, int odd)
{
    int *out = blocks(triples, suite_ranks), *in = blocks(triples, suite_ranks);
    struct way sent = way_of(triples, odd), kept = way_of(triples, odd + 1);

    for (int r = 0; r < suite_ranks; r++)
        fill(block(out, triples, r), triples, suite_rank, r);
    MPI_Alltoall(out, sent.count, sent.type, in, kept.count, kept.type, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++)
        EQUAL(wrong(block(in, triples, r), triples, r, suite_rank), 0);
    free(in);
    free(out);
}

static void gather(int triples, int odd)
{
    int root = odd % suite_ranks, *out = blocks(triples, 1), *in = blocks(triples, suite_ranks);
    struct way sent = way_of(triples, odd), kept = way_of(triples, odd + 1);

    fill(out, triples, suite_rank, root);
    MPI_Gather(out, sent.count, sent.type, in, kept.count, kept.type, root, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks && suite_rank == root; r++)
        EQUAL(wrong(block(in, triples, r), triples, r, root), 0);
    free(in);
    free(out);
}

static void scatter(int triples, int odd)
{
    int root = odd % suite_ranks, *out = blocks(triples, suite_ranks), *in = blocks(triples, 1);
    struct way sent = way_of(triples, odd), kept = way_of(triples, odd + 1);

    for (int r = 0; r < suite_ranks; r++)
        fill(block(out, triples, r), triples, root, r);
    MPI_Scatter(out, sent.count, sent.type, in, kept.count, kept.type, root, MPI_COMM_WORLD);
    EQUAL(wrong(in, triples, root, suite_rank), 0);
    free(in);
    free(out);
}

static void broadcast(int triples, int odd)
{
    int root = odd % suite_ranks, *buffer = blocks(triples, 1);
    struct way way = way_of(triples, odd + (suite_rank != root));

    if (suite_rank == root)
        fill(buffer, triples, root, 0);
    MPI_Bcast(buffer, way.count, way.type, root, MPI_COMM_WORLD);
    EQUAL(wrong(buffer, triples, root, 0), 0);
    free(buffer);
}

/* All ranks the same way, the other way and, where each may, every other rank another way. */
static void every_way(void (*call)(int triples, int odd), int mixed)
{
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_commit(&triple);
    for (int c = 0; c < (int)(sizeof counts / sizeof *counts); c++) {
        call(counts[c], 0);
        call(counts[c], 1);
        if (mixed)
            call(counts[c], suite_rank);
    }
    MPI_Type_free(&triple);
}

static void allgathers(void)
{
    every_way(allgather, 1);
}

static void alltoalls(void)
{
    every_way(alltoall, 1);
}

static void gathers(void)
{
    every_way(gather, 0);
}

static void scatters(void)
{
    every_way(scatter, 0);
}

static void broadcasts(void)
{
    every_way(broadcast, 0);
}

const struct suite_case suite_counts[] = {
    {"counts: an allgather of integers, kept as triples, and the other way round", allgathers},
    {"counts: an alltoall", alltoalls},
    {"counts: gathers", gathers},
    {"counts: scatters", scatters},
    {"counts: broadcasts", broadcasts},
    {0},
};
