/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in chunks: how many polls of a host that takes one completion at a time they need, and
 * how much of the pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, TAG = 3, COUNT = 8, BYTES = 40 * KIB };

static struct hosted a, b;
static uint8_t out[COUNT][BYTES], in[COUNT][BYTES];

static int start(void **state)
{
    (void)state;
    alarm(300);
    a.context = b.context = NULL;
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned at = 0; at < BYTES; at++)
            out[i][at] = (uint8_t)(i * 31 + at * 7 + at / 256);
    memset(in, 0, sizeof(in));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    unsetenv("NIGH_SPAN");
    return 0;
}

/* From a to b, over which a short message has gone already: attached, with a ring, and polled in every pass of b. */
static struct nigh_endpoint *way(void)
{
    uint64_t word = 0;
    struct nigh_endpoint *to = hosted_open_pair(&a, &b, 0);

    assert_int_equal(hosted_recv(&b, NULL, 1, TAG, &word, 8, 0), 0);
    assert_int_equal(hosted_send(to, 1, TAG, &word, 8, 0), 0);
    hosted_until(&b, &a, NIGH_OP_RECV, 1);
    hosted_until(&a, &b, NIGH_OP_SEND, 1);
    return to;
}

static void post_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(hosted_recv(&b, NULL, 10 + i, TAG, in[i], BYTES, 0), 0);
}

static void send_all(struct nigh_endpoint *to, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(hosted_send(to, 10 + i, TAG, out[i], BYTES, 0), 0);
}

static void all_came(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        hosted_until(&b, &a, NIGH_OP_RECV, 10 + i);
        assert_memory_equal(in[i], out[i], BYTES);
    }
}

/* What the host has room for is completions. The slots of a message in pieces make one. Where ranks share CPUs there are
 * no pieces. */
static void one_poll_takes_one(bool crowd)
{
    struct nigh_endpoint *to = way();
    struct nigh_completion done;

    a.context->crowd.full = b.context->crowd.full = crowd;
    post_all(1);
    send_all(to, 1);
    if (crowd)
        assert_int_equal(to->tx.next, 1 + 1);
    else
        assert_true(to->tx.next >= 1 + 4); /* the short one's slot, and one for each piece */
    assert_int_equal(hosted_ops->poll_completions(b.context, &done, 1), 1);
    assert_int_equal(done.context, 10);
    assert_int_equal(done.status, 0);
    assert_memory_equal(in[0], out[0], BYTES);
}

static void test_one_poll_takes_all_pieces_of_a_message(void **state)
{
    (void)state;
    one_poll_takes_one(false);
}

static void test_one_poll_takes_one_of_one_piece(void **state)
{
    (void)state;
    one_poll_takes_one(true);
}

/* No more than the host has asked for, whatever lies in the ring; and no poll in vain while something does. */
static void test_a_poll_for_one_takes_one(void **state)
{
    struct nigh_endpoint *to = way();
    struct nigh_completion done;

    (void)state;
    post_all(COUNT);
    send_all(to, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(hosted_ops->poll_completions(b.context, &done, 1), 1);
        assert_int_equal(done.context, 10 + i);
        assert_memory_equal(in[i], out[i], BYTES);
    }
}

/* While the rotation is still growing, too, the end of a chunk belongs to the next message. */
static void test_chunks_are_filled_to_their_end(void **state)
{
    struct nigh_endpoint *to = way();

    (void)state;
    send_all(to, COUNT);
    /* 5 hold the bytes; one more may have been made ready. */
    assert_in_range(a.context->pool.committed, COUNT * BYTES / NIGH_CHUNK, COUNT * BYTES / NIGH_CHUNK + 1);
    post_all(COUNT);
    all_came(COUNT);
}

/* A span of two chunks: the message for whose end there is no third one goes as far as there is room. */
static void test_no_chunk_is_given_up_for_one_that_is_not_there(void **state)
{
    struct nigh_endpoint *to;
    unsigned sent = 0;

    (void)state;
    setenv("NIGH_SPAN", "131072", 1);
    to = way();
    for (; sent < COUNT && !to->flow.head; sent++)
        assert_int_equal(hosted_send(to, 10 + sent, TAG, out[sent], BYTES, 0), 0);
    assert_int_equal(a.context->pool.committed, 2);
    assert_non_null(to->flow.head);
    assert_in_range(to->flow.head->sent, 1, BYTES - 1);
    post_all(sent);
    all_came(sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_poll_takes_all_pieces_of_a_message, start, stop),
        cmocka_unit_test_setup_teardown(test_one_poll_takes_one_of_one_piece, start, stop),
        cmocka_unit_test_setup_teardown(test_a_poll_for_one_takes_one, start, stop),
        cmocka_unit_test_setup_teardown(test_chunks_are_filled_to_their_end, start, stop),
        cmocka_unit_test_setup_teardown(test_no_chunk_is_given_up_for_one_that_is_not_there, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
