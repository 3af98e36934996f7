/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: who is in them, that their traffic never mixes, identifiers, names, time-outs, and the end of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <string.h>

static void expect(struct nigh_comm *comm, int rank, int size)
{
    int value = -1;

    OK(nigh_comm_rank(comm, &value));
    CHECK_INT(value, rank);
    OK(nigh_comm_size(comm, &value));
    CHECK_INT(value, size);
}

/* Everybody's rank in the world goes around, with any source and any tag. */
static void go_around(struct nigh_comm *comm)
{
    int rank, size, mine, theirs = -1, world = -1, me;
    struct nigh_status status;

    OK(nigh_comm_rank(comm, &rank));
    OK(nigh_comm_size(comm, &size));
    OK(nigh_comm_rank(nigh_world(), &me));
    OK(nigh_comm_world_rank(comm, rank, &world));
    CHECK_INT(world, me);
    for (int step = 0; step < size; step++) {
        mine = me;
        OK(nigh_sendrecv(&mine, sizeof(mine), (rank + step) % size, step, &theirs, sizeof(theirs),
                         NIGH_ANY_SOURCE, NIGH_ANY_TAG, comm, &status));
        CHECK_INT(status.source, (rank + size - step) % size);
        OK(nigh_comm_world_rank(comm, status.source, &world));
        CHECK_INT(theirs, world);
        OK(nigh_barrier(comm));
    }
}

static void all_kinds(int rank, int size)
{
    struct nigh_comm *copy, *half, *back, *some, *none;
    int list[8], count = 0;

    expect(nigh_world(), rank, size);
    expect(nigh_self(), 0, 1);
    go_around(nigh_self());
    OK(nigh_comm_dup(nigh_world(), &copy));
    expect(copy, rank, size);
    go_around(copy);
    OK(nigh_comm_split(copy, rank % 2, -rank, &half));
    expect(half, ((size + 1 - rank % 2) / 2) - 1 - rank / 2, (size + 1 - rank % 2) / 2);
    go_around(half);
    OK(nigh_comm_split(half, 3, 0, &back));
    go_around(back);
    OK(nigh_comm_split(copy, rank == 0 ? NIGH_UNDEFINED : 0, rank, &none));
    CHECK(rank == 0 ? none == NULL : none != NULL);
    for (int i = size - 1; i >= 0; i -= 2)
        list[count++] = i;
    if ((size - 1 - rank) % 2 == 0) {
        OK(nigh_comm_create(copy, list, count, &some));
        expect(some, (size - 1 - rank) / 2, count);
        go_around(some);
        OK(nigh_comm_free(&some));
        CHECK(some == NULL);
    }
    OK(nigh_comm_free(&copy));
    go_around(half);
    OK(nigh_comm_free(&half));
    OK(nigh_comm_free(&back));
    if (none)
        OK(nigh_comm_free(&none));
}

static void test_all_kinds(void **state)
{
    (void)state;
    ranks_run_all(all_kinds, NULL);
    ranks_run(3, all_kinds, NULL);
    ranks_run(5, all_kinds, NULL);
    ranks_run(4, all_kinds, &(struct ranks_how){.threads = 1});
}

/* The same tags in two communicators and in collectives: each message goes where it was sent. */
static void apart(int rank, int size)
{
    struct nigh_comm *copy;
    nigh_request requests[2];
    int a = 0, b = 0, one = 1, two = 2, flag;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &copy));
    if (rank == 0) {
        OK(nigh_send(&two, sizeof(two), 1, 5, copy));
        OK(nigh_barrier(copy));
        OK(nigh_send(&one, sizeof(one), 1, 5, nigh_world()));
    } else {
        OK(nigh_irecv(&a, sizeof(a), NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &requests[0]));
        OK(nigh_barrier(copy));
        ranks_poll();
        OK(nigh_iprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, copy, &flag, NULL));
        CHECK_INT(flag, 1);
        OK(nigh_irecv(&b, sizeof(b), NIGH_ANY_SOURCE, NIGH_ANY_TAG, copy, &requests[1]));
        OK(nigh_waitall(2, requests, NULL));
        CHECK_INT(a, 1);
        CHECK_INT(b, 2);
    }
    OK(nigh_comm_free(&copy));
}

