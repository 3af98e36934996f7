/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long reductions and broadcasts: around the sizes of parts, of all roots, in place, of types and operations with and
 * without a loop of their own, on communicators that come and go, and beside messages of the program's.
 */
#include "tests/hosts/mpi/suite.h"

#include <stdint.h>

#define PART 65536

/* Elements of 4 and 8 bytes: less than what goes in parts, one part and its neighbours, an odd number of parts. */
static const int lengths[] = {PART / 8 - 1, PART / 8, PART / 4, PART / 4 + 1, 5 * PART / 4 + 3};

#define LENGTHS (int)(sizeof lengths / sizeof *lengths)
#define MOST    (5 * PART / 4 + 3)

/* What rank r gives as element i: small, so that sums and products of floats are exact. */
static int given(int rank, int i)
{
    return (rank * 7 + i) % 5 + 1;
}

static double folded(MPI_Op op, int i)
{
    double all = given(0, i);

    for (int r = 1; r < suite_ranks; r++) {
        double one = given(r, i);

        all = op == MPI_SUM    ? all + one
              : op == MPI_PROD ? all * one
              : op == MPI_MIN  ? (one < all ? one : all)
                               : (one > all ? one : all);
    }
    return all;
}

#define OVER(name, type, datatype)                                                                           \
    static void fill_##name(type *in, int count)                                                             \
    {                                                                                                        \
        for (int i = 0; i < count; i++)                                                                      \
            in[i] = (type)given(suite_rank, i);                                                              \
    }                                                                                                        \
                                                                                                             \
    static long wrong_##name(const type *out, MPI_Op op, int count)                                          \
    {                                                                                                        \
        long wrong = 0;                                                                                      \
                                                                                                             \
        for (int i = 0; i < count; i++)                                                                      \
            wrong += out[i] != (type)folded(op, i);                                                          \
        return wrong;                                                                                        \
    }                                                                                                        \
                                                                                                             \
    static void reduce_##name(MPI_Op op, int count, int root)                                                \
    {                                                                                                        \
        type *in = suite_memory((size_t)count * sizeof *in),                                                 \
             *out = suite_memory((size_t)count * sizeof *in);                                                \
                                                                                                             \
        fill_##name(in, count);                                                                              \
        MPI_Reduce(in, suite_rank == root ? out : NULL, count, datatype, op, root, MPI_COMM_WORLD);          \
        EQUAL(suite_rank == root ? wrong_##name(out, op, count) : 0, 0);                                     \
        MPI_Allreduce(in, out, count, datatype, op, MPI_COMM_WORLD);                                         \
        EQUAL(wrong_##name(out, op, count), 0);                                                              \
        fill_##name(out, count);                                                                             \
        EQUAL(memcmp(in, out, (size_t)count * sizeof *in), 0);                                               \
        MPI_Reduce(suite_rank == root ? MPI_IN_PLACE : in, suite_rank == root ? out : NULL, count, datatype, \
                   op, root, MPI_COMM_WORLD);                                                                \
        EQUAL(suite_rank == root ? wrong_##name(out, op, count) : 0, 0);                                     \
        MPI_Allreduce(MPI_IN_PLACE, in, count, datatype, op, MPI_COMM_WORLD);                                \
        EQUAL(wrong_##name(in, op, count), 0);                                                               \
        free(in);                                                                                            \
        free(out);                                                                                           \
    }

OVER(float, float, MPI_FLOAT)
OVER(double, double, MPI_DOUBLE)
OVER(int, int, MPI_INT)
OVER(long, long, MPI_LONG)
OVER(long_long, long long, MPI_LONG_LONG)
OVER(unsigned, unsigned, MPI_UNSIGNED)
OVER(long_double, long double, MPI_LONG_DOUBLE)
OVER(fixed, int64_t, MPI_INT64_T)
OVER(small, short, MPI_SHORT)

static void lengths_and_roots(void)
{
    for (int l = 0; l < LENGTHS; l++)
        for (int root = 0; root<suite_ranks; root += suite_ranks> 4 ? 5 : 1)
            reduce_float(MPI_SUM, lengths[l], root);
}

static void types_and_operations(void)
{
    static const int count = PART / 4 + 1;
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};

    for (int o = 0; o < 4; o++) {
        if (ops[o] != MPI_PROD) { /* of 16 ranks it does not fit a float */
            reduce_float(ops[o], count, 1 % suite_ranks);
            reduce_int(ops[o], count, 0);
            reduce_long(ops[o], count, suite_ranks - 1);
            reduce_unsigned(ops[o], count, 0);
            reduce_fixed(ops[o], count, 0);
            reduce_small(ops[o], 2 * count, 0);
        }
        reduce_double(ops[o], count, 0);
        reduce_long_double(ops[o], count, 0);
        reduce_long_long(ops[o], count, 0);
    }
}

/* ---- what MPI itself adds ------------------------------------------------------------------------------ */

static void add_pairs(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const int *from = in;
    int *to = inout;

    (void)type;
    for (int i = 0; i < 2 * *length; i++)
        to[i] += from[i];
}

/* A type and an operation of the program's own. */
static void of_ones_own(void)
{
    int pairs = PART / 4, *in = suite_memory(8 * (size_t)pairs), *out = suite_memory(8 * (size_t)pairs);
    MPI_Datatype pair;
    long wrong = 0;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add_pairs, 1, &op);
    fill_int(in, 2 * pairs);
    MPI_Allreduce(in, out, pairs, pair, op, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * pairs; i++)
        wrong += out[i] != (int)folded(MPI_SUM, i);
    EQUAL(wrong, 0);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    free(in);
    free(out);
}

static void where_the_least_is(void)
{
    struct {
        int value, rank;
    } * in, *out;
    int count = PART / 4;
    long wrong = 0;

    in = suite_memory((size_t)count * sizeof *in);
    out = suite_memory((size_t)count * sizeof *in);
    for (int i = 0; i < count; i++) {
        in[i].value = (suite_rank + i) % suite_ranks;
        in[i].rank = suite_rank;
    }
    MPI_Allreduce(in, out, count, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        wrong += out[i].value != 0 || out[i].rank != (suite_ranks - i % suite_ranks) % suite_ranks;
    EQUAL(wrong, 0);
    free(in);
    free(out);
}

/* ---- broadcasts ---------------------------------------------------------------------------------------- */

static void broadcasts(void)
{
    static const size_t sizes[] = {1572863, 1572864, 2097152 + 5, 5000001};

    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int root = 0; root<suite_ranks; root += suite_ranks> 4 ? 7 : 1) {
            unsigned char *bytes = suite_memory(sizes[s]);

            if (suite_rank == root)
                suite_fill(bytes, sizes[s], s + (unsigned)root);
            MPI_Bcast(bytes, (int)sizes[s], MPI_BYTE, root, MPI_COMM_WORLD);
            EQUAL(suite_wrong(bytes, sizes[s], s + (unsigned)root), 0);
            free(bytes);
        }
}

/* The same bytes as every other integer at some ranks, and close at others. */
static void of_types_that_differ(void)
{
    int count = 500000, step = suite_rank % 2 ? 2 : 1, root = 1 % suite_ranks;
    int *in = suite_memory(8 * (size_t)count);
    MPI_Datatype vector;
    long wrong = 0;

    MPI_Type_vector(count, 1, step, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < 2 * count; i++)
        in[i] = suite_rank == root && i % step == 0 ? i / step : -1;
    if (step == 2)
        MPI_Bcast(in, 1, vector, root, MPI_COMM_WORLD);
    else
        MPI_Bcast(in, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < step * count; i++)
        wrong += in[i] != (i % step == 0 ? i / step : -1);
    EQUAL(wrong, 0);
    MPI_Type_free(&vector);
    free(in);
}

/* Those that the root sends lie close, but others put them in another order. */
static void of_types_in_another_order(void)
{
    int pairs = 250000, *in = suite_memory(8 * (size_t)pairs), root = suite_ranks - 1, lengths[] = {1, 1},
        places[] = {1, 0};
    MPI_Datatype swapped;
    long wrong = 0;

    MPI_Type_indexed(2, lengths, places, MPI_INT, &swapped);
    MPI_Type_commit(&swapped);
    for (int i = 0; i < 2 * pairs; i++)
        in[i] = suite_rank == root ? i : -1;
    if (suite_rank == root)
        MPI_Bcast(in, 2 * pairs, MPI_INT, root, MPI_COMM_WORLD);
    else
        MPI_Bcast(in, pairs, swapped, root, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * pairs; i++)
        wrong += in[i] != (suite_rank == root ? i : i ^ 1);
    EQUAL(wrong, 0);
    MPI_Type_free(&swapped);
    free(in);
}

/* A buffer that is none: the type has the addresses. */
static void of_addresses(void)
{
    int count = 500000, *in = suite_memory(4 * (size_t)count);
    MPI_Datatype there;
    MPI_Aint address;
    long wrong = 0;

    MPI_Get_address(in, &address);
    MPI_Type_create_hindexed(1, &count, &address, MPI_INT, &there);
    MPI_Type_commit(&there);
    for (int i = 0; i < count; i++)
        in[i] = suite_rank == 0 ? i : -1;
    if (suite_rank % 2 == 0)
        MPI_Bcast(MPI_BOTTOM, 1, there, 0, MPI_COMM_WORLD);
    else
        MPI_Bcast(in, count, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        wrong += in[i] != i;
    EQUAL(wrong, 0);
    MPI_Type_free(&there);
    free(in);
}

/* What MPI does not allow is an error of the communicator's, whoever answers. Of these MPIs only Intel's looks at all
 * arguments, and none of the others ends them all so. */
static void wrong_calls(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    static double in[PART], out[PART];
    MPI_Comm comm;
    int length;

    MPI_Get_library_version(version, &length);
    if (!strstr(version, "Intel"))
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 4; i++)
        MPI_Allreduce(in, out, PART, MPI_DOUBLE, MPI_SUM, comm);
    EQUAL(MPI_Allreduce(in, out, PART, MPI_DOUBLE, MPI_BAND, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Allreduce(in, out, PART, MPI_DATATYPE_NULL, MPI_SUM, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Allreduce(in, out, PART, MPI_DOUBLE, MPI_OP_NULL, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Reduce(in, out, PART, MPI_DOUBLE, MPI_SUM, suite_ranks, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Allreduce(in, in, PART, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Allreduce(in, out, -1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Bcast(in, PART * 8, MPI_DATATYPE_NULL, 0, comm) != MPI_SUCCESS, 1);
    EQUAL(MPI_Allreduce(in, out, PART, MPI_DOUBLE, MPI_SUM, comm), MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

/* ---- beside other things ------------------------------------------------------------------------------- */

/* Nobody waits for anybody between calls of different roots. */
static void in_a_row(void)
{
    int count = PART / 2;
    float *in = suite_memory(4 * (size_t)count), *out = suite_memory(4 * (size_t)count);

    fill_float(in, count);
    for (int i = 0; i < 60; i++) {
        int root = i * 5 % suite_ranks;

        MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
        EQUAL(suite_rank == root ? wrong_float(out, MPI_SUM, count) : 0, 0);
        if (i % 7 == 0) {
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
            EQUAL(wrong_float(out, MPI_MAX, count), 0);
        }
    }
    free(in);
    free(out);
}

/* More of them than memory would hold if one stayed behind each time. */
static void communicators(void)
{
    int count = PART / 4, *in = suite_memory(4 * (size_t)count), *out = suite_memory(4 * (size_t)count);

    for (int round = 0; round < 30; round++) {
        MPI_Comm part;
        long wrong = 0;
        int ranks, root;

        MPI_Comm_split(MPI_COMM_WORLD, round % 3 ? suite_rank % 2 : 0, -suite_rank, &part);
        MPI_Comm_size(part, &ranks);
        root = ranks - 1;
        for (int i = 0; i < count; i++)
            in[i] = i + round;
        MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, part);
        for (int i = 0; i < count; i++)
            wrong += out[i] != ranks * (i + round);
        MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, root, part);
        EQUAL(wrong, 0);
        MPI_Comm_free(&part);
    }
    free(in);
    free(out);
}

/* A send that needs its receiver in MPI, where that waits in the reduction for the sender. */
static void beside_messages(void)
{
    size_t bytes = 4000000;
    int count = PART;
    unsigned char *to = suite_memory(bytes), *from = suite_memory(bytes);
    float *in = suite_memory(4 * (size_t)count), *out = suite_memory(4 * (size_t)count);
    MPI_Request request;

    fill_float(in, count);
    for (int sender = 0; sender < suite_ranks; sender++) {
        int receiver = (sender + 1) % suite_ranks;

        if (suite_rank == receiver)
            MPI_Irecv(from, (int)bytes, MPI_BYTE, sender, 5, MPI_COMM_WORLD, &request);
        if (suite_rank == sender) {
            suite_fill(to, bytes, (unsigned)sender);
            MPI_Ssend(to, (int)bytes, MPI_BYTE, receiver, 5, MPI_COMM_WORLD);
        }
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        EQUAL(wrong_float(out, MPI_SUM, count), 0);
        if (suite_rank == receiver) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            EQUAL(suite_wrong(from, bytes, (unsigned)sender), 0);
        }
    }
    free(to);
    free(from);
    free(in);
    free(out);
}

/* An MPI's shared memory, used in parts: what a part was used for before must not come out of it. nigh answers no
 * reductions of long doubles. */
static void in_turns(void)
{
    static const int bytes[] = {PART, 192 * 1024 + 16, 256 * 1024 + 16, 512 * 1024};
    const int most = 512 * 1024;
    long double *in = suite_memory((size_t)most), *out = suite_memory((size_t)most);
    long *sent = suite_memory((size_t)most), wrong = 0;

    for (int turn = 0; turn < 16; turn++) {
        int count = bytes[turn / 4] / (int)sizeof *in, longs = bytes[turn / 4] / (int)sizeof *sent;

        for (int i = 0; i < count; i++)
            in[i] = turn * 1000000L + suite_rank + i;
        for (int i = 0; i < longs; i++)
            sent[i] = suite_rank == 0 ? turn + i : -1;
        MPI_Reduce(in, out, count, MPI_LONG_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        for (int i = 0; suite_rank == 0 && i < count; i++)
            wrong += out[i] != turn * 1000000L + suite_ranks - 1 + i;
        MPI_Bcast(sent, longs, MPI_LONG, 0, MPI_COMM_WORLD);
        for (int i = 0; i < longs; i++)
            wrong += sent[i] != turn + i;
        MPI_Allreduce(in, out, count, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            wrong += out[i] != turn * 1000000L + suite_ranks - 1 + i;
    }
    EQUAL(wrong, 0);
    free(in);
    free(out);
    free(sent);
}

const struct suite_case suite_long[] = {
    {"long: reductions of lengths around a part's, of several roots", lengths_and_roots},
    {"long: reductions of types and operations", types_and_operations},
    {"long: reductions of a type and an operation of one's own", of_ones_own},
    {"long: where the least is", where_the_least_is},
    {"long: broadcasts of several roots", broadcasts},
    {"long: broadcasts of types that differ from rank to rank", of_types_that_differ},
    {"long: broadcasts of types that put the bytes in another order", of_types_in_another_order},
    {"long: broadcasts of types that have the addresses", of_addresses},
    {"long: calls that MPI does not allow", wrong_calls},
    {"long: reductions in a row", in_a_row},
    {"long: reductions and broadcasts in turns", in_turns},
    {"long: reductions on communicators that come and go", communicators},
    {"long: reductions beside a message that needs its receiver", beside_messages},
    {NULL, NULL},
};
