/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for messages that come before their receives: what was given back is taken again, as much as fits,
 * and no more is kept than was said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/early.h"
#include <string.h>

static struct nigh_early early;

static int stop(void **state)
{
    (void)state;
    nigh_early_clear(&early);
    return 0;
}

static void *take(uint64_t bytes)
{
    void *memory = nigh_early_take(&early, bytes);

    assert_non_null(memory);
    memset(memory, 0x5a, bytes);
    return memory;
}

static void the_last_one_again(void **state)
{
    static const uint64_t sizes[] = {4096, 5000, 32768, 32769, 65536, 65537, 1 << 20};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *first = take(sizes[i]), *second = take(sizes[i]);

        nigh_early_give(&early, first, sizes[i]);
        nigh_early_give(&early, second, sizes[i]);
        assert_ptr_equal(take(sizes[i]), second);
        assert_ptr_equal(take(sizes[i]), first);
        nigh_early_give(&early, first, sizes[i]);
        nigh_early_give(&early, second, sizes[i]);
        nigh_early_clear(&early);
    }
}

/* Whatever of its size it was taken for, it has room for all of that. */
static void for_others_of_its_size(void **state)
{
    void *memory = take(33000);

    (void)state;
    nigh_early_give(&early, memory, 33000);
    assert_ptr_equal(take(65536), memory);
    nigh_early_give(&early, memory, 65536);
    assert_int_equal(early.bytes, 65536);
    assert_ptr_equal(take(40000), memory);
    nigh_early_give(&early, memory, 40000);
    memory = take(65537);
    assert_int_equal(early.bytes, 65536);
    nigh_early_give(&early, memory, 65537);
    assert_int_equal(early.bytes, 65536 + 131072);
}

static void no_more_than_was_said(void **state)
{
    enum { COUNT = 12 };
    void *all[COUNT];

    (void)state;
    for (unsigned i = 0; i < COUNT; i++)
        all[i] = take(NIGH_EARLY_MAX);
    for (unsigned i = 0; i < COUNT; i++)
        nigh_early_give(&early, all[i], NIGH_EARLY_MAX);
    assert_int_equal(early.bytes, NIGH_EARLY_BYTES);
    for (uint64_t left = NIGH_EARLY_BYTES; left; left -= NIGH_EARLY_MAX) {
        void *memory = take(NIGH_EARLY_MAX);

        assert_int_equal(early.bytes, left - NIGH_EARLY_MAX);
        all[(left - 1) / NIGH_EARLY_MAX] = memory;
    }
    for (unsigned i = 0; i < NIGH_EARLY_BYTES / NIGH_EARLY_MAX; i++)
        nigh_early_give(&early, all[i], NIGH_EARLY_MAX);
    nigh_early_clear(&early);
    assert_int_equal(early.bytes, 0);
}

static void not_these(void **state)
{
    static const uint64_t sizes[] = {1, 100, 2048, (1 << 20) + 1, 8 << 20};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        nigh_early_give(&early, take(sizes[i]), sizes[i]);
        assert_int_equal(early.bytes, 0);
    }
    nigh_early_give(&early, NULL, 65536);
    assert_int_equal(early.bytes, 0);
}

/* What stood there comes along, whether its size is kept or malloc's. */
static void it_grows(void **state)
{
    static const uint64_t steps[] = {1,    100,   2048,  2049,    4096,          5000,
                                     8192, 65536, 65537, 1 << 20, (1 << 20) + 1, 5 << 20};
    uint8_t *memory = NULL;

    (void)state;
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t before = i ? steps[i - 1] : 0;

        memory = nigh_early_grow(&early, memory, before, steps[i], before);
        assert_non_null(memory);
        for (uint64_t at = 0; at < before; at++)
            assert_int_equal(memory[at], (uint8_t)(at * 7 + at / 256));
        for (uint64_t at = before; at < steps[i]; at++)
            memory[at] = (uint8_t)(at * 7 + at / 256);
    }
    nigh_early_give(&early, memory, steps[sizeof(steps) / sizeof(steps[0]) - 1]);
    assert_int_equal(early.bytes, 4096 + 8192 + 65536 + 131072);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_last_one_again, stop),
        cmocka_unit_test_teardown(for_others_of_its_size, stop),
        cmocka_unit_test_teardown(no_more_than_was_said, stop),
        cmocka_unit_test_teardown(not_these, stop),
        cmocka_unit_test_teardown(it_grows, stop),
    };

    return cmocka_run_group_tests_name("early memory", tests, NULL, NULL);
}
