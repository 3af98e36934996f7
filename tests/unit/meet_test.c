/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that are posted by recv_imm where there are more ranks than CPUs: what is there is taken by the post itself,
 * and whatever else is posted, kept or under way, each gets the message that is its by order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static uint8_t room[NIGH_INJECT_BYTES + NIGH_LINE];

static void send_short(struct nigh_endpoint *endpoint, uint32_t bytes, uint32_t tclass, uint64_t tag,
                       uint64_t imm)
{
    uint8_t payload[NIGH_INJECT_BYTES];

    for (uint32_t i = 0; i < bytes; i++)
        payload[i] = (uint8_t)(imm + i);
    assert_int_equal(hosted_ops->inject_imm(endpoint, payload, NIGH_SHAPE(bytes, tclass), tag, imm), 0);
}

static void post(uint32_t bytes, uint32_t tclass, uint64_t tag, uint64_t ignore, uint64_t context)
{
    assert_int_equal(hosted_ops->recv_imm(from, room, NIGH_SHAPE(bytes, tclass), tag, ignore, context), 0);
}

/* What posts have completed since the last poll. */
static uint64_t met(void)
{
    return nigh_cq_count(&root.context->cq);
}

static void assert_done(uint64_t context, int status, uint64_t bytes, uint64_t imm)
{
    const struct nigh_completion *done;

    look(1);
    done = hosted_find(&root, NIGH_OP_RECV, context);
    if (!done)
        fail_msg("receive %llu has got nothing", (unsigned long long)context);
    assert_int_equal(done->status, status);
    assert_int_equal(done->bytes, bytes);
    assert_int_equal(done->imm, imm);
    assert_ptr_equal(done->endpoint, from);
    if (!status)
        assert_null(done->data);
}

/* The root knows both rings, which it does not before something has come. */
static int begin(void **state)
{
    int rc = start(state);

    crowd(&near);
    post_send(to, A, 1);
    post_send(to_other, A, 2);
    post_recv(from, A, 0);
    post_recv(from_other, A, 1);
    look(10);
    assert_value(0, 1);
    assert_value(1, 2);
    root.count = 0;
    return rc;
}

static void assert_room(uint32_t bytes, uint64_t imm)
{
    for (uint32_t i = 0; i < sizeof(room); i++)
        assert_int_equal(room[i], i < bytes ? (uint8_t)(imm + i) : 0xee);
}

/* Of each length that lies in the ring, wherever that ends, into a buffer that is just as long; and not a byte more.
 * By the post, and by a pass that finds it posted. */
static void test_every_length(void **state)
{
    uint64_t before = hosted_stats(&root).received, bytes_before = hosted_stats(&root).received_bytes;
    uint64_t eager_before = hosted_stats(&near).eager_sent;

    (void)state;
    for (uint32_t bytes = 0; bytes <= NIGH_INJECT_BYTES; bytes++) {
        uint32_t tclass = bytes % NIGH_TCLASSES;
        uint64_t imm = 100 + bytes;

        memset(room, 0xee, sizeof(room));
        send_short(to, bytes, tclass, ~UINT64_C(0), imm);
        post(bytes, tclass, UINT64_C(0xffff0000ffff), ~UINT64_C(0xffff0000ffff), bytes);
        assert_int_equal(met(), 1);
        assert_room(bytes, imm);
        assert_done(bytes, 0, bytes, imm);
        assert_int_equal(hosted_find(&root, NIGH_OP_RECV, bytes)->tag, ~UINT64_C(0));
        assert_int_equal(NIGH_DONE_CLASS(hosted_find(&root, NIGH_OP_RECV, bytes)->flags), tclass);
        memset(room, 0xee, sizeof(room));
        post(bytes, tclass, A, 0, ~UINT64_C(0));
        send_short(to, bytes, tclass, A, imm);
        assert_int_equal(met(), 0);
        assert_done(~UINT64_C(0), 0, bytes, imm);
        assert_room(bytes, imm);
        root.count = 0;
    }
    assert_int_equal(hosted_stats(&root).received - before, 2 * (NIGH_INJECT_BYTES + 1));
    assert_int_equal(hosted_stats(&root).received_bytes - bytes_before,
                     NIGH_INJECT_BYTES * (NIGH_INJECT_BYTES + 1));
    assert_int_equal(hosted_stats(&near).eager_sent - eager_before,
                     2 * (NIGH_INJECT_BYTES - NIGH_SLOT_PAYLOAD));
    assert_int_equal(hosted_stats(&root).unexpected, 0);
}

