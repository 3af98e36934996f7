/* SPDX-License-Identifier: BSD-3-Clause */
/* The pattern in the messages finds every single wrong byte, and messages that are shifted, late or early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tools/perf/pattern.h"

enum { MOST = 200 };

static void every_size_is_right_when_untouched(void **state)
{
    uint8_t buffer[MOST + 1];

    (void)state;
    for (size_t n = 0; n <= MOST; n++) {
        buffer[n] = 0xa5;
        perf_fill(buffer, n, perf_seed(1, n));
        assert_int_equal(buffer[n], 0xa5);
        assert_int_equal(perf_check(buffer, n, perf_seed(1, n)), n);
    }
}

static void every_wrong_byte_is_found_where_it_is(void **state)
{
    uint8_t buffer[MOST];

    (void)state;
    for (size_t n = 1; n <= MOST; n += 7)
        for (size_t at = 0; at < n; at++) {
            perf_fill(buffer, n, perf_seed(0, 5));
            buffer[at] ^= 0x10;
            assert_int_equal(perf_check(buffer, n, perf_seed(0, 5)), at);
        }
}

static void other_messages_differ(void **state)
{
    uint8_t buffer[MOST];

    (void)state;
    perf_fill(buffer, MOST, perf_seed(0, 5));
    assert_int_not_equal(perf_check(buffer, MOST, perf_seed(0, 6)), MOST);
    assert_int_not_equal(perf_check(buffer, MOST, perf_seed(0, 4)), MOST);
    assert_int_not_equal(perf_check(buffer, MOST, perf_seed(1, 5)), MOST);
    assert_int_not_equal(perf_check(buffer + 8, MOST - 8, perf_seed(0, 5)), MOST - 8);
    assert_int_not_equal(perf_check(buffer + 1, MOST - 1, perf_seed(0, 5)), MOST - 1);
}

static void a_pattern_may_be_checked_in_parts(void **state)
{
    uint8_t buffer[MOST];

    (void)state;
    perf_fill(buffer, MOST, perf_seed(3, 9));
    assert_int_equal(perf_check(buffer + 64, MOST - 64, perf_seed(3, 9) + 8), MOST - 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_right_when_untouched),
        cmocka_unit_test(every_wrong_byte_is_found_where_it_is),
        cmocka_unit_test(other_messages_differ),
        cmocka_unit_test(a_pattern_may_be_checked_in_parts),
    };
    return cmocka_run_group_tests_name("perf_pattern", tests, NULL, NULL);
}
