/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/counted.c: a message that one slot announces and a count fills arrives step by step, whoever waits
 * for it, in which way, and whenever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/shared.h"
#include "tests/support/counts.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static const struct nigh_completion *finish(uint64_t context, uint32_t from)
{
    for (uint32_t at = from; at < COUNTS_BYTES; at += COUNTS_STEP) {
        assert_null(hosted_find(&counts.victim, NIGH_OP_RECV, context));
        counts_fill(at, at + COUNTS_STEP);
        hosted_turns(&counts.victim, NULL, 20);
    }
    return hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, context);
}

static void assert_whole(const struct nigh_completion *done, uint64_t bytes)
{
    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, bytes);
    assert_int_equal(done->tag, COUNTS_TAG);
    assert_int_equal(done->imm, 5);
    assert_memory_equal(counts.in, counts.out, bytes);
}

static void test_receive_first(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    assert_whole(finish(10, COUNTS_STEP), COUNTS_BYTES);
    assert_int_equal(hosted_stats(&counts.victim).received, 1);
}

/* What came stays where it lies until then, and the rest goes to the buffer. */
static void test_receive_in_the_middle(void **state)
{
    (void)state;
    counts_begin();
    counts_fill(COUNTS_STEP, 3 * COUNTS_STEP);
    hosted_turns(&counts.victim, NULL, 20);
    assert_int_equal(hosted_stats(&counts.victim).unexpected, 1);
    assert_int_equal(hosted_recv(&counts.victim, NULL, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0), 0);
    assert_whole(finish(10, 3 * COUNTS_STEP), COUNTS_BYTES);
}

static void test_receive_behind(void **state)
{
    (void)state;
    counts_begin();
    counts_fill(COUNTS_STEP, COUNTS_BYTES);
    hosted_turns(&counts.victim, NULL, 20);
    assert_int_equal(hosted_recv(&counts.victim, NULL, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0), 0);
    assert_whole(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 10), COUNTS_BYTES);
}

static void test_too_long(void **state)
{
    const struct nigh_completion *done;

    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, 10000, 0), 0);
    counts_begin();
    done = finish(10, COUNTS_STEP);
    assert_int_equal(done->status, -EMSGSIZE);
    assert_memory_equal(counts.in, counts.out, 10000);
    assert_int_equal(counts.in[10000], 0);
}

/* Of two in turn each has its own count: where the former ended the next has not come to. */
static void test_one_behind_the_other(void **state)
{
    struct nigh_wire_first first = counts_first();

    (void)state;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(
            hosted_recv(&counts.victim, counts.to_foe, 10 + i, COUNTS_TAG, counts.in, COUNTS_BYTES, 0), 0);
    counts_begin();
    assert_whole(finish(10, COUNTS_STEP), COUNTS_BYTES);
    memset(counts.in, 0, sizeof(counts.in));
    counts_say(COUNTS_STEP);
    counts_announce(&first, NIGH_F_SHUTTLE | NIGH_F_COUNTED);
    hosted_turns(&counts.victim, NULL, 20);
    assert_null(hosted_find(&counts.victim, NIGH_OP_RECV, 11));
    counts_say(COUNTS_BYTES);
    assert_whole(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 11), COUNTS_BYTES);
}

/* One that is said behind it is heard behind it, though both can be seen at once. */
static void test_order(void **state)
{
    uint8_t small[8] = {0};

    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 11, 78, small, 8, 0), 0);
    counts_begin();
    counts_fill(COUNTS_STEP, COUNTS_BYTES);
    foe_send(&counts.foe, nigh_head_make(NIGH_K_MESSAGE, 8, 0, 0), 78, 0, counts.out, 8);
    hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 11);
    assert_whole(hosted_find(&counts.victim, NIGH_OP_RECV, 10), COUNTS_BYTES);
    assert_ptr_equal(hosted_find(&counts.victim, NIGH_OP_RECV, 10), &counts.victim.done[0]);
}

static void *fill_later(void *data)
{
    (void)data;
    usleep(50000);
    counts_fill(COUNTS_STEP, COUNTS_BYTES);
    return NULL;
}

