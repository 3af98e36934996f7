/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: ranks that meet in nigh_finalize for the first time, more of them than CPUs, still all
 * hear of each other; and joining again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void nothing(int rank, int size)
{
    (void)rank;
    (void)size;
}

/* The last message of a rank, to one that it has never talked to. */
static void to_the_next(int rank, int size)
{
    int value = rank;

    if (rank > 0)
        OK(nigh_recv(&value, sizeof(value), rank - 1, 0, nigh_world(), NIGH_STATUS_IGNORE));
    if (rank < size - 1)
        OK(nigh_send(&value, sizeof(value), rank + 1, 0, nigh_world()));
}

/* A small message to a rank that it has never talked to and that does not want it: named there, not lost on the way. */
static void to_a_stranger(int rank, int size)
{
    int other = (rank + 3) % size;
    char text[128];

    OK(nigh_send(&rank, sizeof(rank), other, 77, nigh_world()));
    CHECK_INT(nigh_finalize(), -EBUSY);
    snprintf(text, sizeof(text), "never received: a message of 4 bytes from rank %d, tag 77",
             (rank + size - 3) % size);
    ranks_check_text(__FILE__, __LINE__, ranks_said(), text);
}

static void test_to_a_stranger(void **state)
{
    (void)state;
    for (int ranks = 7; ranks <= 9; ranks++)
        for (int i = 0; i < 3; i++)
            ranks_run(ranks, to_a_stranger, &(struct ranks_how){.loose = true});
}

/* The other rank of this job never comes. */
static void to_nobody(int rank, int size)
{
    struct nigh_config config = {
        .size = sizeof(config), .set = 1, .ranks = 2, .job = (uint64_t)getpid(), .timeout = 0.3};

    (void)size;
    OK(nigh_finalize());
    OK(nigh_init(&config));
    OK(nigh_send(&rank, sizeof(rank), 1, 77, nigh_world()));
    OK(nigh_send(&rank, sizeof(rank), 1, 78, nigh_world()));
    CHECK_INT(nigh_finalize(), -ETIMEDOUT);
    ranks_check_text(__FILE__, __LINE__, ranks_said(), "never sent: 2 messages to rank 1 of the world");
}

static void test_to_nobody(void **state)
{
    (void)state;
    ranks_run(1, to_nobody, &(struct ranks_how){.loose = true});
}

/* ---- as long as it takes
 * ------------------------------------------------------------------------------------------- */

enum {
    LONG_MS = 11000,
    PILE = 1000
}; /* longer than who was never met is waited for; more than a ring takes */

/* Without a time-out a rank that computes is waited for, and takes what was sent to it when it has done. */
static void uneven(int rank)
{
    int value = -1;

    if (rank == 0) {
        for (int i = 0; i < PILE; i++)
            OK(nigh_send(&i, sizeof(i), 1, 7, nigh_world()));
        return;
    }
    OK(nigh_recv(&value, sizeof(value), 0, 7, nigh_world(), NIGH_STATUS_IGNORE));
    ranks_nap(LONG_MS);
    for (int i = 1; i < PILE; i++) {
        OK(nigh_recv(&value, sizeof(value), 0, 7, nigh_world(), NIGH_STATUS_IGNORE));
        CHECK_INT(value, i);
    }
}

/* Side by side, as all take long: ranks 0 and 1 in one job, 3 and 4 in another, who have never met before one of them
 * computes, and rank 2, who waits for somebody who never comes. */
static void without_a_limit(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = rank == 2 ? 0 : (uint32_t)rank % 2,
                                 .ranks = 2,
                                 .job = ranks_job() + (rank < 2    ? 1
                                                       : rank == 2 ? 2
                                                                   : 3)};

    (void)size;
    OK(nigh_finalize());
    OK(nigh_init(&config));
    if (rank != 2) {
        if (rank < 2)
            uneven(rank);
        else if (rank == 3)
            ranks_nap(LONG_MS);
        OK(nigh_finalize());
        return;
    }
    CHECK_INT(nigh_finalize(), -ETIMEDOUT);
    ranks_check_text(__FILE__, __LINE__, nigh_error_text(),
                     "within 10 s, left without them: rank 1 has not been met");
}

