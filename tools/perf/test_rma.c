/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: one put, one get, one atomic at a time, from the post to its completion. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <stdlib.h>

/* The target's region travels to the initiator as a message before the first round. */
enum { KEY_TAG = 21 };

struct remote {
    struct nigh_region *region;
};

static void begin(struct perf_pair *pair)
{
    struct nigh_register memory = {.size = sizeof(memory),
                                   .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE,
                                   .buffer = pair->in,
                                   .bytes = pair->bytes};
    struct remote *remote = calloc(1, sizeof(*remote));
    uint64_t key = 0;
    int rc = remote ? 0 : -ENOMEM;

    if (rc == 0 && pair->me->rank == 1)
        rc = pair->node.ops->register_memory(pair->node.context, &memory, &key, &remote->region);
    if (rc != 0)
        perf_node_fail(&pair->node, "register_memory", rc);
    pair->more = remote;
    if (pair->me->rank == 1)
        perf_node_send(&pair->node, 0, &key, sizeof(key), KEY_TAG);
    else
        perf_node_recv(&pair->node, 1, &pair->key, sizeof(pair->key), KEY_TAG);
}

static void end(struct perf_pair *pair)
{
    struct remote *remote = pair->more;

    perf_pair_sync(pair->me);
    if (remote->region)
        pair->node.ops->deregister(pair->node.context, remote->region);
    free(remote);
}

/* Rank 1 answers requests until rank 0 says on the line that all is done. */
static void serve(struct perf_pair *pair, uint64_t mark)
{
    const struct perf_line *line = &pair->me->shared->line[PERF_LINE_DONE];

    while (perf_line_take(line) < mark)
        perf_node_progress(&pair->node);
}

static void stop_serving(struct perf_pair *pair, uint64_t mark)
{
    perf_line_give(&pair->me->shared->line[PERF_LINE_DONE], mark);
}

static double finish(struct perf_pair *pair, const char *call, int rc, uint64_t start)
{
    if (rc != 0)
        perf_node_fail(&pair->node, call, rc);
    perf_node_await(&pair->node, pair->node.sent + 1, 0);
    return perf_ns_net(start, perf_ticks());
}

static double put_once(struct perf_pair *pair)
{
    struct nigh_rma put = {.size = sizeof(put), .buffer = pair->out, .bytes = pair->bytes, .key = pair->key};
    uint64_t start = perf_ticks();

    return finish(pair, "post_put", pair->node.ops->post_put(pair->node.peer[1], &put), start);
}

static double get_once(struct perf_pair *pair)
{
    struct nigh_rma get = {.size = sizeof(get), .buffer = pair->in, .bytes = pair->bytes, .key = pair->key};
    uint64_t start = perf_ticks();

    return finish(pair, "post_get", pair->node.ops->post_get(pair->node.peer[1], &get), start);
}

static double add_once(struct perf_pair *pair)
{
    static const uint64_t one = 1;
    struct nigh_atomic add = {.size = sizeof(add),
                              .op = NIGH_SUM,
                              .type = NIGH_U64,
                              .count = 1,
                              .operand = &one,
                              .result = pair->in,
                              .key = pair->key};
    uint64_t start = perf_ticks();

    return finish(pair, "post_atomic", pair->node.ops->post_atomic(pair->node.peer[1], &add), start);
}

/* Put: rank 0 writes, rank 1 checks what came. */
static double put(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t number = pair->number++, mark = 2 * ++me->messages;

        if (me->rank == 0)
            perf_pair_fill(pair, 0, number);
        perf_pair_sync(me);
        if (me->rank == 0) {
            perf_tally_add(&tally, put_once(pair));
            stop_serving(pair, mark);
        } else {
            serve(pair, mark);
            perf_pair_check(pair, 0, 0, number);
        }
        perf_pair_sync(me);
    }
    return perf_tally_middle(&tally);
}

/* Get: rank 1 writes into its region, rank 0 fetches and checks. The region is `in` at the target. */
static double get(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t number = pair->number++, mark = 2 * ++me->messages;

        if (me->rank == 1)
            perf_fill(pair->in, pair->bytes, perf_seed(1, pair->stale ? 0 : number));
        perf_pair_sync(me);
        if (me->rank == 0) {
            perf_tally_add(&tally, get_once(pair));
            stop_serving(pair, mark);
            perf_pair_check(pair, 0, 1, number);
        } else {
            serve(pair, mark);
        }
        perf_pair_sync(me);
    }
    return perf_tally_middle(&tally);
}

/* Atomic: a counter at rank 1; each answer must be one more than the last. */
static double add(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    uint64_t mark = 2 * ++me->messages, was = 0, now;
    struct perf_tally tally;

    perf_tally_start(&tally);
    if (me->rank < 2)
        perf_pair_sync(me);
    if (me->rank == 1)
        serve(pair, mark);
    for (uint32_t i = 0; me->rank == 0 && i < count; i++) {
        perf_tally_add(&tally, add_once(pair));
        now = *(volatile uint64_t *)pair->in;
        if (i > 0 && now != was + 1)
            perf_fail(me, "atomic: the counter went from %llu to %llu", (unsigned long long)was,
                      (unsigned long long)now);
        was = now;
    }
    if (me->rank == 0)
        stop_serving(pair, mark);
    return perf_tally_middle(&tally);
}

int perf_test_rma(struct perf_run *run_)
{
    static const struct perf_pair_test tests[] = {
        {.name = "put",
         .unit = "ns",
         .sizes = "8,4K,256K,4M",
         .out_in_heap = true,
         .in_in_heap = true,
         .floor = PERF_FLOOR_ACKED,
         .begin = begin,
         .run = put,
         .end = end},
        {.name = "get",
         .unit = "ns",
         .sizes = "8,4K,256K,4M",
         .in_in_heap = true,
         .floor = PERF_FLOOR_NONE,
         .begin = begin,
         .run = get,
         .end = end},
    };
    static const struct perf_pair_test atomic = {
        .name = "atomic",
        .unit = "ns",
        .sizes = "8",
        .in_in_heap = true,
        .floor = PERF_FLOOR_ROUNDTRIP,
        .begin = begin,
        .run = add,
        .end = end,
    };
    struct perf_options eight = *run_->options;
    const struct perf_options *asked = run_->options;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(tests) / sizeof(tests[0]); i++)
        rc = perf_pair_run(run_, &tests[i]);
    eight.sizes = (struct perf_sizes){1, {8}};
    run_->options = &eight; /* an atomic has one size, whatever --sizes says */
    if (rc == 0)
        rc = perf_pair_run(run_, &atomic);
    run_->options = asked;
    return rc;
}
