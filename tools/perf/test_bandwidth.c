/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes a second: one window of messages, all rewritten before the clock starts and all receives posted, until an empty
 * message says that all have come, for which all sends may wait. From private buffers, and from the heap. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/pipe.h"
#include "tools/perf/tally.h"

enum { TAG = 3, ACK = 4 };

static double send_window(struct perf_pair *pair)
{
    struct perf_node *node = &pair->node;
    struct nigh_send send = {.size = sizeof(send), .flags = NIGH_MAY_WAIT, .bytes = pair->bytes, .tag = TAG};
    struct nigh_recv ack = {.size = sizeof(ack), .tag = ACK};
    uint64_t sent = node->sent + pair->window, received = node->received + 1, start;

    for (uint32_t i = 0; i < pair->window; i++)
        perf_pair_fill(pair, i, pair->number + i);
    node->expect = 0;
    perf_node_post_recv(node, 1, &ack);
    perf_pair_sync(pair->me);
    start = perf_ticks();
    for (uint32_t i = 0; i < pair->window; i++) {
        send.buffer = pair->out + i * pair->stride;
        perf_node_post_send(node, 1, &send);
    }
    perf_node_await(node, sent, received);
    return perf_ns_net(start, perf_ticks());
}

static void receive_window(struct perf_pair *pair)
{
    struct perf_node *node = &pair->node;
    struct nigh_recv recv = {.size = sizeof(recv), .bytes = pair->bytes, .tag = TAG};
    struct nigh_send ack = {.size = sizeof(ack), .tag = ACK};
    uint64_t sent = node->sent + 1, received = node->received + pair->window;

    for (uint32_t i = 0; i < pair->window; i++) {
        recv.buffer = pair->in + i * pair->stride;
        perf_node_post_recv(node, 0, &recv);
    }
    perf_pair_sync(pair->me);
    perf_node_await(node, 0, received);
    perf_node_post_send(node, 0, &ack);
    perf_node_await(node, sent, 0);
    for (uint32_t i = 0; i < pair->window; i++)
        perf_pair_check(pair, i, 0, pair->number + i);
}

static double run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        if (me->rank == 0)
            perf_tally_add(&tally, (double)pair->bytes * pair->window / send_window(pair));
        else
            receive_window(pair);
        pair->number += pair->window;
    }
    return perf_tally_middle(&tally);
}

int perf_test_bandwidth(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "bandwidth",
        .unit = "GB/s",
        .sizes = "512,4K,32K,256K,1M,4M,16M",
        .floor = PERF_FLOOR_STREAM,
        .window = perf_pipe_window,
        .run = run,
    };

    return perf_pair_run(run_, &test);
}

int perf_test_heap(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "heap",
        .unit = "GB/s",
        .sizes = "4K,32K,256K,1M,4M,16M",
        .out_in_heap = true,
        .floor = PERF_FLOOR_IN_PLACE,
        .window = perf_pipe_window,
        .run = run,
    };

    return perf_pair_run(run_, &test);
}
