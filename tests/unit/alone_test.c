/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that wait alone, one for each peer, where there are more ranks than CPUs: each gets its message, and
 * whatever else is posted, taken back or breaks off finds them where it finds others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>

enum { LONG = 100000 };

static uint8_t rooms[8][LONG];
static uint32_t rooms_bytes[8];

static void post(struct nigh_endpoint *endpoint, uint32_t bytes, uint64_t tag, uint64_t ignore,
                 uint64_t number)
{
    rooms_bytes[number] = bytes;
    assert_int_equal(hosted_ops->recv_imm(endpoint, rooms[number], NIGH_SHAPE(bytes, 0), tag, ignore, number),
                     0);
}

static void send_long(struct nigh_endpoint *endpoint, uint64_t bytes, uint64_t tag, int value)
{
    static uint8_t payload[8][LONG];

    memset(payload[value], value, bytes);
    assert_int_equal(hosted_send(endpoint, 0, tag, payload[value], bytes, NIGH_SILENT), 0);
}

static void assert_got(uint64_t number, int status, uint64_t bytes, int value)
{
    const struct nigh_completion *done;

    for (unsigned i = 0; i < 10000 && !hosted_find(&root, NIGH_OP_RECV, number); i++) {
        hosted_turns(&root, &near, 1);
        hosted_poll(&other);
    }
    done = hosted_find(&root, NIGH_OP_RECV, number);
    assert_non_null(done);
    assert_int_equal(done->status, status);
    assert_int_equal(done->bytes, bytes);
    if (bytes && rooms_bytes[number])
        assert_int_equal(rooms[number][0], value);
}

/* So many wait alone, and so many otherwise, those that stand among them. */
static void assert_waiting(int alone, unsigned others)
{
    const struct nigh_matcher *matcher = &root.context->matcher;

    assert_int_equal(__builtin_popcountll(matcher->alone), alone);
    assert_int_equal(nigh_match_posted(matcher), (unsigned)alone + others);
}

/* The root knows both rings, which it does not before something has come. */
static int begin(void **state)
{
    int rc = start(state);

    post_send(to, A, 1);
    post_send(to_other, A, 2);
    post_recv(from, A, 0);
    post_recv(from_other, A, 1);
    look(10);
    root.count = 0;
    assert_true(from->meets && from_other->meets);
    return rc;
}

static void test_one_of_each(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 40, B, UINT64_C(0xff00), 2);
    assert_waiting(2, 0);
    send_long(to_other, 30, B | 0x1200, 7);
    send_long(to, 8, A, 6);
    look(1);
    assert_waiting(0, 0);
    assert_got(1, 0, 8, 6);
    assert_got(2, 0, 30, 7);
}

/* What no receive is for stays, and a later one takes it at once, past the one that waits. */
static void test_other_messages(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    send_long(to, 8, B, 5);
    look(3);
    assert_int_equal(root.count, 0);
    assert_waiting(1, 0);
    post(from, 8, B, 0, 2);
    assert_waiting(1, 0);
    assert_got(2, 0, 8, 5);
    send_long(to, 8, A, 6);
    assert_got(1, 0, 8, 6);
}

/* One that is there and too long for a slot is taken by the post all the same, where it is the only one. */
static void test_longer_than_a_slot(void **state)
{
    (void)state;
    send_long(to, 300, A, 5);
    post(from, 300, A, 0, 1);
    assert_int_equal(nigh_cq_count(&root.context->cq), 1);
    assert_got(1, 0, 300, 5);
}

/* One of another class: its tag alone is no match. */
static void test_class(void **state)
{
    uint64_t value = 5;

    (void)state;
    post(from, 8, A, 0, 1);
    assert_int_equal(hosted_ops->inject_imm(to, &value, NIGH_SHAPE(8, 1), A, 0), 0);
    look(3);
    assert_int_equal(root.count, 0);
    send_long(to, 8, A, 6);
    assert_int_equal(hosted_ops->recv_imm(from, rooms[2], NIGH_SHAPE(8, 1), A, 0, 2), 0);
    assert_got(2, 0, 8, 5);
    assert_got(1, 0, 8, 6);
}