/* It sleeps in the middle, and the bell at the end is enough. */
static void test_sleeper(void **state)
{
    uint64_t rescues = hosted_stats(&counts.victim).rescues;
    pthread_t thread;

    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    assert_int_equal(pthread_create(&thread, NULL, fill_later, NULL), 0);
    while (!hosted_find(&counts.victim, NIGH_OP_RECV, 10)) {
        assert_int_equal(hosted_ops->wait(counts.victim.context, UINT64_C(60000000000)), 0);
        hosted_poll(&counts.victim);
    }
    pthread_join(thread, NULL);
    assert_whole(hosted_find(&counts.victim, NIGH_OP_RECV, 10), COUNTS_BYTES);
    assert_int_equal(hosted_stats(&counts.victim).rescues, rescues);
}

static void leave(void)
{
    nigh_store_release(&counts.foe.pair->closed, nigh_load_relaxed(&counts.foe.pair->closed) | 1,
                       GOODBYE_SAY);
    foe_wake(&counts.foe);
}

static void test_it_leaves_in_the_middle(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    counts_fill(COUNTS_STEP, 2 * COUNTS_STEP);
    leave();
    assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 10)->status, -ECONNRESET);
    counts_say(COUNTS_BYTES); /* nobody looks any more */
    hosted_turns(&counts.victim, &counts.good, 2000);
    assert_int_equal(counts.in[2 * COUNTS_STEP], 0);
}

/* All of it was said before the goodbye, so all of it is told. */
static void test_it_leaves_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    counts_fill(COUNTS_STEP, COUNTS_BYTES);
    leave();
    assert_whole(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 10), COUNTS_BYTES);
}

static void test_we_leave_in_the_middle(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    assert_int_equal(hosted_ops->disconnect(counts.to_foe), 0);
    assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 10)->status, -ECANCELED);
    counts_fill(COUNTS_STEP, COUNTS_BYTES);
    hosted_turns(&counts.victim, &counts.good, 2000);
    assert_int_equal(counts.in[COUNTS_STEP], 0);
}

/* ---- other ways to receive one ------------------------------------------------------------------------- */

static struct nigh_message *claimed(void)
{
    struct nigh_message *message = NULL;
    struct nigh_completion found;

    assert_int_equal(
        hosted_ops->probe(counts.victim.context, counts.to_foe, COUNTS_TAG, 0, 0, &found, &message), 0);
    assert_int_equal(found.bytes, COUNTS_BYTES);
    return message;
}

static void receive(struct nigh_message *message)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = counts.in, .bytes = COUNTS_BYTES, .context = 10};

    assert_int_equal(hosted_ops->claim(counts.victim.context, message, &recv), 0);
    hosted_poll(&counts.victim);
}

/* Taken out at any step, and given a receive at any later one. */
static void test_claimed(void **state)
{
    for (uint32_t taken = COUNTS_STEP; taken <= COUNTS_BYTES; taken += COUNTS_STEP)
        for (uint32_t received = taken; received <= COUNTS_BYTES; received += COUNTS_STEP) {
            struct nigh_message *message;

            counts_begin();
            counts_fill(COUNTS_STEP, taken);
            hosted_turns(&counts.victim, NULL, 20);
            message = claimed();
            counts_fill(COUNTS_STEP, received);
            hosted_turns(&counts.victim, NULL, 20);
            receive(message);
            assert_whole(finish(10, received), COUNTS_BYTES);
            counts.victim.count = 0;
            memset(counts.in, 0, sizeof(counts.in));
        }
    (void)state;
}

static void test_claimed_and_lost(void **state)
{
    struct nigh_message *message;

    (void)state;
    counts_begin();
    message = claimed();
    leave();
    hosted_turns(&counts.victim, &counts.good, 2000);
    assert_int_not_equal(hosted_state(&counts.victim, counts.to_foe), NIGH_READY);
    receive(message);
    assert_int_equal(hosted_find(&counts.victim, NIGH_OP_RECV, 10)->status, -ECONNRESET);
}

