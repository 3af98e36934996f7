/* SPDX-License-Identifier: BSD-3-Clause */
/* Of a row of messages, where each side has a CPU, shorter ones are copied whole, by one side or the other; with
 * NIGH_MAY_WAIT also those that would be over before they are received. */
#include "plugin/progress.h"
#include "tests/support/apart.h"

enum {
    ROW_FROM = 48 * KIB,
    FIRST = 50 * KIB, /* goes in chunks: nothing is before it */
    ONE = 192 * KIB,
    MANY = 6,
    PITCH = 300 * KIB,
};

static uint64_t sizes[MANY + 1];
static uint64_t rooms[MANY + 1];

/* As it is on a CPU that is better off so. */
static void set_rows(struct hosted *hosted)
{
    hosted->context->config.beside_from = MOST;
    hosted->context->config.beside_row_from = ROW_FROM;
    hosted->context->config.away_ns = hosted->context->config.fetch_ns = UINT64_MAX;
}

static int start_rows(void **state)
{
    start(state);
    set_rows(&a);
    set_rows(&b);
    for (unsigned i = 0; i <= MANY; i++)
        sizes[i] = rooms[i] = i ? ONE : FIRST;
    return 0;
}

/* As if no row had been before. */
static void post_row(unsigned count, uint32_t flags)
{
    comes_back();
    to->row_messages = 0;
    a.count = b.count = 0;
    reads = writes = 0;
    read_bytes = written_bytes = 0;
    memset(in, 0, sizeof(in));
    for (unsigned i = 0; i <= count; i++)
        assert_int_equal(hosted_recv(&b, from, i, i, in + i * PITCH, rooms[i], 0), 0);
    for (unsigned i = 0; i <= count; i++)
        assert_int_equal(hosted_send(to, i, i, out + i * PITCH, sizes[i], flags), 0);
}

static void row_ends_well(unsigned count)
{
    for (unsigned i = 0; i <= count; i++) {
        uint64_t come = sizes[i] < rooms[i] ? sizes[i] : rooms[i];

        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, come < sizes[i] ? -EMSGSIZE : 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
        assert_memory_equal(in + i * PITCH, out + i * PITCH, come);
        for (uint64_t k = i * PITCH + come; k < (i + 1) * PITCH; k++)
            assert_int_equal(in[k], 0);
    }
    assert_null(a.context->asked);
    assert_int_equal(a.context->referred, 0);
    for (unsigned i = 0; i < NIGH_OFFERS; i++)
        assert_null(from->offered[i]);
}

static void all_of_one_length(uint64_t bytes)
{
    for (unsigned i = 1; i <= MANY; i++)
        sizes[i] = rooms[i] = bytes;
}

/* Both have something to do, and each call is a whole message. */
static void test_whole_ones(void **state)
{
    static const uint64_t lengths[] = {ROW_FROM,     ROW_FROM + 1, 64 * KIB,
                                       64 * KIB + 1, 100000,       NIGH_HELP_HALVES_FROM - 1};

    (void)state;
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        all_of_one_length(lengths[i]);
        in_read = sender_helps;
        post_row(MANY, NIGH_MAY_WAIT);
        row_ends_well(MANY);
        assert_true(reads && writes);
        assert_int_equal(read_bytes, reads * lengths[i]);
        assert_int_equal(written_bytes, writes * lengths[i]);
        assert_int_equal(reads + writes, MANY);
    }
}

