/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in shuttles that come before their receives: all of them comes, stays where it lies, and is copied once,
 * into the receive's buffer; until then nobody writes there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/shuttle.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, TAG = 3, MOST = 512 * KIB };

static struct hosted a, b;
static struct nigh_endpoint *to, *back;
static uint8_t out[MOST], in[MOST + 1];

/* In one piece, in one that a count fills, and in several; below, at and above what goes unasked by other ways. */
static const uint32_t sizes[] = {2000, 4096, 32 * KIB, 33 * KIB + 5, 64 * KIB, 64 * KIB + 1, 200 * KIB, MOST};

static int start(void **state)
{
    (void)state;
    alarm(300);
    for (unsigned at = 0; at < MOST; at++)
        out[at] = (uint8_t)(at * 7 + at / 256 * 3 + at / 65536);
    memset(in, 0, sizeof(in));
    to = hosted_open_pair(&a, &b, 0);
    back = hosted_connect(&b, 0);
    a.context->config.place_from = b.context->config.place_from = MOST + 1; /* on every CPU */
    a.context->config.beside_from = b.context->config.beside_from = UINT64_MAX;
    a.context->config.beside_row_from = b.context->config.beside_row_from = UINT64_MAX;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    return 0;
}

/* What a host has been told is forgotten, so that numbers can be used again. */
static void forget(void)
{
    a.count = b.count = 0;
    memset(in, 0, sizeof(in));
}

/* NULL: not here yet. */
static struct nigh_message *kept(void)
{
    return (struct nigh_message *)(void *)nigh_match_find(&b.context->matcher, NIGH_ANY, 0, TAG, 0, false);
}

/* It lies in that shuttle of the receiver's two. */
static struct nigh_shuttle *send_early(uint32_t bytes)
{
    assert_int_equal(hosted_send(to, 1, TAG, out, bytes, 0), 0);
    for (unsigned i = 0; !kept() || kept()->got < bytes; i++) {
        assert_true(i < 1000000);
        hosted_turns(&a, &b, 10);
        usleep(10);
    }
    assert_int_equal(kept()->got, bytes);
    assert_null(kept()->buffer);
    for (unsigned i = 0; i < 2; i++)
        if (kept()->lies == back->shuttle[i].base)
            return &back->shuttle[i];
    fail_msg("%u bytes lie in no shuttle", bytes);
    return NULL;
}

/* The shuttle goes back to the sender. */
static void answer(void)
{
    forget();
    assert_int_equal(hosted_send(back, 3, TAG, out, 2000, 0), 0);
    assert_int_equal(hosted_recv(&a, NULL, 4, TAG, in, 2000, 0), 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 4)->status, 0);
    forget();
}

static const struct nigh_completion *receive(uint64_t room)
{
    assert_int_equal(hosted_recv(&b, NULL, 2, TAG, in, room, 0), 0);
    return hosted_until(&b, &a, NIGH_OP_RECV, 2);
}

static void assert_came(uint32_t bytes)
{
    const struct nigh_completion *done = receive(sizeof(in));

    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, bytes);
    assert_memory_equal(in, out, bytes);
    assert_int_equal(in[bytes], 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
}

/* In its place and whole, without memory of our own, and ours to write only when it was read. */
static void test_it_stays_where_it_lies(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct nigh_shuttle *shuttle = send_early(sizes[i]);

        assert_false(shuttle->held);
        assert_came(sizes[i]);
        assert_true(shuttle->held);
        answer();
    }
}

/* What goes unasked by other ways is complete when it is copied, what does not when it is matched. */
static void test_a_long_one_completes_when_it_is_matched(void **state)
{
    (void)state;
    send_early(64 * KIB);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 1));
    assert_came(64 * KIB);
    answer();
    send_early(64 * KIB + 1);
    assert_null(hosted_find(&a, NIGH_OP_SEND, 1));
    assert_came(64 * KIB + 1);
}

/* While it waits its receiver answers in other memory. */
static void test_nobody_writes_it_meanwhile(void **state)
{
    static uint8_t other[100 * KIB], got[100 * KIB];

    (void)state;
    memset(other, 0xee, sizeof(other));
    send_early(100 * KIB);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(hosted_send(back, 10 + i, TAG, other, sizeof(other), 0), 0);
        assert_int_equal(hosted_recv(&a, NULL, 20 + i, TAG, got, sizeof(got), 0), 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 20 + i)->status, 0);
        assert_memory_equal(got, other, sizeof(got));
        memset(got, 0, sizeof(got));
    }
    assert_came(100 * KIB);
}

/* The second goes another way, as the first has not been read, and both come in their order. */
static void test_one_behind_the_other(void **state)
{
    static uint8_t second[100 * KIB];

    (void)state;
    memset(second, 0x77, sizeof(second));
    send_early(100 * KIB);
    assert_int_equal(hosted_send(to, 5, TAG, second, sizeof(second), 0), 0);
    hosted_turns(&a, &b, 100);
    assert_came(100 * KIB);
    forget();
    assert_int_equal(receive(sizeof(in))->bytes, sizeof(second));
    assert_memory_equal(in, second, sizeof(second));
}