/* Of every length that does not go the short way, and longer than the buffer. */
static void test_lengths(void **state)
{
    static const uint32_t lengths[] = {0, 1, 39, 40, 41, 2000, 4000, LONG};

    (void)state;
    for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        root.count = 0;
        post(from, LONG, A, 0, 1);
        post(from_other, lengths[i] / 2, A, 0, 2);
        assert_waiting(2, 0);
        send_long(to, lengths[i], A, 6);
        send_long(to_other, lengths[i], A, 7);
        assert_got(1, 0, lengths[i], 6);
        assert_got(2, lengths[i] > lengths[i] / 2 ? -EMSGSIZE : 0, lengths[i], 7);
        assert_waiting(0, 0);
    }
}

/* The second of a peer's: the first one posted is the first that is filled. */
static void test_two_of_one_peer(void **state)
{
    (void)state;
    post(from_other, 8, A, 0, 3);
    post(from, 8, A, 0, 1);
    post(from, 8, A, 0xff, 2);
    assert_waiting(0, 3);
    send_long(to, 8, A, 1);
    send_long(to, 8, A, 2);
    send_long(to_other, 8, A, 3);
    look(1);
    for (int i = 1; i <= 3; i++)
        assert_got((uint64_t)i, 0, 8, i);
    post(from, 8, A, 0, 4);
    assert_waiting(1, 0);
    send_long(to, 8, A, 4);
    assert_got(4, 0, 8, 4);
}

/* One from anyone behind them, and in the middle. */
static void test_anyone(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    assert_int_equal(hosted_recv(&root, NULL, 2, A, rooms[2], 8, 0), 0);
    post(from_other, 8, A, 0, 3);
    assert_waiting(0, 3);
    send_long(to_other, 8, A, 2);
    look(1);
    send_long(to, 8, A, 1);
    send_long(to_other, 8, A, 3);
    for (int i = 1; i <= 3; i++)
        assert_got((uint64_t)i, 0, 8, i);
}

/* By the other slots of the table: they file. */
static void test_other_slots(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        root.count = 0;
        root.context->crowd.full = true;
        nigh_context_settle(root.context);
        post(from, 8, A, 0, 1);
        assert_waiting(1, 0);
        root.context->crowd.full = way == 2;
        nigh_context_settle(root.context);
        if (way == 0)
            assert_int_equal(hosted_recv(&root, from, 2, A, rooms[2], 8, 0), 0);
        else if (way == 1)
            assert_int_equal(hosted_ops->expect(from, rooms[2], NIGH_SHAPE(8, 0), A, 2, NULL), 0);
        else
            assert_int_equal(hosted_recv(&root, from, 2, A, rooms[2], 100, NIGH_IN_PLACE), 0);
        assert_waiting(0, 2);
        send_long(to, 8, A, 1);
        assert_got(1, 0, 8, 1);
        send_long(to, 8, A, 2);
        assert_non_null(hosted_until(&root, &near, NIGH_OP_RECV, 2));
    }
}

/* A buffer for many behind them stands beside those that wait alone: the older one is filled first, whoever sends. */
static void test_multi(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 8, A, 0, 2);
    assert_int_equal(hosted_recv(&root, NULL, 3, A, rooms[3], 64, NIGH_MULTI), 0);
    assert_waiting(2, 1);
    send_long(to, 8, A, 1);
    send_long(to, 8, A, 3);
    assert_got(1, 0, 8, 1);
    rooms_bytes[3] = 64;
    assert_got(3, 0, 8, 3);
    send_long(to_other, 8, A, 2);
    assert_got(2, 0, 8, 2);
    assert_waiting(0, 1);
    post(from, 8, B, 0, 4);
    assert_waiting(1, 1);
    assert_int_equal(hosted_ops->cancel(root.context, 3), 0);
    assert_int_equal(hosted_ops->cancel(root.context, 4), 0);
    assert_waiting(0, 0);
}

