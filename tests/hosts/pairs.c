/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions by a program's own operation on two integers, which hosts/mpi answers: of a type that lies in another way in each rank.
 * Rank 0 says how many results are wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, ranks;

#define PAIRS 20000
static MPI_Datatype pair;
static int step, apart; /* integers from one pair to the next, and within one */

/* The first one is m, the second one c, of a map x -> m x + c; one map behind the other does not commute. */
static void compose(const unsigned *a, unsigned *b, int to)
{
    b[to] = a[to] * b[0] + b[to];
    b[0] = a[0] * b[0];
}

static void compose_all(void *in, void *inout, int *count, MPI_Datatype *type)
{
    for (int i = 0; i < *count; i++)
        compose((unsigned *)in + i * step, (unsigned *)inout + i * step, apart);
}

static void map_of(int of, int i, unsigned *map)
{
    map[0] = 2 * (unsigned)(of + i) + 3;
    map[1] = (unsigned)(of * 7 + i);
}

/* Of ranks 0 to `last`. */
static int is_composed(const int *at, int last, int i)
{
    unsigned map[2], all[2];

    map_of(last, i, all);
    for (int r = last - 1; r >= 0; r--) {
        map_of(r, i, map);
        compose(map, all, 1);
    }
    return all[0] == (unsigned)at[0] && all[1] == (unsigned)at[apart];
}

/* A pair of integers: behind each other, with gaps, or the second one first and the pairs from the end to the beginning. */
static void make_pair(void)
{
    MPI_Datatype type;
    int lengths[2] = {1, 1}, places[2] = {0, -1};

    step = rank % 3 == 0 ? 2 : rank % 3 == 1 ? 4 : -3;
    apart = rank % 3 == 0 ? 1 : rank % 3 == 1 ? 2 : -1;
    if (rank % 3 == 2)
        MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    else
        MPI_Type_vector(2, 1, apart, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, step * (int)sizeof(int), &pair);
    MPI_Type_commit(&pair);
    MPI_Type_free(&type);
}

static void fill_pairs(int *first, int count)
{
    for (int i = 0; i < count; i++) {
        unsigned map[2];

        map_of(rank, i, map);
        first[i * step] = (int)map[0];
        first[i * step + apart] = (int)map[1];
    }
}

static long wrong_pairs(const int *first, int from, int count, int last)
{
    long wrong = 0;

    for (int i = 0; i < count; i++)
        wrong += !is_composed(first + i * step, last, from + i);
    return wrong;
}

static long reduce_pairs(int *in, int *out, int count, int root, MPI_Op op)
{
    int share = count / ranks;
    long wrong = 0;

    fill_pairs(in, count);
    MPI_Reduce(in, out, count, pair, op, root, MPI_COMM_WORLD);
    wrong += rank == root ? wrong_pairs(out, 0, count, ranks - 1) : 0;
    MPI_Scan(in, out, count, pair, op, MPI_COMM_WORLD);
    wrong += wrong_pairs(out, 0, count, rank);
    MPI_Exscan(in, out, count, pair, op, MPI_COMM_WORLD);
    wrong += rank ? wrong_pairs(out, 0, count, rank - 1) : 0;
    MPI_Reduce_scatter_block(in, out, share, pair, op, MPI_COMM_WORLD);
    wrong += wrong_pairs(out, rank * share, share, ranks - 1);
    MPI_Allreduce(in, out, count, pair, op, MPI_COMM_WORLD);
    wrong += wrong_pairs(out, 0, count, ranks - 1);
    MPI_Allreduce(MPI_IN_PLACE, in, count, pair, op, MPI_COMM_WORLD);
    return wrong + wrong_pairs(in, 0, count, ranks - 1);
}

static long own_types(void)
{
    int *in = malloc(8 * PAIRS * sizeof *in), *out = malloc(8 * PAIRS * sizeof *out);
    long wrong = 0;
    MPI_Op op;

    MPI_Op_create(compose_all, 0, &op);
    make_pair();
    for (int i = 0; i < 16; i++) /* so that it forms */
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 30; i++)
        wrong +=
            reduce_pairs(in + 4 * PAIRS, out + 4 * PAIRS, i % 10 == 9 ? PAIRS : 1 + 40 * i, i % ranks, op);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    free(out);
    free(in);
    return wrong;
}

int main(int argc, char **argv)
{
    long wrong, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    alarm(120); /* a job that does not end must not stay */
    wrong = own_types();
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld wrong\n", all);
    MPI_Finalize();
    return 0;
}
