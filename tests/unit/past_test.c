/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that a rank leaves in shuttles for several peers, in trips or whole, where ranks outnumber CPUs, are
 * copied past the caches on both sides; one alone is not, nor are shorter ones, nor is the next one when the others
 * have been taken or their receivers have gone, or we have left them. */
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
#include <string.h>
#include <unistd.h>

enum { LONG = 192 * 1024, SHORTER = LONG - 64, TAG = 3, NOTE = 9, NOTED = 9000 };

static uint8_t out[PEERS][LONG], in[LONG];

/* Both ways, so that all know by then how many they are. */
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
    return shares_close();
}

static void post(unsigned p, uint32_t bytes)
{
    assert_int_equal(hosted_send(to[p], p, TAG, out[p], bytes, 0), 0);
}

/* What lies there for peer `p`, all of it, or of its first trip. */
static const struct nigh_message *lying(unsigned p, uint32_t bytes)
{
    const struct nigh_message *message = NULL;

    while (!message || message->got < (message->trips ? message->eager : bytes)) {
        turns(1);
        message = (const struct nigh_message *)(const void *)nigh_match_find(&peer[p].context->matcher,
                                                                             NIGH_ANY, 0, TAG, 0, false);
    }
    assert_non_null(message->lies);
    return message;
}

static enum nigh_copy_kernel kernel_of(unsigned p, uint32_t bytes)
{
    return (enum nigh_copy_kernel)(lying(p, bytes)->shuttle >> NIGH_F_KERNEL_SHIFT & NIGH_F_KERNEL_MASK);
}

static void assert_came(unsigned p, uint32_t bytes)
{
    const struct nigh_completion *done = until(&peer[p], NIGH_OP_RECV, TAG);

    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, bytes);
    assert_memory_equal(in, out[p], bytes);
    assert_int_equal(until(&root, NIGH_OP_SEND, p)->status, 0);
    memset(in, 0, sizeof(in));
}

static void take(unsigned p, uint32_t bytes)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], TAG, TAG, in, bytes, 0), 0);
    assert_came(p, bytes);
}

/* The shuttle goes back to the root. */
static void answer(unsigned p)
{
    root.count = peer[p].count = 0;
    assert_int_equal(hosted_recv(&root, to[p], TAG, TAG, in, 2000, 0), 0);
    assert_int_equal(hosted_send(back[p], TAG, TAG, out[p], 2000, 0), 0);
    until(&root, NIGH_OP_RECV, TAG);
    until(&peer[p], NIGH_OP_SEND, TAG);
    root.count = peer[p].count = 0;
}

static void several_lie(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        post(0, LONG);
        post(1, LONG);
        /* The second time it is expected. */
        assert_int_equal(kernel_of(0, LONG), i ? NIGH_COPY_NT : NIGH_COPY_PLAIN);
        assert_int_equal(kernel_of(1, LONG), NIGH_COPY_NT);
        take(0, LONG);
        take(1, LONG);
        answer(0);
        answer(1);
    }
    assert_int_equal(shared(), 0); /* by shuttles, all of it */
}

/* Silent ones do not go in trips, but past the caches all the same. */
static void whole(void **state)
{
    (void)state;
    for (unsigned p = 0; p < PEERS; p++)
        assert_int_equal(hosted_send(to[p], p, TAG, out[p], LONG, NIGH_SILENT), 0);
    for (unsigned p = 0; p < PEERS; p++) {
        assert_int_equal(kernel_of(p, LONG), p ? NIGH_COPY_NT : NIGH_COPY_PLAIN);
        assert_false(lying(p, LONG)->trips);
        assert_int_equal(hosted_recv(&peer[p], back[p], TAG, TAG, in, LONG, 0), 0);
        assert_int_equal(until(&peer[p], NIGH_OP_RECV, TAG)->bytes, LONG);
        assert_memory_equal(in, out[p], LONG);
    }
}

/* Read as its pieces come. */
static void received_before(void **state)
{
    (void)state;
    post(0, LONG);
    assert_int_equal(hosted_recv(&peer[1], back[1], TAG, TAG, in, LONG, 0), 0);
    post(1, LONG);
    assert_came(1, LONG);
    take(0, LONG);
}

static void one_alone(void **state)
{
    (void)state;
    for (unsigned p = 0; p < PEERS; p++) {
        post(p, LONG);
        assert_int_equal(kernel_of(p, LONG), NIGH_COPY_PLAIN);
        take(p, LONG);
    }
}

static void shorter(void **state)
{
    (void)state;
    post(0, LONG);
    post(1, SHORTER);
    assert_int_equal(kernel_of(1, SHORTER), NIGH_COPY_PLAIN);
    take(1, SHORTER);
    take(0, LONG);
}

static void its_receiver_has_gone(void **state)
{
    (void)state;
    post(0, LONG);
    lying(0, LONG);
    hosted_close(&peer[0]);
    until(&root, NIGH_OP_SEND, 0);
    post(1, LONG);
    assert_int_equal(kernel_of(1, LONG), NIGH_COPY_PLAIN);
    take(1, LONG);
}

static void we_have_left(void **state)
{
    (void)state;
    post(0, LONG);
    lying(0, LONG);
    hosted_ops->disconnect(to[0]);
    assert_int_equal(until(&root, NIGH_OP_SEND, 0)->status, -ECANCELED);
    post(1, LONG);
    assert_int_equal(kernel_of(1, LONG), NIGH_COPY_PLAIN);
    take(1, LONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_lie, start, stop),
        cmocka_unit_test_setup_teardown(whole, start, stop),
        cmocka_unit_test_setup_teardown(received_before, start, stop),
        cmocka_unit_test_setup_teardown(one_alone, start, stop),
        cmocka_unit_test_setup_teardown(shorter, start, stop),
        cmocka_unit_test_setup_teardown(its_receiver_has_gone, start, stop),
        cmocka_unit_test_setup_teardown(we_have_left, start, stop),
    };

    if (!nigh_copy_select(NIGH_COPY_NT)) {
        printf("SKIP: there are no copies past the caches for this CPU\n");
        return 77;
    }
    return cmocka_run_group_tests_name("past", tests, NULL, NULL);
}
