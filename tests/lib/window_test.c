/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: every operation on every type, to oneself and to all others, many at once; what is wrong
 * is said with sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int group_sizes[] = {1, 2, 3, 4, 5, 8};

static void run_all(ranks_body *body, const struct ranks_how *how)
{
    for (size_t i = 0; i < sizeof(group_sizes) / sizeof(*group_sizes); i++)
        ranks_run(group_sizes[i], body, how);
}

/* ---- put and get ---- */

/* Each rank writes its part into everybody's memory, and reads what others have written there.
 * `base` may be heap or not. */
static void exchange(struct nigh_win *win, uint8_t *base, uint64_t part, int rank, int size)
{
    uint8_t *mine = malloc(part + 1), *got = malloc(part + 1);

    for (int round = 0; round < 3; round++) {
        ranks_fill(mine, part, (uint64_t)(rank + round));
        for (int to = 0; to < size; to++)
            OK(nigh_put(mine, part, to, (unsigned)rank * part, win));
        OK(nigh_win_fence(win));
        for (int from = 0; from < size; from++)
            CHECK(ranks_is_filled(base + (unsigned)from * part, part, (uint64_t)(from + round)));
        for (int from = 0; from < size; from++) {
            int other = (from + rank) % size;

            memset(got, 0, part);
            OK(nigh_get(got, part, from, (unsigned)other * part, win));
            OK(nigh_win_flush(from, win));
            CHECK(ranks_is_filled(got, part, (uint64_t)(other + round)));
        }
        OK(nigh_win_fence(win));
    }
    free(mine);
    free(got);
}

static const uint64_t parts[] = {1, 7, 64, 1000, 5000, 100001, 1500000};

static void put_get(int rank, int size)
{
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        uint64_t bytes = (unsigned)size * parts[i];
        struct nigh_win *win;
        void *base = NULL;

        if (size > 4 && parts[i] > 200000)
            continue;
        OK(nigh_win_allocate(bytes, nigh_world(), &base, &win));
        CHECK(base != NULL);
        exchange(win, base, parts[i], rank, size);
        OK(nigh_win_free(&win));
        CHECK(win == NULL);
        base = malloc(bytes);
        OK(nigh_win_create(base, bytes, nigh_world(), &win));
        exchange(win, base, parts[i], rank, size);
        OK(nigh_win_free(&win));
        free(base);
    }
}

static void test_put_get(void **state)
{
    (void)state;
    run_all(put_get, NULL);
    ranks_run(3, put_get, &(struct ranks_how){.threads = 1});
    ranks_run(3, put_get, &(struct ranks_how){.progress = 1});
}

/* Windows of different sizes, some empty; of a communicator that the program frees while the window lives. */
static void uneven(int rank, int size)
{
    uint64_t bytes = rank % 2 ? 0 : 64;
    uint8_t buffer[64];
    struct nigh_comm *copy;
    struct nigh_win *win;
    void *base = NULL;

    OK(nigh_comm_dup(nigh_world(), &copy));
    OK(nigh_win_allocate(bytes, copy, &base, &win));
    OK(nigh_comm_free(&copy));
    CHECK((base == NULL) == (bytes == 0));
    memset(buffer, rank, sizeof(buffer));
    for (int to = 0; to < size; to++) {
        OK(nigh_put(NULL, 0, to, 0, win));
        if (to % 2 == 0)
            OK(nigh_put(buffer, 8, to, (unsigned)rank * 8, win));
        else
            CHECK_INT(nigh_put(buffer, 1, to, 0, win), -ERANGE);
    }
    OK(nigh_put(buffer, 64, NIGH_PROC_NULL, 0, win));
    OK(nigh_win_flush(NIGH_PROC_NULL, win));
    OK(nigh_win_fence(win));
    for (int from = 0; bytes && from < size; from++)
        CHECK_INT(((uint8_t *)base)[from * 8 + 7], from);
    OK(nigh_win_free(&win));
}

static void test_uneven(void **state)
{
    (void)state;
    run_all(uneven, NULL);
}

/* ---- atomics ---- */

