/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of 192 KiB and more that a rank sends to several peers, where ranks outnumber CPUs, come in trips of a
 * shuttle, early or not, cut or whole, and the shuttle is the receiver's then; who leaves in the middle ends them.
 * Others go as they did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/copy.h"
#include "tests/support/shares.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last trip is a short one; SHORT is the shortest that goes in trips. */
enum {
    TRIP = 131072,
    LONG = 5 * TRIP + 1001,
    SHORT = 3 * TRIP / 2,
    WHOLE = SHORT - 1,
    ONCE = 2 * TRIP,
    EAGER = 65536,
    TAG = 3,
    NOTE = 9,
    NOTED = 9000,
    OTHERS = 9100
};

static uint8_t out[PEERS][LONG], in[PEERS][LONG];

/* A CPU without copies past the caches. */
static bool plain_only;

nigh_copy_fn __real_nigh_copy_select(enum nigh_copy_kernel kernel);
nigh_copy_fn __wrap_nigh_copy_select(enum nigh_copy_kernel kernel);

nigh_copy_fn __wrap_nigh_copy_select(enum nigh_copy_kernel kernel)
{
    return plain_only && kernel == NIGH_COPY_NT ? NULL : __real_nigh_copy_select(kernel);
}

static void meet(unsigned p)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], NOTED, NOTE, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(to[p], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    until(&peer[p], NIGH_OP_RECV, NOTED);
    assert_int_equal(hosted_recv(&root, to[p], NOTED + 1 + p, NOTE, NULL, 0, 0), 0);
    assert_int_equal(hosted_send(back[p], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    until(&root, NIGH_OP_RECV, NOTED + 1 + p);
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    shares_open();
    memset(in, 0, sizeof(in));
    for (unsigned p = 0; p < PEERS; p++) {
        for (unsigned at = 0; at < LONG; at++)
            out[p][at] = (uint8_t)(at * 7 + at / 256 * 3 + at / 65536 + p);
        meet(p);
    }
    assert_int_equal(hosted_facts(&root).crowded, 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    plain_only = false;
    unsetenv("NIGH_EAGER");
    return shares_close();
}

static void post(unsigned p, uint64_t id, uint32_t bytes, uint32_t flags)
{
    assert_int_equal(hosted_send(to[p], id, TAG, out[p], bytes, flags), 0);
}

static void expect(unsigned p, uint32_t room)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], TAG, TAG, in[p], room, 0), 0);
}

/* So that the next one of its number is found. */
static void forget(struct hosted *hosted, const struct nigh_completion *done)
{
    hosted->done[done - hosted->done].op = 0;
}

static void came(unsigned p, uint64_t id, uint32_t bytes)
{
    const struct nigh_completion *done = until(&peer[p], NIGH_OP_RECV, TAG);

    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, bytes);
    assert_memory_equal(in[p], out[p], bytes);
    forget(&peer[p], done);
    done = until(&root, NIGH_OP_SEND, id);
    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, bytes);
    forget(&root, done);
    memset(in[p], 0, LONG);
}

/* The message that peer `p` has got a part of; NULL: none. */
static const struct nigh_message *coming(unsigned p)
{
    struct nigh_endpoint *from = peer[p].context->all;

    for (uint32_t id = 0; id < from->in.size; id++)
        if (from->in.at[id])
            return from->in.at[id];
    return NULL;
}

/* The same when so many bytes of it have come. */
static const struct nigh_message *coming_from(unsigned p, uint64_t bytes)
{
    const struct nigh_message *message;

    while ((message = coming(p)) == NULL || message->got < bytes)
        turns(1);
    return message;
}

/* What lies there for peer `p`: no more than a trip, however long one waits. */
static void assert_trip_lies(unsigned p, uint64_t total)
{
    const struct nigh_message *message = coming_from(p, TRIP);

    turns(100);
    assert_true(message->trips);
    assert_non_null(message->lies);
    assert_int_equal(message->total, total);
    assert_int_equal(message->got, TRIP);
}

/* In the shuttle that the last message came in, which so is the root's again. */
static void answer(unsigned p)
{
    static uint8_t heard[20000];
    const struct nigh_completion *done;

    assert_int_equal(hosted_recv(&root, to[p], NOTED, NOTE, heard, sizeof(heard), 0), 0);
    assert_int_equal(hosted_send(back[p], NOTED, NOTE, out[p], sizeof(heard), NIGH_SILENT), 0);
    done = until(&root, NIGH_OP_RECV, NOTED);
    assert_int_equal(done->status, 0);
    assert_memory_equal(heard, out[p], sizeof(heard));
    forget(&root, done);
}