/* A send that is told of its match, short and long. */
static void test_synchronous(void **state)
{
    static const uint32_t lengths[] = {8, 40, 3000, LONG};
    static uint8_t payload[LONG];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        root.count = near.count = 0;
        post(from, LONG, A, 0, 1);
        post(from_other, 8, A, 0, 2);
        assert_int_equal(hosted_send(to, 9, A, payload, lengths[i], NIGH_SYNC), 0);
        assert_got(1, 0, lengths[i], 0);
        assert_int_equal(hosted_until(&near, &root, NIGH_OP_SEND, 9)->status, 0);
        assert_waiting(1, 0);
        assert_int_equal(hosted_ops->cancel(root.context, 2), 0);
    }
}

/* What is kept beside them is claimed, and while it is kept all that is posted is filed. */
static void test_claimed(void **state)
{
    struct nigh_completion found;
    struct nigh_message *message = NULL;
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = rooms[2], .bytes = 8, .context = 2};

    (void)state;
    rooms_bytes[2] = 8;
    post(from, 8, A, 0, 1);
    send_long(to, 8, B, 5);
    for (unsigned i = 0; i < 10000 && !root.context->matcher.arrived_count; i++) {
        assert_int_equal(hosted_ops->probe(root.context, from, A, 0, 0, &found, NULL), -ENOMSG);
        hosted_turns(&root, &near, 1);
    }
    post(from_other, 8, A, 0, 3);
    assert_waiting(0, 2);
    assert_int_equal(hosted_ops->probe(root.context, from, B, 0, 0, &found, &message), 0);
    assert_int_equal(hosted_ops->claim(root.context, message, &recv), 0);
    assert_got(2, 0, 8, 5);
    send_long(to_other, 8, A, 3);
    send_long(to, 8, A, 1);
    assert_got(3, 0, 8, 3);
    assert_got(1, 0, 8, 1);
}

/* Where there are CPUs for all again. */
static void test_without_a_crowd(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 2000, A, 0, 2);
    root.context->crowd.full = false;
    nigh_context_settle(root.context);
    assert_waiting(2, 0);
    send_long(to, 8, A, 1);
    send_long(to_other, 2000, A, 2);
    assert_got(1, 0, 8, 1);
    assert_got(2, 0, 2000, 2);
}

static void test_cancel(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 8, A, 0, 2);
    assert_int_equal(hosted_ops->cancel(root.context, 1), 0);
    assert_waiting(1, 0);
    assert_got(1, -ECANCELED, 0, 0);
    assert_int_equal(hosted_ops->cancel(root.context, 1), -ENOENT);
    post(from, 8, A, 0, 3);
    assert_waiting(2, 0);
    send_long(to, 8, A, 3);
    send_long(to_other, 8, A, 2);
    assert_got(3, 0, 8, 3);
    assert_got(2, 0, 8, 2);
}

/* Of two with the same context the older one, whichever peer has the lower number. */
static void test_cancel_takes_the_oldest(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        root.count = 0;
        post(i ? from_other : from, 8, A, 0, 1);
        post(i ? from : from_other, 8, A, 0, 1);
        assert_int_equal(hosted_ops->cancel(root.context, 1), 0);
        assert_got(1, -ECANCELED, 0, 0);
        root.count = 0;
        send_long(i ? to : to_other, 8, A, 4);
        assert_got(1, 0, 8, 4);
        assert_waiting(0, 0);
    }
}

static void test_listed(void **state)
{
    struct nigh_query_message rows[2] = {{.size = sizeof(rows[0])}, {.size = sizeof(rows[0])}};
    uint64_t bytes = sizeof(rows);

    (void)state;
    post(from_other, 8, B, 0, 2);
    post(from, 16, A, 0xf, 1);
    assert_int_equal(hosted_ops->query(root.context, NULL, NIGH_QUERY_POSTED, rows, &bytes), 0);
    assert_int_equal(bytes, sizeof(rows));
    assert_int_equal(rows[0].context, 2);
    assert_int_equal(rows[0].tag, B);
    assert_int_equal(rows[1].context, 1);
    assert_int_equal(rows[1].ignore, 0xf);
    assert_int_equal(rows[1].bytes, 16);
    assert_waiting(2, 0);
}

