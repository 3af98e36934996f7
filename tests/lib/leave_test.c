/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: ranks that meet in nigh_finalize for the first time, more of them than CPUs, still all hear of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
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
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_acquaintances),
        cmocka_unit_test(test_to_a_stranger),
        cmocka_unit_test(test_to_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