/* All ranks add to counters of all ranks, with more under way than queues hold. */
static void counters(int rank, int size)
{
    enum { TIMES = 20000 };
    struct nigh_win *win;
    uint64_t *counter, one = (unsigned)rank + 1, sum = 0;
    void *base;

    OK(nigh_win_allocate(4 * sizeof(*counter), nigh_world(), &base, &win));
    counter = base;
    for (int i = 0; i < TIMES; i++)
        OK(nigh_accumulate(&one, 1, NIGH_U64, i % size, (unsigned)(i / size % 4) * 8, NIGH_SUM, win));
    OK(nigh_win_fence(win));
    for (int to = 0; to < size; to++)
        for (int slot = 0; slot < 4; slot++) {
            uint64_t got;

            OK(nigh_get(&got, sizeof(got), to, (unsigned)slot * 8, win));
            OK(nigh_win_flush(NIGH_ANY_SOURCE, win));
            sum += got;
        }
    CHECK_INT(sum, (uint64_t)TIMES * (unsigned)(size * (size + 1) / 2));
    OK(nigh_win_fence(win));
    CHECK(size > 1 || counter[0] == TIMES / 4);
    OK(nigh_win_free(&win));
}

static void test_counters(void **state)
{
    (void)state;
    run_all(counters, NULL);
}

/* A ticket each: fetch and add gives every number once; so does a loop of compare and swap. */
static void tickets(int rank, int size)
{
    enum { EACH = 200 };
    struct nigh_win *win;
    int32_t *base, one = 1, ticket, *taken = calloc((size_t)(EACH * size), sizeof(*taken));
    void *memory;

    OK(nigh_win_allocate(2 * sizeof(int32_t), nigh_world(), &memory, &win));
    base = memory;
    for (int i = 0; i < EACH; i++) {
        OK(nigh_get_accumulate(&one, 1, NIGH_I32, &ticket, size - 1, 0, NIGH_SUM, win));
        OK(nigh_win_flush(size - 1, win));
        CHECK(ticket >= 0 && ticket < EACH * size);
        taken[ticket]++;
    }
    OK(nigh_allreduce(NULL, taken, (unsigned)(EACH * size), NIGH_I32, NIGH_SUM, nigh_world()));
    for (int i = 0; i < EACH * size; i++)
        CHECK_INT(taken[i], 1);
    for (int i = 0; i < EACH; i++) {
        int32_t seen = 0, wanted, before;

        do {
            before = seen;
            wanted = before + 1;
            OK(nigh_compare_and_swap(&wanted, &before, &seen, NIGH_I32, 0, 4, win));
            OK(nigh_win_flush(0, win));
        } while (seen != before);
    }
    OK(nigh_win_fence(win));
    CHECK(rank != 0 || base[1] == EACH * size);
    OK(nigh_get_accumulate(NULL, 1, NIGH_I32, &ticket, 0, 4, NIGH_READ, win));
    OK(nigh_win_fence(win));
    CHECK_INT(ticket, EACH * size);
    OK(nigh_win_free(&win));
    free(taken);
}

static void test_tickets(void **state)
{
    (void)state;
    run_all(tickets, NULL);
}

/* Vectors longer than what the plugin does at once, of every type: 0 + 1 + ... of all ranks; the
 * values before come back. */
static void fill_with(void *vector, int type, uint64_t count, int value)
{
    for (uint64_t i = 0; i < count; i++)
        switch (type) {
        case NIGH_I8:
        case NIGH_U8:
            ((uint8_t *)vector)[i] = (uint8_t)value;
            break;
        case NIGH_I16:
        case NIGH_U16:
            ((uint16_t *)vector)[i] = (uint16_t)value;
            break;
        case NIGH_I32:
        case NIGH_U32:
            ((uint32_t *)vector)[i] = (uint32_t)value;
            break;
        case NIGH_I64:
        case NIGH_U64:
            ((uint64_t *)vector)[i] = (uint64_t)value;
            break;
        case NIGH_F32:
            ((float *)vector)[i] = (float)value;
            break;
        default:
            ((double *)vector)[i] = value;
        }
}

