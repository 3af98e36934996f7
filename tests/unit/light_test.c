/* SPDX-License-Identifier: BSD-3-Clause */
/* Light requests: handles that are found while they stand, and not when they were given back, are stale or of another kind. */
#include "lib/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int open_all(void **state)
{
    (void)state;
    memset(nigh_lights, 0, sizeof(nigh_lights));
    nigh_hot_open(nigh_hot());
    return nigh_operations_open();
}

static int close_all(void **state)
{
    (void)state;
    nigh_operations_close();
    return 0;
}

/* As nigh_isend does. */
static uint64_t take(uint64_t bytes)
{
    struct nigh_hot *hot = nigh_hot();
    uint64_t id = hot->next | bytes;

    nigh_store_two(nigh_light_place(id), id, (uintptr_t) "here.c:1");
    nigh_store_two(hot, 0, (hot->next + NIGH_LIGHT_STEP) | NIGH_LIGHT);
    return id;
}

static void test_found_until_given_back(void **state)
{
    uint64_t id = take(8);
    struct nigh_operation *operation = nigh_operation_find(id);

    (void)state;
    assert_non_null(operation);
    assert_int_equal(operation->phase, NIGH_PHASE_DONE);
    assert_int_equal(operation->bytes, 8);
    assert_string_equal(operation->site, "here.c:1");
    nigh_operation_end(operation);
    assert_null(nigh_operation_find(id));
    assert_null(nigh_light_find(id));
}

static void test_no_other_handle_finds_it(void **state)
{
    uint64_t id = take(NIGH_INJECT_BYTES);

    (void)state;
    for (int bit = 0; bit < 64; bit++)
        assert_null(nigh_light_find(id ^ UINT64_C(1) << bit));
    assert_null(nigh_light_find(0));
    assert_ptr_equal(nigh_light_find(id), nigh_light_place(id));
}

static void test_places_in_turn(void **state)
{
    uint64_t first = take(1), id = 0;

    (void)state;
    for (uint32_t i = 1; i < NIGH_LIGHTS; i++) {
        assert_int_equal(nigh_light_place(nigh_hot()->next)->id, 0);
        id = take(1);
    }
    assert_ptr_equal(nigh_light_place(nigh_hot()->next), nigh_light_place(first));
    assert_int_equal(nigh_light_place(nigh_hot()->next)->id, first);
    assert_non_null(nigh_light_find(id));
}

static void test_serial_wraps(void **state)
{
    uint64_t before = nigh_hot()->next & ~(UINT64_C(0xffffffff) << 31), last;

    (void)state;
    nigh_hot()->next |= UINT64_C(0xffffffff) << 31;
    last = take(3);
    assert_non_null(nigh_light_find(last));
    assert_int_equal(nigh_hot()->next, before);
    assert_true(nigh_hot_is_open(nigh_hot()));
}

static void test_threads_differ(void **state)
{
    uint64_t id = take(0);

    (void)state;
    nigh_hot_open(nigh_hot());
    assert_int_not_equal(nigh_hot()->next, id);
    assert_null(nigh_light_find(nigh_hot()->next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found_until_given_back, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_no_other_handle_finds_it, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_places_in_turn, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_serial_wraps, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_threads_differ, open_all, close_all),
    };

    return cmocka_run_group_tests_name("light", tests, NULL, NULL);
}
