/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of short messages, of which each side copies several whole ones in a call; which of them are the sender's, until
 * the receiver has nothing else to do. */
#include "plugin/help.h"
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
        assert_true(longest_call >= lengths[i] && longest_call <= NIGH_RUN_BYTES);
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

/* What the sender has put back the receiver copies at once, and not behind all others. */
static void test_put_back(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    failure = EFAULT;
    sender_helps();
    assert_true(writes > 1);
    polls(&b, 1);
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, COUNT - 1));
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, COUNT - 2));
    assert_null(hosted_find(&b, NIGH_OP_RECV, COUNT / 2));
    row_ends_well();
}

/* The receiver has copied all of it, and the sender does not know yet. */
static void test_all_taken(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    while (to->asked_count < NIGH_OFFERS) /* in passes that have news, and copy nothing */
        hosted_poll(&a);
    assert_int_equal(writes, 0);
    polls(&b, 200);
    assert_int_equal(read_bytes, COUNT * SHORT);
    nigh_help_progress(a.context);
    assert_int_equal(writes, 0);
    row_ends_well();
}

/* A receiver that sleeps meanwhile is woken by what has been written. */
static void test_receiver_sleeps(void **state)
{
    uint32_t *asleep = &nigh_arena_state(&b.context->arena)->asleep, bell;

    (void)state;
    post_row();
    polls(&b, 1);
    while (to->asked_count < NIGH_OFFERS)
        hosted_poll(&a);
    bell = nigh_load_relaxed(&b.context->bell.shared->bell);
    nigh_store_relaxed(asleep, NIGH_ASLEEP);
    nigh_help_progress(a.context);
    assert_true(writes > 0);
    assert_int_not_equal(nigh_load_relaxed(&b.context->bell.shared->bell), bell);
    nigh_store_relaxed(asleep, NIGH_AWAKE);
    row_ends_well();
}

/* HELP of a next one comes ahead of the FINISH of what has its place. */
static void test_replaced(void **state)
{
    struct nigh_send_op *op;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hosted_send(to, i, i, out + i * ROOM, SHORT, NIGH_MAY_WAIT), 0);
        op = to->out.at[i];
        assert_non_null(op);
        assert_true(nigh_help_asked(to, op, 1 + i * NIGH_OFFERS, (uintptr_t)in, SHORT, true));
        assert_int_equal(to->asked_count, 1);
        assert_false(nigh_help_asked(to, op, 2, (uintptr_t)in, SHORT, true));
    }
    nigh_help_forget(to, to->out.at[0]);
    assert_int_equal(to->asked_count, 1);
    nigh_help_forget(to, to->out.at[1]);
    assert_int_equal(to->asked_count, 0);
    assert_null(a.context->asked);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * ROOM, SHORT, 0), 0);
        one_ends_well(i);
    }
}

/* ---- of two senders ---------------------------------------------------------------------------------------- */

enum { OTHERS = 1000, ONES = 2000, WINDOW = 16, FEW = 4 };

static struct hosted c;
static struct nigh_endpoint *c_to, *from_c;

static void meet_other(void)
{
    hosted_open(&c, a.context->config.job, 2, 0);
    c_to = hosted_connect(&c, 1);
    from_c = hosted_connect(&b, 2);
    hosted_meet(&c, c_to, &b, from_c);
    set_apart(&c);
    set_rows(&c);
    c_to->row_messages = 100;
    a.context->crowd.full = b.context->crowd.full = false;
    nigh_context_settle(a.context);
    nigh_context_settle(b.context);
}

static void post_of_one(void)
{
    assert_int_equal(hosted_recv(&b, from, OTHERS, 1, in, SHORT, 0), 0);
    assert_int_equal(hosted_send(to, OTHERS, 1, out, SHORT, NIGH_MAY_WAIT), 0);
}

static void post_of_other(void)
{
    for (unsigned i = 0; i < FEW; i++) {
        assert_int_equal(hosted_recv(&b, from_c, ONES, 2, back + i * SHORT, SHORT, 0), 0);
        assert_int_equal(hosted_send(c_to, ONES, 2, out, SHORT, NIGH_MAY_WAIT), 0);
    }
}

/* One sends on and on, so that there is always something else to copy; the other has sent a few. Passes until these have
 * come. */
static unsigned passes_until_few(void)
{
    unsigned over = 0, passes = 0;

    for (unsigned i = 0; i < WINDOW; i++)
        post_of_one();
    for (; over < FEW; passes++) {
        assert_true(passes < 1000);
        a.count = b.count = 0;
        if (passes == 5)
            post_of_other();
        hosted_poll(&b);
        for (unsigned i = 0; i < b.count; i++) {
            over += b.done[i].context == ONES;
            if (b.done[i].context == OTHERS)
                post_of_one();
        }
        hosted_poll(&a);
    }
    for (unsigned i = 0; i < FEW; i++)
        assert_memory_equal(back + i * SHORT, out, SHORT);
    return passes;
}

static void close_other(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        a.count = b.count = c.count = 0;
        hosted_poll(&a);
        hosted_poll(&b);
        hosted_poll(&c);
    }
    assert_null(b.context->copying);
    assert_int_equal(from_c->offered_count, 0);
    hosted_close(&c);
}

/* What was left to one that computes the receiver copies all the same. */
static void test_other_computes(void **state)
{
    (void)state;
    meet_other();
    assert_true(passes_until_few() < 100);
    close_other();
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

static unsigned ended_receives(void)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < COUNT; i++)
        ended += hosted_find(&b, NIGH_OP_RECV, i) != NULL;
    return ended;
}

/* The receiver gives them up while the sender is asked for some, and is in the middle of others: those end when they are
 * written. */
static void receiver_gives_up(void)
{
    assert_int_equal(hosted_ops->disconnect(from), 0);
    polls(&b, 50);
    claimed = writes;
    assert_int_equal(ended_receives(), COUNT - claimed);
}

static void test_given_up(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    in_write = receiver_gives_up;
    sender_helps();
    assert_true(claimed > 0);
    polls(&b, 50);
    assert_int_equal(ended_receives(), COUNT);
    polls(&a, 50);
    assert_int_equal(writes, claimed);
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
        TEST(all_taken),         TEST(receiver_sleeps),   TEST(replaced),
        TEST(other_computes),    TEST(put_back),          TEST(one_by_one),
        TEST(one_unreadable),    TEST(not_allowed),       TEST(another_process),
        TEST(given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