static void vectors_of(int type, unsigned width, int rank, int size)
{
    enum { COUNT = 3001 };
    uint64_t bytes = COUNT * width;
    void *mine = malloc(bytes), *sum = malloc(bytes), *before = calloc(1, bytes), *base;
    struct nigh_win *win;

    OK(nigh_win_allocate(bytes, nigh_world(), &base, &win));
    fill_with(mine, type, COUNT, rank + 1);
    for (int to = 0; to < size; to++)
        OK(nigh_accumulate(mine, COUNT, type, to, 0, NIGH_SUM, win));
    OK(nigh_win_fence(win));
    fill_with(sum, type, COUNT, size * (size + 1) / 2);
    CHECK(memcmp(base, sum, bytes) == 0);
    OK(nigh_win_fence(win));
    /* To the right neighbour, who has been read by nobody else. */
    OK(nigh_get_accumulate(mine, COUNT, type, before, (rank + 1) % size, 0, NIGH_WRITE, win));
    OK(nigh_win_fence(win));
    CHECK(memcmp(before, sum, bytes) == 0);
    fill_with(sum, type, COUNT, (rank + size - 1) % size + 1);
    CHECK(memcmp(base, sum, bytes) == 0);
    OK(nigh_win_free(&win));
    free(mine);
    free(sum);
    free(before);
}

