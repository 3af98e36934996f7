/* SPDX-License-Identifier: BSD-3-Clause */
/* What copies are measured by: no figure overflows, and no copy that teaches nothing takes a trial's place. And what
 * answers lie in: a shuttle that has no memory never comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/shuttle.h"
#include "tests/support/hosted.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 3, SLICE = 64 * 1024, PIECE = 65536 };

static struct hosted a, b;
static struct nigh_endpoint *to;
static uint8_t in[3 * SLICE];

static int start(void **state)
{
    (void)state;
    alarm(300);
    to = hosted_open_pair(&a, &b, NIGH_OPEN_THREADS);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&a, &b);
    return 0;
}

/* Its bytes times the nanoseconds of its copies do not fit 64 bits. */
static void test_a_figure_of_a_very_long_message(void **state)
{
    struct nigh_send_op op = {.bytes = UINT64_C(1) << 38,
                              .paced = UINT64_C(1) << 38,
                              .copy_ns = UINT64_C(1) << 33,
                              .timed = UINT64_C(1) << 36,
                              .piece = PIECE};
    uint32_t at = (to->timed_head + to->timed_count) % NIGH_TIMED_MAX;

    (void)state;
    nigh_plan_sent(to, &op);
    assert_int_equal(to->timed[at].bytes, op.bytes);
    assert_int_equal(to->timed[at].copy_ns, UINT64_C(1) << 35);
}

static uint64_t paced_as(uint64_t bytes)
{
    struct nigh_send_op op = {.kind = NIGH_SEND_PUT, .bytes = bytes};

    nigh_plan_choose(to, &op);
    return op.paced;
}

/* What fills the cache is a row of messages as well as one: the next row is taken to be as long. */
static void test_a_row_is_paced_as_one_message(void **state)
{
    const uint64_t mib = 1024 * 1024;

    (void)state;
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(paced_as(4 * mib), (i < 4 ? i * 4 : 16) * mib);
    assert_int_equal(paced_as(mib), mib); /* those are used as they come */
    assert_int_equal(paced_as(64 * mib), 64 * mib);
    to->rx.next++; /* the peer has said something */
    assert_int_equal(paced_as(4 * mib), 16 * mib);
    for (unsigned i = 0; i < 4; i++) {
        to->rx.next++;
        to->in_a_row = 1; /* and a shorter message was the first */
        assert_int_equal(paced_as(4 * mib), 4 * mib);
    }
}

static void test_one_piece_in_four_is_timed_of_what_is(void **state)
{
    struct nigh_send_op op = {.bytes = 16 * PIECE, .piece = PIECE};
    unsigned timed = 0;

    (void)state;
    assert_false(nigh_plan_flags(&op) & NIGH_F_TIMED);
    op.piece_flags = NIGH_F_TIMED;
    for (; op.sent < op.bytes; op.sent += PIECE)
        timed += (nigh_plan_flags(&op) & NIGH_F_TIMED) != 0;
    assert_int_equal(timed, 4);
}

/* Behind a copy, where the peer's word is new: the other looks of a stream at it find it here already. */
static void test_a_stream_of_short_messages_feels_where_its_peer_is(void **state)
{
    enum { COUNT = 3, BYTES = 8192 };
    static uint8_t out[BYTES];
    uint64_t before;

    (void)state;
    for (uint64_t i = 0; i <= COUNT; i++)
        assert_int_equal(hosted_recv(&b, NULL, i, TAG, in, BYTES, 0), 0);
    assert_int_equal(hosted_send(to, 0, TAG, out, BYTES, 0), 0);
    hosted_until(&b, &a, NIGH_OP_RECV, 0);
    before = to->feel.bytes;
    for (uint64_t i = 1; i <= COUNT; i++)
        assert_int_equal(hosted_send(to, i, TAG, out, BYTES, 0), 0);
    /* the first one may lie in a shuttle */
    assert_in_range(to->feel.bytes - before, (COUNT - 1) * BYTES, COUNT * BYTES);
    hosted_until(&b, &a, NIGH_OP_RECV, COUNT);
}

static void *poll_until_received(void *arg)
{
    (void)arg;
    hosted_until(&b, &a, NIGH_OP_RECV, 1);
    return NULL;
}

/* From the heap of `a`, copied by another thread than the one that has posted the receive. */
static void pull(uint64_t bytes)
{
    pthread_t thread;
    void *heap = NULL;

    a.count = b.count = 0;
    assert_int_equal(hosted_ops->heap_alloc(a.context, bytes, &heap), 0);
    memset(heap, 0x5a, bytes);
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_recv(&b, NULL, 1, TAG, in, bytes, 0), 0);
    assert_int_equal(hosted_send(to, 1, TAG, heap, bytes, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, poll_until_received, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(hosted_find(&b, NIGH_OP_RECV, 1)->status, 0);
    assert_memory_equal(in, heap, bytes);
    hosted_until(&a, &b, NIGH_OP_SEND, 1);
    assert_int_equal(hosted_ops->heap_free(a.context, heap), 0);
}

/* The count says which slice is a trial: of the ends of messages, which are not measured, none may be it. */
static void test_the_end_of_a_message_is_no_trial(void **state)
{
    struct nigh_far *far = &b.context->far;

    (void)state;
    if (!nigh_copy_select(NIGH_COPY_NT)) {
        print_message("this CPU does not write past its cache: nothing is chosen\n");
        skip();
    }
    pull(2 * SLICE); /* both ways are known */
    assert_true(far->ns[0] && far->ns[1]);
    far->count = 0;
    pull(2 * SLICE + 100);
    assert_int_equal(far->count, 2);
    pull(SLICE + SLICE / 2);
    assert_int_equal(far->count, 3);
}

static void test_a_shuttle_without_memory(void **state)
{
    struct nigh_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    (void)state;
    assert_non_null(endpoint);
    endpoint->shuttle_last = 1;
    nigh_shuttle_received(endpoint, NIGH_F_SHUTTLE | NIGH_F_RETURNS);
    assert_false(endpoint->shuttle[0].held);
    assert_int_equal(endpoint->shuttle_last, 1);
    endpoint->shuttle[0].bytes = PIECE;
    nigh_shuttle_received(endpoint, NIGH_F_SHUTTLE | NIGH_F_RETURNS);
    assert_true(endpoint->shuttle[0].held);
    assert_int_equal(endpoint->shuttle_last, 0);
    free(endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_figure_of_a_very_long_message, start, stop),
        cmocka_unit_test_setup_teardown(test_a_row_is_paced_as_one_message, start, stop),
        cmocka_unit_test_setup_teardown(test_one_piece_in_four_is_timed_of_what_is, start, stop),
        cmocka_unit_test_setup_teardown(test_a_stream_of_short_messages_feels_where_its_peer_is, start, stop),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_message_is_no_trial, start, stop),
        cmocka_unit_test(test_a_shuttle_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
