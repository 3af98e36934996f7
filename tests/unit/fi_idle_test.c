/* SPDX-License-Identifier: BSD-3-Clause */
/* What a provider's empty queue does for the others where ranks share CPUs: it yields for hosts that never do, soon for
 * those that were seen at it lately, and costs the others next to nothing. The clock and sched_yield() are the test's
 * own (-Wl,--wrap). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hosts/libfabric/pollers.h"
#include "hosts/libfabric/provider.h"

#include <string.h>
#include <time.h>

enum {
    SPIN_NS = 50,
    YIELD_NS = 1400
}; /* between two looks of a host that does not yield, and of one that does */

static uint64_t clock_now;
static unsigned yields, questions;
static bool crowded;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    clock_now += YIELD_NS;
    return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    (void)id;
    questions++;
    *now = (struct timespec){.tv_sec = (time_t)(clock_now / 1000000000u),
                             .tv_nsec = (long)(clock_now % 1000000000u)};
    return 0;
}

bool nigh_fi_pollers_crowd(void)
{
    return false;
}

static int query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *data,
                 uint64_t *bytes)
{
    struct nigh_query_context *facts = data;

    (void)context, (void)endpoint, (void)bytes;
    assert_int_equal(what, NIGH_QUERY_CONTEXT);
    facts->crowded = crowded;
    return 0;
}

static const struct nigh_ops ops = {.query = query};
static struct nigh_fi_ep ep = {.nigh = &ops};
static struct nigh_fi_idle idle;

/* The looks of one wait, each `ns` behind the last, as cq_read() counts them: the first does not come by here. */
static void wait_for(unsigned looks, unsigned ns)
{
    idle.empty = 1;
    while (--looks > 0) {
        clock_now += ns;
        assert_false(nigh_fi_idle_wait(&idle, &ep));
    }
    clock_now += ns;
    idle.empty = idle.missed = 0;
}

static int begin(void **state)
{
    (void)state;
    idle = (struct nigh_fi_idle){0};
    clock_now = 1000000000;
    crowded = true;
    yields = questions = 0;
    return 0;
}

static void test_who_spins_is_made_to_yield(void **state)
{
    (void)state;
    wait_for(31, SPIN_NS);
    assert_int_equal(yields, 0);
    wait_for(32, SPIN_NS);
    assert_int_equal(yields, 1);
}

static void test_and_soon_from_then_on(void **state)
{
    (void)state;
    wait_for(32, SPIN_NS);
    wait_for(3, SPIN_NS);
    assert_int_equal(yields, 1);
    wait_for(4, SPIN_NS);
    assert_int_equal(yields, 2);
    wait_for(40, SPIN_NS);
    assert_int_equal(yields, 12);
}

/* Neither is it asked of more than one look in sixteen. */
static void test_who_yields_pays_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        wait_for(64, YIELD_NS);
    assert_int_equal(yields, 0);
    assert_in_range(questions, 1, 64 * 1000 / 16);
}

/* A time from another wait is none: here that of look 30, behind which a message came. */
static void test_waits_are_told_apart(void **state)
{
    (void)state;
    wait_for(30, SPIN_NS);
    clock_now += 1000000;
    wait_for(32, SPIN_NS);
    assert_int_equal(yields, 1);
    wait_for(31, YIELD_NS);
    assert_int_equal(yields, 1);
}

/* One that spun, and then yields at each eighth look only, pays one more for each of its own and no more. */
static void test_who_yields_seldom_pays_twice_at_most(void **state)
{
    (void)state;
    wait_for(32, SPIN_NS);
    yields = 0;
    idle.empty = 1;
    for (unsigned look = 2; look < 8000; look++) {
        clock_now += look % 8 ? SPIN_NS : YIELD_NS;
        assert_false(nigh_fi_idle_wait(&idle, &ep));
    }
    assert_in_range(yields, 1, 8000 / 8);
}

/* Open MPI's blocking sends, and its waits behind them. */
static void test_who_does_both_yields_in_its_spins_alone(void **state)
{
    (void)state;
    wait_for(32, SPIN_NS);
    for (int i = 0; i < 1000; i++) {
        wait_for(6, SPIN_NS);
        assert_int_equal(yields, 2 + i);
        wait_for(7, YIELD_NS);
        assert_int_equal(yields, 2 + i);
    }
}

static void test_who_has_changed_is_asked_seldom_again(void **state)
{
    (void)state;
    wait_for(10000, SPIN_NS);
    wait_for(1000, YIELD_NS);
    yields = questions = 0;
    wait_for(3200, YIELD_NS);
    assert_int_equal(yields, 0);
    assert_in_range(questions, 1, 3200 / 16);
}

static void test_where_it_is_not_crowded_nobody_yields(void **state)
{
    (void)state;
    crowded = false;
    wait_for(1000, SPIN_NS);
    assert_int_equal(yields, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_who_spins_is_made_to_yield, begin),
        cmocka_unit_test_setup(test_and_soon_from_then_on, begin),
        cmocka_unit_test_setup(test_who_yields_pays_nothing, begin),
        cmocka_unit_test_setup(test_waits_are_told_apart, begin),
        cmocka_unit_test_setup(test_who_yields_seldom_pays_twice_at_most, begin),
        cmocka_unit_test_setup(test_who_does_both_yields_in_its_spins_alone, begin),
        cmocka_unit_test_setup(test_who_has_changed_is_asked_seldom_again, begin),
        cmocka_unit_test_setup(test_where_it_is_not_crowded_nobody_yields, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
