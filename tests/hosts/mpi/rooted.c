/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathers, to one rank and to all, and reductions of some KiB: around the lengths at which they go another way, of all
 * roots, in place, of types that differ from rank to rank, and in a row.
 */
#include "tests/hosts/mpi/suite.h"

#define MOST 65536

static const int lengths[] = {1, 8, 40, 255, 256, 257, 1024, 2047, 2048, 2049, 32768, MOST, MOST + 1, 140000};

#define LENGTHS (int)(sizeof lengths / sizeof *lengths)

static int step(void)
{
    return suite_ranks > 4 ? 5 : 1;
}

/* What a rank gives the root in one of the calls. */
static unsigned seed_of(int rank, int call)
{
    return (unsigned)(rank * 31 + call);
}

static long wrong_blocks(const char *all, int bytes, int call)
{
    long wrong = 0;

    for (int r = 0; r < suite_ranks; r++)
        wrong += (long)suite_wrong(all + (size_t)r * (size_t)bytes, (size_t)bytes, seed_of(r, call));
    return wrong;
}

/* ---- gathers ------------------------------------------------------------------------------------------- */

static void gather(int bytes, int root, int in_place)
{
    static int call; /* another one's bytes must not do */
    char *all = suite_memory((size_t)bytes * (size_t)suite_ranks), *own = suite_memory((size_t)bytes);
    char *mine = in_place && suite_rank == root ? all + (size_t)bytes * (size_t)root : own;

    call++;
    suite_fill(mine, (size_t)bytes, seed_of(suite_rank, call));
    MPI_Gather(mine == own ? own : MPI_IN_PLACE, bytes, MPI_BYTE, suite_rank == root ? all : NULL, bytes,
               MPI_BYTE, root, MPI_COMM_WORLD);
    EQUAL(suite_rank == root ? wrong_blocks(all, bytes, call) : 0, 0);
    EQUAL(suite_wrong(mine, (size_t)bytes, seed_of(suite_rank, call)), 0);
    free(all);
    free(own);
}

static void gathers(void)
{
    for (int l = 0; l < LENGTHS; l++) {
        for (int root = 0; root < suite_ranks; root += step()) {
            gather(lengths[l], root, 0);
            gather(lengths[l], root, 1);
        }
    }
}

/* Senders leave gaps, or not; the root keeps what it gets with gaps, which stay as they are. */
static void of_types_that_differ(int count)
{
    int *all = suite_memory(8 * (size_t)count * (size_t)suite_ranks), *in = suite_memory(8 * (size_t)count);
    int gaps = suite_rank % 2, root = suite_ranks - 1;
    MPI_Datatype apart;
    long wrong = 0;

    MPI_Type_create_resized(MPI_INT, 0, 8, &apart);
    MPI_Type_commit(&apart);
    for (int i = 0; i < count; i++)
        in[gaps ? 2 * i : i] = suite_rank * 1000 + i;
    memset(all, -1, 8 * (size_t)count * (size_t)suite_ranks);
    MPI_Gather(in, count, gaps ? apart : MPI_INT, all, count, apart, root, MPI_COMM_WORLD);
    for (int i = 0; i < count * suite_ranks && suite_rank == root; i++)
        wrong += all[2 * i] != i / count * 1000 + i % count || all[2 * i + 1] != -1;
    EQUAL(wrong, 0);
    MPI_Type_free(&apart);
    free(all);
    free(in);
}

static void gathers_of_types(void)
{
    of_types_that_differ(3);
    of_types_that_differ(64);
    of_types_that_differ(900);
    of_types_that_differ(MOST / 4);
}