/* What goes to both at a time is expected to do so the next time. */
static void spread_once(void)
{
    for (unsigned p = 0; p < PEERS; p++)
        post(p, p, LONG, 0);
    for (unsigned p = 0; p < PEERS; p++) {
        expect(p, LONG);
        came(p, p, LONG);
        answer(p);
    }
}

static void those_that_come_early(void **state)
{
    (void)state;
    post(0, 0, LONG, 0);
    post(1, 1, LONG, 0);
    assert_trip_lies(1, LONG);
    for (unsigned p = 0; p < PEERS; p++) {
        expect(p, LONG);
        came(p, p, LONG);
    }
    post(0, 0, LONG, 0);
    assert_trip_lies(0, LONG);
    expect(0, LONG);
    came(0, 0, LONG);
    assert_int_equal(shared(), 0);
}

static void those_that_are_awaited(void **state)
{
    (void)state;
    spread_once();
    for (unsigned p = 0; p < PEERS; p++)
        expect(p, LONG);
    for (unsigned p = 0; p < PEERS; p++) {
        post(p, p, LONG, 0);
        assert_true(coming_from(p, TRIP)->trips);
    }
    for (unsigned p = 0; p < PEERS; p++)
        came(p, p, LONG);
}

static void two_trips_at_the_least(void **state)
{
    (void)state;
    spread_once();
    post(0, 0, SHORT, 0);
    post(1, 1, SHORT, NIGH_SYNC);
    for (unsigned p = 0; p < PEERS; p++) {
        assert_trip_lies(p, SHORT);
        expect(p, SHORT);
        came(p, p, SHORT);
    }
}

/* It answers in the shuttle that the message came in, and the next one comes in that. */
static void the_receiver_has_the_shuttle(void **state)
{
    (void)state;
    spread_once();
    for (unsigned i = 0; i < 3; i++) {
        struct nigh_endpoint *from = peer[1].context->all;
        unsigned held = from->shuttle[0].held + from->shuttle[1].held;

        post(0, 0, LONG, 0);
        post(1, 1, LONG, 0);
        expect(1, LONG);
        expect(0, LONG);
        came(1, 1, LONG);
        assert_int_equal(from->shuttle[0].held + from->shuttle[1].held, held + 1);
        came(0, 0, LONG);
        answer(0);
        answer(1);
        assert_int_equal(from->shuttle[0].held + from->shuttle[1].held, held);
    }
}

/* Others pass between its trips. */
static void beside_others(void **state)
{
    (void)state;
    spread_once();
    post(0, 0, LONG, 0);
    assert_trip_lies(0, LONG);
    for (uint32_t bytes = 8; bytes < TRIP; bytes *= 5) {
        const struct nigh_completion *done;

        assert_int_equal(hosted_recv(&peer[0], back[0], OTHERS, NOTE, in[1], TRIP, 0), 0);
        assert_int_equal(hosted_send(to[0], OTHERS, NOTE, out[1], bytes, NIGH_SILENT), 0);
        done = until(&peer[0], NIGH_OP_RECV, OTHERS);
        assert_int_equal(done->bytes, bytes);
        assert_memory_equal(in[1], out[1], bytes);
        forget(&peer[0], done);
    }
    assert_trip_lies(0, LONG);
    expect(0, LONG);
    came(0, 0, LONG);
}

/* Its receiver is told how long it was, and nothing is written behind its buffer. */
static void cut(void **state)
{
    const uint32_t rooms[] = {2 * TRIP + 777, TRIP - 5, 0};

    (void)state;
    for (unsigned i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        spread_once();
        post(1, 1, LONG, 0);
        if (i)
            assert_trip_lies(1, LONG);
        expect(1, rooms[i]);
        assert_int_equal(until(&peer[1], NIGH_OP_RECV, TAG)->status, -EMSGSIZE);
        assert_int_equal(hosted_find(&peer[1], NIGH_OP_RECV, TAG)->bytes, LONG);
        assert_int_equal(until(&root, NIGH_OP_SEND, 1)->status, 0);
        assert_memory_equal(in[1], out[1], rooms[i]);
        for (uint32_t at = rooms[i]; at < LONG; at++)
            assert_int_equal(in[1][at], 0);
        memset(in[1], 0, LONG);
        root.count = peer[1].count = 0;
    }
}

static void claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in[1], .bytes = LONG, .context = TAG};
    struct nigh_completion found;
    struct nigh_message *message;

    (void)state;
    spread_once();
    post(1, 1, LONG, 0);
    assert_trip_lies(1, LONG);
    assert_int_equal(hosted_ops->probe(peer[1].context, back[1], TAG, 0, 0, &found, &message), 0);
    assert_int_equal(found.bytes, LONG);
    assert_int_equal(hosted_ops->claim(peer[1].context, message, &recv), 0);
    came(1, 1, LONG);
}

