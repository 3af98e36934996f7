/* SPDX-License-Identifier: BSD-3-Clause */
/* How often a rank that waits yields before it sleeps: where each yield costs a time slice, because others compute on
 * its CPU, not more than once. sched_yield() is the test's own (-Wl,--wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/clock.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { MS = 1000000, MIB = 1 << 20 };

static struct hosted one;
static unsigned yields;
static useconds_t slice_us;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    return slice_us ? usleep(slice_us) : 0;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    hosted_open(&one, hosted_job(), 0, 0);
    yields = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&one);
    return 0;
}

static void test_others_of_the_job_get_many_turns(void **state)
{
    (void)state;
    slice_us = 0;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(300) * MS), -ETIMEDOUT);
    assert_in_range(yields, 1, 64);
}

static void test_a_long_slice_is_given_once(void **state)
{
    (void)state;
    slice_us = 5000;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(500) * MS), -ETIMEDOUT);
    assert_int_equal(yields, 1);
}

/* A time-out that passes meanwhile is not slept behind. */
static void test_the_time_out_bounds_it(void **state)
{
    (void)state;
    slice_us = 300;
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(500000)), -ETIMEDOUT);
    assert_in_range(yields, 0, 2);
    assert_int_equal(hosted_stats(&one).sleeps, 0);
}

/* A message that its receiver copies is waited for awake, as long as that takes, and then no longer. */
static void test_it_is_awake_while_a_peer_copies(void **state)
{
    struct nigh_send send = {.size = sizeof(send), .flags = NIGH_SYNC, .bytes = 4 * MIB, .tag = 1};
    struct nigh_endpoint *to;
    void *heap;

    (void)state;
    slice_us = 0;
    to = hosted_connect(&one, 0);
    assert_int_equal(hosted_ops->heap_alloc(one.context, send.bytes, &heap), 0);
    send.buffer = heap;
    for (unsigned tries = 0;; tries++) {
        uint64_t sleeps = hosted_stats(&one).sleeps, start = nigh_clock_ns();

        if (tries == 1000) {
            puts("skip: of 1000 waits of half a millisecond none was over within two: this machine is too "
                 "busy");
            skip();
        }
        assert_int_equal(hosted_ops->post_send(to, &send), 0);
        assert_int_equal(hosted_ops->wait(one.context, MS / 2), -ETIMEDOUT);
        /* A wait that came later may sleep. */
        if (nigh_clock_ns() - start > 2 * MS)
            continue;
        assert_int_equal(hosted_stats(&one).sleeps, sleeps);
        break;
    }
    assert_int_equal(hosted_ops->wait(one.context, UINT64_C(50) * MS), -ETIMEDOUT);
    assert_true(hosted_stats(&one).sleeps > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_others_of_the_job_get_many_turns, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_slice_is_given_once, start, stop),
        cmocka_unit_test_setup_teardown(test_the_time_out_bounds_it, start, stop),
        cmocka_unit_test_setup_teardown(test_it_is_awake_while_a_peer_copies, start, stop),
    };

    return cmocka_run_group_tests_name("yield", tests, NULL, NULL);
}