static void test_apart(void **state)
{
    (void)state;
    ranks_run(2, apart, NULL);
}

/* Places are used again, identifiers and handles of the freed are not: 3000 in turn. */
static void in_turn(int rank, int size)
{
    struct nigh_comm *first, *comm, *stale;
    int value = rank, got = -1;

    OK(nigh_comm_dup(nigh_world(), &first));
    stale = first;
    OK(nigh_comm_free(&first));
    for (int i = 0; i < 3000; i++) {
        OK(nigh_comm_dup(nigh_world(), &comm));
        if (i < 900) {
            CHECK(comm != stale);
            CHECK_INT(nigh_comm_rank(stale, &got), -EINVAL);
        }
        OK(nigh_sendrecv(&value, sizeof(value), (rank + 1) % size, 1, &got, sizeof(got),
                         (rank + size - 1) % size, 1, comm, NULL));
        CHECK_INT(got, (rank + size - 1) % size);
        OK(nigh_comm_free(&comm));
    }
}

static void test_in_turn(void **state)
{
    (void)state;
    ranks_run(2, in_turn, NULL);
}

static void wrong(int rank, int size)
{
    struct nigh_comm *comm = NULL, *world = nigh_world(), *self = nigh_self(), *freed, *copy;
    int list[3] = {rank, rank, 0}, value;

    CHECK_INT(nigh_comm_free(&world), -EPERM);
    CHECK_INT(nigh_comm_free(&self), -EPERM);
    CHECK(world == nigh_world());
    CHECK_INT(nigh_comm_free(&comm), -EINVAL);
    CHECK_INT(nigh_comm_free(NULL), -EINVAL);
    CHECK_INT(nigh_comm_dup(nigh_world(), NULL), -EINVAL);
    CHECK_INT(nigh_comm_split(nigh_world(), -7, 0, &comm), -ERANGE);
    CHECK_INT(nigh_comm_create(nigh_world(), list, 2, &comm), -EINVAL);
    CHECK_TEXT("twice");
    list[1] = size;
    CHECK_INT(nigh_comm_create(nigh_world(), list, 2, &comm), -ERANGE);
    CHECK_INT(nigh_comm_create(nigh_world(), list, 0, &comm), -EINVAL);
    list[0] = (rank + 1) % size;
    CHECK_INT(nigh_comm_create(nigh_world(), list, 1, &comm), size == 1 ? 0 : -EINVAL);
    if (size == 1)
        OK(nigh_comm_free(&comm));
    else
        CHECK_TEXT("not in the list");
    CHECK_INT(nigh_comm_world_rank(nigh_world(), size, &value), -ERANGE);
    CHECK_INT(nigh_comm_world_rank(nigh_world(), -1, &value), -ERANGE);
    CHECK_INT(nigh_comm_rank(nigh_world(), NULL), -EINVAL);
    CHECK_INT(nigh_comm_set_timeout(nigh_world(), -1), -EINVAL);
    OK(nigh_comm_dup(nigh_world(), &freed));
    OK(nigh_comm_set_name(freed, "a name that is too long for its place, surely"));
    copy = freed;
    OK(nigh_comm_free(&freed));
    CHECK_INT(nigh_comm_size(copy, &value), -EINVAL);
    CHECK_TEXT("a name that is too long for its\" was freed");
    CHECK_INT(nigh_send(&value, 4, 0, 0, copy), -EINVAL);
    CHECK_INT(nigh_recv(&value, 4, 0, 0, copy, NULL), -EINVAL);
    CHECK_INT(nigh_barrier(copy), -EINVAL);
    CHECK_INT(nigh_comm_rank((struct nigh_comm *)&value, &value), -EINVAL);
    CHECK_TEXT("is no communicator");
    CHECK_INT(nigh_comm_rank((struct nigh_comm *)((char *)nigh_world() + 8), &value), -EINVAL);
}

static void test_wrong(void **state)
{
    (void)state;
    ranks_run(1, wrong, NULL);
    ranks_run(2, wrong, NULL);
}