/* What has begun is not taken back; a receive that it is not for is. */
static void test_cancel(void **state)
{
    (void)state;
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    assert_int_equal(hosted_recv(&counts.victim, counts.to_foe, 11, COUNTS_TAG, counts.in, COUNTS_BYTES, 0),
                     0);
    counts_begin();
    assert_int_equal(hosted_ops->cancel_unmatched(counts.victim.context, 10), -ENOENT);
    assert_int_equal(hosted_ops->cancel_unmatched(counts.victim.context, 11), 0);
    assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 11)->status, -ECANCELED);
    assert_whole(finish(10, COUNTS_STEP), COUNTS_BYTES);
}

/* Nothing of it is written any more; the next one has its shuttle and its count. */
static void test_cancel_in_the_middle(void **state)
{
    struct nigh_wire_first first = counts_first();

    (void)state;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(
            hosted_recv(&counts.victim, counts.to_foe, 10 + i, COUNTS_TAG, counts.in, COUNTS_BYTES, 0), 0);
    counts_begin();
    counts_fill(COUNTS_STEP, 3 * COUNTS_STEP);
    hosted_turns(&counts.victim, NULL, 20);
    assert_int_equal(hosted_ops->cancel(counts.victim.context, 10), 0);
    assert_int_equal(hosted_ops->cancel(counts.victim.context, 10), -ENOENT);
    assert_int_equal(hosted_until(&counts.victim, NULL, NIGH_OP_RECV, 10)->status, -ECANCELED);
    memset(counts.in, 0x77, sizeof(counts.in));
    counts_fill(3 * COUNTS_STEP, COUNTS_BYTES);
    hosted_turns(&counts.victim, NULL, 20);
    for (unsigned i = 0; i < COUNTS_BYTES; i++)
        assert_int_equal(counts.in[i], 0x77);
    counts_say(COUNTS_STEP);
    counts_announce(&first, NIGH_F_SHUTTLE | NIGH_F_COUNTED);
    assert_whole(finish(11, COUNTS_STEP), COUNTS_BYTES);
}

/* They lie one behind the other, and the last one gives the buffer back. */
static void test_multi(void **state)
{
    const struct nigh_completion *done;

    (void)state;
    assert_int_equal(
        hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, sizeof(counts.in), NIGH_MULTI),
        0);
    for (uint64_t i = 0; i < 2; i++) {
        counts.victim.count = 0;
        counts_begin();
        done = finish(10, COUNTS_STEP);
        assert_int_equal(done->status, 0);
        assert_int_equal(done->bytes, COUNTS_BYTES);
        assert_int_equal(done->flags & NIGH_DONE_RELEASED, i ? NIGH_DONE_RELEASED : 0);
        assert_ptr_equal(done->data, counts.in + i * COUNTS_BYTES);
        assert_memory_equal(done->data, counts.out, COUNTS_BYTES);
    }
}

/* Taken back in the middle of a message, which comes first. */
static void test_multi_cancelled(void **state)
{
    (void)state;
    assert_int_equal(
        hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, counts.in, sizeof(counts.in), NIGH_MULTI),
        0);
    counts_begin();
    assert_int_equal(hosted_ops->cancel(counts.victim.context, 10), 0);
    assert_int_equal(finish(10, COUNTS_STEP)->status, 0);
    assert_memory_equal(counts.in, counts.out, COUNTS_BYTES);
    assert_int_equal(counts.victim.count, 2);
    assert_int_equal(counts.victim.done[1].context, 10);
    assert_int_equal(counts.victim.done[1].status, -ECANCELED);
    assert_int_equal(counts.victim.done[1].flags & NIGH_DONE_RELEASED, NIGH_DONE_RELEASED);
}

static void test_in_place(void **state)
{
    const struct nigh_completion *done;

    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        counts.victim.count = 0;
        if (late)
            counts_begin();
        assert_int_equal(
            hosted_recv(&counts.victim, counts.to_foe, 10, COUNTS_TAG, NULL, COUNTS_BYTES, NIGH_IN_PLACE), 0);
        if (!late)
            counts_begin();
        done = finish(10, COUNTS_STEP);
        assert_int_equal(done->status, 0);
        assert_memory_equal(done->data, counts.out, COUNTS_BYTES);
        assert_int_equal(hosted_ops->release(counts.victim.context, done->data), 0);
    }
}

