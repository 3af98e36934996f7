/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that stay in their rings where there are more ranks than CPUs: none holds up its sender for
 * ever, nor what a pass has left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Passes without news, in which a full ring is left as it is while a receive waits for somebody else, and behind which
 * it is not: fewer than there are between two sweeps. */
enum { PATIENT = 100, PAST = 300 };

static uint64_t unexpected(void)
{
    return hosted_stats(&root).unexpected;
}

/* From then on it is the ring for busy pairs. */
static void move(void)
{
    for (uint64_t i = 0; i < 70; i++)
        post_send(to, A, i);
    for (uint64_t i = 0; i < 70; i++)
        post_recv(from, A, i);
    look(10);
    assert_value(69, 69);
    root.count = 0;
}

/* More than the ring takes, so that the rest waits in its sender. */
static void fill(void)
{
    for (uint64_t i = 0; to->queue.count < 10; i++)
        post_send(to, A, i);
}

static void fill_and_wait(void)
{
    move();
    fill();
    post_recv(from_other, B, MANY - 1);
}

/* Takes `count` messages, each by a receive that is posted behind it; their sender goes on meanwhile. */
static void take(unsigned count)
{
    for (uint64_t i = 0; i < count; i++) {
        post_recv(from, A, i);
        look(1);
        assert_non_null(hosted_find(&root, NIGH_OP_RECV, i));
        root.count = 0;
        hosted_poll(&near);
    }
}

/* While the root waits for another one: receives that come then find all of it there. */
static void test_a_full_ring_stays(void **state)
{
    (void)state;
    fill_and_wait();
    look(PATIENT);
    assert_int_equal(unexpected(), 0);
    take(100);
    assert_int_equal(unexpected(), 0);
}

/* And goes on to, as long as now and then one of it is taken: its sender fills it anew at once. */
static void test_it_stays_while_it_is_taken(void **state)
{
    (void)state;
    fill_and_wait();
    for (unsigned i = 0; i < 4; i++) {
        look(PATIENT);
        take(40);
        fill();
    }
    assert_int_equal(unexpected(), 0);
    assert_non_null(near.context->busy);
}

/* Not for ever: what its sender does next may be what the root waits for. Then what comes is kept
 * at once, until receives come. */
static void test_patience_ends(void **state)
{
    uint64_t kept;

    (void)state;
    fill_and_wait();
    look(PAST);
    assert_true(unexpected() > 0);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 10);
        hosted_turns(&root, &near, 1);
    }
    look(2);
    kept = unexpected();
    assert_true(!nigh_ring_peek(&from->rx));
    fill();
    look(2);
    assert_true(unexpected() > kept);
    take(1);
    /* What had been sent until then may be kept. */
    hosted_poll(&near);
    look(2);
    kept = unexpected();
    fill();
    look(PATIENT);
    assert_int_equal(unexpected(), kept);
}

/* A host that looks seldom makes its peers wait for fewer looks: no less time can pass between these. */
static void test_patience_ends_in_few_polls(void **state)
{
    (void)state;
    fill_and_wait();
    for (unsigned i = 0; i < 30; i++) {
        usleep(2000);
        look(1);
    }
    assert_true(unexpected() > 0);
}

/* Where no receive waits, the root waits for room, or for nothing: who sends much before it receives is not held up. */
static void test_no_patience_without_a_receive(void **state)
{
    (void)state;
    move();
    fill();
    look(20);
    assert_true(unexpected() > 0);
}

/* Unless it is between two receives that find theirs when they are posted. */
static void test_posts_are_news(void **state)
{
    (void)state;
    move();
    fill();
    for (unsigned i = 0; i < 50; i++) {
        post_send(to_other, A, i);
        post_recv(from_other, A, 0);
        look(2);
        assert_int_equal(received[0], i);
        root.count = 0;
    }
    assert_int_equal(unexpected(), 0);
}

/* Nor where others send all the time: by passes, and by posts that find theirs. */
static void test_patience_ends_beside_news(void **state)
{
    for (unsigned posts = 0; posts < 2; posts++) {
        fill_and_wait();
        for (unsigned i = 0; !unexpected(); i++) {
            assert_true(i < 10000);
            if (!posts)
                post_recv(from_other, A, 0);
            post_send(to_other, A, i);
            if (posts)
                post_recv(from_other, A, 0);
            look(1);
            assert_int_equal(received[0], i);
            root.count = 0;
        }
        stop(state);
        start(state);
    }
}

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
    near.context->config.ring_by_load = false;
    post_recv(from_other, B, MANY - 1);
    for (uint64_t i = 0; i < 80; i++)
        post_send(to, A, i);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(hosted_send(to, 1000 + i, LAST, body, sizeof(body), NIGH_SILENT), 0);
    assert_non_null(near.context->busy);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 100 + PAST);
        hosted_turns(&root, &near, 1);
    }
}

/* Nor a long one that goes past what may stay, and leaves no room for another: as many are kept as that one needs. */
static void test_a_long_one_past_the_room(void **state)
{
    static uint8_t body[NIGH_BODY_MAX];

    (void)state;
    near.context->config.body_bytes = NIGH_BODY_MAX;
    move();
    post_recv(from_other, B, MANY - 1);
    while (nigh_ring_room(&to->tx, nigh_slots_for(sizeof(body)) + 4))
        post_send(to, A, 0);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(hosted_send(to, 1000 + i, LAST, body, sizeof(body), NIGH_SILENT), 0);
    assert_non_null(near.context->busy);
    for (unsigned i = 0; near.context->busy; i++) {
        assert_true(i < 100 + PAST);
        hosted_turns(&root, &near, 1);
    }
}

