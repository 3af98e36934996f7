/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left of an endpoint whose peer has ended, while its host keeps it: all that the host can ask for, under an index
 * of its own, and nothing of the peer's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/foe.h"
#include "tests/support/footprint.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 8, BODY = 1000, SHUTTLE = 40000, HEAP = 50000 };

static struct hosted host, guest, next;
static struct nigh_endpoint *from, *to;
static uint8_t out[HEAP], in[HEAP];

static int start(void **state)
{
    (void)state;
    alarm(300);
    from = hosted_open_pair(&host, &guest, 0);
    to = hosted_connect(&guest, 0);
    hosted_meet(&host, from, &guest, to);
    for (unsigned i = 0; i < sizeof(out); i++)
        out[i] = (uint8_t)(i * 11 + 3);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close(&host);
    hosted_close(&guest);
    hosted_close(&next);
    return 0;
}

/* The guest goes, and the host has heard of it. */
static void leave(void)
{
    hosted_close(&guest);
    while (hosted_state(&host, from) < NIGH_PEER_CLOSED)
        hosted_poll(&host);
    hosted_turns(&host, NULL, 3000);
}

static void send_one(uint64_t tag, uint64_t bytes)
{
    assert_int_equal(hosted_send(to, 50 + tag, tag, out, bytes, 0), 0);
    hosted_turns(&guest, &host, 20);
}

static void receives(struct nigh_endpoint *peer, uint64_t tag, uint64_t bytes)
{
    host.count = 0;
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_recv(&host, peer, 1, tag, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_until(&host, NULL, NIGH_OP_RECV, 1)->status, 0);
    assert_int_equal(host.done[0].bytes, bytes);
    assert_memory_equal(in, out, bytes);
}

/* ---- messages ------------------------------------------------------------------------------------------- */

static void test_messages_are_its_own(void **state)
{
    uint32_t index = from->index;
    struct nigh_endpoint *another;
    uint64_t word = 77;

    (void)state;
    send_one(1, SMALL);
    send_one(2, BODY);
    send_one(1, SMALL + 1);
    send_one(3, SHUTTLE);
    leave();
    assert_true(from->bare);
    assert_false(from->attached);
    /* Another one with its index, and a message like its. */
    hosted_open(&next, host.context->config.job, 2, 0);
    another = hosted_connect(&host, 2);
    assert_int_equal(another->index, index);
    assert_int_equal(hosted_send(hosted_connect(&next, 0), 9, 1, &word, SMALL, 0), 0);
    while (hosted_facts(&host).unexpected < 5)
        hosted_turns(&host, &next, 10);
    receives(from, 1, SMALL);
    receives(from, 1, SMALL + 1);
    assert_int_equal(hosted_recv(&host, from, 2, 1, in, SMALL, 0), -ECONNRESET);
    assert_int_equal(hosted_recv(&host, another, 3, 1, in, SMALL, 0), 0);
    assert_int_equal(hosted_until(&host, &next, NIGH_OP_RECV, 3)->endpoint, another);
    assert_memory_equal(in, &word, SMALL);
    receives(NULL, 3, SHUTTLE);
    receives(from, 2, BODY);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    hosted_turns(&host, &next, 3000);
}

/* They go with it. */
static void test_messages_that_nobody_wants(void **state)
{
    (void)state;
    send_one(1, SMALL);
    send_one(3, SHUTTLE);
    leave();
    assert_int_equal(hosted_facts(&host).unexpected, 2);
    assert_int_equal(hosted_ops->disconnect(from), 0);
    assert_int_equal(hosted_facts(&host).unexpected, 0);
    hosted_turns(&host, NULL, 3000);
    assert_null(host.context->all);
    assert_null(host.context->aside);
}