/* Both are at their third trip; the other one's goes on. */
static void begin_both(void)
{
    spread_once();
    for (unsigned p = 0; p < PEERS; p++) {
        expect(p, LONG);
        post(p, p, LONG, 0);
    }
    while (coming_from(1, 2 * TRIP)->got >= 3 * TRIP || coming_from(0, TRIP)->got >= 4 * TRIP)
        fail_msg("more than a trip in a turn");
}

static void its_receiver_leaves(void **state)
{
    (void)state;
    begin_both();
    hosted_close(&peer[1]);
    assert_int_equal(until(&root, NIGH_OP_SEND, 1)->status, -ECONNRESET);
    came(0, 0, LONG);
}

static void its_sender_leaves(void **state)
{
    (void)state;
    begin_both();
    assert_int_equal(hosted_ops->disconnect(to[1]), 0);
    assert_int_equal(until(&root, NIGH_OP_SEND, 1)->status, -ECANCELED);
    assert_int_equal(until(&peer[1], NIGH_OP_RECV, TAG)->status, -ECONNRESET);
    came(0, 0, LONG);
}

/* Nobody has taken it. */
static void its_sender_leaves_early(void **state)
{
    (void)state;
    spread_once();
    post(1, 1, LONG, 0);
    assert_trip_lies(1, LONG);
    assert_int_equal(hosted_ops->disconnect(to[1]), 0);
    expect(1, LONG);
    assert_int_equal(until(&peer[1], NIGH_OP_RECV, TAG)->status, -ECONNRESET);
}

static void assert_no_trips(unsigned p, uint64_t id, uint32_t bytes)
{
    for (unsigned i = 0; i < 100; i++) {
        turns(1);
        assert_false(coming(p) && coming(p)->trips);
    }
    expect(p, LONG);
    came(p, id, bytes);
}

static void not_these(void **state)
{
    (void)state;
    /* One alone, and two to one peer. */
    post(0, 0, LONG, 0);
    assert_no_trips(0, 0, LONG);
    post(1, 1, LONG, 0);
    post(1, 2, SHORT, 0);
    assert_no_trips(1, 1, LONG);
    assert_no_trips(1, 2, SHORT);
    post(0, 0, LONG, 0);
    assert_no_trips(0, 0, LONG);
    /* Shorter ones, also of several. */
    spread_once();
    post(0, 0, WHOLE, 0);
    post(1, 1, WHOLE, 0);
    assert_no_trips(0, 0, WHOLE);
    assert_no_trips(1, 1, WHOLE);
    answer(0);
    answer(1);
    /* One that stays alone behind several is the last that was expected not to. */
    post(0, 0, LONG, 0);
    assert_trip_lies(0, LONG);
    expect(0, LONG);
    came(0, 0, LONG);
    answer(0);
    post(0, 0, LONG, 0);
    assert_no_trips(0, 0, LONG);
}

static void both_without_trips(uint32_t bytes)
{
    for (unsigned p = 0; p < PEERS; p++)
        post(p, p, bytes, 0);
    for (unsigned p = 0; p < PEERS; p++)
        assert_no_trips(p, p, bytes);
}

/* How many of them are read where they lie. */
static uint64_t in_place(uint32_t bytes)
{
    uint64_t before = hosted_stats(&root).cma_sent;

    both_without_trips(bytes);
    return hosted_stats(&root).cma_sent - before;
}

/* On a CPU that copies 256 KiB and more once. */
static void not_what_is_copied_once(void **state)
{
    (void)state;
    root.context->config.place_from = ONCE;
    if (!nigh_plan_peer_reads(to[0])) {
        print_message("# skipped: process_vm_readv is not allowed here\n");
        skip();
    }
    both_without_trips(LONG);
    assert_int_equal(in_place(LONG), PEERS);
    assert_int_equal(in_place(ONCE), PEERS);
    assert_int_equal(in_place(SHORT), PEERS);
    assert_int_equal(in_place(EAGER + 1), PEERS);
    assert_int_equal(in_place(EAGER), 0);
    /* The first one alone is still expected to be one of several; the next is not. */
    post(0, 0, SHORT, 0);
    assert_no_trips(0, 0, SHORT);
    assert_int_equal(hosted_stats(&root).cma_sent, 5 * PEERS + 1);
    answer(0);
    post(0, 0, SHORT, 0);
    assert_no_trips(0, 0, SHORT);
    assert_int_equal(hosted_stats(&root).cma_sent, 5 * PEERS + 1);
    post(0, 0, ONCE, 0);
    assert_no_trips(0, 0, ONCE);
    assert_int_equal(hosted_stats(&root).cma_sent, 5 * PEERS + 2);
}

