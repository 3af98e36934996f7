/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of short messages, of which each side copies several whole ones in a call; which of them are the sender's, until
 * the receiver has nothing else to do. */
#include "plugin/run.h"
#include "tests/support/apart.h"

enum { SHORT = 60 * KIB, COUNT = 30, ROOM = 100 * KIB };

static uint64_t sizes[COUNT], rooms[COUNT];

static void set_rows(struct hosted *hosted)
{
    hosted->context->config.beside_from = MOST;
    hosted->context->config.beside_row_from = 32 * KIB;
    hosted->context->config.away_ns = hosted->context->config.fetch_ns = UINT64_MAX;
}

static int start_rows(void **state)
{
    start(state);
    set_rows(&a);
    set_rows(&b);
    to->row_messages = 100; /* the first one goes so, too */
    for (unsigned i = 0; i < COUNT; i++)
        sizes[i] = rooms[i] = SHORT;
    return 0;
}

static void post_row(void)
{
    a.count = b.count = 0;
    reads = writes = read_calls = write_calls = 0;
    read_bytes = written_bytes = longest_call = 0;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * ROOM, rooms[i], 0), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * ROOM, sizes[i], NIGH_MAY_WAIT), 0);
}

static void one_ends_well(unsigned i)
{
    uint64_t come = sizes[i] < rooms[i] ? sizes[i] : rooms[i];

    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, come < sizes[i] ? -EMSGSIZE : 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
    assert_memory_equal(in + i * ROOM, out + i * ROOM, come);
    for (uint64_t k = i * ROOM + come; k < (i + 1) * ROOM; k++)
        assert_int_equal(in[k], 0);
}

static void row_ends_well(void)
{
    for (unsigned i = 0; i < COUNT; i++)
        one_ends_well(i);
    assert_null(a.context->asked);
    assert_int_equal(to->asked_count, 0);
    assert_int_equal(from->offered_count, 0);
    assert_int_equal(b.context->pulls_count, 0);
    assert_true(!b.context->pulls && !b.context->pulls_last && !b.context->copying);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_null(from->offered[i]);
}

/* ---- both copy --------------------------------------------------------------------------------------------- */

static void test_several_in_a_call(void **state)
{
    (void)state;
    in_read = sender_helps;
    post_row();
    row_ends_well();
    assert_int_equal(read_bytes + written_bytes, COUNT * SHORT);
    assert_int_equal(reads + writes, COUNT);
    assert_true(reads > read_calls && writes > write_calls);
    assert_true(reads >= COUNT / 3 && writes >= COUNT / 3);
    assert_true(longest_call > SHORT && longest_call <= NIGH_RUN_BYTES);
}

/* In one call as many as fit there, and not more than there is room for. */
static void test_lengths(void **state)
{
    static const uint64_t lengths[] = {32 * KIB, 32 * KIB + 1, 48 * KIB, 64 * KIB, 96 * KIB - 1, 100 * KIB};

    (void)state;
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (unsigned k = 0; k < COUNT; k++)
            sizes[k] = rooms[k] = lengths[i];
        in_read = sender_helps;
        post_row();
        row_ends_well();
        assert_int_equal(reads + writes, COUNT);
        assert_true(longest_call <= (lengths[i] < NIGH_RUN_BYTES ? NIGH_RUN_BYTES : lengths[i]));
        comes_back();
    }
}

/* Of different lengths, some cut by their receives, some not to be copied so, in passes of both sides in any order. */
static void test_any(void **state)
{
    uint64_t chance = 88172645463325252u;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned k = 0; k < COUNT; k++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            sizes[k] = 1 + (chance >> 33) % ROOM;
            rooms[k] = chance >> 30 & 7 ? ROOM : sizes[k] - (chance >> 40) % sizes[k];
            to->row_messages = round;
        }
        in_read = chance >> 50 & 1 ? sender_helps : NULL;
        post_row();
        for (unsigned k = 0; k < 60; k++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            hosted_poll(chance >> 60 & 1 ? &a : &b);
        }
        row_ends_well();
        if (round & 1)
            comes_back();
    }
}