/* Nor in a ring that just takes the longest, whatever number of short ones lies there. */
static void test_long_ones_in_the_least_ring(void **state)
{
    static uint8_t body[NIGH_BODY_MAX];

    for (unsigned ones = 25; ones < 60; ones++) {
        near.context->config.body_bytes = NIGH_BODY_MAX;
        root.context->config.ring_slots = near.context->config.ring_slots = NIGH_RING_SLOTS_MIN;
        post_recv(from_other, B, MANY - 1);
        for (uint64_t i = 0; i < ones; i++)
            post_send(to, A, i);
        assert_int_equal(hosted_send(to, 1000, LAST, body, sizeof(body), NIGH_SILENT), 0);
        for (unsigned i = 0; near.context->busy; i++) {
            if (i == 100 + PAST)
                fail_msg("a long message waits behind %u short ones", ones);
            hosted_turns(&root, &near, 1);
        }
        stop(state);
        start(state);
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

/* ---- how much room ------------------------------------------------------------------------------------------ */

static uint32_t slots_when_filled(void)
{
    fill();
    return to->tx.mask + 1;
}

static void test_longer_rings_in_a_crowd(void **state)
{
    (void)state;
    crowd(&near);
    assert_int_equal(slots_when_filled(), NIGH_RING_CROWDED);
}

/* They would take 32 KiB for each pair. */
static void test_not_where_there_are_many(void **state)
{
    (void)state;
    crowd(&near);
    near.context->crowd.ranks = NIGH_RING_CROWDED_RANKS + 1;
    assert_int_equal(slots_when_filled(), near.context->config.ring_slots);
}

static void test_not_where_many_are_attached(void **state)
{
    (void)state;
    crowd(&near);
    near.context->crowd.members = NIGH_RING_CROWDED_RANKS + 1;
    assert_int_equal(slots_when_filled(), near.context->config.ring_slots);
}

static void test_not_where_each_has_a_cpu(void **state)
{
    (void)state;
    near.context->crowd.full = false;
    nigh_context_settle(near.context);
    assert_int_equal(slots_when_filled(), near.context->config.ring_slots);
}

static void test_not_where_somebody_said_how_long(void **state)
{
    (void)state;
    crowd(&near);
    near.context->config.ring_by_load = false;
    assert_int_equal(slots_when_filled(), near.context->config.ring_slots);
}

static bool by_load(uint32_t ring_slots)
{
    const struct nigh_open options = {.size = sizeof(options), .ranks = 1, .ring_slots = ring_slots};
    struct nigh_config config;

    assert_int_equal(nigh_config_read(&options, NULL, &config), 0);
    return config.ring_by_load;
}

static void test_who_says_how_long(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("NIGH_RING"), 0);
    assert_true(by_load(0));
    assert_false(by_load(128));
    assert_int_equal(setenv("NIGH_RING", "128", 1), 0);
    assert_false(by_load(0));
    assert_int_equal(unsetenv("NIGH_RING"), 0);
}

/* The usual one where memory is short. */
static void test_not_where_there_is_no_memory(void **state)
{
    const uint64_t gone = (NIGH_RING_CROWDED - 128) * NIGH_LINE;

    (void)state;
    crowd(&near);
    post_send(to, A, 0);
    to->window.used += gone;
    assert_int_equal(slots_when_filled(), near.context->config.ring_slots);
    to->window.used -= gone;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_full_ring_stays, start, stop),
        cmocka_unit_test_setup_teardown(test_it_stays_while_it_is_taken, start, stop),
        cmocka_unit_test_setup_teardown(test_patience_ends, start, stop),
        cmocka_unit_test_setup_teardown(test_patience_ends_in_few_polls, start, stop),
        cmocka_unit_test_setup_teardown(test_no_patience_without_a_receive, start, stop),
        cmocka_unit_test_setup_teardown(test_posts_are_news, start, stop),
        cmocka_unit_test_setup_teardown(test_patience_ends_beside_news, start, stop),
        cmocka_unit_test_setup_teardown(test_a_full_ring, start, stop),
        cmocka_unit_test_setup_teardown(test_long_ones_behind_short_ones, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_one_past_the_room, start, stop),
        cmocka_unit_test_setup_teardown(test_long_ones_in_the_least_ring, start, stop),
        cmocka_unit_test_setup_teardown(test_receives_come_round, start, stop),
        cmocka_unit_test_setup_teardown(test_longer_rings_in_a_crowd, start, stop),
        cmocka_unit_test_setup_teardown(test_not_where_there_are_many, start, stop),
        cmocka_unit_test(test_who_says_how_long),
        cmocka_unit_test_setup_teardown(test_not_where_there_is_no_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_not_where_many_are_attached, start, stop),
        cmocka_unit_test_setup_teardown(test_not_where_each_has_a_cpu, start, stop),
        cmocka_unit_test_setup_teardown(test_not_where_somebody_said_how_long, start, stop),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
