/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective on every number of ranks against what one process computes alone: short and long,
 * every root, in place and not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a rank: none, few, what just travels with the agreement and what just does not, several pieces. */
static const uint64_t counts[] = {0, 1, 3, 7, 100, 511, 1025, 4099, 70001};
enum { COUNTS = sizeof(counts) / sizeof(*counts) };

static const int group_sizes[] = {1, 2, 3, 4, 5, 8};

static void run_all(ranks_body *body)
{
    for (size_t i = 0; i < sizeof(group_sizes) / sizeof(*group_sizes); i++)
        ranks_run(group_sizes[i], body, NULL);
}

/* ---- moving ---- */

/* What rank `from` has for rank `to`. */
static void fill_part(void *at, uint64_t bytes, int from, int to)
{
    ranks_fill(at, bytes, (uint64_t)(from * 1000 + to + 1));
}

static bool is_part(const void *at, uint64_t bytes, int from, int to)
{
    return ranks_is_filled(at, bytes, (uint64_t)(from * 1000 + to + 1));
}

/* `parts` of `bytes`, for the ranks in their order, with guards that free_guarded() looks at. */
enum { GUARD = 64 };

static uint8_t *guarded(uint64_t bytes)
{
    uint8_t *memory = malloc(bytes + 2 * GUARD);

    CHECK(memory != NULL);
    memset(memory, 0xc3, bytes + 2 * GUARD);
    return memory + GUARD;
}

static void free_guarded(uint8_t *memory, uint64_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        CHECK(memory[i - GUARD] == 0xc3 && memory[bytes + (unsigned)i] == 0xc3);
    free(memory - GUARD);
}

static bool untouched(const uint8_t *memory, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (memory[i] != 0xc3)
            return false;
    return true;
}

static void bcast(int rank, int size)
{
    for (int c = 0; c < COUNTS; c++)
        for (int root = 0; root < size; root++) {
            uint64_t bytes = counts[c] * 8;
            uint8_t *buffer = guarded(bytes);

            if (rank == root)
                fill_part(buffer, bytes, root, 0);
            OK(nigh_bcast(buffer, counts[c], NIGH_I64, root, nigh_world()));
            CHECK(is_part(buffer, bytes, root, 0));
            free_guarded(buffer, bytes);
        }
}

static void test_bcast(void **state)
{
    (void)state;
    run_all(bcast);
}

/* Many segments, down a chain and down a tree. */
static void bcast_long(int rank, int size)
{
    static const uint64_t sizes[] = {16385, 262144, 262145, 1000001, 5000003};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *buffer = guarded(sizes[i]);
        int root = (int)i % size;

        if (rank == root)
            fill_part(buffer, sizes[i], root, 0);
        OK(nigh_bcast(buffer, sizes[i], NIGH_U8, root, nigh_world()));
        CHECK(is_part(buffer, sizes[i], root, 0));
        free_guarded(buffer, sizes[i]);
    }
}

static void test_bcast_long(void **state)
{
    (void)state;
    run_all(bcast_long);
}

static void scatter_one(int rank, int size, uint64_t bytes, int root, bool in_place)
{
    uint64_t total = (unsigned)size * bytes;
    uint8_t *all = guarded(total), *mine = guarded(bytes);

    for (int to = 0; rank == root && to < size; to++)
        fill_part(all + (unsigned)to * bytes, bytes, root, to);
    if (rank == root && in_place)
        OK(nigh_scatter(NULL, all, bytes, NIGH_U8, root, nigh_world()));
    else
        OK(nigh_scatter(rank == root ? all : NULL, mine, bytes, NIGH_U8, root, nigh_world()));
    CHECK(rank == root && in_place ? untouched(mine, bytes) : is_part(mine, bytes, root, rank));
    for (int to = 0; rank == root && to < size; to++)
        CHECK(is_part(all + (unsigned)to * bytes, bytes, root, to));
    free_guarded(all, total);
    free_guarded(mine, bytes);
}

static void scatter(int rank, int size)
{
    for (int c = 0; c < COUNTS; c++)
        for (int root = 0; root < size; root++)
            for (int in_place = 0; in_place < 2; in_place++)
                scatter_one(rank, size, counts[c], root, in_place);
}

static void test_scatter(void **state)
{
    (void)state;
    run_all(scatter);
}

static void gather_one(int rank, int size, uint64_t bytes, int root, bool in_place)
{
    uint64_t total = (unsigned)size * bytes;
    uint8_t *all = guarded(total), *mine = guarded(bytes);

    fill_part(mine, bytes, rank, 0);
    if (rank == root && in_place)
        memcpy(all + (unsigned)rank * bytes, mine, bytes);
    OK(nigh_gather(rank == root && in_place ? NULL : mine, rank == root ? all : NULL, bytes, NIGH_I8, root,
                   nigh_world()));
    for (int from = 0; rank == root && from < size; from++)
        CHECK(is_part(all + (unsigned)from * bytes, bytes, from, 0));
    CHECK(rank == root || untouched(all, total));
    CHECK(is_part(mine, bytes, rank, 0));
    free_guarded(all, total);
    free_guarded(mine, bytes);
}

