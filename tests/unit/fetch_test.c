/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of up to NIGH_EAGER that lie with their senders, as they are of a row: who both send before either receives go
 * on, as what has no receive for long is fetched. */
#include "plugin/progress.h"
#include "tests/support/apart.h"

enum { LONG = 64 * KIB, ROW = 4 };

static int start_rows(void **state)
{
    start(state);
    a.context->config.beside_from = b.context->config.beside_from = MOST;
    a.context->config.beside_row_from = b.context->config.beside_row_from = 32 * KIB;
    a.context->config.away_ns = b.context->config.fetch_ns = UINT64_MAX;
    return 0;
}

/* A row from a to b, of which the first is over at once, and the others lie with a. */
static void send_row(void)
{
    a.count = b.count = 0;
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * LONG, LONG, NIGH_MAY_WAIT), 0);
    polls(&a, 20);
    polls(&b, 20);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 0));
    assert_null(hosted_find(&a, NIGH_OP_SEND, 1));
    assert_int_equal(reads, 0);
}

static void receive_row(void)
{
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * LONG, LONG, 0), 0);
    ends_well(ROW, ROW * LONG);
    assert_int_equal(b.context->early.bytes <= NIGH_EARLY_BYTES, 1);
    assert_int_equal(from->early, 0);
    assert_null(b.context->fetches);
    assert_int_equal(a.context->referred, 0);
}

/* They are over unreceived, with no more than passes of their receiver's. */
static void test_over_unreceived(void **state)
{
    (void)state;
    send_row();
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    assert_int_equal(reads, ROW - 1);
    assert_null(b.context->fetches);
    polls(&a, 20);
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_find(&a, NIGH_OP_SEND, i)->status, 0);
    /* They are the sender's again. */
    memset(out, 0xee, ROW * LONG);
    assert_true(from->early >= (ROW - 1) * LONG);
    for (unsigned i = 0; i < ROW * LONG; i++)
        out[i] = (uint8_t)(i * 7 + i / 4096);
    receive_row();
    assert_int_equal(reads, ROW - 1);
}

/* Two that send to each other before either receives: each makes passes while it waits for its sends. */
static void test_both_send_first(void **state)
{
    (void)state;
    a.count = b.count = 0;
    a.context->config.fetch_ns = b.context->config.fetch_ns = 0;
    for (unsigned i = 0; i < ROW; i++) {
        assert_int_equal(hosted_send(to, i, i, out + i * LONG, LONG, NIGH_MAY_WAIT), 0);
        assert_int_equal(hosted_send(from, i, i, out + i * LONG, LONG, NIGH_MAY_WAIT), 0);
    }
    for (unsigned i = 0; i < ROW; i++) {
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_SEND, i)->status, 0);
    }
    for (unsigned i = 0; i < ROW; i++) {
        assert_int_equal(hosted_recv(&a, to, i, i, back + i * LONG, LONG, 0), 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_RECV, i)->status, 0);
    }
    assert_memory_equal(back, out, ROW * LONG);
    receive_row();
}

/* One whose receive is posted in that time is read where it lies, once. */
static void test_received_in_time(void **state)
{
    (void)state;
    send_row();
    receive_row();
    assert_int_equal(from->early, 0);
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    assert_int_equal(reads + writes, ROW - 1);
}

/* A claimed one, too: its receive may come much later. */
static void test_claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = LONG, .context = 7};
    struct nigh_completion found;
    struct nigh_message *message;

    (void)state;
    send_row();
    assert_int_equal(hosted_ops->probe(b.context, from, 1, 0, 0, &found, &message), 0);
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    assert_int_equal(reads, ROW - 1);
    polls(&a, 20);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 1));
    memset(out + LONG, 0xee, LONG);
    assert_int_equal(hosted_ops->claim(b.context, message, &recv), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 7)->status, 0);
    for (unsigned i = 0; i < LONG; i++)
        assert_int_equal(in[i], (uint8_t)((i + LONG) * 7 + (i + LONG) / 4096));
}

static uint64_t slept;

static void note_sleeps(void)
{
    slept = hosted_stats(&b).sleeps;
}

/* Who waits for something else does not sleep before. */
static void test_waits(void **state)
{
    uint64_t before = hosted_stats(&b).sleeps;

    (void)state;
    send_row();
    in_read = note_sleeps;
    b.context->config.fetch_ns = 1000000;
    assert_int_equal(hosted_ops->wait(b.context, 100000000), -ETIMEDOUT);
    assert_int_equal(reads, ROW - 1);
    assert_int_equal(slept, before);
    receive_row();
}

