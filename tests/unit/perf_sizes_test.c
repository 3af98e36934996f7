/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and CPU lists as people write them, and what is no such list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "tools/perf/sizes.h"

static void sizes_with_and_without_suffix(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},       {"8", 8},         {"4K", 4096},    {"4k", 4096},
                {"4KiB", 4096}, {"4KB", 4096},    {"1M", 1 << 20}, {"64G", UINT64_C(1) << 36},
                {"100B", 100},  {"1GiB", 1 << 30}};
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(perf_size_parse(good[i].text, &bytes), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void what_is_no_size(void **state)
{
    static const char *const bad[] = {"", "K", "-8", "+8", " 8", "8 ", "8T", "8Ki", "8KX", "0x10", "8.5K"};
    uint64_t bytes = 42;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(perf_size_parse(bad[i], &bytes), -EINVAL);
    assert_int_equal(perf_size_parse("65G", &bytes), -ERANGE);
    assert_int_equal(perf_size_parse("99999999999999999999999", &bytes), -ERANGE);
    assert_int_equal(bytes, 42);
}

static void lists_keep_their_order(void **state)
{
    struct perf_sizes list;

    (void)state;
    assert_int_equal(perf_sizes_parse("1M,8,4K", &list), 0);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.bytes[0], 1 << 20);
    assert_int_equal(list.bytes[1], 8);
    assert_int_equal(list.bytes[2], 4096);
}

static void ranges_double_and_include_their_end(void **state)
{
    struct perf_sizes list;

    (void)state;
    assert_int_equal(perf_sizes_parse("64-1K", &list), 0);
    assert_int_equal(list.count, 5);
    assert_int_equal(list.bytes[4], 1024);
    assert_int_equal(perf_sizes_parse("3-10,7-7", &list), 0);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.bytes[1], 6);
    assert_int_equal(list.bytes[2], 10);
    assert_int_equal(list.bytes[3], 7);
    assert_int_equal(perf_sizes_parse("0-2", &list), 0);
    assert_int_equal(list.count, 3);
}

static void what_is_no_list(void **state)
{
    struct perf_sizes list = {.count = 99};

    (void)state;
    assert_int_equal(perf_sizes_parse("8,,9", &list), -EINVAL);
    assert_int_equal(perf_sizes_parse("", &list), -EINVAL);
    assert_int_equal(perf_sizes_parse("8-", &list), -EINVAL);
    assert_int_equal(perf_sizes_parse("8-4", &list), -ERANGE);
    assert_int_equal(perf_sizes_parse("1-4G,1-4G", &list), -E2BIG);
    assert_int_equal(list.count, 99);
}

static void sizes_are_printed_as_they_are_written(void **state)
{
    char room[24];

    (void)state;
    assert_string_equal(perf_size_text(0, room, sizeof(room)), "0");
    assert_string_equal(perf_size_text(1000, room, sizeof(room)), "1000");
    assert_string_equal(perf_size_text(4096, room, sizeof(room)), "4K");
    assert_string_equal(perf_size_text(1536, room, sizeof(room)), "1536");
    assert_string_equal(perf_size_text(UINT64_C(3) << 30, room, sizeof(room)), "3G");
}

static void cpu_lists(void **state)
{
    int cpus[4];

    (void)state;
    assert_int_equal(perf_cpus_parse("0-2,6", cpus, 4), 4);
    assert_int_equal(cpus[2], 2);
    assert_int_equal(cpus[3], 6);
    assert_int_equal(perf_cpus_parse("7", cpus, 4), 1);
    assert_int_equal(perf_cpus_parse("0-4", cpus, 4), -E2BIG);
    assert_int_equal(perf_cpus_parse("", cpus, 4), -EINVAL);
    assert_int_equal(perf_cpus_parse("2-1", cpus, 4), -EINVAL);
    assert_int_equal(perf_cpus_parse("1,", cpus, 4), -EINVAL);
    assert_int_equal(perf_cpus_parse("1;2", cpus, 4), -EINVAL);
    assert_int_equal(perf_cpus_parse("70000", cpus, 4), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_and_without_suffix),
        cmocka_unit_test(what_is_no_size),
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(ranges_double_and_include_their_end),
        cmocka_unit_test(what_is_no_list),
        cmocka_unit_test(sizes_are_printed_as_they_are_written),
        cmocka_unit_test(cpu_lists),
    };
    return cmocka_run_group_tests_name("perf_sizes", tests, NULL, NULL);
}
