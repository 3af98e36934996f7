/* SPDX-License-Identifier: BSD-3-Clause */
/* Order statistics: against values that can be looked up or worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "tools/perf/stats.h"
#include "tools/perf/tally.h"

static void median_of_odd_even_and_none(void **state)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};

    (void)state;
    assert_float_equal(perf_median(odd, 3), 3, 0);
    assert_float_equal(perf_median(even, 4), 2.5, 0);
    assert_true(isnan(perf_median(odd, 0)));
}

static void quantiles_interpolate(void **state)
{
    double v[] = {0, 10, 20, 30, 40};

    (void)state;
    assert_float_equal(perf_quantile(v, 5, 0), 0, 0);
    assert_float_equal(perf_quantile(v, 5, 1), 40, 0);
    assert_float_equal(perf_quantile(v, 5, 0.99), 39.6, 1e-9);
    assert_float_equal(perf_quantile(v, 5, 0.125), 5, 1e-9);
}

/* The order statistics that tables of the sign test give for 95 %, 1-based. */
static void interval_ranks_are_those_of_the_tables(void **state)
{
    static const struct {
        size_t n, first, last;
    } table[] = {{6, 1, 6},   {8, 1, 8},   {9, 2, 8},    {10, 2, 9},   {15, 4, 12},
                 {20, 6, 15}, {25, 8, 18}, {50, 18, 33}, {100, 40, 61}};
    size_t first, last;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(perf_median_ranks(table[i].n, &first, &last), 0);
        assert_int_equal(first + 1, table[i].first);
        assert_int_equal(last + 1, table[i].last);
    }
}

static void interval_needs_six_values(void **state)
{
    double v[] = {1, 2, 3, 4, 5};
    size_t first = 77, last = 78;

    (void)state;
    assert_int_equal(perf_median_ranks(5, &first, &last), -ERANGE);
    assert_int_equal(first, 77);
    assert_true(isnan(perf_median_interval(v, 5).low));
}

static void interval_of_many_is_that_of_the_exact_form(void **state)
{
    size_t exact_first, exact_last, near_first, near_last;

    (void)state;
    assert_int_equal(perf_median_ranks(1000, &exact_first, &exact_last), 0);
    assert_int_equal(perf_median_ranks(1001, &near_first, &near_last), 0);
    assert_in_range(near_first, exact_first, exact_first + 2);
    assert_in_range(near_last, exact_last - 1, exact_last + 2);
}

static void interval_holds_the_values_of_its_ranks(void **state)
{
    double v[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct perf_interval found = perf_median_interval(v, 10);

    (void)state;
    assert_float_equal(found.low, 2, 0);
    assert_float_equal(found.high, 9, 0);
}

static void middle_is_deaf_to_outliers_and_finer_than_steps(void **state)
{
    double steps[] = {10, 10, 10, 10, 10, 20, 20, 1e9};

    (void)state;
    assert_float_equal(perf_middle(steps, 8), (10 + 10 + 10 + 20) / 4.0, 1e-9);
    assert_true(isnan(perf_middle(steps, 0)));
}

static void ratios_are_paired(void **state)
{
    double work[] = {10, 20, 90}, floor[] = {5, 5, 30}, out[2];
    uint32_t pick[] = {2, 1};

    (void)state;
    perf_ratios(work, floor, pick, 2, out);
    assert_float_equal(out[0], 3, 0);
    assert_float_equal(out[1], 4, 0);
}

static void tally_keeps_an_even_share_of_many(void **state)
{
    struct perf_tally t;

    (void)state;
    perf_tally_start(&t);
    for (int i = 0; i < 10 * PERF_TALLY; i++)
        perf_tally_add(&t, i);
    assert_in_range(t.kept, PERF_TALLY / 2, PERF_TALLY);
    assert_float_equal(perf_tally_middle(&t), 5 * PERF_TALLY, PERF_TALLY / 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_of_odd_even_and_none),
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(interval_ranks_are_those_of_the_tables),
        cmocka_unit_test(interval_needs_six_values),
        cmocka_unit_test(interval_of_many_is_that_of_the_exact_form),
        cmocka_unit_test(interval_holds_the_values_of_its_ranks),
        cmocka_unit_test(middle_is_deaf_to_outliers_and_finer_than_steps),
        cmocka_unit_test(ratios_are_paired),
        cmocka_unit_test(tally_keeps_an_even_share_of_many),
    };
    return cmocka_run_group_tests_name("perf_stats", tests, NULL, NULL);
}
