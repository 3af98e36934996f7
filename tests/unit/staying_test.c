/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that come before their receives, where there are more ranks than CPUs: they stay in their rings,
 * also where others lie behind, as long as nobody wants one of these; what a receive can have it gets, in order,
 * and no sender is held up for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Of one ring of 64 slots, fewer than fill three quarters of it. */
enum { FEW = 40 };

static uint64_t unexpected(void)
{
    return hosted_stats(&root).unexpected;
}

/* However often the root looks; and a receive has what is there when it is posted, so that no pass is needed. */
static void test_they_stay(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < FEW; i++) {
        post_send(to, A, i);
        post_send(to_other, A, 100 + i);
    }
    look(100);
    assert_int_equal(unexpected(), 0);
    for (uint64_t i = 0; i < FEW; i++) {
        post_recv(from, A, i);
        assert_int_equal(nigh_cq_count(&root.context->cq), 1);
        look(1);
        assert_value(i, i);
        post_recv(from_other, A, FEW + i);
        look(1);
        assert_value(FEW + i, 100 + i);
    }
    assert_int_equal(unexpected(), 0);
}

/* The other one's are in nobody's way. */
static void test_they_stay_while_others_are_waited_for(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < FEW; i++)
        post_send(to_other, A, i);
    post_recv(from, A, 0);
    look(100);
    assert_int_equal(unexpected(), 0);
    post_send(to, A, 7);
    look(1);
    assert_value(0, 7);
    assert_int_equal(unexpected(), 0);
}

/* By tag, where the receive comes after the messages and where it was there before. */
static void test_one_behind_an_unwanted_one(void **state)
{
    (void)state;
    post_send(to, A, 10);
    post_send(to, B, 20);
    look(10);
    assert_int_equal(unexpected(), 0);
    post_recv(from, B, 0);
    look(1);
    assert_value(0, 20);
    assert_int_equal(unexpected(), 1);
    post_recv(from, B, 1);
    look(1);
    post_send(to, A, 11);
    post_send(to, B, 21);
    look(1);
    assert_value(1, 21);
    post_recv(from, A, 2);
    post_recv(from, A, 3);
    look(1);
    assert_value(2, 10);
    assert_value(3, 11);
}

static void test_one_behind_an_unwanted_one_from_anyone(void **state)
{
    (void)state;
    post_recv(NULL, B, 0);
    look(10);
    post_send(to, A, 10);
    post_send(to, B, 20);
    look(2);
    assert_value(0, 20);
    post_send(to_other, A, 11);
    post_send(to_other, B, 21);
    look(10);
    post_recv(NULL, B, 1);
    look(2);
    assert_value(1, 21);
}

/* The one posted first takes it, whoever looks at the ring at once. */
static void test_the_oldest_receive_takes_it(void **state)
{
    (void)state;
    post_send(to, A, 1);
    post_send(to, A, 2);
    post_send(to, A, 3);
    look(10);
    assert_int_equal(unexpected(), 0);
    post_recv(NULL, A, 0);
    post_recv(from, A, 1);
    post_recv(from, A, 2);
    look(1);
    assert_value(0, 1);
    assert_value(1, 2);
    assert_value(2, 3);
}

/* Nor does a post take what one like it waits for, which no pass has seen yet. */
static void test_the_oldest_of_receives_alike_takes_it(void **state)
{
    (void)state;
    post_send(to, A, 0);
    post_recv(from, A, 0);
    look(1);
    assert_value(0, 0);
    post_recv(from, B, 1);
    post_recv(from, A, 2);
    post_send(to, A, 1);
    post_send(to, B, 2);
    post_recv(from, A, 3);
    post_send(to, A, 3);
    look(2);
    assert_value(1, 2);
    assert_value(2, 1);
    assert_value(3, 3);
}

/* While others wait: a post is given what it is for, whatever its bytes; one longer than its buffer is cut. */
static void test_a_post_beside_others(void **state)
{
    static uint8_t out[NIGH_BODY_MAX], in[sizeof(out) + 1];
    static const uint32_t sizes[] = {0, 5, 8, NIGH_SLOT_PAYLOAD, NIGH_SLOT_PAYLOAD + 1, sizeof(out)};

    (void)state;
    post_recv(from, B, 0);
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(out, (int)i + 1, sizeof(out));
        memset(in, 0, sizeof(in));
        assert_int_equal(hosted_send(to, 1, A, out, sizes[i], NIGH_SILENT), 0);
        assert_int_equal(hosted_recv(&root, from, 10 + i, A, in, sizeof(in), 0), 0);
        look(1);
        assert_int_equal(hosted_find(&root, NIGH_OP_RECV, 10 + i)->bytes, sizes[i]);
        assert_memory_equal(in, out, sizes[i]);
        assert_int_equal(in[sizes[i]], 0);
    }
    assert_int_equal(hosted_send(to, 1, A, out, 16, NIGH_SILENT), 0);
    assert_int_equal(hosted_recv(&root, from, 20, A, in, 8, 0), 0);
    look(1);
    assert_int_equal(hosted_find(&root, NIGH_OP_RECV, 20)->status, -EMSGSIZE);
    post_send(to, B, 4);
    look(1);
    assert_value(0, 4);
}

