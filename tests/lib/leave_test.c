/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: ranks that meet in nigh_finalize for the first time, more of them than CPUs, still all hear of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
