/* SPDX-License-Identifier: BSD-3-Clause */
/* Where each side has a CPU, both copy half of a long message, straight from one process to the other. */
#include "tests/support/apart.h"

static struct hosted third;

static int start_threads(void **state)
{
    (void)state;
    return start_as(NIGH_OPEN_THREADS);
}

/* ---- each its part ----------------------------------------------------------------------------------------- */

/* Each byte is copied once, and both had something to do. */
static void test_halves(void **state)
{
    static const uint64_t sizes[] = {FROM,          FROM + 1,       128 * KIB - 1, 128 * KIB,
                                     256 * KIB,     300 * KIB,      511 * KIB,     512 * KIB,
                                     512 * KIB + 1, 1024 * KIB - 1, MOST - 1,      MOST};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        reads = writes = 0;
        read_bytes = written_bytes = 0;
        memset(in, 0, sizeof(in));
        in_read = sender_helps;
        post(sizes[i]);
        polls(&b, 2);
        assert_true(reads && writes);
        ends_well(1, sizes[i]);
        assert_int_equal(read_bytes + written_bytes, sizes[i]);
    }
}

static void test_shorter(void **state)
{
    (void)state;
    post(FROM - 1);
    ends_well(1, FROM - 1);
    assert_int_equal(reads + writes, 0);
}

/* A receive that is shorter than its message: nothing behind its end is written. */
static void test_cut(void **state)
{
    enum { ROOM = 150 * KIB - 3 };

    (void)state;
    memset(in, 0xaa, sizeof(in));
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, ROOM, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, EACH, 0), 0);
    in_read = sender_helps;
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, -EMSGSIZE);
    assert_true(reads && writes);
    assert_memory_equal(in, out, ROOM);
    for (unsigned i = ROOM; i < EACH; i++)
        assert_int_equal(in[i], 0xaa);
}

/* The receiver has its turn, of the oldest two: then the sender goes on with all that it was asked for. */
static void test_sender_goes_on(void **state)
{
    (void)state;
    post_some();
    polls(&b, 1);
    assert_int_equal(read_bytes, TURN * EACH);
    polls(&a, 50);
    assert_int_equal(written_bytes, NIGH_OFFERS * EACH);
    ends_well(SOME, ALL);
    assert_int_equal(read_bytes + written_bytes, ALL);
}

/* Where the sender computes the receiver does it all. */
static void test_receiver_alone(void **state)
{
    (void)state;
    post_some();
    polls(&b, 100);
    for (unsigned i = 0; i < SOME; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    assert_int_equal(writes, 0);
    assert_int_equal(read_bytes, ALL);
    ends_well(SOME, ALL);
}

/* In turn, by which all numbers come by, also those at the end of 32 bits: 0 is none. */
static void test_numbers(void **state)
{
    (void)state;
    from->offers = UINT32_MAX - SOME;
    for (unsigned i = 0; i < 3; i++) {
        memset(in, 0, sizeof(in));
        writes = 0;
        in_read = sender_helps;
        post_some();
        ends_well(SOME, ALL);
        assert_true(writes >= SOME - 1);
    }
    assert_int_equal(from->offers, 2 * SOME);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_null(from->offered[i]);
    assert_null(a.context->asked);
}

/* Of several the sender goes on with what it was asked for first, whose number is the greatest here. */
static void test_oldest_first(void **state)
{
    (void)state;
    from->offers = UINT32_MAX - TURN - 1;
    post_some();
    polls(&b, 1);
    assert_int_equal(from->offers, NIGH_OFFERS - 2); /* 0 is none, so its place is free now */
    sender_helps();
    assert_int_equal(writes, 1);
    assert_ptr_equal(first_written, in + TURN * EACH + EACH / 2);
    ends_well(SOME, ALL);
}

/* Who sends such messages itself copies beside the other one anyway. */
static void swap(uint64_t bytes)
{
    reads = writes = 0;
    read_bytes = 0;
    a.count = b.count = 0;
    memset(in, 0, sizeof(in));
    memset(back, 0, sizeof(back));
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, bytes, 0), 0);
    assert_int_equal(hosted_recv(&a, to, 5, 5, back, bytes, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, bytes, 0), 0);
    assert_int_equal(hosted_send(from, 5, 5, out, bytes, 0), 0);
    ends_well(1, bytes);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, 5)->status, 0);
    assert_memory_equal(back, out, bytes);
    assert_int_equal(writes, 0);
}

static void test_both_ways(void **state)
{
    (void)state;
    swap(MOST);
    assert_int_equal(read_bytes, 2 * MOST);
}

/* What has room in a shuttle goes there. */
static void test_both_ways_in_shuttles(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        swap(EACH);
        assert_int_equal(reads, 0);
    }
}

/* Shorter ones are copied so if they follow others. */
static void test_in_a_row(void **state)
{
    (void)state;
    a.context->config.beside_from = EACH + 1;
    a.context->config.beside_row_from = EACH;
    for (unsigned i = 0; i < 3; i++) {
        reads = 0;
        post(EACH);
        ends_well(1, EACH);
        assert_int_equal(reads, 0);
        comes_back();
    }
    read_bytes = written_bytes = 0;
    post_some();
    ends_well(SOME, ALL);
    assert_int_equal(read_bytes + written_bytes, ALL - EACH);
}

/* ---- two receivers --------------------------------------------------------------------------------------- */

static struct nigh_endpoint *meet_third(struct nigh_endpoint **to_third)
{
    struct nigh_endpoint *back_to_a;

    hosted_open(&third, a.context->config.job, 2, 0);
    *to_third = hosted_connect(&a, 2);
    back_to_a = hosted_connect(&third, 0);
    hosted_meet(&a, *to_third, &third, back_to_a);
    set_apart(&a);
    set_apart(&b);
    set_apart(&third);
    return back_to_a;
}