/* And the oldest message is taken, also where older ones were kept. */
static void test_the_oldest_message_is_taken(void **state)
{
    struct nigh_completion done;

    (void)state;
    post_send(to, A, 1);
    post_send(to, A, 2);
    assert_int_equal(hosted_ops->probe(root.context, from, A, 0, 0, &done, NULL), 0);
    assert_int_equal(unexpected(), 2);
    post_send(to, A, 3);
    post_send(to, A, 4);
    look(10);
    assert_int_equal(unexpected(), 2);
    for (uint64_t i = 0; i < 4; i++)
        post_recv(from, A, i);
    look(1);
    for (uint64_t i = 0; i < 4; i++)
        assert_value(i, 1 + i);
}

/* A probe finds what lies behind. */
static void test_a_probe_finds_them(void **state)
{
    struct nigh_completion done;

    (void)state;
    for (uint64_t i = 0; i < FEW; i++)
        post_send(to, A, i);
    post_send(to, B, FEW);
    look(10);
    assert_int_equal(unexpected(), 0);
    assert_int_equal(hosted_ops->probe(root.context, from, B, 0, 0, &done, NULL), 0);
    assert_int_equal(done.bytes, sizeof(uint64_t));
}

/* Of the root's own, for room; and the ring from `to` is known, from a pass on. */
static void sends_that_wait(void)
{
    post_send(to, A, 0);
    look(1);
    post_recv(from, A, MANY - 1);
    look(20);
    for (uint64_t i = 0; i < 600; i++)
        post_send(from_other, A, i);
    assert_non_null(root.context->busy);
}

/* What is always there from one peer does not hide what another one has behind an unwanted one. */
static void test_a_stream_beside_it(void **state)
{
    (void)state;
    for (uint64_t i = 1; !hosted_find(&root, NIGH_OP_RECV, 0); i++) {
        assert_true(i < 100);
        if (i == 3) {
            post_recv(from_other, B, 0);
            post_send(to_other, A, 1);
            post_send(to_other, B, 2);
        }
        post_recv(from, A, i);
        post_send(to, A, i);
        look(1);
        assert_value(i, i);
    }
    assert_value(0, 2);
}

/* Nor do posts that find theirs at once hold up what waits for a pass: sends that found no room. */
static void test_posts_that_find_theirs(void **state)
{
    (void)state;
    sends_that_wait();
    for (uint64_t i = 0; root.context->busy; i++) {
        assert_true(i < 500);
        hosted_poll(&other);
        post_send(to, A, i);
        post_recv(from, A, i);
        assert_int_equal(nigh_cq_count(&root.context->cq), 1);
        look(1);
        assert_value(i, i);
    }
}

/* Nor where the host has room for one completion, which is what the post has found. */
static void test_posts_and_room_for_one(void **state)
{
    struct nigh_completion done;

    (void)state;
    sends_that_wait();
    for (uint64_t i = 0; root.context->busy; i++) {
        assert_true(i < 500);
        hosted_poll(&other);
        post_send(to, A, i);
        post_recv(from, A, i);
        assert_int_equal(hosted_ops->poll_completions(root.context, &done, 1), 1);
        assert_int_equal(done.context, i);
    }
}

/* What is no message is waited for without a receive: here that one of the root's own is matched. */
static void test_an_answer_behind_them(void **state)
{
    uint64_t value = 5, got = 0;

    (void)state;
    assert_int_equal(hosted_send(from, 50, A, &value, sizeof(value), NIGH_SYNC), 0);
    for (uint64_t i = 0; i < FEW / 2; i++)
        post_send(to, A, i);
    look(3);
    assert_int_equal(unexpected(), 0);
    assert_null(hosted_find(&root, NIGH_OP_SEND, 50));
    assert_int_equal(hosted_recv(&near, to, 51, A, &got, sizeof(got), 0), 0);
    hosted_turns(&near, NULL, 3);
    assert_int_equal(got, value);
    look(1);
    assert_non_null(hosted_find(&root, NIGH_OP_SEND, 50));
    for (uint64_t i = 0; i < FEW / 2; i++) {
        post_recv(from, A, i);
        look(1);
        assert_value(i, i);
    }
}