/* ---- our own ------------------------------------------------------------------------------------------- */

static void test_one_slot_and_a_count(void **state)
{
    struct nigh_wire_first first;
    struct nigh_slot slot;

    (void)state;
    assert_int_equal(hosted_send(counts.to_foe, 19, COUNTS_TAG, counts.out, 8, 0),
                     0); /* the ring is there from then on */
    assert_true(foe_receive(&counts.foe, &slot));
    assert_int_equal(hosted_send(counts.to_foe, 20, COUNTS_TAG, counts.out, COUNTS_BYTES, 0), 0);
    assert_true(foe_receive(&counts.foe, &slot));
    assert_int_equal(nigh_head_kind(slot.head), NIGH_K_FIRST);
    assert_int_equal(nigh_head_flags(slot.head) & (NIGH_F_COUNTED | NIGH_F_SHUTTLE | NIGH_F_RETURNS),
                     NIGH_F_COUNTED | NIGH_F_SHUTTLE);
    memcpy(&first, slot.payload, sizeof(first));
    assert_int_equal(first.total, COUNTS_BYTES);
    assert_false(foe_receive(&counts.foe, &slot));
    assert_int_equal(nigh_load_acquire(counts_word(&counts.foe.theirs), COUNT_GET), COUNTS_BYTES);
    assert_memory_equal(nigh_window_shuttle(&counts.foe.theirs), counts.out, COUNTS_BYTES);
    assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_SEND, 20)->status, 0);
}

/* All lengths about the ends of what is counted, to and fro. */
static void to_and_fro(bool crowd)
{
    struct nigh_endpoint *back = hosted_connect(&counts.good, 0);
    uint32_t around[] = {4096, 8192, 16384, 32768, 65472, 65536};
    uint64_t context = 100;

    counts_crowd(crowd);
    for (unsigned i = 0; i < sizeof(around) / sizeof(around[0]); i++)
        for (int off = -65; off <= 65 && (int)around[i] + off <= (int)sizeof(counts.in); off += 13) {
            uint32_t bytes = around[i] + (uint32_t)off;

            memset(counts.in, 0, sizeof(counts.in));
            assert_int_equal(hosted_recv(&counts.good, NULL, context, COUNTS_TAG, counts.in, bytes, 0), 0);
            assert_int_equal(hosted_send(counts.to_good, context, COUNTS_TAG, counts.out, bytes, 0), 0);
            assert_int_equal(hosted_until(&counts.good, &counts.victim, NIGH_OP_RECV, context++)->bytes,
                             bytes);
            assert_memory_equal(counts.in, counts.out, bytes);
            memset(counts.in, 0, sizeof(counts.in));
            assert_int_equal(hosted_send(back, context, COUNTS_TAG, counts.out, bytes, 0), 0);
            assert_int_equal(hosted_recv(&counts.victim, NULL, context, COUNTS_TAG, counts.in, bytes, 0), 0);
            assert_int_equal(hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, context++)->bytes,
                             bytes);
            assert_memory_equal(counts.in, counts.out, bytes);
        }
}

static void test_to_and_fro(void **state)
{
    (void)state;
    to_and_fro(false);
}

/* Whole: the post before its message is found by a pass, the one behind it meets it. */
static void test_to_and_fro_in_a_crowd(void **state)
{
    (void)state;
    to_and_fro(true);
}

/* Receives that stand in another class are in nobody's way. */
static void stand_in(uint32_t tclass, uint64_t context, uint8_t *room, uint64_t bytes)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_MULTI,
                             .buffer = room,
                             .bytes = bytes,
                             .ignore = NIGH_IGNORE_ALL,
                             .context = context,
                             .tclass = tclass,
                             .min_free = 1};

    assert_int_equal(hosted_ops->post_recv(counts.good.context, NULL, &recv), 0);
}