/* A body goes the short ways: it is told of in half a line at once, and a pass counts what it takes by itself. */
static void test_the_ways_of_a_body(void **state)
{
    static const uint8_t body[64];
    uint32_t told = near.context->cq.sent_count;
    uint64_t counted = root.context->received;

    (void)state;
    post(sizeof(body), 0, A, 0, 1);
    assert_int_equal(hosted_ops->send_imm(to, body, NIGH_SHAPE(sizeof(body), 0), A, 3, 9), 0);
    assert_int_equal(near.context->cq.sent_count, told + 1);
    assert_done(1, 0, sizeof(body), 3);
    assert_int_equal(root.context->received, counted + 1);
}

/* Another class, another tag, too long: the post does not take it. */
static void test_what_is_another(void **state)
{
    (void)state;
    send_short(to, 8, 1, A, 1);
    post(8, 0, A, 0, 1);
    assert_int_equal(met(), 0);
    post(8, 1, B, 0, 2);
    assert_int_equal(met(), 0);
    post(8, 1, A | 0x100, 0xff, 3);
    assert_int_equal(met(), 0);
    post(8, 1, B, 0xff, 4);
    assert_done(4, 0, 8, 1);
    assert_int_equal(hosted_ops->cancel(root.context, 1), 0);
    assert_int_equal(hosted_ops->cancel(root.context, 2), 0);
    assert_int_equal(hosted_ops->cancel(root.context, 3), 0);
    look(1);
    send_short(to, 40, 0, A, 2);
    post(39, 0, A, 0, 5);
    assert_done(5, -EMSGSIZE, 40, 2);
    send_short(to, 8, 0, A, 3);
    post(7, 0, A, 0, 6);
    assert_done(6, -EMSGSIZE, 8, 3);
    assert_int_equal(hosted_stats(&root).truncated, 2);
}

/* A root that keeps something of one peer takes what the other one has sent all the same, but not
 * what comes behind what is kept. */
static void test_beside_what_is_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        send_short(to_other, 8, 0, A, i);
    look(2100); /* sweeps keep them */
    assert_int_equal(hosted_facts(&root).unexpected, 2);
    send_short(to, 8, 0, A, 7);
    post(8, 0, A, 0, 1);
    assert_int_equal(met(), 1);
    assert_done(1, 0, 8, 7);
    send_short(to_other, 8, 0, A, 2);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(
            hosted_ops->recv_imm(from_other, room, NIGH_SHAPE(8, 0), A, i % 2 ? 0xff : 0, 10 + i), 0);
        look(1);
        assert_int_equal(hosted_find(&root, NIGH_OP_RECV, 10 + i)->imm, i);
    }
}

/* A host whose note says that it is blocked is told of what moves, so the short way is not for it. */
static void test_a_note(void **state)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_BLOCKED, .peer = 1, .requests = 1};
    struct nigh_note before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    uint64_t bytes = sizeof(note);

    (void)state;
    assert_int_equal(hosted_ops->note(root.context, &note), 0);
    assert_int_equal(hosted_ops->query(root.context, NULL, NIGH_QUERY_NOTE, &before, &bytes), 0);
    send_short(to, 8, 0, A, 1);
    post(8, 0, A, 0, 1);
    assert_done(1, 0, 8, 1);
    assert_int_equal(hosted_ops->query(root.context, NULL, NIGH_QUERY_NOTE, &after, &bytes), 0);
    assert_int_not_equal(before.serial, after.serial);
    note.state = NIGH_NOTE_RUNNING;
    assert_int_equal(hosted_ops->note(root.context, &note), 0);
    send_short(to, 8, 0, A, 2);
    post(8, 0, A, 0, 2);
    assert_int_equal(met(), 1);
    assert_done(2, 0, 8, 2);
}

/* What a post takes, and what a look behind the next one finds, are told of in that order. */
static void test_order(void **state)
{
    (void)state;
    send_short(to, 8, 0, A, 1);
    send_short(to, 48, 0, A, 2);
    post(8, 0, A, 0, 1);
    post(40, 0, A, 0, 2); /* it is too short, which is not the post's to say */
    assert_int_equal(met(), 2);
    look(1);
    assert_int_equal(root.done[root.count - 2].context, 1);
    assert_int_equal(root.done[root.count - 1].context, 2);
}

/* ---- a slot that changes while it is looked at ------------------------------------------------------------------ */

static struct nigh_match_node **guarded;
static size_t guarded_bytes;
static struct nigh_slot *slot;
static uint64_t head_then;

/* The post, which has seen the message, looks whether an older receive waits for it. */
static void change(int number)
{
    (void)number;
    if (mprotect(guarded, guarded_bytes, PROT_READ | PROT_WRITE))
        _exit(1);
    nigh_store_relaxed(&slot->head, head_then);
}