/* Where no receive can come any more: all had been published before. */
static void test_the_sender_leaves(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < FEW; i++)
        post_send(to, A, i);
    look(10);
    assert_int_equal(unexpected(), 0);
    hosted_close(&near);
    root.context->service_flag = news;
    for (unsigned i = 0; hosted_state(&root, from) == NIGH_READY; i++) {
        assert_true(i < 100000);
        look(10);
        usleep(100);
    }
    for (uint64_t i = 0; i < FEW; i++) {
        post_recv(from, A, i);
        look(1);
        assert_value(i, i);
    }
}

/* A slot that cannot be, found by a post, ends the endpoint, and that receive with it. */
static void test_a_lie_behind_it(void **state)
{
    struct nigh_slot *slot;

    (void)state;
    post_send(to, A, 1);
    look(10);
    slot = nigh_ring_at(&to->tx);
    nigh_store_release(&slot->head, nigh_ring_word(&to->tx, nigh_head_make(NIGH_K_MESSAGE, 0xffff, 0, 0)),
                       RING_PUBLISH);
    post_recv(from, A, 0);
    post_recv(from, A, 1);
    look(1);
    assert_value(0, 1);
    assert_int_equal(hosted_find(&root, NIGH_OP_RECV, 1)->status, -EPROTO);
    assert_int_equal(hosted_state(&root, from), NIGH_BROKEN);
}

/* As Intel MPI has them, from anyone and in a class of its own: they say nothing of the others' messages, and what comes
 * for them is seen behind such. */
static void test_beside_receives_that_stand(void **state)
{
    enum { CLASS = 5 };
    static uint64_t room[8];
    struct nigh_recv stands = {.size = sizeof(stands),
                               .flags = NIGH_MULTI,
                               .buffer = room,
                               .bytes = sizeof(room),
                               .ignore = NIGH_IGNORE_ALL,
                               .context = 900,
                               .tclass = CLASS,
                               .min_free = 8};
    uint64_t word = 33;
    struct nigh_send for_it = {.size = sizeof(for_it), .buffer = &word, .bytes = 8, .tclass = CLASS};

    (void)state;
    assert_int_equal(hosted_ops->post_recv(root.context, NULL, &stands), 0);
    post_send(to, A, 1);
    post_send(to, A, 2);
    look(100);
    assert_int_equal(unexpected(), 0);
    assert_int_equal(hosted_ops->post_send(to, &for_it), 0);
    look(4);
    assert_non_null(hosted_find(&root, NIGH_OP_RECV, 900));
    assert_int_equal(room[0], 33);
    post_recv(from, A, 0);
    post_recv(from, A, 1);
    look(1);
    assert_value(0, 1);
    assert_value(1, 2);
}

/* Two ranks with a CPU each: what lies behind is kept at once, as before. */
static void test_few_ranks(void **state)
{
    (void)state;
    root.context->crowd.full = false;
    nigh_context_settle(root.context);
    post_send(to, A, 0);
    look(1);
    assert_int_equal(unexpected(), 0);
    post_send(to, A, 1);
    look(1);
    assert_int_equal(unexpected(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_stay, start, stop),
        cmocka_unit_test_setup_teardown(test_they_stay_while_others_are_waited_for, start, stop),
        cmocka_unit_test_setup_teardown(test_one_behind_an_unwanted_one, start, stop),
        cmocka_unit_test_setup_teardown(test_one_behind_an_unwanted_one_from_anyone, start, stop),
        cmocka_unit_test_setup_teardown(test_the_oldest_receive_takes_it, start, stop),
        cmocka_unit_test_setup_teardown(test_the_oldest_of_receives_alike_takes_it, start, stop),
        cmocka_unit_test_setup_teardown(test_a_post_beside_others, start, stop),
        cmocka_unit_test_setup_teardown(test_the_oldest_message_is_taken, start, stop),
        cmocka_unit_test_setup_teardown(test_a_probe_finds_them, start, stop),
        cmocka_unit_test_setup_teardown(test_a_stream_beside_it, start, stop),
        cmocka_unit_test_setup_teardown(test_posts_that_find_theirs, start, stop),
        cmocka_unit_test_setup_teardown(test_posts_and_room_for_one, start, stop),
        cmocka_unit_test_setup_teardown(test_an_answer_behind_them, start, stop),
        cmocka_unit_test_setup_teardown(test_the_sender_leaves, start, stop),
        cmocka_unit_test_setup_teardown(test_a_lie_behind_it, start, stop),
        cmocka_unit_test_setup_teardown(test_beside_receives_that_stand, start, stop),
        cmocka_unit_test_setup_teardown(test_few_ranks, start, stop),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