/* Buffers that are none: the types have the addresses. */
static void gathers_of_addresses(void)
{
    static const int counts[] = {10, 800, 5000};

    for (int c = 0; c < 3; c++) {
        int count = counts[c], *in = suite_memory(4 * (size_t)count), root = 0;
        int *all = suite_memory(4 * (size_t)count * (size_t)suite_ranks);
        MPI_Aint address;
        MPI_Datatype there;
        long wrong = 0;

        MPI_Get_address(in, &address);
        MPI_Type_create_hindexed(1, &count, &address, MPI_INT, &there);
        MPI_Type_commit(&there);
        for (int i = 0; i < count; i++)
            in[i] = suite_rank + i;
        MPI_Gather(MPI_BOTTOM, 1, there, all, count, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < count * suite_ranks && suite_rank == root; i++)
            wrong += all[i] != i / count + i % count;
        EQUAL(wrong, 0);
        MPI_Type_free(&there);
        free(all);
        free(in);
    }
}

/* ---- to all -------------------------------------------------------------------------------------------- */

static void allgather(int bytes, int in_place)
{
    static int call; /* another one's bytes must not do */
    char *all = suite_memory((size_t)bytes * (size_t)suite_ranks), *own = suite_memory((size_t)bytes);
    char *mine = in_place ? all + (size_t)bytes * (size_t)suite_rank : own;

    call++;
    suite_fill(mine, (size_t)bytes, seed_of(suite_rank, call));
    MPI_Allgather(in_place ? MPI_IN_PLACE : own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
    EQUAL(wrong_blocks(all, bytes, call), 0);
    free(all);
    free(own);
}

static void allgathers(void)
{
    static const int sizes[] = {1, 2047, 2048, 3001, 65535, 65536, 131072, 131073, 300000, 1000001};

    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
        allgather(sizes[s], 0);
        allgather(sizes[s], 1);
    }
}

static void allgathers_of_types(void)
{
    int count = 90000, *in = suite_memory(8 * (size_t)count), gaps = suite_rank % 2;
    int *all = suite_memory(8 * (size_t)count * (size_t)suite_ranks);
    MPI_Datatype apart;
    long wrong = 0;

    MPI_Type_create_resized(MPI_INT, 0, 8, &apart);
    MPI_Type_commit(&apart);
    for (int i = 0; i < count; i++)
        in[gaps ? i : 2 * i] = suite_rank * 1000 + i;
    MPI_Allgather(in, count, gaps ? MPI_INT : apart, all, count, gaps ? apart : MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < count * suite_ranks; i++)
        wrong += all[gaps ? 2 * i : i] != i / count * 1000 + i % count;
    for (int i = 0; i < 2 * count; i++)
        all[2 * count * suite_rank + i] = suite_rank * 1000 + i;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, apart, MPI_COMM_WORLD);
    for (int i = 0; i < count * suite_ranks; i++)
        wrong += all[2 * i] != i / count * 1000 + 2 * (i % count);
    EQUAL(wrong, 0);
    MPI_Type_free(&apart);
    free(all);
    free(in);
}

/* Without gaps, but the second half of an element is sent before the first: of a few bytes, of two halves of 256, of
 * more than is looked at. */
