/* SPDX-License-Identifier: BSD-3-Clause */
/* How senders hear that messages which lie with them are over: of those that their receivers have copied several at a
 * time, of those that they have written themselves they know. */
#include "plugin/answer.h"
#include "plugin/help.h"
#include "tests/support/apart.h"

enum { SHORT = 60 * KIB, COUNT = 30, LATER = 1000 };

static unsigned written;

static int start_rows(void **state)
{
    start(state);
    a.context->config.beside_from = b.context->config.beside_from = MOST;
    a.context->config.beside_row_from = b.context->config.beside_row_from = 32 * KIB;
    a.context->config.away_ns = b.context->config.away_ns = UINT64_MAX;
    a.context->config.fetch_ns = b.context->config.fetch_ns = UINT64_MAX;
    to->row_messages = 100; /* the first one goes so, too */
    return 0;
}

static void post_sends(unsigned count)
{
    a.count = b.count = 0;
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * SHORT, SHORT, NIGH_MAY_WAIT), 0);
}

static void post_row(void)
{
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * SHORT, SHORT, 0), 0);
    post_sends(COUNT);
}

/* The receiver has asked for some of a row, and its sender has written them: the newest ones. */
static void write_some(void)
{
    post_row();
    polls(&b, 1);
    polls(&a, 100);
    written = writes;
    assert_true(written > 1 && written < COUNT / 2);
    assert_int_equal(to->asked_count, 0);
}

static bool was_written(unsigned i)
{
    return i >= COUNT - written;
}

static void is_there(unsigned i)
{
    assert_memory_equal(in + i * SHORT, out + i * SHORT, SHORT);
}

/* ---- what the sender has written --------------------------------------------------------------------------- */

static void test_over_at_once(void **state)
{
    (void)state;
    write_some();
    for (unsigned i = 0; i < COUNT; i++)
        if (was_written(i))
            assert_int_equal(hosted_find(&a, NIGH_OP_SEND, i)->status, 0);
    assert_int_equal(a.context->referred, to->out.next - to->out.unused_count);
    ends_well(COUNT, COUNT * SHORT);
}

/* Their numbers are other messages' when the receiver sees them. */
static void test_numbers_used_again(void **state)
{
    (void)state;
    write_some();
    for (unsigned i = 0; i < written; i++)
        assert_int_equal(hosted_send(to, LATER + i, LATER + i, out, SHORT, NIGH_MAY_WAIT), 0);
    polls(&b, 200);
    polls(&a, 200);
    ends_well(COUNT, COUNT * SHORT);
    for (unsigned i = 0; i < written; i++) {
        assert_null(hosted_find(&a, NIGH_OP_SEND, LATER + i));
        assert_int_equal(hosted_recv(&b, from, LATER + i, LATER + i, back, SHORT, 0), 0);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, LATER + i)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, LATER + i)->status, 0);
    }
    assert_memory_equal(back, out, SHORT);
}

/* Of a message that was longer than its receive the receiver is told so. */
static void test_cut(void **state)
{
    enum { LESS = 40 * KIB };

    (void)state;
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * SHORT, LESS, 0), 0);
    post_sends(COUNT);
    polls(&b, 1);
    polls(&a, 100);
    assert_true(writes > 1);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, -EMSGSIZE);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
        assert_memory_equal(in + i * SHORT, out + i * SHORT, LESS);
    }
}

/* A sender may go as soon as its sends are over. */
static void test_sender_leaves(void **state)
{
    (void)state;
    write_some();
    assert_int_equal(hosted_ops->disconnect(to), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        int status = hosted_until(&b, NULL, NIGH_OP_RECV, i)->status;

        if (was_written(i))
            is_there(i);
        else
            assert_true(status == 0 || status == -ECONNRESET);
        assert_true(status == 0 || !was_written(i));
    }
    assert_null(b.context->copying);
}

static void receiver_leaves(void)
{
    written = writes;
    assert_int_equal(hosted_ops->disconnect(from), 0);
    polls(&b, 50);
}

/* What the sender is at when the receiver gives up has come: its host has heard so. */
static void test_receiver_leaves(void **state)
{
    (void)state;
    in_write = receiver_leaves;
    write_some();
    polls(&b, 50);
    for (unsigned i = 0; i < COUNT; i++) {
        int sent = hosted_until(&a, &b, NIGH_OP_SEND, i)->status;
        int come = hosted_until(&b, &a, NIGH_OP_RECV, i)->status;

        assert_true(sent == 0 || (!was_written(i) && sent == -ECONNRESET));
        assert_true(come == 0 || (!was_written(i) && come == -ECANCELED));
        if (come == 0)
            is_there(i);
    }
    assert_int_equal(hosted_find(&b, NIGH_OP_RECV, COUNT / 2)->status, -ECANCELED);
}

/* The receiver gives up while the sender is at some, which it then puts back; and before the receiver looks, the words
 * that they share are another peer's, which has the sender's index, and has written what it was asked for by the same
 * numbers. */
