/* SPDX-License-Identifier: BSD-3-Clause */
/* The group behind a communicator's collectives: calls that the plugin refuses, and what follows a group that has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>

static int sum_up(struct nigh_comm *comm)
{
    int one = 1, sum = 0, rc = nigh_allreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, comm);

    return rc ? rc : sum;
}

/* All fail: the last rank calls something else. */
static void differ(struct nigh_comm *comm, int rank, int size)
{
    CHECK_INT(rank == size - 1 ? nigh_barrier(comm) : sum_up(comm), -EPROTO);
}

/* ---- calls that the plugin refuses rank 0 ---- */

static void scarce(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    int one = 1, sums[2] = {0};
    nigh_request requests[2];

    /* The first post, then that of an agreement, then the first behind an agreement. */
    if (rank == 0)
        setenv("NIGH_SCARCE_CALLS", "109", 1);
    /* One that was not made is made again. */
    if (rank == 0)
        CHECK_INT(sum_up(world), -ENOMEM);
    CHECK_INT(sum_up(world), size);
    differ(world, rank, size);
    /* The next group cannot agree: all fail, and go on. */
    CHECK_INT(sum_up(world), -ENOMEM);
    CHECK_TEXT("rank 0 cannot go on");
    CHECK_INT(sum_up(world), size);
    /* Of two that have their numbers the first is refused behind the agreement. */
    differ(world, rank, size);
    for (int i = 0; i < 2; i++)
        OK(nigh_iallreduce(&one, &sums[i], 1, NIGH_I32, NIGH_SUM, world, &requests[i]));
    CHECK_INT(nigh_wait(&requests[0], NIGH_STATUS_IGNORE), -ENOMEM);
    OK(nigh_wait(&requests[1], NIGH_STATUS_IGNORE));
    CHECK_INT(sums[1], size);
    CHECK_INT(sum_up(world), size);
}

static void test_scarce(void **state)
{
    const char *real = getenv("NIGH_PLUGIN"), *folder = getenv("NIGH_BUILDDIR");
    char name[600];

    (void)state;
    snprintf(name, sizeof(name), "NIGH_PLUGIN=%s/tests/support/.libs/scarceplugin.so", folder ? folder : ".");
    assert_non_null(real);
    assert_int_equal(setenv("NIGH_REAL_PLUGIN", real, 1), 0);
    for (int ranks = 2; ranks <= 3; ranks++)
        ranks_run(ranks, scarce, &(struct ranks_how){.environment = name});
    unsetenv("NIGH_REAL_PLUGIN");
}

/* ---- freed while calls wait for the next group, and some of them are behind ---- */

static void freed(int rank, int size)
{
    struct nigh_comm *comm;
    nigh_request requests[3];
    int one = 1, sums[3] = {0}, rc;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &comm));
    CHECK_INT(sum_up(comm), 2);
    if (rank == 0) {
        /* A root of small broadcasts is ahead. */
        for (int i = 0; i < 3; i++)
            OK(nigh_bcast(&one, 1, NIGH_I32, 0, comm));
        ranks_tell(0);
    } else {
        ranks_hear(0);
        CHECK_INT(sum_up(comm), -EPROTO);
        for (int i = 0; i < 2; i++)
            OK(nigh_iallreduce(&one, &sums[i], 1, NIGH_I32, NIGH_SUM, comm, &requests[i]));
    }
    OK(nigh_iallreduce(&one, &sums[2], 1, NIGH_I32, NIGH_SUM, comm, &requests[2]));
    OK(nigh_comm_free(&comm));
    for (int i = 0; rank == 1 && i < 2; i++) {
        rc = nigh_wait(&requests[i], NIGH_STATUS_IGNORE);
        CHECK_INT(rc, -EPROTO);
        CHECK_TEXT("other ranks are ahead");
    }
    OK(nigh_wait(&requests[2], NIGH_STATUS_IGNORE));
    CHECK_INT(sums[2], 2);
}

static void test_freed(void **state)
{
    (void)state;
    ranks_run(2, freed, NULL);
}

/* ---- who comes when others have given up ---- */

static int make(int what, struct nigh_comm *comm, struct nigh_comm **made, struct nigh_win **win)
{
    static int memory[4];

    if (what == 0)
        return nigh_comm_dup(comm, made);
    return what == 1 ? nigh_comm_split(comm, 0, 0, made) : nigh_win_create(memory, sizeof(memory), comm, win);
}

static void late(int rank, int size)
{
    struct nigh_comm *comm, *made;
    struct nigh_win *win;

    OK(nigh_comm_dup(nigh_world(), &comm));
    for (int what = 0; what < 3; what++) {
        if (rank == size - 1) {
            for (int i = 0; i < size - 1; i++)
                ranks_hear((unsigned)(3 * i + what));
            CHECK_INT(make(what, comm, &made, &win), -ETIMEDOUT);
            CHECK_TEXT("has given up waiting");
        } else {
            OK(nigh_comm_set_timeout(comm, 0.1));
            CHECK_INT(make(what, comm, &made, &win), -ETIMEDOUT);
            OK(nigh_comm_set_timeout(comm, 0));
            ranks_tell((unsigned)(3 * rank + what));
        }
        OK(make(what, comm, &made, &win));
        if (what < 2)
            OK(nigh_comm_free(&made));
        else
            OK(nigh_win_free(&win));
    }
    OK(nigh_comm_free(&comm));
}

static void test_late(void **state)
{
    (void)state;
    ranks_run(2, late, NULL);
    ranks_run(4, late, NULL);
}

/* ---- ranks that wait for something else move their collectives: no circle ---- */

enum { LONG = 100000 };

static void busy(int rank, int size)
{
    static int32_t in[LONG], out[LONG];
    nigh_request requests[2];
    int value = rank;

    for (int i = 0; i < LONG; i++)
        in[i] = rank + i;
    for (int round = 0; round < 20; round++) {
        int first = round % size;

        OK(nigh_iallreduce(in, out, LONG, NIGH_I32, NIGH_SUM, nigh_world(), &requests[0]));
        OK(nigh_ibarrier(nigh_world(), &requests[1]));
        if (rank == first) {
            OK(round % 2 ? nigh_wait(&requests[0], NIGH_STATUS_IGNORE)
                         : nigh_waitall(2, requests, NIGH_STATUSES_IGNORE));
            for (int to = 0; to < size; to++)
                if (to != rank)
                    OK(nigh_send(&value, sizeof(value), to, 1, nigh_world()));
        } else {
            OK(nigh_recv(&value, sizeof(value), first, 1, nigh_world(), NIGH_STATUS_IGNORE));
        }
        OK(nigh_waitall(2, requests, NIGH_STATUSES_IGNORE));
        CHECK_INT(out[LONG - 1], size * (size - 1) / 2 + size * (LONG - 1));
    }
}

static void test_busy(void **state)
{
    (void)state;
    ranks_run(2, busy, &(struct ranks_how){.environment = "NIGH_STALL=0.0001"});
    ranks_run(4, busy, &(struct ranks_how){.environment = "NIGH_STALL=0.0001"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scarce),
        cmocka_unit_test(test_freed),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