static void post_while_it_changes(uint32_t bytes, uint64_t context)
{
    struct nigh_match_table *table = &root.context->matcher.posted;
    struct nigh_match_node **buckets = table->buckets;
    struct sigaction act = {.sa_handler = change}, before;

    guarded_bytes = sizeof(struct nigh_match_node *) << (64 - table->shift);
    guarded = mmap(NULL, guarded_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(guarded != MAP_FAILED);
    memcpy(guarded, buckets, guarded_bytes);
    assert_int_equal(mprotect(guarded, guarded_bytes, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &act, &before), 0);
    table->buckets = guarded;
    post(bytes, 0, A, 0, context);
    memcpy(buckets, guarded, guarded_bytes);
    table->buckets = buckets;
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(munmap(guarded, guarded_bytes), 0);
}

/* What was checked is what is used, whatever the peer writes meanwhile. */
static void grown(uint32_t sent, uint32_t posted, uint32_t bytes)
{
    uint64_t head;

    root.count = 0;
    memset(room, 0xee, sizeof(room));
    post(8, 0, B, 0, 1); /* two, as one would wait alone: then there is no look into the table */
    post(8, 0, B, 0, 3);
    send_short(to, sent, 0, A, 5);
    slot = nigh_ring_slot(&to->tx, to->tx.next - nigh_slots_for(sent));
    head = nigh_load_relaxed(&slot->head);
    head_then = head ^ nigh_head_make(0, sent ^ bytes, 0, 0);
    post_while_it_changes(posted, 2);
    assert_true(nigh_load_relaxed(&slot->head) == head_then);
    assert_room(sent, 5);
    nigh_store_relaxed(&slot->head, head);
    assert_done(2, 0, sent, 5);
    assert_int_equal(hosted_ops->cancel(root.context, 1), 0);
    assert_int_equal(hosted_ops->cancel(root.context, 3), 0);
    look(1);
}

static void test_a_slot_that_grows(void **state)
{
    (void)state;
    grown(8, 8, 100);
}

static void test_a_slot_that_grows_past_the_receive(void **state)
{
    (void)state;
    grown(8, 8, 40);
    grown(64, 64, 1000);
    grown(64, 1000, 1000);
    grown(64, 1000, 0);
}

/* ---- the peer --------------------------------------------------------------------------------------------------- */

/* The peer has credit for all that posts have taken, however long nobody polls for it, and observers see it. */
static void test_credit(void **state)
{
    uint64_t before = hosted_stats(&root).received;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        send_short(to, 8, 0, A, i);
        assert_int_equal(to->queue.count, 0);
        post(8, 0, A, 0, i);
        assert_int_equal(met(), i + 1);
    }
    assert_true(nigh_load_relaxed(&root.context->counters->received) - before >= 1000 - from->rx.mask);
    look(100);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(hosted_find(&root, NIGH_OP_RECV, i)->imm, i);
}

/* A pass that takes a body may come to owe much at once: it does not wait for the next pass, which may never come. */
static void test_credit_of_a_body(void **state)
{
    (void)state;
    for (uint64_t i = 0; nigh_ring_owed(&from->rx) != from->rx.mask >> 2; i++) {
        assert_true(i < 1000);
        send_short(to, 8, 0, A, i);
        post(8, 0, A, 0, i);
        look(1);
    }
    root.count = 0;
    post(NIGH_INJECT_BYTES, 0, A, 0, 1);
    send_short(to, NIGH_INJECT_BYTES, 0, A, 1);
    assert_int_equal(met(), 0);
    assert_done(1, 0, NIGH_INJECT_BYTES, 1);
    assert_int_equal(nigh_ring_owed(&from->rx), 0);
}

static void test_a_peer_that_has_left(void **state)
{
    (void)state;
    send_short(to, 8, 0, A, 1);
    assert_int_equal(hosted_ops->disconnect(to), 0);
    hosted_turns(&near, &root, 10);
    post(8, 0, A, 0, 1);
    assert_done(1, 0, 8, 1);
    look(2100);
    assert_int_equal(hosted_state(&root, from), NIGH_PEER_CLOSED);
    assert_int_equal(hosted_ops->recv_imm(from, room, NIGH_SHAPE(8, 0), A, 0, 2), -ECONNRESET);
    to = hosted_connect(&near, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_length, begin, stop),
        cmocka_unit_test_setup_teardown(test_the_ways_of_a_body, begin, stop),
        cmocka_unit_test_setup_teardown(test_what_is_another, begin, stop),
        cmocka_unit_test_setup_teardown(test_beside_what_is_kept, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_note, begin, stop),
        cmocka_unit_test_setup_teardown(test_order, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_slot_that_grows, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_slot_that_grows_past_the_receive, begin, stop),
        cmocka_unit_test_setup_teardown(test_credit, begin, stop),
        cmocka_unit_test_setup_teardown(test_credit_of_a_body, begin, stop),
        cmocka_unit_test_setup_teardown(test_a_peer_that_has_left, begin, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
