/* SPDX-License-Identifier: BSD-3-Clause */
/* Handing a block over without copying it: half of a lend there and one back. Its cost must not depend on the size. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <string.h>

enum {
    TAG = 11,
    SETTLE_NS = 1000,
    TOUCHED =
        4096, /* bytes at either end that are rewritten and checked: all of a gigabyte would leave no time */
};

static size_t touched(const struct perf_pair *pair)
{
    return pair->bytes < TOUCHED ? pair->bytes : TOUCHED;
}

static void rewrite(struct perf_pair *pair, uint64_t number)
{
    size_t n = touched(pair);

    if (pair->stale)
        return;
    perf_fill(pair->out, n, perf_seed(pair->me->rank, number));
    perf_fill(pair->out + pair->bytes - n, n, perf_seed(pair->me->rank, number));
}

static void check(struct perf_pair *pair, const uint8_t *data, uint64_t number)
{
    uint64_t seed = perf_seed(perf_pair_peer(pair), number);
    size_t n = touched(pair), last = pair->bytes - n;

    if (pair->stale)
        return;
    /* Where the ends overlap the second fill has the last word. */
    if (perf_check(data + last, n, seed) != n || (pair->bytes >= 2 * n && perf_check(data, n, seed) != n))
        perf_fail(pair->me, "lend of %zu bytes: message %llu is wrong", pair->bytes,
                  (unsigned long long)number);
}

static void lend(struct perf_pair *pair)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = pair->out, .bytes = pair->bytes, .tag = TAG};
    int rc;

    while ((rc = pair->node.ops->post_lend(pair->node.peer[perf_pair_peer(pair)], &lend)) == -EAGAIN)
        perf_node_progress(&pair->node);
    if (rc != 0)
        perf_node_fail(&pair->node, "post_lend", rc);
}

/* The peer's block, where it lies. */
static uint8_t *borrow(struct perf_pair *pair)
{
    struct nigh_completion c;
    int n;

    for (;;) {
        n = pair->node.ops->poll_completions(pair->node.context, &c, 1);
        if (n < 0)
            perf_node_fail(&pair->node, "poll_completions", n);
        if (n == 0)
            continue;
        perf_node_count(&pair->node, &c, n);
        if (c.op == NIGH_OP_RECV)
            return c.data;
    }
}

static void give_back(struct perf_pair *pair, uint8_t *data, uint64_t lent)
{
    int rc = pair->node.ops->release(pair->node.context, data);

    if (rc != 0)
        perf_node_fail(&pair->node, "release", rc);
    perf_node_await(&pair->node, lent, 0);
}

/* The synchronisation's own line must be over, and rank 1 waiting: it is no part of a lend. */
static void settle(void)
{
    uint64_t start = perf_ticks();

    while (perf_ns(start, perf_ticks()) < SETTLE_NS)
        ;
}

static double exchange(struct perf_pair *pair, uint64_t number)
{
    struct perf_node *node = &pair->node;
    struct nigh_recv recv = {.size = sizeof(recv), .flags = NIGH_IN_PLACE, .bytes = pair->bytes, .tag = TAG};
    uint64_t lent = node->sent + 1, start;
    volatile uint8_t *data;
    double ns;

    rewrite(pair, number);
    perf_node_post_recv(node, perf_pair_peer(pair), &recv);
    perf_pair_sync(pair->me);
    if (pair->me->rank == 0)
        settle();
    start = perf_ticks();
    if (pair->me->rank == 0)
        lend(pair);
    data = borrow(pair);
    if (pair->me->rank == 1)
        lend(pair);
    ns = perf_ns_net(start, perf_ticks()) / 2;
    check(pair, (uint8_t *)(uintptr_t)data, number);
    give_back(pair, (uint8_t *)(uintptr_t)data, lent);
    return ns;
}

static double run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        double ns = exchange(pair, pair->number++);

        perf_tally_add(&tally, ns);
        perf_rounds_sample(me, ns);
    }
    return perf_tally_middle(&tally);
}

int perf_test_lend(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "lend",
        .unit = "ns",
        .sizes = "8,4K,1M,64M",
        .out_in_heap = true,
        .sampled = true,
        .floor = PERF_FLOOR_HANDOFF,
        .note = "4 KiB at either end rewritten and checked for each lend",
        .run = run,
    };

    return perf_pair_run(run_, &test);
}
