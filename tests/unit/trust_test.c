/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a long message goes before it is matched: the first NIGH_EAGER bytes, all of it to a peer whose receives
 * were there, never more than the chunks in rotation hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, TAG = 3, COUNT = 6, BYTES = 100 * KIB + 24, EAGER = 64 * KIB, SPAN = 256 * KIB };
/* More than are needed to be trusted. */
enum { MEETINGS = 12 };

static struct hosted a, b;
static struct nigh_endpoint *to;
static uint8_t out[COUNT][BYTES], in[COUNT][BYTES];

static int start(void **state)
{
    (void)state;
    alarm(300);
    setenv("NIGH_SPAN", "262144", 1);
    /* With fewer CPUs than the 8 ranks of a hosted job, long messages would not go in pieces. */
    setenv("NIGH_PATH", "chunked", 1);
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned at = 0; at < BYTES; at++)
            out[i][at] = (uint8_t)(i * 31 + at * 7 + at / 256);
    memset(in, 0, sizeof(in));
    to = hosted_open_pair(&a, &b, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    unsetenv("NIGH_SPAN");
    unsetenv("NIGH_PATH");
    return 0;
}

static void receive(unsigned i)
{
    assert_int_equal(hosted_recv(&b, NULL, i, TAG + i, in[i], BYTES, 0), 0);
}

static void give(unsigned i)
{
    assert_int_equal(hosted_send(to, i, TAG + i, out[i], BYTES, 0), 0);
}

static void came(unsigned i)
{
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, i)->status, 0);
    assert_memory_equal(in[i], out[i], BYTES);
    memset(in[i], 0, BYTES);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, i)->status, 0);
}

/* Messages whose receives are there first. */
static void meet(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        a.count = b.count = 0;
        receive(0);
        give(0);
        came(0);
    }
    a.count = b.count = 0;
}

static uint64_t sent_of(unsigned id)
{
    const struct nigh_send_op *op = nigh_ids_get(&to->out, id);

    assert_non_null(op);
    return op->sent;
}

/* Bytes of what is under way, in the order of posting; ids are dense and were all given back. */
static uint64_t sent_in_all(void)
{
    uint64_t bytes = 0;

    for (unsigned id = 0; id < to->out.size; id++)
        if (nigh_ids_get(&to->out, id))
            bytes += sent_of(id);
    return bytes;
}

static void test_a_stranger_gets_what_goes_without_asking(void **state)
{
    (void)state;
    meet(1);
    give(1);
    hosted_turns(&a, &b, 100);
    assert_int_equal(sent_in_all(), EAGER);
    receive(1);
    came(1);
}

static void test_who_was_there_gets_all_of_it(void **state)
{
    (void)state;
    meet(MEETINGS);
    receive(1);
    give(1);
    assert_int_equal(sent_in_all(), BYTES);
    assert_int_equal(to->unmatched, BYTES);
    came(1);
    assert_int_equal(to->unmatched, 0);
}

/* Complete is what is matched, as it is without trust. */
static void test_all_of_it_does_not_complete_before_it_is_matched(void **state)
{
    (void)state;
    meet(MEETINGS);
    give(1);
    hosted_turns(&a, &b, 1000);
    assert_int_equal(sent_in_all(), BYTES);
    assert_null(hosted_find(&a, NIGH_OP_SEND, 1));
    receive(1);
    came(1);
}

/* Nor does one that came before its receive cost more than once. */
static void test_who_was_late_is_asked_again(void **state)
{
    (void)state;
    meet(MEETINGS);
    give(1);
    hosted_turns(&a, &b, 100);
    receive(1);
    came(1);
    assert_int_equal(to->trusted, 0);
    give(2);
    hosted_turns(&a, &b, 100);
    assert_int_equal(sent_in_all(), EAGER);
    receive(2);
    came(2);
}

static void test_no_more_is_unmatched_than_chunks_in_rotation_hold(void **state)
{
    unsigned whole = SPAN / BYTES;

    (void)state;
    meet(MEETINGS);
    for (unsigned i = 0; i < COUNT; i++)
        give(i);
    hosted_turns(&a, &b, 1000);
    assert_int_equal(to->unmatched, whole * BYTES);
    assert_int_equal(sent_in_all(), whole * BYTES);
    assert_int_equal(to->waiting.count, COUNT - whole);
    for (unsigned i = 0; i < COUNT; i++)
        receive(i);
    for (unsigned i = 0; i < COUNT; i++)
        came(i);
    assert_int_equal(to->unmatched, 0);
    assert_int_equal(to->waiting.count, 0);
}

