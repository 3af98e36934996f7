/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: ranks that meet in nigh_finalize for the first time, more of them than CPUs, still all hear of each other; and
 * joining again. */
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

/* Past the library, and what of it a rank has not left yet. */
static void all_come(int rank, int size, unsigned first)
{
    ranks_tell(first + (unsigned)rank);
    for (int other = 0; other < size; other++)
        ranks_hear(first + (unsigned)other);
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
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = (uint32_t)rank,
                                 .ranks = (uint32_t)size,
                                 .job = ~(uint64_t)getppid()};
    int value;

    if (rank == 0)
        often_from(1, 1000);
    else if (rank == 1)
        often_to_the_first(1, 1000);
    OK(nigh_finalize());
    all_come(rank, size, 0);
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
        cmocka_unit_test(test_once_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