/* One pass that fetches has moved something, and as long as some are left nobody is said to be idle, or a detector of
 * deadlocks would take two that both send first for one. */
static void test_is_no_deadlock(void **state)
{
    struct nigh_arena_note *note = nigh_arena_note(&b.context->arena);
    uint64_t sequence;

    (void)state;
    send_row();
    assert_true(nigh_progress(b.context));
    b.context->blocked = true;
    sequence = nigh_load_relaxed(&note->sequence);
    b.context->config.fetch_ns = 0;
    assert_true(nigh_progress(b.context));
    assert_true(nigh_load_relaxed(&note->sequence) > sequence);
    assert_null(b.context->fetches);
    b.context->blocked = false;
    receive_row();
}

/* The oldest first: it is what its sender waits for. */
static void test_oldest_first(void **state)
{
    (void)state;
    send_row();
    b.context->config.fetch_ns = 0;
    from->early += 4096 * KIB - LONG; /* has room for one, and for the one that comes over that */
    polls(&b, 2);
    assert_int_equal(reads, 2);
    polls(&a, 20);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 1));
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 2));
    assert_null(hosted_find(&a, NIGH_OP_SEND, 3));
    from->early -= 4096 * KIB - LONG;
    receive_row();
}

/* What its sender may be waiting for goes by its own NIGH_EAGER. */
static void test_other_limit(void **state)
{
    (void)state;
    b.context->config.eager_bytes = 4096;
    send_row();
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    assert_int_equal(reads, ROW - 1);
    receive_row();
}

/* ---- what is not fetched ----------------------------------------------------------------------------------- */

static void none_is_fetched(void)
{
    b.context->config.fetch_ns = 0;
    polls(&b, 20);
    polls(&a, 20);
    assert_int_equal(reads, 0);
    assert_null(b.context->fetches);
    for (unsigned i = 1; i < ROW; i++)
        assert_null(hosted_find(&a, NIGH_OP_SEND, i));
}

/* Its sender has been told to wait. */
static void test_crammed(void **state)
{
    uint64_t much = 64 * 64 * KIB + 1;

    (void)state;
    send_row();
    from->early += much;
    none_is_fetched();
    from->early -= much;
    receive_row();
}

/* Then its receive finds that, and asks for it. */
static void test_unreadable(void **state)
{
    (void)state;
    read_failure = EFAULT;
    send_row();
    none_is_fetched();
    receive_row();
}

/* Longer ones wait for their receive, and so do those that host or sender want matched. */
static void test_longer(void **state)
{
    (void)state;
    a.count = b.count = 0;
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(
            hosted_send(to, i, i, out + i * LONG, LONG, NIGH_MAY_WAIT | (i == 1 ? NIGH_SYNC : 0)), 0);
    assert_int_equal(hosted_send(to, ROW, ROW, out, LONG + 1, NIGH_MAY_WAIT), 0);
    polls(&a, 20);
    polls(&b, 20);
    b.context->config.fetch_ns = 0;
    polls(&b, 20);
    polls(&a, 20);
    assert_int_equal(reads, ROW - 2);
    for (unsigned i = 0; i <= ROW; i++)
        assert_int_equal(hosted_find(&a, NIGH_OP_SEND, i) != NULL, i != 1 && i != ROW);
    assert_int_equal(hosted_recv(&b, from, ROW, ROW, back, LONG + 1, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, ROW)->status, 0);
    receive_row();
}

/* What its sender takes with it nobody reads. */
static void test_sender_leaves(void **state)
{
    (void)state;
    send_row();
    assert_int_equal(hosted_ops->disconnect(to), 0);
    b.context->config.fetch_ns = 0;
    polls(&b, 1000);
    assert_int_equal(reads, 0);
    assert_null(b.context->fetches);
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, LONG, 0), 0);
    assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(hosted_recv(&b, from, 1, 1, in, LONG, 0), -ECONNRESET);
}

static void sender_leaves(void)
{
    in_read = NULL;
    assert_int_equal(hosted_ops->disconnect(to), 0);
}

/* In the middle of a read, which may have seen what its host wrote then. */
static void test_sender_leaves_meanwhile(void **state)
{
    (void)state;
    send_row();
    b.context->config.fetch_ns = 0;
    in_read = sender_leaves;
    polls(&b, 1);
    assert_true(reads);
    polls(&b, 1000);
    assert_int_equal(hosted_recv(&b, from, 1, 1, in, LONG, 0), -ECONNRESET);
}