/* One that nobody has sent a byte of takes no memory where it waits. */
static void test_what_is_announced_takes_no_memory(void **state)
{
    unsigned whole = SPAN / BYTES, announced = 0, kept = 0;
    struct nigh_endpoint *from;

    (void)state;
    meet(MEETINGS);
    for (unsigned i = 0; i < COUNT; i++)
        give(i);
    hosted_turns(&a, &b, 1000);
    from = b.context->all;
    assert_non_null(from);
    for (unsigned id = 0; id < from->in.size; id++) {
        const struct nigh_message *message = nigh_ids_get(&from->in, id);

        announced += message != NULL;
        kept += message && message->buffer;
    }
    /* Those that have come whole have no number any more. */
    assert_int_equal(announced, COUNT - whole);
    assert_int_equal(kept, 0);
    for (unsigned i = 0; i < COUNT; i++)
        receive(i);
    for (unsigned i = 0; i < COUNT; i++)
        came(i);
}

/* One that never has room there is not announced to wait for it, and does not keep others waiting. */
static void test_longer_than_the_chunks_is_sent_as_to_a_stranger(void **state)
{
    static uint8_t all[SPAN + KIB], there[SPAN + KIB];

    (void)state;
    meet(MEETINGS);
    memset(all, 0x5a, sizeof(all));
    assert_int_equal(hosted_send(to, 7, TAG + 7, all, sizeof(all), 0), 0);
    hosted_turns(&a, &b, 100);
    assert_int_equal(sent_in_all(), EAGER);
    assert_int_equal(to->waiting.count, 0);
    give(1);
    hosted_turns(&a, &b, 100);
    assert_int_equal(sent_in_all(), EAGER + BYTES);
    receive(1);
    came(1);
    assert_int_equal(hosted_recv(&b, NULL, 7, TAG + 7, there, sizeof(there), 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 7)->status, 0);
    assert_memory_equal(there, all, sizeof(all));
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 7)->status, 0);
}

/* A receive for the last one is no reason to wait for those of the first. */
static void test_the_last_may_be_matched_first(void **state)
{
    (void)state;
    meet(MEETINGS);
    for (unsigned i = 0; i < COUNT; i++)
        give(i);
    hosted_turns(&a, &b, 100);
    for (unsigned i = COUNT; i-- > 0;) {
        receive(i);
        came(i);
    }
    assert_int_equal(to->waiting.count, 0);
    meet(1);
}

/* A stream whose receives are there: all of it comes in its turn. */
static void test_a_stream_longer_than_the_chunks(void **state)
{
    (void)state;
    meet(MEETINGS);
    for (unsigned round = 0; round < 20; round++) {
        a.count = b.count = 0;
        for (unsigned i = 0; i < COUNT; i++)
            receive(i);
        for (unsigned i = 0; i < COUNT; i++)
            give(i);
        for (unsigned i = 0; i < COUNT; i++)
            came(i);
        assert_int_equal(to->unmatched, 0);
    }
    assert_int_equal(hosted_stats(&b).unexpected, 0);
}

static void test_all_end_with_the_peer(void **state)
{
    (void)state;
    meet(MEETINGS);
    for (unsigned i = 0; i < COUNT; i++)
        give(i);
    assert_true(to->waiting.count != 0);
    hosted_close(&b);
    for (unsigned i = 0; i < COUNT; i++) {
        for (unsigned turn = 0; turn < 100000 && !hosted_find(&a, NIGH_OP_SEND, i); turn++) {
            hosted_poll(&a);
            if (turn % 1000 == 999)
                usleep(1000);
        }
        assert_non_null(hosted_find(&a, NIGH_OP_SEND, i));
        assert_int_equal(hosted_find(&a, NIGH_OP_SEND, i)->status, -ECONNRESET);
    }
    assert_int_equal(to->waiting.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_stranger_gets_what_goes_without_asking, start, stop),
        cmocka_unit_test_setup_teardown(test_who_was_there_gets_all_of_it, start, stop),
        cmocka_unit_test_setup_teardown(test_all_of_it_does_not_complete_before_it_is_matched, start, stop),
        cmocka_unit_test_setup_teardown(test_who_was_late_is_asked_again, start, stop),
        cmocka_unit_test_setup_teardown(test_no_more_is_unmatched_than_chunks_in_rotation_hold, start, stop),
        cmocka_unit_test_setup_teardown(test_what_is_announced_takes_no_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_longer_than_the_chunks_is_sent_as_to_a_stranger, start, stop),
        cmocka_unit_test_setup_teardown(test_the_last_may_be_matched_first, start, stop),
        cmocka_unit_test_setup_teardown(test_a_stream_longer_than_the_chunks, start, stop),
        cmocka_unit_test_setup_teardown(test_all_end_with_the_peer, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