static void vectors(int rank, int size)
{
    static const unsigned width[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

    for (int type = NIGH_I8; type <= NIGH_F64; type++)
        vectors_of(type, width[type], rank, size);
}

static void test_vectors(void **state)
{
    (void)state;
    run_all(vectors, NULL);
}

/* ---- what is wrong ---- */

static void wrong(int rank, int size)
{
    struct nigh_win *win, *none = NULL, *copy;
    uint32_t word = 0, result;
    void *base;

    OK(nigh_win_allocate(100, nigh_world(), &base, &win));
    CHECK_INT(nigh_put(&word, 4, 0, 97, win), -ERANGE);
    CHECK_TEXT("4 bytes at offset 97 are beyond the memory of rank 0, which shows 100 bytes");
    CHECK_INT(nigh_put(&word, UINT64_MAX, 0, 1, win), -ERANGE);
    CHECK_INT(nigh_get(&word, 4, 0, UINT64_MAX, win), -ERANGE);
    CHECK_INT(nigh_put(&word, 4, size, 0, win), -ERANGE);
    CHECK_TEXT("there is no rank");
    CHECK_INT(nigh_put(NULL, 4, 0, 0, win), -EFAULT);
    CHECK_INT(nigh_accumulate(&word, 26, NIGH_U32, 0, 0, NIGH_SUM, win), -ERANGE);
    CHECK_INT(nigh_accumulate(&word, UINT64_MAX / 2, NIGH_U32, 0, 0, NIGH_SUM, win), -ERANGE);
    CHECK_INT(nigh_accumulate(&word, 1, NIGH_U32, 0, 2, NIGH_SUM, win), -EINVAL);
    CHECK_TEXT("offset 2 is not a multiple of the 4 bytes of NIGH_U32");
    CHECK_INT(nigh_accumulate(&word, 1, NIGH_F32, 0, 0, NIGH_BXOR, win), -EOPNOTSUPP);
    CHECK_TEXT("NIGH_BXOR is not defined for NIGH_F32");
    CHECK_INT(nigh_accumulate(&word, 1, NIGH_U32, 0, 0, NIGH_READ, win), -EOPNOTSUPP);
    CHECK_INT(nigh_accumulate(&word, 1, NIGH_U32, 0, 0, NIGH_CSWAP, win), -EOPNOTSUPP);
    CHECK_INT(nigh_accumulate(&word, 1, 55, 0, 0, NIGH_SUM, win), -EINVAL);
    for (int op = NIGH_AVG; op <= NIGH_FUNCTION; op++)
        CHECK_INT(nigh_accumulate(&word, 1, NIGH_U32, 0, 0, op, win), -EOPNOTSUPP);
    for (int type = NIGH_BOOL; type <= NIGH_OPAQUE; type++)
        CHECK_INT(nigh_accumulate(&word, 1, type, 0, 0, NIGH_SUM, win), -EINVAL);
    CHECK_INT(nigh_get_accumulate(&word, 1, NIGH_U32, NULL, 0, 0, NIGH_SUM, win), -EFAULT);
    CHECK_INT(nigh_compare_and_swap(&word, NULL, &result, NIGH_U32, 0, 0, win), -EFAULT);
    CHECK_INT(nigh_win_flush(-7, win), -ERANGE);
    CHECK_INT(nigh_put(&word, 4, 0, 0, NULL), -EINVAL);
    CHECK_INT(nigh_put(&word, 4, 0, 0, (struct nigh_win *)(void *)&word), -EINVAL);
    CHECK_TEXT("is no window");
    CHECK_INT(nigh_win_create(NULL, 4, nigh_world(), &none), -EFAULT);
    CHECK_INT(nigh_win_allocate(4, NULL, &base, &none), -EINVAL);
    CHECK(none == NULL);
    OK(nigh_win_fence(win));
    CHECK_INT(((uint8_t *)base)[0], 0);
    copy = win;
    OK(nigh_win_free(&win));
    CHECK_INT(nigh_win_fence(copy), -EINVAL);
    CHECK_TEXT("was freed by nigh_win_free before");
    CHECK_INT(nigh_win_free(&win), -EINVAL);
    (void)rank;
}

static void test_wrong(void **state)
{
    (void)state;
    run_all(wrong, NULL);
}

/* Ranks that do not meet at the same window; one that cannot make its part. */
static void apart(int rank, int size)
{
    struct nigh_win *one, *two, *none = NULL;
    void *base, *huge;
    int rc;

    OK(nigh_win_allocate(8, nigh_world(), &base, &one));
    OK(nigh_win_allocate(8, nigh_world(), &base, &two));
    CHECK_INT(nigh_win_fence(rank == 0 ? one : two), -EPROTO);
    CHECK_TEXT("nigh_win_fence(window 1)");
    CHECK_TEXT("nigh_win_fence(window 2)");
    CHECK_INT(rank == 0 ? nigh_barrier(nigh_world()) : nigh_win_fence(one), -EPROTO);
    OK(nigh_win_fence(one));
    rc = nigh_win_allocate(rank == size - 1 ? UINT64_C(1) << 60 : 8, nigh_world(), &huge, &none);
    CHECK_INT(rc, -ENOMEM);
    CHECK(none == NULL);
    rc = nigh_win_create(rank == size - 1 ? NULL : &huge, 8, nigh_world(), &none);
    CHECK_INT(rc, rank == size - 1 ? -EFAULT : -EPROTO);
    OK(nigh_win_free(&one));
    OK(nigh_win_free(&two));
}

static void test_apart(void **state)
{
    (void)state;
    ranks_run(2, apart, NULL);
    ranks_run(5, apart, NULL);
}

/* A rank dies with operations under way to it: flush and fence name it, others' memory can still be reached. */
static void dies(int rank, int size)
{
    uint64_t word = 7, *mine;
    struct nigh_win *win;
    void *base;
    int rc = 0;

    (void)size;
    OK(nigh_win_allocate(1 << 20, nigh_world(), &base, &win));
    mine = base;
    for (int to = 0; to < size; to++)
        OK(nigh_put(&word, 8, to, 64 + 8 * (unsigned)rank, win));
    OK(nigh_win_fence(win));
    OK(nigh_win_fence(win));
    if (rank == 2)
        raise(SIGKILL);
    while (!rc) {
        rc = nigh_accumulate(&word, 1, NIGH_U64, 2, 0, NIGH_SUM, win);
        if (!rc)
            rc = nigh_win_flush(2, win);
    }
    CHECK_INT(rc, -ECONNRESET);
    CHECK_TEXT("rank 2");
    CHECK_INT(nigh_put(&word, 8, 2, 0, win), -ECONNRESET);
    OK(nigh_accumulate(&word, 1, NIGH_U64, 1 - rank, 0, NIGH_SUM, win));
    OK(nigh_win_flush(1 - rank, win));
    OK(nigh_sendrecv(&word, 8, 1 - rank, 1, &word, 8, 1 - rank, 1, nigh_world(), NULL));
    CHECK_INT(mine[0], 7);
    CHECK_INT(nigh_win_fence(win), -ECONNRESET);
    CHECK_TEXT("rank 2");
    CHECK_INT(nigh_win_free(&win), -ECONNRESET);
    CHECK(win == NULL);
    OK(nigh_finalize());
}

static void test_dies(void **state)
{
    (void)state;
    ranks_run(3, dies, &(struct ranks_how){.killed = 3, .loose = true});
}

/* Nobody answers for a while: the time-out says how many are left, and they are complete later. */
static void late(int rank, int size)
{
    uint64_t word = 5, *mine = calloc(1, 4096);
    struct nigh_comm *comm;
    struct nigh_win *win;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_win_create(mine, 4096, comm, &win));
    OK(nigh_win_fence(win));
    if (rank == 1) {
        ranks_tell(0);
        ranks_hear(1);
    } else {
        ranks_hear(0); /* the other has left the fence, in which it would still answer */
        OK(nigh_comm_set_timeout(comm, 0.1));
        OK(nigh_accumulate(&word, 1, NIGH_U64, 1, 8, NIGH_SUM, win));
        CHECK_INT(nigh_win_flush(1, win), -ETIMEDOUT);
        CHECK_TEXT("1 operations on rank 1");
        ranks_tell(1);
        OK(nigh_comm_set_timeout(comm, 0));
    }
    OK(nigh_win_fence(win));
    CHECK_INT(mine[1], rank == 1 ? 5 : 0);
    OK(nigh_win_free(&win));
    OK(nigh_comm_free(&comm));
    free(mine);
}

