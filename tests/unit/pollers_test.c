/* SPDX-License-Identifier: BSD-3-Clause */
/* When threads that look at empty queues are more than their CPUs, and when no longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hosts/libfabric/pollers.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static cpu_set_t all;

static void bind_to(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* The nth CPU that this process may use. */
static int nth_cpu(int n)
{
    int cpu = -1;

    while (n >= 0)
        n -= CPU_ISSET(++cpu, &all) != 0;
    return cpu;
}

struct other {
    pthread_t thread;
    pthread_barrier_t met;
    int cpu; /* -1: where its maker is */
    bool crowd;
};

static void *looks(void *data)
{
    struct other *other = data;

    if (other->cpu >= 0)
        bind_to(other->cpu);
    other->crowd = nigh_fi_pollers_crowd();
    pthread_barrier_wait(&other->met);
    pthread_barrier_wait(&other->met); /* until this thread may end */
    return NULL;
}

static void begin(struct other *other, int cpu)
{
    other->cpu = cpu;
    pthread_barrier_init(&other->met, NULL, 2);
    assert_int_equal(pthread_create(&other->thread, NULL, looks, other), 0);
    pthread_barrier_wait(&other->met);
}

static void end(struct other *other)
{
    pthread_barrier_wait(&other->met);
    pthread_join(other->thread, NULL);
    pthread_barrier_destroy(&other->met);
}

/* A child begins with the one thread that has forked it. */
static void assert_a_child_is_alone(void)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(nigh_fi_pollers_crowd());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* In this order: CPUs that were once counted stay so. */
static void test_one_cpu(void **state)
{
    struct other others[2];

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    bind_to(nth_cpu(0));
    assert_false(nigh_fi_pollers_crowd());
    assert_false(nigh_fi_pollers_crowd()); /* counts once */
    begin(&others[0], -1);
    assert_true(others[0].crowd);
    assert_true(nigh_fi_pollers_crowd());
    assert_a_child_is_alone();
    begin(&others[1], -1);
    end(&others[0]);
    assert_true(nigh_fi_pollers_crowd());
    end(&others[1]);
    assert_false(nigh_fi_pollers_crowd());
}

static void test_a_cpu_each(void **state)
{
    struct other others[2];

    (void)state;
    if (CPU_COUNT(&all) < 2) {
        print_message("skip: there is one CPU\n");
        skip();
    }
    begin(&others[0], nth_cpu(1));
    assert_false(others[0].crowd);
    assert_false(nigh_fi_pollers_crowd());
    begin(&others[1], nth_cpu(1));
    assert_true(others[1].crowd);
    assert_true(nigh_fi_pollers_crowd());
    end(&others[1]);
    assert_false(nigh_fi_pollers_crowd());
    end(&others[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_cpu),
        cmocka_unit_test(test_a_cpu_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