/* On such a CPU by peers that may not read: what would be copied once. */
static void what_cannot_be_copied_once(void **state)
{
    (void)state;
    root.context->config.place_from = ONCE;
    for (unsigned p = 0; p < PEERS; p++)
        nigh_plan_reading(back[p], -EPERM);
    spread_once();
    both_without_trips(ONCE);
    spread_once();
    for (unsigned p = 0; p < PEERS; p++)
        post(p, p, ONCE + 1, 0);
    for (unsigned p = 0; p < PEERS; p++) {
        assert_trip_lies(p, ONCE + 1);
        expect(p, ONCE + 1);
        came(p, p, ONCE + 1);
    }
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
}

/* The host may count on it that it is done with it before it is matched. */
static void not_what_goes_unasked(void **state)
{
    (void)state;
    assert_int_equal(shares_close(), 0);
    assert_int_equal(setenv("NIGH_EAGER", "1M", 1), 0);
    start(state);
    for (unsigned i = 0; i < 4; i++) {
        /* Nor is it read where it lies. */
        if (i == 2)
            root.context->config.place_from = ONCE;
        for (unsigned p = 0; p < PEERS; p++)
            post(p, p, LONG, 0);
        for (unsigned p = 0; p < PEERS; p++) {
            assert_int_equal(until(&root, NIGH_OP_SEND, p)->status, 0);
            assert_no_trips(p, p, LONG);
            post(p, p, 8, NIGH_SILENT);
            expect(p, 8);
            until(&peer[p], NIGH_OP_RECV, TAG);
            peer[p].count = 0;
        }
    }
}

static void not_by_plain_copies(void **state)
{
    (void)state;
    plain_only = true;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned p = 0; p < PEERS; p++)
            post(p, p, LONG, 0);
        for (unsigned p = 0; p < PEERS; p++) {
            assert_no_trips(p, p, LONG);
            answer(p);
        }
    }
}

static void fill_ring_to(unsigned p)
{
    while (nigh_ring_room(&to[p]->tx, 1) || to[p]->tx.spare)
        assert_int_equal(hosted_send(to[p], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    assert_true(to[p]->can_post);
}

/* It waits for room until they are no crowd, and is one of several of which nothing comes back. */
static void not_when_the_crowd_has_gone(void **state)
{
    (void)state;
    spread_once();
    answer(1); /* in its own shuttle: the root has both */
    assert_int_equal(hosted_send(to[1], NOTED, NOTE, out[1], 20000, NIGH_SILENT), 0);
    fill_ring_to(1);
    post(1, 1, LONG, 0);
    assert_int_equal(to[1]->queue.head->trip, TRIP);
    assert_true(to[1]->in_a_row);
    root.context->crowd.full = false;
    assert_no_trips(1, 1, LONG);
}

/* The trips go on to where nobody reads them, whether they came early or were awaited; the shuttle is the receiver's then. */
static void those_that_are_cancelled(void **state)
{
    (void)state;
    spread_once();
    for (unsigned early = 0; early < 2; early++) {
        if (!early)
            expect(0, LONG);
        post(0, 0, LONG, 0);
        post(1, 1, LONG, 0);
        assert_true(coming_from(0, TRIP)->trips);
        expect(1, LONG);
        if (early)
            expect(0, LONG);
        assert_int_equal(hosted_ops->cancel(peer[0].context, TAG), 0);
        assert_int_equal(until(&peer[0], NIGH_OP_RECV, TAG)->status, -ECANCELED);
        forget(&peer[0], until(&peer[0], NIGH_OP_RECV, TAG));
        memset(in[0], 0x77, LONG);
        assert_int_equal(until(&root, NIGH_OP_SEND, 0)->status, 0);
        forget(&root, until(&root, NIGH_OP_SEND, 0));
        while (coming(0))
            turns(1);
        for (unsigned i = 0; i < LONG; i++)
            assert_int_equal(in[0][i], 0x77);
        came(1, 1, LONG);
        answer(0);
        answer(1);
    }
    spread_once();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(those_that_come_early),
        CASE(those_that_are_cancelled),
        CASE(those_that_are_awaited),
        CASE(two_trips_at_the_least),
        CASE(the_receiver_has_the_shuttle),
        CASE(beside_others),
        CASE(cut),
        CASE(claimed),
        CASE(its_receiver_leaves),
        CASE(its_sender_leaves),
        CASE(its_sender_leaves_early),
        CASE(not_these),
        CASE(not_what_is_copied_once),
        CASE(what_cannot_be_copied_once),
        CASE(not_what_goes_unasked),
        CASE(not_by_plain_copies),
        CASE(not_when_the_crowd_has_gone),
    };

    if (!nigh_copy_select(NIGH_COPY_NT)) {
        printf("SKIP: there are no copies past the caches for this CPU\n");
        return 77;
    }
    return cmocka_run_group_tests_name("trips", tests, NULL, NULL);
}
