/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations, from one element to more than any MPI keeps in one piece, blocking and not. */
#include "tests/hosts/mpi/suite.h"
#include <stdlib.h>

#define MOST 60000

static int in[MOST], out[MOST];
static const int counts[] = {1, 100, 3000, MOST};

#define COUNTS (suite_ranks > 4 ? 3 : 4)

static void barrier(void)
{
    static int passed;
    int least;

    for (int i = 0; i < 50; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        passed++;
    }
    MPI_Allreduce(&passed, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    EQUAL(least, passed);
}

static void broadcast(void)
{
    for (int root = 0; root < suite_ranks; root += suite_ranks - 1)
        for (int c = 0; c < COUNTS; c++) {
            for (int i = 0; i < counts[c]; i++)
                in[i] = suite_rank == root ? root + i : -1;
            MPI_Bcast(in, counts[c], MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < counts[c]; i++)
                EQUAL(in[i], root + i);
        }
}

static void reduce(void)
{
    int ranks = suite_ranks;

    for (int c = 0; c < COUNTS; c++) {
        for (int i = 0; i < counts[c]; i++)
            in[i] = suite_rank * i;
        MPI_Allreduce(in, out, counts[c], MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < counts[c]; i++)
            EQUAL(out[i], ranks * (ranks - 1) / 2 * i);
        MPI_Reduce(in, out, counts[c], MPI_INT, MPI_MAX, ranks - 1, MPI_COMM_WORLD);
        for (int i = 0; i < counts[c] && suite_rank == ranks - 1; i++)
            EQUAL(out[i], (ranks - 1) * i);
        MPI_Allreduce(MPI_IN_PLACE, in, counts[c], MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
        int wanted = 0;
        for (int r = 0; r < ranks; r++)
            wanted ^= r * (counts[c] - 1);
        EQUAL(in[counts[c] - 1], wanted);
    }
}

/* Not commutative: f(x) = ax + b, composed in the order of the ranks. */
static void compose(void *first, void *second, int *length, MPI_Datatype *type)
{
    long *f = first, *g = second;

    (void)type;
    for (int i = 0; i < *length; i++) {
        g[2 * i + 1] = (f[2 * i + 1] * g[2 * i] + g[2 * i + 1]) % 1000003;
        g[2 * i] = f[2 * i] * g[2 * i] % 1000003;
    }
}

/* What ranks 0 to `last` come to, of pair `i`. */
static void composed(int last, int i, long wanted[2])
{
    wanted[0] = 1;
    wanted[1] = 0;
    for (int r = 0; r <= last; r++) {
        wanted[1] = (wanted[1] * (r + 2) + 3 * r + i + 1) % 1000003;
        wanted[0] = wanted[0] * (r + 2) % 1000003;
    }
}

static void check_composed(const long *got, int count, int last)
{
    long wanted[2];

    for (int i = 0; i < count; i++) {
        composed(last, i, wanted);
        EQUAL(got[2 * i], wanted[0]);
        EQUAL(got[2 * i + 1], wanted[1]);
    }
}

static void compose_all(MPI_Datatype pair, MPI_Op op, int count)
{
    long *mine = malloc(2 * sizeof(long) * (size_t)count), *all = malloc(2 * sizeof(long) * (size_t)count);

    for (int i = 0; i < count; i++) {
        mine[2 * i] = suite_rank + 2;
        mine[2 * i + 1] = 3 * suite_rank + i + 1;
    }
    MPI_Allreduce(mine, all, count, pair, op, MPI_COMM_WORLD);
    check_composed(all, count, suite_ranks - 1);
    MPI_Scan(mine, all, count, pair, op, MPI_COMM_WORLD);
    check_composed(all, count, suite_rank);
    for (int root = 0; root < suite_ranks; root += 1 + suite_ranks / 4) {
        MPI_Reduce(mine, all, count, pair, op, root, MPI_COMM_WORLD);
        if (suite_rank == root)
            check_composed(all, count, suite_ranks - 1);
    }
    free(all);
    free(mine);
}

/* Of few and of many bytes: algorithms that an MPI chooses by length must keep the order all the same. */
static void own_operation(void)
{
    static const int pairs[] = {1, 10, 100, 100000};
    MPI_Datatype pair;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &op);
    for (int i = 0; i < 4; i++)
        compose_all(pair, op, pairs[i]);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
}

static void gather(void)
{
    int each = MOST / suite_ranks / 2, lengths[256], places[256], total = 0;

    for (int i = 0; i < each; i++)
        in[i] = suite_rank * each + i;
    MPI_Gather(in, each, MPI_INT, out, each, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < each * suite_ranks && suite_rank == 0; i++)
        EQUAL(out[i], i);
    memset(in, 0, sizeof in);
    MPI_Scatter(out, each, MPI_INT, in, each, MPI_INT, 0, MPI_COMM_WORLD);
    EQUAL(in[each - 1], suite_rank * each + each - 1);
    memset(out, 0, sizeof out);
    MPI_Allgather(in, each, MPI_INT, out, each, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < each * suite_ranks; i++)
        EQUAL(out[i], i);
    for (int r = 0; r < suite_ranks; r++) {
        lengths[r] = r * 7; /* of rank 0 nothing */
        places[r] = total;
        total += lengths[r];
    }
    MPI_Allgatherv(in, lengths[suite_rank], MPI_INT, out, lengths, places, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++)
        for (int i = 0; i < lengths[r]; i++)
            EQUAL(out[places[r] + i], r * each + i);
}

static void everyone(void)
{
    const int pieces[] = {1, 1000};
    int lengths[256], from[256], to[256], got[256];

    for (int k = 0; k < 2; k++) {
        int each = pieces[k];
        for (int r = 0; r < suite_ranks; r++)
            for (int i = 0; i < each; i++)
                in[r * each + i] = suite_rank * 1000 + r + i;
        MPI_Alltoall(in, each, MPI_INT, out, each, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < suite_ranks; r++)
            EQUAL(out[r * each + each - 1], r * 1000 + suite_rank + each - 1);
    }
    for (int r = 0; r < suite_ranks; r++) {
        lengths[r] = suite_rank; /* each sends its rank's number of elements to everybody */
        from[r] = r * suite_ranks;
        got[r] = r;
        to[r] = r * suite_ranks;
        for (int i = 0; i < suite_rank; i++)
            in[from[r] + i] = suite_rank * 100 + r;
    }
    MPI_Alltoallv(in, lengths, from, MPI_INT, out, got, to, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++)
        for (int i = 0; i < r; i++)
            EQUAL(out[to[r] + i], r * 100 + suite_rank);
}

static void scan(void)
{
    int mine = suite_rank + 1, before = 0, upto, shares[256], share = -1;

    MPI_Scan(&mine, &upto, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(upto, (suite_rank + 1) * (suite_rank + 2) / 2);
    MPI_Exscan(&mine, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (suite_rank > 0)
        EQUAL(before, suite_rank * (suite_rank + 1) / 2);
    for (int r = 0; r < suite_ranks; r++)
        shares[r] = suite_rank + r;
    MPI_Reduce_scatter_block(shares, &share, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(share, suite_ranks * (suite_ranks - 1) / 2 + suite_ranks * suite_rank);
}

/* Several at a time, on two communicators, ended in the opposite order. */
static void nonblocking(void)
{
    enum { MANY = 6 };
    static int value[MANY], sum[MANY], wide[MANY][2000];
    MPI_Request requests[2 * MANY];
    MPI_Comm twin;

    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    for (int i = 0; i < MANY; i++) {
        value[i] = suite_rank + i;
        for (int k = 0; k < 2000; k++)
            wide[i][k] = suite_rank == i % suite_ranks ? i + k : -1;
        MPI_Iallreduce(&value[i], &sum[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
        MPI_Ibcast(wide[i], 2000, MPI_INT, i % suite_ranks, twin, &requests[MANY + i]);
    }
    for (int i = 2 * MANY - 1; i >= 0; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++) {
        EQUAL(sum[i], suite_ranks * (suite_ranks - 1) / 2 + suite_ranks * i);
        for (int k = 0; k < 2000; k++)
            EQUAL(wide[i][k], i + k);
    }
    MPI_Request barrier_done;
    MPI_Ibarrier(twin, &barrier_done);
    MPI_Wait(&barrier_done, MPI_STATUS_IGNORE);
    MPI_Comm_free(&twin);
}

/* Longer than what is copied once for all receivers (16 MiB), and than what goes in one part to each. */
static void large(void)
{
    enum { ALL = 20 << 20, EACH = 600000 };
    size_t part = ALL / (size_t)suite_ranks, row = (size_t)suite_ranks * EACH;
    unsigned char *whole = suite_memory(ALL), *mine = suite_memory(row > ALL ? row : ALL);
    unsigned char *theirs = suite_memory(row);

    if (suite_rank == 1)
        suite_fill(whole, ALL, 5);
    MPI_Bcast(whole, ALL, MPI_BYTE, 1, MPI_COMM_WORLD);
    EQUAL(suite_wrong(whole, ALL, 5), 0);
    memset(whole, 0, ALL);
    suite_fill(mine, part, (unsigned)suite_rank);
    MPI_Allgather(mine, (int)part, MPI_BYTE, whole, (int)part, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++) {
        EQUAL(suite_wrong(whole + (size_t)r * part, part, (unsigned)r), 0);
        suite_fill(mine + (size_t)r * EACH, EACH, (unsigned)(suite_rank * 1000 + r));
    }
    MPI_Alltoall(mine, EACH, MPI_BYTE, theirs, EACH, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < suite_ranks; r++)
        EQUAL(suite_wrong(theirs + (size_t)r * EACH, EACH, (unsigned)(r * 1000 + suite_rank)), 0);
    free(theirs);
    free(mine);
    free(whole);
}

const struct suite_case suite_collectives[] = {
    {"barrier", barrier},
    {"broadcast", broadcast},
    {"reduce, allreduce", reduce},
    {"an operation of one's own, not commutative", own_operation},
    {"gather, scatter, allgather", gather},
    {"all to all", everyone},
    {"scan, reduce-scatter", scan},
    {"several non-blocking ones at a time", nonblocking},
    {"large ones", large},
    {0},
};
