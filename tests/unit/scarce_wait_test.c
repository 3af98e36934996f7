/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that waits while a pass has left something to try again does not sleep, and one that spins holds the lock. Either lets
 * other threads into the context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/clock.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(1500000000)

static struct hosted one;
static int outcome;

static void *wait_long(void *argument)
{
    (void)argument;
    outcome = hosted_ops->wait(one.context, WAIT_NS);
    return NULL;
}

static void test_others_get_in(void **state)
{
    uint64_t began;
    pthread_t thread;

    (void)state;
    alarm(60);
    hosted_open(&one, hosted_job(), 0, NIGH_OPEN_THREADS);
    one.context->devices.scarce = true; /* no pass takes it down: no endpoint is there */
    began = nigh_clock_ns();
    assert_int_equal(pthread_create(&thread, NULL, wait_long, NULL), 0);
    usleep(100000); /* it has yielded, and would sleep */
    for (unsigned i = 0; i < 3; i++)
        hosted_poll(&one);
    assert_true(nigh_clock_ns() - began < WAIT_NS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(outcome, -ETIMEDOUT);
    hosted_close(&one);
}

/* However long it spins, with parts or without. */
static void test_others_get_in_while_it_spins(void **state)
{
    uint64_t began;
    pthread_t thread;

    (void)state;
    alarm(60);
    hosted_open(&one, hosted_job(), 0, NIGH_OPEN_THREADS);
    one.context->config.spin_ns = 2 * WAIT_NS;
    one.context->config.spin_by_load = false;
    assert_int_equal(pthread_create(&thread, NULL, wait_long, NULL), 0);
    usleep(100000);
    began = nigh_clock_ns();
    for (unsigned i = 0; i < 20; i++)
        hosted_poll(&one);
    assert_true(nigh_clock_ns() - began < WAIT_NS / 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(outcome, -ETIMEDOUT);
    hosted_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_others_get_in),
                                       cmocka_unit_test(test_others_get_in_while_it_spins)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
