/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages of two ranks that swap them, where ranks outnumber CPUs and one copy is better: each is read where it
 * lies, whoever comes first, and no other is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/swap.h"
#include "tests/support/shares.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ONCE is what is read where it lies in any case; LONG goes so in a swap alone. */
enum { ONCE = 262144, LONG = NIGH_SWAP_FROM, SHORT = LONG - 1, TAG = 3, NOTE = 4, NOTED = 90 };

static uint8_t out[1 + PEERS][ONCE], in[1 + PEERS][ONCE], more[ONCE];

/* The first two messages of a pair, short ones, so that both are connected. */
static void meet(unsigned p)
{
    assert_int_equal(hosted_send(to[p], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    assert_int_equal(hosted_recv(&peer[p], back[p], NOTED, NOTE, NULL, 0, 0), 0);
    until(&peer[p], NIGH_OP_RECV, NOTED);
    assert_int_equal(hosted_send(back[p], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    assert_int_equal(hosted_recv(&root, to[p], NOTED, NOTE, NULL, 0, 0), 0);
    until(&root, NIGH_OP_RECV, NOTED);
    root.count = peer[p].count = 0;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    shares_open();
    root.context->config.place_from = ONCE;
    for (unsigned p = 0; p < PEERS; p++) {
        peer[p].context->config.place_from = ONCE;
        meet(p);
    }
    for (unsigned r = 0; r <= PEERS; r++)
        for (unsigned at = 0; at < ONCE; at++)
            out[r][at] = (uint8_t)(at * 7 + at / 256 * 3 + r);
    memset(in, 0, sizeof(in));
    assert_int_equal(hosted_facts(&root).crowded, 1);
    return 0;
}

static void needs_reading(void)
{
    if (nigh_plan_peer_reads(to[0]))
        return;
    print_message("# skipped: process_vm_readv is not allowed here\n");
    skip();
}

static int stop(void **state)
{
    (void)state;
    return shares_close();
}

static void root_awaits(struct nigh_endpoint *from, uint32_t room)
{
    assert_int_equal(hosted_recv(&root, from, TAG, TAG, in[0], room, 0), 0);
}

static void root_sends(unsigned p, uint32_t bytes)
{
    assert_int_equal(hosted_send(to[p], TAG, TAG, out[0], bytes, 0), 0);
}

static void peer_awaits(unsigned p, uint32_t room)
{
    assert_int_equal(hosted_recv(&peer[p], back[p], TAG, TAG, in[1 + p], room, 0), 0);
}

static void peer_sends(unsigned p, uint32_t bytes)
{
    assert_int_equal(hosted_send(back[p], TAG, TAG, out[1 + p], bytes, 0), 0);
}

static void came(struct hosted *at, const uint8_t *bytes, const uint8_t *wanted, uint32_t count)
{
    const struct nigh_completion *done = until(at, NIGH_OP_RECV, TAG);

    assert_int_equal(done->status, 0);
    assert_int_equal(done->bytes, count);
    assert_memory_equal(bytes, wanted, count);
}

/* All of one swap with peer `p`, and what each side has sent to be read where it lay. */
static void ended(unsigned p, uint32_t bytes, uint64_t by_root, uint64_t by_peer)
{
    came(&root, in[0], out[1 + p], bytes);
    came(&peer[p], in[1 + p], out[0], bytes);
    until(&root, NIGH_OP_SEND, TAG);
    until(&peer[p], NIGH_OP_SEND, TAG);
    root.count = peer[p].count = 0;
    memset(in, 0, sizeof(in));
    assert_int_equal(shared(), 0);
    assert_int_equal(hosted_stats(&root).cma_sent, by_root);
    assert_int_equal(hosted_stats(&peer[p]).cma_sent, by_peer);
}

static void both_have_posted(void **state)
{
    (void)state;
    needs_reading();
    for (unsigned i = 1; i < 4; i++) {
        root_awaits(to[0], LONG);
        peer_awaits(0, LONG);
        root_sends(0, LONG);
        peer_sends(0, LONG);
        ended(0, LONG, i, i);
    }
}

/* The message is there when the receive is posted. */
static void the_other_came_first(void **state)
{
    (void)state;
    needs_reading();
    for (unsigned i = 1; i < 4; i++) {
        peer_awaits(0, LONG);
        peer_sends(0, LONG);
        hosted_poll(&peer[0]);
        root_awaits(to[0], LONG);
        root_sends(0, LONG);
        ended(0, LONG, i, i);
    }
}

/* What its sender did not take for a swap, and so has copied. */
static void the_other_did_not_know(void **state)
{
    (void)state;
    needs_reading();
    peer_awaits(0, LONG);
    back[0]->swaps = 0;
    peer_sends(0, LONG);
    root_awaits(to[0], LONG);
    root_sends(0, LONG);
    ended(0, LONG, 1, 0);
}

static void polls_in_vain_end_nothing(void **state)
{
    (void)state;
    needs_reading();
    root_awaits(to[0], LONG);
    hosted_poll(&root);
    root_sends(0, LONG);
    peer_awaits(0, LONG);
    peer_sends(0, LONG);
    ended(0, LONG, 1, 1);
}

/* With receives from several posted the first send of all is one already. They send from different places, as one copy
 * serves what is the same. */
static void with_several(void **state)
{
    (void)state;
    needs_reading();
    root_awaits(to[0], LONG);
    assert_int_equal(hosted_recv(&root, to[1], TAG + 1, TAG, more, LONG, 0), 0);
    root_sends(0, LONG);
    assert_int_equal(hosted_stats(&root).cma_sent, 1);
    assert_int_equal(hosted_send(to[1], TAG + 1, TAG, out[1], LONG, 0), 0);
    assert_int_equal(hosted_stats(&root).cma_sent, 2);
    for (unsigned p = 0; p < PEERS; p++) {
        peer_awaits(p, LONG);
        came(&peer[p], in[1 + p], out[p], LONG);
        peer_sends(p, LONG);
    }
    came(&root, in[0], out[1], LONG);
    until(&root, NIGH_OP_RECV, TAG + 1);
    assert_memory_equal(more, out[2], LONG);
}

/* Of a receive that is posted while a message is kept. */
static void beside_one_that_is_kept(void **state)
{
    (void)state;
    needs_reading();
    assert_int_equal(hosted_send(back[1], NOTED, NOTE, NULL, 0, NIGH_SILENT), 0);
    while (!root.context->matcher.arrived_count)
        turns(1);
    root_awaits(to[0], LONG);
    root_sends(0, LONG);
    peer_awaits(0, LONG);
    peer_sends(0, LONG);
    ended(0, LONG, 1, 1);
    assert_int_equal(hosted_recv(&root, to[1], NOTED, NOTE, NULL, 0, 0), 0);
    until(&root, NIGH_OP_RECV, NOTED);
}

/* As in a gather behind a broadcast: what was awaited has come, and the host has heard of it. */
static void not_what_follows(void **state)
{
    (void)state;
    root_awaits(to[0], LONG);
    peer_sends(0, LONG);
    came(&root, in[0], out[1], LONG);
    root_sends(0, LONG);
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
    peer_awaits(0, LONG);
    came(&peer[0], in[1], out[0], LONG);
}

/* The same of a host that takes its completions where they lie. */
static void not_what_follows_what_is_taken(void **state)
{
    struct nigh_taken taken = {.size = sizeof(taken)};

    (void)state;
    root_awaits(to[0], LONG);
    peer_sends(0, LONG);
    while (hosted_ops->take_completions(root.context, &taken, 1) == 0)
        hosted_poll(&peer[0]);
    assert_int_equal(taken.done_count, 1);
    assert_int_equal(taken.done[0].context, TAG);
    root_sends(0, LONG);
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
    peer_awaits(0, LONG);
    came(&peer[0], in[1], out[0], LONG);
}

static void goes_as_before(uint32_t bytes)
{
    root_sends(0, bytes);
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
    peer_awaits(0, bytes);
    peer_sends(0, bytes);
    came(&peer[0], in[1], out[0], bytes);
    came(&root, in[0], out[1], bytes);
}

static void not_to_those_that_may_not_read(void **state)
{
    (void)state;
    nigh_plan_reading(back[0], -EPERM);
    root_awaits(to[0], LONG);
    goes_as_before(LONG);
}

static void not_short_ones(void **state)
{
    (void)state;
    root.context->config.eager_bytes = peer[0].context->config.eager_bytes = SHORT / 4;
    root_awaits(to[0], LONG);
    goes_as_before(SHORT);
}

static void not_behind_short_ones(void **state)
{
    (void)state;
    root_awaits(to[0], SHORT);
    root_sends(0, LONG);
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
    peer_awaits(0, LONG);
    came(&peer[0], in[1], out[0], LONG);
    peer_sends(0, SHORT);
    came(&root, in[0], out[1], SHORT);
}

static void not_behind_those_from_anyone(void **state)
{
    (void)state;
    root_awaits(NULL, LONG);
    goes_as_before(LONG);
}

static void not_behind_those_from_others(void **state)
{
    (void)state;
    root_awaits(to[1], LONG);
    root_sends(0, LONG);
    assert_int_equal(hosted_stats(&root).cma_sent, 0);
    peer_awaits(0, LONG);
    came(&peer[0], in[1], out[0], LONG);
    peer_sends(1, LONG);
    came(&root, in[0], out[2], LONG);
}

/* Nor on other CPUs, nor of what may be sent before it is matched. */
static void not_elsewhere(void **state)
{
    (void)state;
    root.context->config.place_from = NIGH_SHUTTLE_BYTES + 1;
    root_awaits(to[0], LONG);
    goes_as_before(LONG);
    root.count = peer[0].count = 0;
    memset(in, 0, sizeof(in));
    root.context->config.place_from = ONCE;
    root.context->config.eager_bytes = LONG;
    root_awaits(to[0], LONG);
    goes_as_before(LONG);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(both_have_posted),
        CASE(the_other_came_first),
        CASE(the_other_did_not_know),
        CASE(polls_in_vain_end_nothing),
        CASE(with_several),
        CASE(beside_one_that_is_kept),
        CASE(not_what_follows),
        CASE(not_what_follows_what_is_taken),
        CASE(not_to_those_that_may_not_read),
        CASE(not_short_ones),
        CASE(not_behind_short_ones),
        CASE(not_behind_those_from_anyone),
        CASE(not_behind_those_from_others),
        CASE(not_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
