/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that stay in their rings where there are more ranks than CPUs: none holds up its sender for ever, nor what a pass
 * has left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Who fills its ring with what nobody wants gets on, and so does what it sends then. */
static void test_a_full_ring(void **state)
{
    (void)state;
    post_recv(from_other, B, MANY - 1);
    for (uint64_t i = 0; i < MANY - 1; i++)
        post_send(to, A, i);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 1000);
        hosted_turns(&root, &near, 1);
    }
    post_recv(from, A, 0);
    look(1);
    assert_value(0, 0);
    post_send(to, LAST, 77);
    post_recv(from, LAST, 1);
    for (unsigned i = 0; !hosted_find(&root, NIGH_OP_RECV, 1); i++) {
        assert_true(i < 100);
        hosted_turns(&root, &near, 1);
    }
    assert_value(1, 77);
    for (uint64_t i = 2; i < MANY - 1; i++) {
        post_recv(from, A, i);
        look(1);
        assert_value(i, i - 1);
    }
}

/* Short ones that leave no room for long ones: as many are kept as these need. */
static void test_long_ones_behind_short_ones(void **state)
{
    static uint8_t body[1024];

    (void)state;
    post_recv(from_other, B, MANY - 1);
    for (uint64_t i = 0; i < 80; i++)
        post_send(to, A, i);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(hosted_send(to, 1000 + i, LAST, body, sizeof(body), NIGH_SILENT), 0);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 100);
        hosted_turns(&root, &near, 1);
    }
}

/* Nor a long one that goes past what may stay, and leaves no room for another: as many are kept as that one needs. */
static void test_a_long_one_past_the_room(void **state)
{
    static uint8_t body[NIGH_BODY_MAX];

    (void)state;
    near.context->config.body_bytes = NIGH_BODY_MAX;
    /* From then on it is the ring for busy pairs. */
    for (uint64_t i = 0; i < 70; i++)
        post_send(to, A, i);
    for (uint64_t i = 0; i < 70; i++)
        post_recv(from, A, i);
    look(10);
    assert_value(69, 69);
    post_recv(from_other, B, MANY - 1);
    while (nigh_ring_room(&to->tx, nigh_slots_for(sizeof(body)) + 4))
        post_send(to, A, 0);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(hosted_send(to, 1000 + i, LAST, body, sizeof(body), NIGH_SILENT), 0);
    assert_non_null(near.context->busy);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 100);
        hosted_turns(&root, &near, 1);
    }
}

/* What a pass had no room for is looked at in the next one, also where the numbers of receives come round. */
static void test_receives_come_round(void **state)
{
    struct nigh_completion done;

    (void)state;
    for (uint64_t i = 0; i < 2; i++)
        post_send(to, A, i);
    look(2);
    root.context->matcher.sequence = UINT32_MAX - 2;
    for (uint64_t i = 0; i < 2; i++)
        post_recv(NULL, A, i);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(hosted_ops->poll_completions(root.context, &done, 1), 1);
        assert_int_equal(done.context, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_full_ring, start, stop),
        cmocka_unit_test_setup_teardown(test_long_ones_behind_short_ones, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_one_past_the_room, start, stop),
        cmocka_unit_test_setup_teardown(test_receives_come_round, start, stop),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
