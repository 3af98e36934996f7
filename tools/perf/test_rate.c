/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages a second: windows of 64 messages back to back, each written before it is sent and checked before the next
 * window; an empty message back after every 16th. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/lib.h"
#include "tools/perf/pair.h"

enum { WINDOW = 64, WINDOWS_MOST = 16, TAG = 7, ACK = 8 };

/* Of one repetition, in which each peer's turn is one, too: those of long messages would wait for seconds. */
#define REPETITION_BYTES ((size_t)16 << 20)

static void send_one_window(struct perf_pair *pair)
{
    struct perf_node *node = &pair->node;
    struct nigh_send send = {.size = sizeof(send), .bytes = pair->bytes, .tag = TAG};
    uint64_t sent = node->sent;

    if (pair->bytes <= NIGH_INJECT_BYTES)
        send.flags = NIGH_INJECT | NIGH_SILENT;
    else
        sent += WINDOW;
    for (uint32_t slot = 0; slot < WINDOW; slot++) {
        perf_pair_fill(pair, slot, pair->number + slot);
        send.buffer = pair->out + slot * pair->stride;
        perf_node_post_send(node, 1, &send);
    }
    perf_node_await(node, sent, 0);
}

static void receive_one_window(struct perf_pair *pair)
{
    struct perf_node *node = &pair->node;
    struct nigh_recv recv = {.size = sizeof(recv), .bytes = pair->bytes, .tag = TAG};
    uint64_t received = node->received + WINDOW;

    for (uint32_t slot = 0; slot < WINDOW; slot++) {
        recv.buffer = pair->in + slot * pair->stride;
        perf_node_post_recv(node, 0, &recv);
    }
    perf_node_await(node, 0, received);
    for (uint32_t slot = 0; slot < WINDOW; slot++)
        perf_pair_check(pair, slot, 0, pair->number + slot);
}

/* Rank 1 answers when it has all; rank 0 has posted the receive of that before it began. */
static double burst(struct perf_pair *pair)
{
    struct perf_node *node = &pair->node;
    struct nigh_recv ack = {.size = sizeof(ack), .tag = ACK};
    struct nigh_send answer = {.size = sizeof(answer), .tag = ACK, .flags = NIGH_INJECT | NIGH_SILENT};
    uint64_t received = node->received + 1, start;

    if (pair->me->rank == 0) {
        node->expect = 0;
        perf_node_post_recv(node, 1, &ack);
    }
    perf_pair_sync(pair->me);
    start = perf_ticks();
    for (uint32_t i = 0; i < pair->windows; i++, pair->number += WINDOW) {
        if (pair->me->rank == 0)
            send_one_window(pair);
        else
            receive_one_window(pair);
    }
    if (pair->me->rank == 0)
        perf_node_await(node, 0, received);
    else
        perf_node_post_send(node, 0, &answer);
    return perf_ns(start, perf_ticks());
}

static double run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    double ns = 0;

    for (uint32_t i = 0; me->rank < 2 && i < count; i++)
        ns += burst(pair);
    return 1e3 * WINDOW * pair->windows * count / ns;
}

static uint32_t window(size_t bytes)
{
    (void)bytes;
    return WINDOW;
}

static uint32_t windows(size_t bytes)
{
    size_t fit = REPETITION_BYTES / (WINDOW * (bytes ? bytes : 1));

    return fit < 1 ? 1 : fit > WINDOWS_MOST ? WINDOWS_MOST : (uint32_t)fit;
}

int perf_test_rate(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "rate",
        .unit = "M/s",
        .sizes = "8,64,512,4K",
        .floor = PERF_FLOOR_RATE,
        .window = window,
        .windows = windows,
        .run = run,
        .run_lib = perf_lib_rate,
    };

    return perf_pair_run(run_, &test);
}