static void test_claimed_message(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = sizeof(in)};
    struct nigh_completion found;
    struct nigh_message *message;

    (void)state;
    send_one(2, BODY);
    assert_int_equal(hosted_ops->probe(host.context, from, 2, 0, 0, &found, &message), 0);
    leave();
    host.count = 0;
    assert_int_equal(hosted_ops->claim(host.context, message, &recv), 0);
    assert_int_equal(hosted_until(&host, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_memory_equal(in, out, BODY);
    hosted_turns(&host, NULL, 3);
    assert_true(from->bare);
}

/* ---- lends ---------------------------------------------------------------------------------------------- */

static void test_lend_keeps_the_peers_memory(void **state)
{
    struct nigh_lend lend = {.size = sizeof(lend), .bytes = HEAP, .tag = 4};
    void *memory, *data;

    (void)state;
    assert_int_equal(hosted_ops->heap_alloc(guest.context, HEAP, &memory), 0);
    memcpy(memory, out, HEAP);
    lend.buffer = memory;
    host.count = 0;
    assert_int_equal(hosted_recv(&host, from, 1, 4, NULL, HEAP, NIGH_IN_PLACE), 0);
    assert_int_equal(hosted_ops->post_lend(to, &lend), 0);
    data = hosted_until(&host, &guest, NIGH_OP_RECV, 1)->data;
    leave();
    assert_false(from->bare);
    assert_memory_equal(data, out, HEAP);
    assert_int_equal(hosted_ops->release(host.context, data), 0);
    hosted_turns(&host, NULL, 3);
    assert_true(from->bare);
}

/* ---- what the host can ask ------------------------------------------------------------------------------ */

static void test_last_note(void **state)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_LEFT, .tag = 1234}, last;
    uint64_t bytes = sizeof(last);

    (void)state;
    assert_int_equal(hosted_ops->note(guest.context, &note), 0);
    leave();
    assert_true(from->bare);
    assert_int_equal(hosted_ops->query(host.context, from, NIGH_QUERY_NOTE, &last, &bytes), 0);
    assert_int_equal(last.state, NIGH_NOTE_LEFT);
    assert_int_equal(last.tag, 1234);
}

static void test_everything_else(void **state)
{
    struct nigh_query_path rows[24];
    struct nigh_note note;
    uint64_t number, bytes = sizeof(rows);

    (void)state;
    leave();
    assert_true(from->bare);
    assert_int_equal(hosted_ops->query(host.context, from, NIGH_QUERY_PATHS, rows, &bytes), 0);
    bytes = sizeof(note);
    assert_int_equal(hosted_ops->query(host.context, from, NIGH_QUERY_NOTE, &note, &bytes), 0);
    assert_int_equal(note.state, NIGH_NOTE_NONE);
    assert_int_equal(hosted_ops->nudge(from, &number), -ECONNRESET);
    assert_int_equal(hosted_send(from, 1, 1, out, SMALL, NIGH_INJECT), -ECONNRESET);
    assert_int_equal(hosted_send(from, 1, 1, out, HEAP, NIGH_SYNC), -ECONNRESET);
    assert_int_equal(hosted_ops->inject(from, out, NIGH_SHAPE(8, 0), 1, 1, NULL), -ECONNRESET);
    assert_int_equal(hosted_ops->expect(from, in, NIGH_SHAPE(8, 0), 1, 1, NULL), -ECONNRESET);
    assert_int_equal(hosted_recv(&host, from, 1, 1, in, SMALL, NIGH_MULTI), -ECONNRESET);
    assert_int_equal(hosted_ops->cancel(host.context, 1), -ENOENT);
}

/* ---- without end ---------------------------------------------------------------------------------------- */

/* The host keeps all of them, and may have two at one time. */
static void test_more_than_there_may_be_at_one_time(void **state)
{
    struct hosted many, one;
    uint64_t job = hosted_job();
    unsigned before;

    (void)state;
    setenv("NIGH_PEERS_MAX", "2", 1);
    hosted_open(&many, job, 0, 0);
    unsetenv("NIGH_PEERS_MAX");
    before = footprint_descriptors();
    for (unsigned i = 0; i < 30; i++) {
        struct nigh_endpoint *peer = hosted_connect(&many, 1);

        hosted_open(&one, job, 1, 0);
        many.count = one.count = 0;
        assert_int_equal(hosted_recv(&many, peer, 1, 1, in, SHUTTLE, 0), 0);
        assert_int_equal(hosted_send(hosted_connect(&one, 0), 1, 1, out, SHUTTLE, 0), 0);
        assert_int_equal(hosted_until(&many, &one, NIGH_OP_RECV, 1)->status, 0);
        hosted_close(&one);
        while (hosted_state(&many, peer) < NIGH_PEER_CLOSED)
            hosted_poll(&many);
        hosted_poll(&many);
        assert_int_equal(footprint_descriptors(), before);
    }
    hosted_close(&many);
}

