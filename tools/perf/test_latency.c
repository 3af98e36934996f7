/* SPDX-License-Identifier: BSD-3-Clause */
/* One way of a message: half of a round trip through the vtable, tag matching included. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/lib.h"
#include "tools/perf/pair.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

enum { CHAINED_BYTES = 1024, TAG = 0x5a5a }; /* the tag is compared: every bit of it */

static void send_slot(struct perf_pair *pair, uint32_t slot)
{
    struct nigh_send send = {
        .size = sizeof(send), .buffer = pair->out + slot * pair->stride, .bytes = pair->bytes, .tag = TAG};

    if (pair->bytes <= NIGH_INJECT_BYTES)
        send.flags = NIGH_INJECT | NIGH_SILENT;
    perf_node_post_send(&pair->node, perf_pair_peer(pair), &send);
}

static void post_slot(struct perf_pair *pair, uint32_t slot)
{
    struct nigh_recv recv = {
        .size = sizeof(recv), .buffer = pair->in + slot * pair->stride, .bytes = pair->bytes, .tag = TAG};

    perf_node_post_recv(&pair->node, perf_pair_peer(pair), &recv);
}

/*
 * Short messages, one after the other; rank 0 reads the clock while its message is under way, so that reading it costs
 * nothing. Writing a message before it is sent and checking it before it is answered are part of its way, as they are
 * for the peers that this is compared with.
 */
static void chain(struct perf_pair *pair, uint32_t count, struct perf_tally *tally)
{
    struct perf_rank *me = pair->me;
    uint64_t last = 0, number = pair->number;
    uint32_t peer = perf_pair_peer(pair);

    perf_pair_sync(me);
    for (uint32_t i = 0; i < count; i++, number++) {
        uint64_t received = pair->node.received + 1, now;

        if (me->rank == 0) {
            perf_pair_fill(pair, 0, number);
            send_slot(pair, 0);
            now = perf_ticks();
            if (i > 0) {
                perf_tally_add(tally, perf_ns(last, now) / 2);
                perf_rounds_sample(me, perf_ns(last, now) / 2);
            }
            last = now;
        }
        post_slot(pair, 0);
        perf_node_await(&pair->node, 0, received);
        perf_pair_check(pair, 0, peer, number);
        if (me->rank == 1) {
            perf_pair_fill(pair, 0, number);
            send_slot(pair, 0);
        }
    }
    pair->number = number;
}

/* Long messages, each timed by itself; writing and checking lie outside, what blocking calls would do lies inside. */
static double one_round_trip(struct perf_pair *pair, uint64_t number)
{
    struct perf_node *node = &pair->node;
    uint64_t sent = node->sent + (pair->bytes > NIGH_INJECT_BYTES), received = node->received + 1, start;

    perf_pair_fill(pair, 0, number);
    if (pair->me->rank == 1)
        post_slot(pair, 0);
    perf_pair_sync(pair->me);
    start = perf_ticks();
    if (pair->me->rank == 1)
        perf_node_await(node, 0, received);
    send_slot(pair, 0);
    if (pair->me->rank == 0)
        post_slot(pair, 0);
    perf_node_await(node, sent, received);
    return perf_ns_net(start, perf_ticks()) / 2;
}

static double run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    if (me->rank < 2 && pair->bytes <= CHAINED_BYTES)
        chain(pair, count + 1, &tally);
    for (uint32_t i = 0; me->rank < 2 && pair->bytes > CHAINED_BYTES && i < count; i++) {
        uint64_t number = pair->number++;
        double ns = one_round_trip(pair, number);

        perf_tally_add(&tally, ns);
        perf_rounds_sample(me, ns);
        perf_pair_check(pair, 0, perf_pair_peer(pair), number);
    }
    return perf_tally_middle(&tally);
}

int perf_test_latency(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "latency",
        .unit = "ns",
        .sizes = "8,64,512,4K,32K,256K,1M,4M",
        .sampled = true,
        .floor = PERF_FLOOR_ONEWAY,

        .run = run,
        .run_lib = perf_lib_latency,
    };

    return perf_pair_run(run_, &test);
}