/* ---- whose they are ---------------------------------------------------------------------------------------- */

static void test_sender_computes(void **state)
{
    (void)state;
    post_row();
    polls(&b, 200);
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    assert_int_equal(writes, 0);
    row_ends_well();
    assert_int_equal(read_bytes, COUNT * SHORT);
}

/* The receiver does not come: what it has asked for the sender copies, from the newest on. */
static void test_receiver_computes(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    assert_int_equal(from->offered_count, NIGH_OFFERS);
    polls(&a, 200);
    assert_int_equal(writes, NIGH_OFFERS);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_memory_equal(in + (COUNT - 1 - i) * ROOM, out + (COUNT - 1 - i) * ROOM, SHORT);
    row_ends_well();
}

static unsigned claimed;

/* The sender is in the middle of its run. */
static void receiver_goes_on(void)
{
    polls(&b, 200);
    claimed = writes;
    for (unsigned i = 0; i < COUNT - claimed; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    for (unsigned i = COUNT - claimed; i < COUNT; i++)
        assert_null(hosted_find(&b, NIGH_OP_RECV, i));
    assert_int_equal(read_bytes, (COUNT - claimed) * SHORT);
}

/* All others are the receiver's then, though it had asked for them, too. */
static void test_sender_stands_still(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    in_write = receiver_goes_on;
    sender_helps();
    assert_true(claimed > 1);
    row_ends_well();
    assert_int_equal(writes, claimed);
}

/* ---- what fails -------------------------------------------------------------------------------------------- */

/* Where several at a time cannot be copied each is. */
static void test_one_by_one(void **state)
{
    (void)state;
    one_by_one = true;
    in_read = sender_helps;
    post_row();
    row_ends_well();
    assert_int_equal(read_bytes + written_bytes, COUNT * SHORT);
    assert_true(reads && writes);
    assert_true(longest_call <= SHORT);
}

/* One of a run cannot be read: it comes in chunks, the others as they would have. */
static void test_one_unreadable(void **state)
{
    (void)state;
    unreadable = out + ROOM;
    post_row();
    polls(&b, 2);
    assert_true(read_calls > 1);
    row_ends_well();
}

/* What the sender puts back the receiver copies, and nothing more is asked of it. */
static void test_not_allowed(void **state)
{
    (void)state;
    failure = EPERM;
    in_read = sender_helps;
    post_row();
    row_ends_well();
    assert_true(writes);
    assert_int_equal(written_bytes, 0);
    assert_int_equal(read_bytes, COUNT * SHORT);
    assert_true(a.context->helps_not);
}

static void test_another_process(void **state)
{
    (void)state;
    recycled = true;
    in_read = sender_helps;
    post_row();
    row_ends_well();
    assert_int_equal(writes, 0);
}

/* The receiver gives them up while the sender is asked for some, and is in the middle of others. */
static void receiver_gives_up(void)
{
    assert_int_equal(hosted_ops->disconnect(from), 0);
    polls(&b, 50);
}

static void test_given_up(void **state)
{
    unsigned ended = 0;

    (void)state;
    post_row();
    polls(&b, 1);
    in_write = receiver_gives_up;
    sender_helps();
    assert_true(writes > 0);
    polls(&b, 50);
    for (unsigned i = 0; i < COUNT; i++)
        ended += hosted_find(&b, NIGH_OP_RECV, i) != NULL;
    assert_int_equal(ended, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        hosted_until(&a, &b, NIGH_OP_SEND, i);
    assert_null(a.context->asked);
    assert_int_equal(b.context->pulls_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start_rows, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(several_in_a_call), TEST(lengths),           TEST(any),
        TEST(sender_computes),   TEST(receiver_computes), TEST(sender_stands_still),
        TEST(one_by_one),        TEST(one_unreadable),    TEST(not_allowed),
        TEST(another_process),   TEST(given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
