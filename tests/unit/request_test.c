/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots of operations: handles, generations, order of reuse, the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/request.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct nigh_call call = {"test", NULL};

static int open_slots(void **state)
{
    (void)state;
    return nigh_operations_open();
}

static int close_slots(void **state)
{
    (void)state;
    nigh_operations_close();
    return 0;
}

static struct nigh_operation *take(void)
{
    struct nigh_operation *operation = nigh_operation_take();

    assert_non_null(operation);
    nigh_operation_start(operation, NIGH_KIND_RECV, NIGH_PHASE_ACTIVE, NULL, 0, 0, 0, NULL);
    return operation;
}

static void test_handles(void **state)
{
    struct nigh_operation *a = take(), *b = take();
    uint64_t handle = nigh_operation_handle(a);

    (void)state;
    assert_ptr_not_equal(a, b);
    assert_int_not_equal(handle, 0);
    assert_int_not_equal(handle, nigh_operation_handle(b));
    assert_ptr_equal(nigh_operation_find(handle), a);
    nigh_operation_give(a);
    assert_null(nigh_operation_find(handle));
    assert_ptr_equal(take(), a);
    assert_int_not_equal(nigh_operation_handle(a), handle);
    assert_null(nigh_operation_find(handle));
    assert_null(nigh_operation_find(handle + 1000));
    assert_null(nigh_operation_find(UINT64_MAX));
}

/* Every bit that differs is another handle: none of them names this operation. */
static void test_one_bit(void **state)
{
    struct nigh_operation *a = take();
    uint64_t handle = nigh_operation_handle(a);

    (void)state;
    for (int bit = 0; bit < 64; bit++)
        assert_ptr_not_equal(nigh_operation_find(handle ^ UINT64_C(1) << bit), a);
}

static void test_generations_wrap(void **state)
{
    struct nigh_operation *a = take();

    (void)state;
    a->generation = INT32_MAX; /* above are handles of lib/light.h */
    nigh_operation_give(a);
    assert_ptr_equal(take(), a);
    assert_int_equal(a->generation, 1);
}

static void test_check(void **state)
{
    struct nigh_operation *a = take(), *out = NULL;
    nigh_request request = {nigh_operation_handle(a)}, none = NIGH_REQUEST_NULL;

    (void)state;
    assert_int_equal(nigh_request_check(call, request, &out), 0);
    assert_ptr_equal(out, a);
    assert_int_equal(nigh_request_check(call, none, &out), 0);
    assert_null(out);
    nigh_operation_give(a);
    assert_int_equal(nigh_request_check(call, request, &out), -EINVAL);
    assert_non_null(strstr(nigh_error_text(), "has ended"));
    request.id = 0xffffffff00000000u | (uint32_t)(a - nigh_core.operations);
    assert_int_equal(nigh_request_check(call, request, &out), -EINVAL);
    assert_non_null(strstr(nigh_error_text(), "is no request"));
    a = take();
    a->flags = NIGH_OP_INTERNAL;
    request.id = nigh_operation_handle(a);
    assert_int_equal(nigh_request_check(call, request, &out), -EINVAL);
    a->flags = 0;
    a->kind = NIGH_KIND_MATCHED;
    assert_int_equal(nigh_request_check(call, request, &out), -EINVAL);
    assert_non_null(strstr(nigh_error_text(), "nigh_mrecv"));
}

/* All there are; then no more; after one is given back, one. The memory that was never needed was never touched. */
static void test_limit(void **state)
{
    uint32_t taken = nigh_core.operations_used, count = 0;
    struct nigh_operation *last = NULL, *next;

    (void)state;
    while ((next = nigh_operation_take()) != NULL) {
        nigh_operation_start(next, NIGH_KIND_SEND, NIGH_PHASE_DONE, NULL, 0, 0, 0, NULL);
        last = next;
        count++;
    }
    assert_in_range(count, NIGH_OPERATION_MAX - taken, NIGH_OPERATION_MAX);
    nigh_operation_give(last);
    assert_ptr_equal(nigh_operation_take(), last);
    assert_null(nigh_operation_take());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_handles, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(test_one_bit, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(test_generations_wrap, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(test_check, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(test_limit, open_slots, close_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