static void allgathers_of_halves(void)
{
    static const int widths[] = {8, 128, 2000};

    for (int w = 0; w < 3; w++) {
        int half = widths[w] / 2, blocks[] = {half, half}, places[] = {half, 0};
        int elements = 30000 / widths[w] + 1, count = elements * widths[w];
        int *in = suite_memory(4 * (size_t)count),
            *all = suite_memory(4 * (size_t)count * (size_t)suite_ranks);
        MPI_Datatype halves;
        long wrong = 0;

        MPI_Type_indexed(2, blocks, places, MPI_INT, &halves);
        MPI_Type_commit(&halves);
        for (int i = 0; i < count; i++)
            in[i] = suite_rank * 100000 + i;
        MPI_Allgather(in, elements, halves, all, count, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < count * suite_ranks; i++) {
            int at = i % widths[w];

            wrong += all[i] != i / count * 100000 + i % count - at + (at + half) % widths[w];
        }
        EQUAL(wrong, 0);
        MPI_Type_free(&halves);
        free(all);
        free(in);
    }
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

static long wrong_sums(const double *out, int count, int call)
{
    long wrong = 0;

    for (int i = 0; i < count; i++)
        wrong += out[i] != suite_ranks * (call + i) + suite_ranks * (suite_ranks - 1) / 2;
    return wrong;
}

static void reduce(int count, int root, int in_place)
{
    double *in = suite_memory(8 * (size_t)count), *out = suite_memory(8 * (size_t)count);
    int is_root = suite_rank == root;
    double *mine = is_root && in_place ? out : in;

    for (int i = 0; i < count; i++)
        mine[i] = suite_rank + root + i;
    MPI_Reduce(mine == in ? in : MPI_IN_PLACE, is_root ? out : NULL, count, MPI_DOUBLE, MPI_SUM, root,
               MPI_COMM_WORLD);
    EQUAL(is_root ? wrong_sums(out, count, root) : 0, 0);
    free(in);
    free(out);
}

static void reductions(void)
{
    static const int counts[] = {1, 32, 33, 255, 256, 257, 1000, 4095, 4096};

    for (int c = 0; c < (int)(sizeof counts / sizeof *counts); c++) {
        for (int root = 0; root < suite_ranks; root += step()) {
            reduce(counts[c], root, 0);
            reduce(counts[c], root, 1);
        }
    }
}

/* The same sum of floats that no two orders of adding have in common, bit for bit, however late ranks are. */
static void the_same_each_time(void)
{
    int count = 700, root = suite_ranks / 2;
    float *in = suite_memory(4 * (size_t)count), *first = suite_memory(4 * (size_t)count),
          *out = suite_memory(4 * (size_t)count);
    long wrong = 0;

    for (int i = 0; i < count; i++)
        in[i] = 1.0f / (float)(suite_rank * 3 + i + 1);
    for (int round = 0; round < 40; round++) {
        if (round % suite_ranks == suite_rank) {
            double until = MPI_Wtime() + 0.001;

            while (MPI_Wtime() < until)
                ;
        }
        MPI_Reduce(in, round ? out : first, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
        if (round && suite_rank == root)
            wrong += memcmp(out, first, 4 * (size_t)count) != 0;
    }
    EQUAL(wrong, 0);
    free(in);
    free(first);
    free(out);
}

/* ---- in a row ------------------------------------------------------------------------------------------ */

/* Nobody waits for anybody between calls of different roots, lengths and kinds; what is sent is written anew. */
static void in_a_row(void)
{
    static const int sizes[] = {16, 4096, 200, 20000, 256, 2048};
    char *own = suite_memory(20000), *all = suite_memory(20000 * (size_t)suite_ranks);
    long wrong = 0;

    for (int i = 0; i < 600; i++) {
        int root = i / 7 * 3 % suite_ranks, bytes = sizes[i % 6];
        double in[300], out[300];

        suite_fill(own, (size_t)bytes, seed_of(suite_rank, i));
        MPI_Gather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        if (suite_rank == root)
            wrong += wrong_blocks(all, bytes, i);
        for (int k = 0; k < 300; k++)
            in[k] = suite_rank + i + k;
        MPI_Reduce(in, out, i % 2 ? 300 : 20, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
        if (suite_rank == root)
            wrong += wrong_sums(out, i % 2 ? 300 : 20, i);
    }
    EQUAL(wrong, 0);
    free(own);
    free(all);
}

const struct suite_case suite_rooted[] = {
    {"rooted: gathers of many lengths and roots, in place and not", gathers},
    {"rooted: gathers of types that differ from rank to rank", gathers_of_types},
    {"rooted: gathers of types that have the addresses", gathers_of_addresses},
    {"rooted: gathers to all ranks, in place and not", allgathers},
    {"rooted: gathers to all ranks of types that differ", allgathers_of_types},
    {"rooted: gathers to all ranks of types without gaps, sent in another order", allgathers_of_halves},
    {"rooted: reductions of some KiB", reductions},
    {"rooted: a sum that depends on the order, and is the same each time", the_same_each_time},
    {"rooted: gathers and reductions in a row", in_a_row},
    {NULL, NULL},
};