static void test_without_a_limit(void **state)
{
    (void)state;
    ranks_run(5, without_a_limit, &(struct ranks_how){.loose = true});
}

static struct nigh_config same_job(int rank, int size)
{
    return (struct nigh_config){.size = sizeof(struct nigh_config),
                                .set = 1,
                                .rank = (uint32_t)rank,
                                .ranks = (uint32_t)size,
                                .job = ranks_job()};
}

enum { OFTEN = 400 }; /* enough to be old acquaintances: then calls like the last one look nothing up */

static void often_to_the_first(int tag, int more)
{
    for (int i = 0; i < OFTEN; i++) {
        int value = i + more;

        OK(nigh_send(&value, sizeof(value), 0, tag, nigh_world()));
    }
}

/* From one call site in all lives, so that each of its receives is like the last of the life before. */
static void often_from(int source, int more)
{
    for (int i = 0; i < OFTEN; i++) {
        nigh_request request;
        int value = -1;

        OK(nigh_irecv(&value, sizeof(value), source, 1, nigh_world(), &request));
        OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
        CHECK_INT(value, i + more);
    }
}

/* The last receive of a life was from rank 1, who in the next one is met behind rank 2. */
static void once_more(int rank, int size)
{
    struct nigh_config config = same_job(rank, size);
    int value;

    if (rank == 0)
        often_from(1, 1000);
    else if (rank == 1)
        often_to_the_first(1, 1000);
    OK(nigh_finalize());
    OK(nigh_init(&config));
    for (int i = 0; rank == 0 && i < OFTEN; i++)
        OK(nigh_recv(&value, sizeof(value), 2, NIGH_ANY_TAG, nigh_world(), NIGH_STATUS_IGNORE));
    if (rank == 0)
        often_from(1, 2000);
    else
        often_to_the_first(1, 2000);
}

static void test_once_more(void **state)
{
    (void)state;
    ranks_run(3, once_more, NULL);
}

/* ---- the same job once more
 * ---------------------------------------------------------------------------------------- */

static void give(int to, int value)
{
    OK(nigh_send(&value, sizeof(value), to, 5, nigh_world()));
}

static int taken_from(int from)
{
    int value = -1;

    OK(nigh_recv(&value, sizeof(value), from, 5, nigh_world(), NIGH_STATUS_IGNORE));
    return value;
}

/* From each to each, which says who and in which life. */
static void greet_all(int rank, int size, int life)
{
    for (int other = 0; other < size; other++)
        if (other != rank)
            give(other, life * 100 + rank);
    for (int other = 0; other < size; other++)
        if (other != rank)
            CHECK_INT(taken_from(other), life * 100 + other);
}

/* Nothing may come from rank 0, which has come back before this one has left. */
static void see_nothing(int times)
{
    for (int i = 0; i < times; i++) {
        int flag = 0;

        OK(nigh_iprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &flag, NIGH_STATUS_IGNORE));
        CHECK_INT(flag, 0);
        ranks_nap(10);
    }
}

enum { BACK };

static void comes_back_early(int rank, int size)
{
    struct nigh_config config = same_job(rank, size);

    greet_all(rank, size, 1);
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    if (rank == 0) {
        CHECK_INT(nigh_finalize(), -ETIMEDOUT);
    } else {
        while (!ranks_told(BACK))
            see_nothing(1);
        see_nothing(20);
        (void)nigh_finalize(); /* rank 0 has left, which another one may hear later */
    }
    OK(nigh_init(&config));
    for (int other = 1; rank == 0 && other < size; other++)
        give(other, 200 + other);
    if (rank == 0)
        ranks_tell(BACK);
    else
        CHECK_INT(taken_from(0), 200 + rank);
    greet_all(rank, size, 3);
}

