/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/lives.c: each job is counted for itself, and counting never fails once there is room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/lives.h"

static void test_each_for_itself(void **state)
{
    (void)state;
    assert_int_equal(nigh_lives_of(0), 0);
    assert_int_equal(nigh_lives_of(7), 0);
    for (uint64_t job = 0; job < 20; job++)
        assert_int_equal(nigh_lives_begin(job), 0);
    for (uint64_t job = 0; job < 20; job++)
        for (uint64_t i = 0; i < job; i++)
            nigh_lives_end(job);
    for (uint64_t job = 0; job < 20; job++)
        assert_int_equal(nigh_lives_of(job), job);
    assert_int_equal(nigh_lives_begin(7), 0);
    assert_int_equal(nigh_lives_of(7), 7);
}

/* Who is alone in a job does not count it. */
static void test_unknown(void **state)
{
    (void)state;
    nigh_lives_end(1234);
    assert_int_equal(nigh_lives_of(1234), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_for_itself),
        cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