/* Silent ones are over when they are posted: nobody need hear of them. */
static void test_silent(void **state)
{
    (void)state;
    a.count = b.count = 0;
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * LONG, LONG, NIGH_MAY_WAIT | NIGH_SILENT), 0);
    assert_int_equal(a.context->referred, 0);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * LONG, LONG, 0), 0);
    for (unsigned i = 0; i < ROW; i++)
        assert_int_equal(hosted_until(&b, NULL, NIGH_OP_RECV, i)->status, 0);
    assert_memory_equal(in, out, ROW * LONG);
}

/* Closed with some that wait. */
static void test_receiver_leaves(void **state)
{
    (void)state;
    send_row();
    assert_int_equal(hosted_ops->disconnect(from), 0);
    assert_null(b.context->fetches);
    polls(&b, 10);
    for (unsigned i = 1; i < ROW; i++)
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, -ECONNRESET);
}

/* ---- who is away ------------------------------------------------------------------------------------------- */

static bool next_is_over_at_once(unsigned number)
{
    bool over;

    assert_int_equal(hosted_send(to, number, number, out, LONG, NIGH_MAY_WAIT), 0);
    over = a.context->referred == 0;
    polls(&b, 5);
    polls(&a, 5);
    return over;
}

/* The sender's, of which each finds so many without news before it. A sweep begins that count again: where it stands
 * otherwise, and when the service thread has news, which is a sweep, depends on the machine. */
static void polls_behind(uint32_t passes)
{
    static const uint32_t no_news;
    const uint32_t *news = a.context->service_flag;

    a.context->service_flag = &no_news;
    for (unsigned i = 0; i < 20; i++) {
        a.context->idle_passes = passes;
        polls(&a, 1);
    }
    a.context->service_flag = news;
}

static void receive_one(unsigned i)
{
    assert_int_equal(hosted_recv(&b, from, i, i, in + i * LONG, LONG, 0), 0);
    polls(&b, 20);
    assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
}

/* A receiver that was away for long is not waited for the next times. */
static void test_away(void **state)
{
    unsigned over = 0;

    (void)state;
    a.context->config.away_ns = 0;
    send_row();
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    polls_behind(8);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, ROW - 1));
    while (next_is_over_at_once(ROW + over))
        over++;
    assert_int_equal(over, 16);
}

/* It is waited for since it was posted, whenever others were over. */
static void test_away_since(void **state)
{
    (void)state;
    a.context->config.away_ns = 5000000000;
    to->early_ns = 1;
    send_row();
    receive_one(1);
    polls_behind(8);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, 1));
    assert_int_equal(to->away, 0);
}

static uint32_t seen;

static void sender_is_asked(void)
{
    in_read = NULL;
    polls_behind(8);
    seen = to->away;
}

/* One that is back may first ask its sender to copy some. */
static void test_away_and_asks(void **state)
{
    (void)state;
    a.context->config.away_ns = 0;
    send_row();
    seen = 0;
    in_read = sender_is_asked;
    for (unsigned i = 1; i < ROW; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * LONG, LONG, 0), 0);
    polls(&b, 20);
    assert_true(writes);
    assert_true(seen);
    receive_one(0);
    ends_well(ROW, ROW * LONG);
}

/* That the sender itself was away says nothing. */
static void test_sender_away(void **state)
{
    (void)state;
    a.context->config.away_ns = 0;
    send_row();
    b.context->config.fetch_ns = 0;
    polls(&b, 2);
    polls_behind(0);
    assert_non_null(hosted_find(&a, NIGH_OP_SEND, ROW - 1));
    assert_int_equal(to->away, 0);
}

/* Whichever way one by itself goes, it is no row. */
static void test_asked_twice(void **state)
{
    (void)state;
    a.count = b.count = 0;
    nigh_store_relaxed(&from->pair->crammed, 1);
    assert_int_equal(hosted_send(to, 0, 0, out, LONG, NIGH_MAY_WAIT), 0);
    assert_int_equal(to->in_a_row, 0);
    nigh_store_relaxed(&from->pair->crammed, 0);
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, LONG, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start_rows, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(over_unreceived),
        TEST(both_send_first),
        TEST(received_in_time),
        TEST(claimed),
        TEST(waits),
        TEST(crammed),
        TEST(unreadable),
        TEST(longer),
        TEST(sender_leaves),
        TEST(receiver_leaves),
        TEST(away),
        TEST(away_since),
        TEST(away_and_asks),
        TEST(is_no_deadlock),
        TEST(oldest_first),
        TEST(other_limit),
        TEST(sender_leaves_meanwhile),
        TEST(silent),
        TEST(sender_away),
        TEST(asked_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