static void gather(int rank, int size)
{
    for (int c = 0; c < COUNTS; c++)
        for (int root = 0; root < size; root++)
            for (int in_place = 0; in_place < 2; in_place++)
                gather_one(rank, size, counts[c], root, in_place);
}

static void test_gather(void **state)
{
    (void)state;
    run_all(gather);
}

static void allgather_one(int rank, int size, uint64_t count, bool in_place)
{
    uint64_t bytes = count * 2, total = (unsigned)size * bytes;
    uint8_t *all = guarded(total), *mine = guarded(bytes);

    fill_part(mine, bytes, rank, 0);
    if (in_place)
        memcpy(all + (unsigned)rank * bytes, mine, bytes);
    OK(nigh_allgather(in_place ? NULL : mine, all, count, NIGH_U16, nigh_world()));
    for (int from = 0; from < size; from++)
        CHECK(is_part(all + (unsigned)from * bytes, bytes, from, 0));
    free_guarded(all, total);
    free_guarded(mine, bytes);
}

static void allgather(int rank, int size)
{
    for (int c = 0; c < COUNTS; c++)
        for (int in_place = 0; in_place < 2; in_place++)
            allgather_one(rank, size, counts[c], in_place);
}

static void test_allgather(void **state)
{
    (void)state;
    run_all(allgather);
}

static void alltoall_one(int rank, int size, uint64_t count, bool in_place)
{
    uint64_t bytes = count * 4, total = (unsigned)size * bytes;
    uint8_t *send = guarded(total), *recv = guarded(total);

    for (int to = 0; to < size; to++)
        fill_part((in_place ? recv : send) + (unsigned)to * bytes, bytes, rank, to);
    OK(nigh_alltoall(in_place ? NULL : send, recv, count, NIGH_F32, nigh_world()));
    for (int from = 0; from < size; from++)
        CHECK(is_part(recv + (unsigned)from * bytes, bytes, from, rank));
    free_guarded(send, total);
    free_guarded(recv, total);
}

static void alltoall(int rank, int size)
{
    for (int c = 0; c < COUNTS; c++)
        for (int in_place = 0; in_place < 2; in_place++)
            alltoall_one(rank, size, counts[c], in_place);
}

static void test_alltoall(void **state)
{
    (void)state;
    run_all(alltoall);
}

/* Nobody leaves before the last has come. */
static void barrier(int rank, int size)
{
    double came, left;

    OK(nigh_barrier(nigh_self()));
    for (int last = 0; last < size; last++) {
        for (int i = 0; i < 100; i++)
            OK(nigh_barrier(nigh_world()));
        if (rank == last)
            ranks_nap(10);
        came = nigh_wtime();
        OK(nigh_barrier(nigh_world()));
        left = nigh_wtime();
        OK(nigh_bcast(&came, 1, NIGH_F64, last, nigh_world()));
        CHECK(left >= came);
    }
}

static void test_barrier(void **state)
{
    (void)state;
    run_all(barrier);
}

/* On parts of the ranks, two communicators at once, in an order of ranks that is not the world's. */
static void parts(int rank, int size)
{
    struct nigh_comm *half;
    int members, me, sum, value = rank, expected = 0;
    int *list = calloc((size_t)size, sizeof(*list));

    OK(nigh_comm_split(nigh_world(), rank % 2, -rank, &half));
    OK(nigh_comm_size(half, &members));
    OK(nigh_comm_rank(half, &me));
    for (int other = rank % 2; other < size; other += 2)
        expected += other;
    for (int i = 0; i < 50; i++) {
        OK(nigh_allreduce(&value, &sum, 1, NIGH_I32, NIGH_SUM, half));
        CHECK_INT(sum, expected);
    }
    OK(nigh_allgather(&value, list, 1, NIGH_I32, half));
    for (int i = 1; i < members; i++)
        CHECK(list[i] < list[i - 1]);
    CHECK_INT(list[me], rank);
    free(list);
    OK(nigh_comm_free(&half));
}

static void test_parts(void **state)
{
    (void)state;
    run_all(parts);
}

/* Ranks that come at different times, again and again: nothing of one collective gets into another. */
static void ragged(int rank, int size)
{
    for (int i = 0; i < 60; i++) {
        uint64_t count = i % 3 == 0 ? 5000 : 3, total = 0;
        int64_t *vector = calloc(count, sizeof(*vector)), one = rank + i;

        if ((i + rank) % 7 == 0)
            ranks_nap(1);
        vector[count - 1] = rank == i % size ? i : -1;
        OK(nigh_bcast(vector, count, NIGH_I64, i % size, nigh_world()));
        CHECK_INT(vector[count - 1], i);
        OK(nigh_reduce(&one, vector, 1, NIGH_I64, NIGH_SUM, i % size, nigh_world()));
        for (int other = 0; other < size; other++)
            total += (uint64_t)(other + i);
        if (rank == i % size)
            CHECK_INT(vector[0], total);
        free(vector);
    }
}

static void test_ragged(void **state)
{
    (void)state;
    run_all(ragged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),  cmocka_unit_test(test_bcast),  cmocka_unit_test(test_bcast_long),
        cmocka_unit_test(test_scatter),  cmocka_unit_test(test_gather), cmocka_unit_test(test_allgather),
        cmocka_unit_test(test_alltoall), cmocka_unit_test(test_parts),  cmocka_unit_test(test_ragged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