/* The sender helps them in turn, though of the first there is always a next message. */
static void test_two_receivers(void **state)
{
    struct nigh_endpoint *to_third, *third_from = meet_third(&to_third);

    (void)state;
    post_some();
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(hosted_recv(&third, third_from, i, i, back + i * EACH, EACH, 0), 0);
        assert_int_equal(hosted_send(to_third, 100 + i, i, out + i * EACH, EACH, 0), 0);
    }
    polls(&b, 1);
    polls(&third, 1);
    while (writes < 6)
        sender_helps();
    assert_int_equal(writes_back, 3);
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_until(&third, &a, NIGH_OP_RECV, i)->status, 0);
    assert_memory_equal(back, out, ALL);
    ends_well(SOME, ALL);
    assert_int_equal(read_bytes + written_bytes, 2 * ALL);
    assert_null(a.context->asked);
    hosted_close(&third);
}

/* ---- who does not ------------------------------------------------------------------------------------------ */

static void goes_in_pieces(void)
{
    reads = writes = 0;
    post(EACH);
    polls(&b, 2);
    polls(&a, 2);
    ends_well(1, EACH);
    assert_int_equal(reads + writes, 0);
}

static void test_threads(void **state)
{
    (void)state;
    goes_in_pieces();
}

/* What we may not read we may not write. */
static void test_not_both_ways(void **state)
{
    (void)state;
    nigh_plan_reading(to, -EPERM);
    goes_in_pieces();
    nigh_plan_reading(to, 0);
    post(EACH);
    ends_well(1, EACH);
    assert_true(reads);
}

/* The receiver copies what was put back, and the next ones go in pieces. */
static void test_not_allowed(void **state)
{
    (void)state;
    failure = EPERM;
    in_read = sender_helps;
    post(EACH);
    ends_well(1, EACH);
    assert_int_equal(writes, 1);
    assert_int_equal(read_bytes, EACH);
    goes_in_pieces();
}

/* Nothing is written into a process that is not the receiver any more; it is looked anew after a while. */
static void test_recycled(void **state)
{
    (void)state;
    in_read = sender_helps;
    post(EACH);
    ends_well(1, EACH);
    assert_int_equal(writes, 1);
    usleep(1000);
    recycled = true;
    post(EACH);
    polls(&b, 2);
    assert_int_equal(writes, 1);
    recycled = false;
    ends_well(1, EACH);
}

/* ---- the end of one side ----------------------------------------------------------------------------------- */

static void receiver_leaves(void)
{
    assert_int_equal(hosted_ops->disconnect(from), 0);
    hosted_turns(&b, NULL, 2000);
    assert_null(hosted_find(&b, NIGH_OP_RECV, TURN));
    for (unsigned i = TURN + 1; i < SOME; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
}

/* Of several that the sender was asked for it is in the first: that buffer alone is not the host's yet, and nothing is
 * written to the others. */
static void test_receiver_leaves(void **state)
{
    (void)state;
    in_write = receiver_leaves;
    post_some();
    polls(&b, 1);
    polls(&a, 20);
    assert_int_equal(writes, 1);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, i)->status, i < TURN ? 0 : -ECANCELED);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, i < TURN ? 0 : -ECONNRESET);
    }
}

static void receiver_cancels(void)
{
    for (unsigned i = TURN; i < SOME; i++)
        assert_int_equal(hosted_ops->cancel(b.context, i), 0);
    hosted_turns(&b, NULL, 2000);
    assert_null(hosted_find(&b, NIGH_OP_RECV, TURN));
    for (unsigned i = TURN + 1; i < SOME; i++)
        assert_int_equal(hosted_find(&b, NIGH_OP_RECV, i)->status, -ECANCELED);
}

/* The same where they are cancelled; the sender has sent all of them. */
static void test_receiver_cancels(void **state)
{
    (void)state;
    in_write = receiver_cancels;
    post_some();
    polls(&b, 1);
    polls(&a, 20);
    assert_int_equal(writes, 1);
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, TURN)->status, -ECANCELED);
    memset(in + TURN * EACH, 0x77, (SOME - TURN) * EACH);
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    for (unsigned i = TURN * EACH; i < SOME * EACH; i++)
        assert_int_equal(in[i], 0x77);
    memset(in, 0, sizeof(in));
    a.count = b.count = 0;
    post_some();
    ends_well(SOME, ALL);
}

static void test_sender_leaves(void **state)
{
    (void)state;
    post_some();
    polls(&b, 1);
    for (unsigned i = 0; i < 1000 && !a.context->asked; i++)
        hosted_poll(&a);
    assert_int_equal(writes, 0); /* in the pass that hears of them there is something else to do */
    assert_non_null(a.context->asked);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    assert_null(a.context->asked);
    for (unsigned i = 0; i < SOME; i++) {
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, i < TURN ? 0 : -ECANCELED);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, i < TURN ? 0 : -ECONNRESET);
    }
    assert_int_equal(writes, 0);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(test_##name, start, stop)
#define TEST_THREADS(name) cmocka_unit_test_setup_teardown(test_##name, start_threads, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(halves),          TEST(shorter),        TEST(cut),
        TEST(sender_goes_on),  TEST(receiver_alone), TEST(oldest_first),
        TEST(numbers),         TEST(both_ways),      TEST(both_ways_in_shuttles),
        TEST(in_a_row),        TEST(two_receivers),  TEST_THREADS(threads),
        TEST(not_both_ways),   TEST(not_allowed),    TEST(recycled),
        TEST(receiver_leaves), TEST(sender_leaves),  TEST(receiver_cancels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