/* A sender that is dying can take none of those that it was asked for and has not begun. */
static void test_dying(void **state)
{
    (void)state;
    post_row(MANY, NIGH_MAY_WAIT);
    polls(&b, 1);
    assert_true(from->offered_count > 0);
    __atomic_store_n(&to->pair->life, FUTEX_OWNER_DIED | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    nigh_progress_sweep(b.context);
    polls(&b, MANY);
    for (unsigned i = 1; i <= MANY; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    sender_helps();
    assert_int_equal(writes, 0);
}

/* Longer ones by halves. */
static void test_halves_of_longer_ones(void **state)
{
    (void)state;
    all_of_one_length(NIGH_HELP_HALVES_FROM);
    in_read = sender_helps;
    post_row(MANY, NIGH_MAY_WAIT);
    row_ends_well(MANY);
    assert_int_equal(reads + writes, 2 * MANY);
    assert_int_equal(read_bytes + written_bytes, MANY * NIGH_HELP_HALVES_FROM);
}

/* And the one that is there alone, of which both have something to do only so. */
static void test_halves_of_the_only_one(void **state)
{
    (void)state;
    in_read = sender_helps;
    post_row(1, NIGH_MAY_WAIT);
    row_ends_well(1);
    assert_int_equal(reads, 1);
    assert_int_equal(writes, 1);
    assert_int_equal(read_bytes, ONE / 2);
    assert_int_equal(written_bytes, ONE / 2);
}

/* The receiver goes on with the oldest, the sender with the newest: of the half that it was asked for. */
static void test_newest_first(void **state)
{
    (void)state;
    post_row(MANY, NIGH_MAY_WAIT);
    polls(&b, 1);
    assert_int_equal(read_bytes, ONE);
    for (unsigned i = MANY; i > MANY / 2; i--) {
        writes = 0;
        sender_helps();
        assert_int_equal(writes, 1);
        assert_ptr_equal(first_written, in + i * PITCH);
    }
    writes = 0;
    sender_helps();
    assert_int_equal(writes, 0);
    row_ends_well(MANY);
    assert_int_equal(read_bytes, (MANY - MANY / 2) * ONE);
}

/* Its number may be the least: they come by in turn. */
static void test_newest_first_behind_the_last_number(void **state)
{
    (void)state;
    from->offers = UINT32_MAX - 2;
    test_newest_first(state);
    assert_true(from->offers < MANY);
}

static void helps_once(void)
{
    in_read = NULL;
    sender_helps();
}

/* A longer one in front of them both halve; the others are the sender's behind that. */
static void test_halves_before_whole_ones(void **state)
{
    (void)state;
    sizes[1] = rooms[1] = EACH;
    in_read = helps_once;
    post_row(MANY, NIGH_MAY_WAIT);
    polls(&b, 1);
    assert_true(writes);
    row_ends_well(MANY);
    assert_int_equal(read_bytes + written_bytes, EACH + (MANY - 1) * ONE);
}

static void receiver_goes_on(void)
{
    for (unsigned i = 0; i < 20; i++)
        hosted_poll(&b);
    assert_int_equal(read_bytes, (MANY - 1) * ONE);
    assert_null(hosted_find(&b, NIGH_OP_RECV, MANY));
    for (unsigned i = 1; i < MANY; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
}

/* The sender stands still in one: the receiver has all others, and this one when it goes on. */
static void test_sender_stands_still(void **state)
{
    (void)state;
    post_row(MANY, NIGH_MAY_WAIT);
    polls(&b, 1);
    in_write = receiver_goes_on;
    sender_helps();
    row_ends_well(MANY);
    assert_int_equal(writes, 1);
}

static void test_sender_computes(void **state)
{
    (void)state;
    post_row(MANY, NIGH_MAY_WAIT);
    polls(&b, 100);
    for (unsigned i = 0; i <= MANY; i++)
        assert_non_null(hosted_find(&b, NIGH_OP_RECV, i));
    assert_int_equal(writes, 0);
    row_ends_well(MANY);
    assert_int_equal(read_bytes, MANY * ONE);
}

static void test_cut(void **state)
{
    (void)state;
    rooms[2] = ONE / 2 - 3;
    rooms[MANY] = 40 * KIB + 1;
    in_read = sender_helps;
    post_row(MANY, NIGH_MAY_WAIT);
    row_ends_well(MANY);
    assert_int_equal(read_bytes + written_bytes, (MANY - 2) * ONE + rooms[2] + rooms[MANY]);
}

/* What the sender puts back the receiver copies, and the next ones go in chunks. */
static void test_not_allowed(void **state)
{
    (void)state;
    failure = EPERM;
    in_read = sender_helps;
    post_row(MANY, NIGH_MAY_WAIT);
    row_ends_well(MANY);
    assert_true(writes);
    assert_int_equal(read_bytes, MANY * ONE);
    post_row(MANY, NIGH_MAY_WAIT);
    row_ends_well(MANY);
    assert_int_equal(reads + writes, 0);
}

/* A row is also what is sent one behind the other by a host that waits for each, as answers do not end it. */
static void test_waited_for(void **state)
{
    (void)state;
    comes_back();
    for (unsigned i = 0; i <= MANY; i++) {
        a.count = b.count = reads = writes = 0;
        assert_int_equal(hosted_recv(&b, from, 0, 0, in, ONE, 0), 0);
        assert_int_equal(hosted_send(to, 0, 0, out, ONE, 0), 0);
        in_read = sender_helps;
        assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, 0);
        assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 0)->status, 0);
        assert_int_equal(reads, i > 0);
        assert_int_equal(writes, i > 0);
    }
}