static void test_too_long(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct nigh_shuttle *shuttle = send_early(i ? 100 * KIB : 5000);
        const struct nigh_completion *done = receive(4000);

        assert_int_equal(done->status, -EMSGSIZE);
        assert_memory_equal(in, out, 4000);
        assert_int_equal(in[4000], 0);
        assert_true(shuttle->held);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
        answer();
    }
}

/* The second of two, of another buffer, takes a shuttle where ranks run in turns, and chunks else. */
static void in_a_row(bool crowd, uint32_t bytes)
{
    send_early(bytes);
    assert_came(bytes);
    forget();
    /* Whatever this machine has. */
    b.context->crowd.full = crowd;
    nigh_context_settle(b.context);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(hosted_send(back, 10 + i, TAG, out + 64 * i, bytes, 0), 0);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(hosted_recv(&a, NULL, 20 + i, TAG, in, bytes, 0), 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 20 + i)->status, 0);
        assert_memory_equal(in, out + 64 * i, bytes);
    }
    assert_int_equal(to->shuttle[0].held + to->shuttle[1].held, crowd ? 2 : 1);
}

static void test_in_a_row_of_few(void **state)
{
    (void)state;
    in_a_row(false, 40 * KIB);
}

static void test_in_a_row_in_a_crowd(void **state)
{
    (void)state;
    in_a_row(true, 40 * KIB);
}

static void test_long_ones_in_a_row_of_few(void **state)
{
    (void)state;
    in_a_row(false, 200 * KIB);
}

static void test_long_ones_in_a_row_in_a_crowd(void **state)
{
    (void)state;
    in_a_row(true, 200 * KIB);
}

static void assert_refused_in_place(uint32_t bytes)
{
    const struct nigh_completion *done;

    forget();
    assert_int_equal(hosted_recv(&b, NULL, 2, TAG, NULL, 4000, NIGH_IN_PLACE), 0);
    done = hosted_until(&b, &a, NIGH_OP_RECV, 2);
    assert_int_equal(done->status, -EMSGSIZE);
    assert_int_equal(done->bytes, bytes);
    assert_null(done->data);
}

/* In a shuttle, and behind that in private memory: nothing of it is handed out, nor freed twice. */
static void test_too_long_for_its_place(void **state)
{
    static const uint32_t behind[] = {5000, 40 * KIB, 100 * KIB};

    (void)state;
    for (unsigned i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
        send_early(100 * KIB);
        assert_int_equal(hosted_send(to, 5, TAG, out, behind[i], 0), 0);
        hosted_turns(&a, &b, 100);
        assert_refused_in_place(100 * KIB);
        assert_refused_in_place(behind[i]);
        answer();
    }
}

/* All of it had come before the goodbye, so it can be received behind it. */
static void test_its_sender_leaves(void **state)
{
    (void)state;
    send_early(100 * KIB);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    hosted_turns(&a, &b, 3000);
    assert_int_not_equal(hosted_state(&b, back), NIGH_READY);
    assert_int_equal(receive(sizeof(in))->status, 0);
    assert_memory_equal(in, out, 100 * KIB);
    to = NULL;
}

/* Taken out before it is received, and received behind its sender's end. */
static void test_claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = sizeof(in), .context = 2};
    struct nigh_message *message = NULL;
    struct nigh_completion found;

    (void)state;
    send_early(100 * KIB);
    assert_int_equal(hosted_ops->probe(b.context, NULL, TAG, 0, 0, &found, &message), 0);
    assert_int_equal(found.bytes, 100 * KIB);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    hosted_turns(&a, &b, 3000);
    assert_int_equal(hosted_ops->claim(b.context, message, &recv), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 2)->status, 0);
    assert_memory_equal(in, out, 100 * KIB);
    to = NULL;
}

/* Two of which neither is received: nothing of them is left when both contexts are closed. */
static void test_never_received(void **state)
{
    (void)state;
    send_early(100 * KIB);
    assert_int_equal(hosted_send(to, 5, TAG, out, 5000, 0), 0);
    hosted_turns(&a, &b, 100);
    assert_int_equal(hosted_stats(&b).unexpected, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_stays_where_it_lies, start, stop),
        cmocka_unit_test_setup_teardown(test_a_long_one_completes_when_it_is_matched, start, stop),
        cmocka_unit_test_setup_teardown(test_nobody_writes_it_meanwhile, start, stop),
        cmocka_unit_test_setup_teardown(test_one_behind_the_other, start, stop),
        cmocka_unit_test_setup_teardown(test_too_long, start, stop),
        cmocka_unit_test_setup_teardown(test_in_a_row_of_few, start, stop),
        cmocka_unit_test_setup_teardown(test_in_a_row_in_a_crowd, start, stop),
        cmocka_unit_test_setup_teardown(test_long_ones_in_a_row_of_few, start, stop),
        cmocka_unit_test_setup_teardown(test_long_ones_in_a_row_in_a_crowd, start, stop),
        cmocka_unit_test_setup_teardown(test_too_long_for_its_place, start, stop),
        cmocka_unit_test_setup_teardown(test_its_sender_leaves, start, stop),
        cmocka_unit_test_setup_teardown(test_claimed, start, stop),
        cmocka_unit_test_setup_teardown(test_never_received, start, stop),
    };

    return cmocka_run_group_tests_name("early", tests, NULL, NULL);
}