static void test_another_has_its_place(void **state)
{
    (void)state;
    in_write = receiver_leaves;
    failure = EFAULT;
    post_row();
    polls(&b, 1);
    polls(&a, 100);
    assert_true(written > 1);
    for (unsigned i = COUNT - written; i < COUNT; i++)
        assert_null(hosted_find(&b, NIGH_OP_RECV, i));
    for (uint32_t offer = 1; offer <= NIGH_OFFERS; offer++)
        nigh_store_relaxed(&to->pair->helped[nigh_help_slot(offer)], nigh_help_word(offer, 1u << 16 | 1));
    nigh_store_relaxed(&to->pair->closed, nigh_load_relaxed(&to->pair->closed) + 2);
    polls(&b, 50);
    for (unsigned i = COUNT - written; i < COUNT; i++)
        assert_int_equal(hosted_find(&b, NIGH_OP_RECV, i)->status, -ECANCELED);
}

/* What it could not write it does not take for written. */
static void test_put_back(void **state)
{
    (void)state;
    post_row();
    polls(&b, 1);
    failure = EFAULT;
    polls(&a, 100);
    assert_true(writes > 1);
    assert_null(hosted_find(&a, NIGH_OP_SEND, COUNT - 1));
    assert_null(hosted_find(&a, NIGH_OP_SEND, COUNT - 2));
    ends_well(COUNT, COUNT * SHORT);
    assert_int_equal(written_bytes, 0);
}

/* ---- what the receiver has copied -------------------------------------------------------------------------- */

/* Slots that b has published of which none asks for help. */
static uint64_t answers(void)
{
    return from->tx.next - from->offers;
}

static void test_several_in_a_slot(void **state)
{
    uint64_t before = answers();

    (void)state;
    post_row();
    polls(&b, 200); /* and the sender computes */
    assert_int_equal(reads, COUNT);
    assert_int_equal(answers() - before, read_calls);
    assert_true(read_calls <= COUNT * 2 / 3);
    assert_int_equal(a.count, 0);
    ends_well(COUNT, COUNT * SHORT);
}

/* As many as a slot has room for, and some. */
static void test_full_slots(void **state)
{
    struct nigh_finish finish = {.count = 0};
    uint64_t before = answers();

    (void)state;
    post_sends(COUNT);
    polls(&b, 20);
    for (uint32_t id = 0; id < COUNT; id++)
        nigh_finish_add(&finish, from, id);
    nigh_finish_tell(&finish);
    nigh_finish_tell(&finish);
    assert_int_equal(answers() - before, (COUNT + NIGH_FINISH_MORE) / (1 + NIGH_FINISH_MORE));
    polls(&a, 20);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(hosted_find(&a, NIGH_OP_SEND, i)->status, 0);
    assert_int_equal(a.count, COUNT);
    assert_int_equal(a.context->referred, 0);
}

/* Each is told of its own. */
static void test_two_senders(void **state)
{
    struct nigh_finish finish = {.count = 0};
    struct nigh_endpoint *c_to, *from_c;
    struct hosted c;

    (void)state;
    hosted_open(&c, a.context->config.job, 2, 0);
    c_to = hosted_connect(&c, 1);
    from_c = hosted_connect(&b, 2);
    hosted_meet(&c, c_to, &b, from_c);
    c.context->config.path = NIGH_PATH_CMA;
    post_sends(1);
    assert_int_equal(hosted_send(c_to, 0, 0, out, MOST, 0), 0);
    polls(&b, 20);
    nigh_finish_add(&finish, from, 0);
    nigh_finish_add(&finish, from_c, 0);
    nigh_finish_tell(&finish);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 0)->status, 0);
    assert_int_equal(hosted_until(&c, &b, NIGH_OP_SEND, 0)->status, 0);
    hosted_close(&c);
}

/* With no room in the ring they wait. */
static void test_no_room(void **state)
{
    struct nigh_query_stats before = hosted_stats(&b);
    uint32_t sent = 0;

    (void)state;
    post_row();
    for (; hosted_stats(&b).ring_full - before.ring_full <= hosted_stats(&b).ring_grown - before.ring_grown;
         sent++)
        assert_int_equal(hosted_send(from, LATER, LATER, NULL, 0, NIGH_SILENT), 0);
    polls(&b, 200);
    assert_int_equal(read_bytes, COUNT * SHORT);
    assert_null(hosted_find(&a, NIGH_OP_SEND, 0));
    for (uint32_t i = 0; i < sent; i++)
        assert_int_equal(hosted_recv(&a, to, LATER, LATER, NULL, 0, 0), 0);
    ends_well(COUNT, COUNT * SHORT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start_rows, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(over_at_once),
        TEST(numbers_used_again),
        TEST(cut),
        TEST(sender_leaves),
        TEST(receiver_leaves),
        TEST(put_back),
        TEST(several_in_a_slot),
        TEST(full_slots),
        TEST(no_room),
        TEST(two_senders),
        TEST(another_has_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