/* A peer that leaves ends its own alone. */
static void test_a_peer_that_leaves(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 8, A, 0, 2);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    hosted_turns(&near, &root, 10);
    assert_got(1, -ECONNRESET, 0, 0);
    assert_waiting(1, 0);
    send_long(to_other, 8, A, 2);
    assert_got(2, 0, 8, 2);
    to = hosted_connect(&near, 0);
}

/* One that dies, as does not tell of its end. */
static void test_a_peer_that_dies(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, 8, A, 0, 2);
    nigh_endpoint_fail(from_other, NIGH_PEER_DEAD, -ECONNRESET, NULL);
    assert_got(2, -ECONNRESET, 0, 0);
    assert_waiting(1, 0);
    assert_int_equal(hosted_ops->recv_imm(from_other, rooms[3], NIGH_SHAPE(8, 0), A, 0, 3), -ECONNRESET);
    assert_waiting(1, 0);
    send_long(to, 8, A, 1);
    assert_got(1, 0, 8, 1);
}

/* And one that we leave. Who comes under its number has none that wait. */
static void test_a_peer_that_is_left(void **state)
{
    uint32_t index = from->index;

    (void)state;
    post(from_other, 8, A, 0, 2);
    post(from, 8, A, 0, 1);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    assert_got(1, -ECANCELED, 0, 0);
    assert_waiting(1, 0);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    root.context->service_flag = news;
    for (unsigned i = 0; root.context->by_index[index]; i++) {
        assert_true(i < 300000);
        hosted_turns(&near, &root, 10);
    }
    from = hosted_connect(&root, 1);
    to = hosted_connect(&near, 0);
    for (unsigned i = 0; hosted_state(&root, from) != NIGH_READY || hosted_state(&near, to) != NIGH_READY;
         i++) {
        assert_true(i < 300000);
        hosted_turns(&near, &root, 10);
        usleep(100);
    }
    assert_int_equal(from->index, index);
    root.context->crowd.full = true;
    nigh_context_settle(root.context);
    send_long(to, 8, A, 3);
    rooms_bytes[3] = 8;
    assert_int_equal(hosted_recv(&root, from, 3, A, rooms[3], 8, 0), 0);
    assert_got(3, 0, 8, 3);
    send_long(to_other, 8, A, 2);
    assert_got(2, 0, 8, 2);
    post(from, 8, A, 0, 4);
    assert_waiting(1, 0);
    send_long(to, 8, A, 4);
    assert_got(4, 0, 8, 4);
}

/* The end of a context takes those that wait with it. */
static void test_closed(void **state)
{
    (void)state;
    post(from, 8, A, 0, 1);
    post(from_other, LONG, A, 0, 2);
    assert_waiting(2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_of_each, begin, stop),
        cmocka_unit_test_setup_teardown(test_other_messages, begin, stop),
        cmocka_unit_test_setup_teardown(test_longer_than_a_slot, begin, stop),
        cmocka_unit_test_setup_teardown(test_class, begin, stop),
        cmocka_unit_test_setup_teardown(test_lengths, begin, stop),
        cmocka_unit_test_setup_teardown(test_two_of_one_peer, begin, stop),
        cmocka_unit_test_setup_teardown(test_anyone, begin, stop),
        cmocka_unit_test_setup_teardown(test_other_slots, begin, stop),
        cmocka_unit_test_setup_teardown(test_multi, begin, stop),
        cmocka_unit_test_setup_teardown(test_synchronous, begin, stop),
        cmocka_unit_test_setup_teardown(test_claimed, begin, stop),
        cmocka_unit_test_setup_teardown(test_without_a_crowd, begin, stop),
        cmocka_unit_test_setup_teardown(test_cancel, begin, stop),
        cmocka_unit_test_setup_teardown(test_cancel_takes_the_oldest, begin, stop),
        cmocka_unit_test_setup_teardown(test_listed, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_peer_that_leaves, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_peer_that_is_left, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_peer_that_dies, begin, stop),
        cmocka_unit_test_setup_teardown(test_closed, begin, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