/* One that comes, sends and goes, again and again, does not fill the memory of a host that receives nothing. */
static void test_unread_ones_are_bounded(void **state)
{
    enum { MOST = 2 };
    struct hosted many, one;
    uint64_t job = hosted_job();

    (void)state;
    hosted_quiet = true;
    setenv("NIGH_PEERS_MAX", "2", 1);
    hosted_open(&many, job, 0, 0);
    unsetenv("NIGH_PEERS_MAX");
    for (unsigned i = 0; i < 4 * MOST; i++) {
        struct nigh_endpoint *to_many;

        hosted_open(&one, job, 1, 0);
        to_many = hosted_connect(&one, 0);
        (void)hosted_send(to_many, 1, 1, out, SMALL, 0);
        while (hosted_state(&one, to_many) == NIGH_CONNECTING)
            hosted_turns(&one, &many, 1);
        hosted_turns(&one, &many, 30);
        hosted_close(&one);
        hosted_turns(&many, NULL, 3000);
    }
    assert_int_equal(hosted_facts(&many).unexpected, 2 * MOST);
    for (unsigned i = 0; i < 2 * MOST; i++) {
        many.count = 0;
        assert_int_equal(hosted_recv(&many, NULL, 1, 1, in, SMALL, 0), 0);
        hosted_until(&many, NULL, NIGH_OP_RECV, 1);
    }
    many.count = 0;
    hosted_turns(&many, NULL, 3000);
    assert_int_equal(hosted_facts(&many).peers, 0);
    hosted_close(&many);
    hosted_quiet = false;
}

/* Both sides disconnect in turn, and the host makes no pass in between: who has gone unnoticed makes room. */
static void test_room_is_made_at_once(void **state)
{
    struct hosted many, one;
    uint64_t job = hosted_job();

    (void)state;
    setenv("NIGH_PEERS_MAX", "2", 1);
    hosted_open(&many, job, 0, 0);
    hosted_open(&one, job, 1, 0);
    unsetenv("NIGH_PEERS_MAX");
    for (unsigned i = 0; i < 30; i++) {
        struct nigh_endpoint *peer = hosted_connect(&many, 1), *back = hosted_connect(&one, 0);

        while (hosted_state(&many, peer) != NIGH_READY || hosted_state(&one, back) != NIGH_READY)
            hosted_turns(&many, &one, 1);
        assert_int_equal(hosted_ops->disconnect(back), 0);
        if (i % 2)
            assert_int_equal(hosted_ops->disconnect(peer), 0);
    }
    hosted_close(&many);
    hosted_close(&one);
}

/* A peer that lies lives on: it hears that it is left, and nothing of it stays. */
static void test_broken(void **state)
{
    struct hosted victim;
    struct nigh_query_end why;
    uint64_t bytes = sizeof(why);
    struct nigh_endpoint *liar;
    uint64_t job = hosted_job();
    unsigned before;
    struct foe foe;

    (void)state;
    hosted_quiet = true;
    hosted_open(&victim, job, 0, 0);
    hosted_quiet = false;
    foe_open(&foe, job, 1, 0);
    before = footprint_descriptors();
    liar = hosted_connect(&victim, 1);
    while (!foe.attached || hosted_state(&victim, liar) != NIGH_READY) {
        hosted_poll(&victim);
        foe_progress(&foe);
    }
    foe_ring(&foe, 64);
    assert_int_equal(nigh_load_relaxed(&foe.own->closed) & 1, 0);
    foe_publish(&foe, nigh_head_make(200, 8, 0, 0), 0, 0, NULL, 1);
    while (hosted_state(&victim, liar) != NIGH_BROKEN)
        hosted_poll(&victim);
    hosted_turns(&victim, NULL, 3);
    assert_true(liar->bare);
    assert_int_equal(nigh_load_relaxed(&foe.own->closed) & 1, 1);
    assert_int_equal(hosted_send(liar, 1, 1, out, SMALL, 0), -EPROTO);
    assert_int_equal(hosted_ops->query(victim.context, liar, NIGH_QUERY_END, &why, &bytes), 0);
    assert_string_equal(why.text, "it broke the protocol: a slot of its ring holds what no message can be");
    foe_close(&foe);
    assert_true(footprint_descriptors() < before);
    hosted_close(&victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages_are_its_own, start, stop),
        cmocka_unit_test_setup_teardown(test_messages_that_nobody_wants, start, stop),
        cmocka_unit_test_setup_teardown(test_claimed_message, start, stop),
        cmocka_unit_test_setup_teardown(test_lend_keeps_the_peers_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_last_note, start, stop),
        cmocka_unit_test_setup_teardown(test_everything_else, start, stop),
        cmocka_unit_test(test_more_than_there_may_be_at_one_time),
        cmocka_unit_test(test_unread_ones_are_bounded),
        cmocka_unit_test(test_room_is_made_at_once),
        cmocka_unit_test(test_broken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