/* What was posted on a communicator goes on when it is freed. */
static void free_early(int rank, int size)
{
    struct nigh_comm *comm, *half;
    nigh_request requests[2];
    struct nigh_status status;
    int in = -1;

    OK(nigh_comm_split(nigh_world(), 0, -rank, &half));
    OK(nigh_comm_rank(half, &rank));
    OK(nigh_comm_dup(half, &comm));
    OK(nigh_irecv(&in, sizeof(in), NIGH_ANY_SOURCE, 1, comm, &requests[0]));
    OK(nigh_barrier(comm));
    OK(nigh_isend(&rank, sizeof(rank), (rank + 1) % size, 1, comm, &requests[1]));
    OK(nigh_comm_free(&comm));
    OK(nigh_wait(&requests[0], &status));
    OK(nigh_wait(&requests[1], NULL));
    CHECK_INT(in, (rank + size - 1) % size);
    CHECK_INT(status.source, (rank + size - 1) % size);
    OK(nigh_comm_free(&half));
}

static void test_free_early(void **state)
{
    (void)state;
    ranks_run(3, free_early, NULL);
}

static void timeouts(int rank, int size)
{
    struct nigh_comm *comm, *copy;
    int value, other = (rank + 1) % size;
    double start;
    nigh_request request;

    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_comm_set_timeout(comm, 0.1));
    OK(nigh_comm_dup(comm, &copy));
    start = nigh_wtime();
    CHECK_INT(nigh_recv(&value, sizeof(value), other, 3, copy, NULL), -ETIMEDOUT);
    CHECK(nigh_wtime() - start >= 0.1 && nigh_wtime() - start < 60);
    CHECK_TEXT("tag 3");
    CHECK_INT(nigh_ssend(&value, sizeof(value), rank, 4, comm), -ETIMEDOUT);
    OK(nigh_irecv(&value, sizeof(value), other, 5, comm, &request));
    CHECK_INT(nigh_wait(&request, NULL), -ETIMEDOUT);
    CHECK(request.id != 0);
    CHECK_INT(nigh_waitall(1, &request, NULL), -ETIMEDOUT);
    CHECK_TEXT("1 of 1 requests");
    OK(nigh_barrier(nigh_world()));
    OK(nigh_comm_set_timeout(comm, 0));
    OK(nigh_comm_set_timeout(copy, 0));
    OK(nigh_send(&rank, sizeof(rank), other, 5, comm));
    OK(nigh_wait(&request, NULL));
    /* The receive with tag 3 was taken back: what comes now is not lost in it. */
    OK(nigh_send(&rank, sizeof(rank), other, 3, copy));
    OK(nigh_recv(&value, sizeof(value), (rank + size - 1) % size, 3, copy, NULL));
    CHECK_INT(value, (rank + size - 1) % size);
    OK(nigh_comm_set_timeout(comm, 0.1));
    if (rank == 0 && size > 1) {
        int rc = nigh_barrier(comm); /* the other rank frees it meanwhile */

        CHECK(rc == -ETIMEDOUT || rc == -ECONNRESET);
        CHECK_TEXT(rc == -ETIMEDOUT ? "rank 1 has not come" : "rank 1 has freed");
    }
    OK(nigh_comm_free(&comm));
    OK(nigh_comm_free(&copy));
}

static void test_timeouts(void **state)
{
    (void)state;
    /* The synchronous send's message has left all the same. No verdicts: they do wait for each other, and who has no
     * CPU for a third of a second would be told of that in place of its time-out. */
    ranks_run(2, timeouts, &(struct ranks_how){.finalize = -EBUSY, .environment = "NIGH_STALL=0"});
    ranks_run(2, timeouts,
              &(struct ranks_how){.finalize = -EBUSY, .environment = "NIGH_STALL=0", .threads = 1});
}

/* Places of communicators that were freed are used again, however many are freed in a row. */
static void many(int rank, int size)
{
    enum { AT_ONCE = 3000 };
    static struct nigh_comm *comms[AT_ONCE];

    (void)rank;
    (void)size;
    for (int round = 0; round < 25; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            OK(nigh_comm_dup(nigh_self(), &comms[i]));
        for (int i = 0; i < AT_ONCE; i++)
            OK(nigh_comm_free(&comms[i]));
    }
}

static void test_many(void **state)
{
    (void)state;
    ranks_run(1, many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds), cmocka_unit_test(test_apart),      cmocka_unit_test(test_in_turn),
        cmocka_unit_test(test_wrong),     cmocka_unit_test(test_free_early), cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