static void test_comes_back_early(void **state)
{
    (void)state;
    ranks_run(3, comes_back_early, NULL);
    ranks_run(3, comes_back_early, &(struct ranks_how){.threads = 1});
}

/* What it has sent is on its way until the others say that they have it. */
static void end_when_heard(int others)
{
    int flag;

    for (int other = 0; other < others; other++)
        while (!ranks_told((unsigned)other)) {
            (void)nigh_iprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &flag, NIGH_STATUS_IGNORE);
            ranks_nap(1);
        }
    _exit(0);
}

/* The last rank ends without leaving, so the others leave without it, each at another time. */
static void without_one(int rank, int size)
{
    struct nigh_config config = same_job(rank, size);

    greet_all(rank, size, 1);
    if (rank == size - 1)
        end_when_heard(size - 1);
    ranks_tell((unsigned)rank);
    for (int life = 2; life < 4; life++) {
        OK(nigh_comm_set_timeout(nigh_world(), 0.2 * (rank + 1)));
        (void)nigh_finalize();
        OK(nigh_init(&config));
        if (rank == 0) {
            give(1, life);
            CHECK_INT(taken_from(1), life);
        } else if (rank == 1) {
            CHECK_INT(taken_from(0), life);
            give(0, life);
        }
    }
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    CHECK_INT(nigh_finalize(), -ETIMEDOUT);
}

static void test_without_one(void **state)
{
    (void)state;
    ranks_run(4, without_one, &(struct ranks_how){.loose = true});
}

static void many_lives(int rank, int size)
{
    struct nigh_config config = same_job(rank, size);

    for (int life = 0; life < 25; life++) {
        greet_all(rank, size, life);
        OK(nigh_finalize());
        OK(nigh_init(&config));
    }
}

static void test_many_lives(void **state)
{
    (void)state;
    ranks_run_all(many_lives, NULL);
    ranks_run(3, many_lives, &(struct ranks_how){.progress = 1});
}

/* The launcher's job, which is another one when the environment says so: the lives of each are counted for it. */
static void launchers_job(int rank, int size)
{
    char text[2][32];

    OK(nigh_finalize());
    snprintf(text[0], sizeof(text[0]), "%d", rank);
    snprintf(text[1], sizeof(text[1]), "%d", size);
    setenv("NIGH_RANK", text[0], 1);
    setenv("NIGH_SIZE", text[1], 1);
    for (int life = 0; life < 12; life++) {
        snprintf(text[0], sizeof(text[0]), "%llx", (unsigned long long)ranks_job() + (life % 3 == 1));
        setenv("NIGH_JOB", text[0], 1);
        OK(nigh_init(NULL));
        greet_all(rank, size, life);
        OK(nigh_finalize());
    }
}

static void test_launchers_job(void **state)
{
    (void)state;
    ranks_run(3, launchers_job, &(struct ranks_how){.loose = true});
}

static void many_times(ranks_body *body)
{
    for (int ranks = 2; ranks <= 9; ranks++)
        for (int i = 0; i < 4; i++)
            ranks_run(ranks, body, NULL);
}

static void test_strangers(void **state)
{
    (void)state;
    many_times(nothing);
}

static void test_acquaintances(void **state)
{
    (void)state;
    many_times(to_the_next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers),     cmocka_unit_test(test_acquaintances),
        cmocka_unit_test(test_to_a_stranger), cmocka_unit_test(test_to_nobody),
        cmocka_unit_test(test_once_more),     cmocka_unit_test(test_comes_back_early),
        cmocka_unit_test(test_without_one),   cmocka_unit_test(test_many_lives),
        cmocka_unit_test(test_launchers_job), cmocka_unit_test(test_without_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