/* One that comes before its receive and whose post takes it out of its ring; then the shuttle goes back. False: it was
 * kept, as something that the service thread told of made a pass look at everything. */
static bool is_met(struct nigh_endpoint *back, uint32_t bytes)
{
    uint32_t met = counts.good.context->met;
    bool kept;

    memset(counts.in, 0, sizeof(counts.in));
    assert_int_equal(hosted_send(counts.to_good, 10, COUNTS_TAG, counts.out, bytes, 0), 0);
    hosted_turns(&counts.victim, &counts.good, 20);
    kept = counts.good.context->matcher.arrived_count != 0;
    assert_int_equal(hosted_recv(&counts.good, back, 11, COUNTS_TAG, counts.in, bytes, 0), 0);
    if (!kept) {
        assert_int_equal(counts.good.context->met, met + 1);
        assert_memory_equal(counts.in, counts.out, bytes);
    }
    assert_int_equal(hosted_until(&counts.good, &counts.victim, NIGH_OP_RECV, 11)->bytes, bytes);
    assert_memory_equal(counts.in, counts.out, bytes);
    assert_int_equal(hosted_recv(&counts.victim, counts.to_good, 12, COUNTS_TAG, counts.in, bytes, 0), 0);
    assert_int_equal(hosted_send(back, 12, COUNTS_TAG, counts.out, bytes, 0), 0);
    (void)hosted_until(&counts.victim, &counts.good, NIGH_OP_RECV, 12);
    counts.victim.count = counts.good.count = 0;
    return !kept;
}

static void test_whole_ones_are_met(void **state)
{
    static const uint32_t lengths[] = {3000, 4096, 20000, 65536};
    struct nigh_endpoint *back = hosted_connect(&counts.good, 0);
    static uint8_t room[4][64];

    (void)state;
    /* from then on the ring is there, and looked at in each pass */
    assert_int_equal(hosted_recv(&counts.good, back, 99, COUNTS_TAG, counts.in, 8, 0), 0);
    assert_int_equal(hosted_send(counts.to_good, 99, COUNTS_TAG, counts.out, 8, 0), 0);
    (void)hosted_until(&counts.good, &counts.victim, NIGH_OP_RECV, 99);
    counts_crowd(true);
    stand_in(5, 900, room[0], sizeof(room));
    for (uint64_t i = 0; i < 4; i++)
        for (unsigned kept = 0; !is_met(back, lengths[i]); kept++)
            assert_true(kept < 8);
    /* and one that stands in its own class is before what is posted later */
    assert_int_equal(hosted_send(counts.to_good, 50, COUNTS_TAG, counts.out, 3000, 0), 0);
    hosted_turns(&counts.victim, &counts.good, 20);
    memset(counts.in, 0, sizeof(counts.in));
    stand_in(0, 901, counts.in, 4096);
    assert_int_equal(hosted_recv(&counts.good, back, 200, COUNTS_TAG, counts.in + 8192, 4096, 0), 0);
    assert_int_equal(hosted_until(&counts.good, &counts.victim, NIGH_OP_RECV, 901)->bytes, 3000);
    assert_memory_equal(counts.in, counts.out, 3000);
    assert_int_equal(counts.in[8192], 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, counts_open, counts_close)

static const struct CMUnitTest tests[] = {
    CASE(test_receive_first),
    CASE(test_receive_in_the_middle),
    CASE(test_receive_behind),
    CASE(test_too_long),
    CASE(test_one_behind_the_other),
    CASE(test_order),
    CASE(test_sleeper),
    CASE(test_it_leaves_in_the_middle),
    CASE(test_it_leaves_at_the_end),
    CASE(test_we_leave_in_the_middle),
    CASE(test_claimed),
    CASE(test_claimed_and_lost),
    CASE(test_cancel),
    CASE(test_cancel_in_the_middle),
    CASE(test_multi),
    CASE(test_multi_cancelled),
    CASE(test_in_place),
    CASE(test_one_slot_and_a_count),
    CASE(test_to_and_fro),
    CASE(test_to_and_fro_in_a_crowd),
    CASE(test_whole_ones_are_met),
};

int main(void)
{
    hosted_quiet = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