static void test_late(void **state)
{
    (void)state;
    ranks_run(2, late, NULL);
}

static void forgotten(int rank, int size)
{
    struct nigh_win *win;
    void *base;

    (void)rank;
    (void)size;
    OK(nigh_win_allocate(8, nigh_world(), &base, &win));
    CHECK_INT(nigh_finalize(), -EBUSY);
    CHECK(strstr(ranks_said(), "never freed (nigh_win_free): window 1 of communicator \"world\"") != NULL);
    CHECK(strstr(ranks_said(), "window_test.c") != NULL);
}

static void test_forgotten(void **state)
{
    (void)state;
    ranks_run(2, forgotten, &(struct ranks_how){.loose = true});
}

/* Threads share a window. */
static struct nigh_win *shared;

static void *add(void *data)
{
    uint64_t one = 1;
    int size = *(int *)data;

    for (int i = 0; i < 500; i++)
        OK(nigh_accumulate(&one, 1, NIGH_U64, i % size, 0, NIGH_SUM, shared));
    OK(nigh_win_flush(NIGH_ANY_SOURCE, shared));
    return NULL;
}

static void threads(int rank, int size)
{
    uint64_t sum = 0;
    pthread_t thread[3];
    void *base;

    (void)rank;
    OK(nigh_win_allocate(8, nigh_world(), &base, &shared));
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, add, &size), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_join(thread[i], NULL), 0);
    OK(nigh_win_fence(shared));
    OK(nigh_allreduce(base, &sum, 1, NIGH_U64, NIGH_SUM, nigh_world()));
    CHECK_INT(sum, 1500 * size);
    OK(nigh_win_free(&shared));
}

static void test_threads(void **state)
{
    (void)state;
    ranks_run(3, threads, &(struct ranks_how){.threads = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get),   cmocka_unit_test(test_uneven),  cmocka_unit_test(test_counters),
        cmocka_unit_test(test_tickets),   cmocka_unit_test(test_vectors), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_apart),     cmocka_unit_test(test_dies),    cmocka_unit_test(test_late),
        cmocka_unit_test(test_forgotten), cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