/* One that follows no other: was it copied once? */
static bool is_copied_once(void)
{
    comes_back();
    a.count = b.count = reads = writes = 0;
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, ONE, 0), 0);
    assert_int_equal(hosted_send(to, 0, 0, out, ONE, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 0)->status, 0);
    return reads != 0;
}

/* The first of a row, where the last one was one; behind that it is another one by itself. */
static void test_first_of_next_row(void **state)
{
    (void)state;
    assert_false(is_copied_once());
    post_row(3, NIGH_MAY_WAIT);
    row_ends_well(3);
    assert_true(is_copied_once());
    assert_false(is_copied_once());
    post_row(2, NIGH_MAY_WAIT);
    row_ends_well(2);
    assert_false(is_copied_once());
}

/* ---- which ones -------------------------------------------------------------------------------------------- */

/* Of the sends of a row: those that are over before anybody receives. */
static unsigned over_at_once(uint64_t bytes, uint32_t flags)
{
    unsigned over = 0;

    all_of_one_length(bytes);
    post_row(MANY, flags);
    polls(&a, 50);
    for (unsigned i = 0; i <= MANY; i++)
        over += hosted_find(&a, NIGH_OP_SEND, i) != NULL;
    row_ends_well(MANY);
    return over;
}

/* Without the flag those of up to NIGH_EAGER are over at once, whatever is before them. */
static void test_eager_ones(void **state)
{
    (void)state;
    assert_int_equal(over_at_once(64 * KIB, 0), MANY + 1);
    assert_int_equal(reads + writes, 0);
    assert_int_equal(over_at_once(64 * KIB + 1, 0), 1);
    assert_true(reads);
    assert_int_equal(over_at_once(64 * KIB, NIGH_MAY_WAIT), 1);
    assert_true(reads);
    assert_int_equal(over_at_once(ROW_FROM - 1, NIGH_MAY_WAIT), MANY + 1);
    assert_int_equal(reads + writes, 0);
}

/* The flag says what a host counts on, and nothing else: one by itself goes as ever. */
static void test_by_itself(void **state)
{
    (void)state;
    a.count = b.count = 0;
    assert_int_equal(hosted_send(to, 0, 0, out, 64 * KIB, NIGH_MAY_WAIT), 0);
    polls(&a, 50);
    assert_int_equal(hosted_until(&a, NULL, NIGH_OP_SEND, 0)->status, 0);
    assert_int_equal(hosted_recv(&b, from, 0, 0, in, 64 * KIB, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, 0);
    assert_memory_equal(in, out, 64 * KIB);
    assert_int_equal(reads + writes, 0);
}

/* Every length, with all that the flag may go with. */
static void test_flag_on_any(void **state)
{
    static const uint64_t lengths[] = {0, 1, 40, 41, 1024, 1025, 4096, 5000, 48 * KIB, 64 * KIB, 300 * KIB};
    static const uint32_t with[] = {0, NIGH_SYNC, NIGH_INJECT};

    (void)state;
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (unsigned k = 0; k < sizeof(with) / sizeof(with[0]); k++) {
            if (with[k] == NIGH_INJECT && lengths[i] > NIGH_INJECT_BYTES)
                continue;
            a.count = b.count = 0;
            assert_int_equal(hosted_recv(&b, from, 0, 0, in, lengths[i], 0), 0);
            assert_int_equal(hosted_send(to, 0, 0, out, lengths[i], with[k] | NIGH_MAY_WAIT), 0);
            assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 0)->status, 0);
            assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 0)->status, 0);
            assert_memory_equal(in, out, lengths[i]);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, start_rows, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_ones),
        TEST(dying),
        TEST(halves_of_longer_ones),
        TEST(halves_of_the_only_one),
        TEST(newest_first),
        TEST(newest_first_behind_the_last_number),
        TEST(halves_before_whole_ones),
        TEST(sender_stands_still),
        TEST(sender_computes),
        TEST(cut),
        TEST(not_allowed),
        TEST(waited_for),
        TEST(first_of_next_row),
        TEST(eager_ones),
        TEST(by_itself),
        TEST(flag_on_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
