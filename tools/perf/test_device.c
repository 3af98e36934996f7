/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, puts and gets with buffers on CUDA devices, and the same with the host's: one function measures both. */
#include "tools/perf/clock.h"
#include "tools/perf/device.h"
#include "tools/perf/floors.h"

#include <errno.h>
#include <stdio.h>

enum { TAG = 52, ACK = 53, LENT = 54 };

static uint32_t device_flag(const struct perf_device_memory *memory)
{
    return perf_device_has(memory) ? NIGH_DEVICE : 0;
}

/* Of messages, no region is named for the host's memory. */
static struct nigh_region *region(const struct perf_device_memory *memory)
{
    return perf_device_has(memory) ? memory->region : NULL;
}

static void send_message(struct perf_device *d, const struct perf_device_memory *out, uint32_t message,
                         uint32_t flags)
{
    struct nigh_send send = {.size = sizeof(send),
                             .flags = flags | device_flag(out),
                             .buffer = out->at + message * d->stride,
                             .bytes = d->bytes,
                             .tag = TAG,
                             .region = region(out)};

    perf_node_post_send(&d->node, 1 - d->me->rank, &send);
}

static void post_message(struct perf_device *d, const struct perf_device_memory *in, uint32_t message)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = device_flag(in),
                             .buffer = in->at + message * d->stride,
                             .bytes = d->bytes,
                             .tag = TAG,
                             .region = region(in)};

    perf_node_post_recv(&d->node, 1 - d->me->rank, &recv);
}

/* ---- latency ---- */

static double there_and_back(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number)
{
    bool silent = !perf_device_has(&lane->out) && d->bytes <= NIGH_INJECT_BYTES;
    uint64_t sent = d->node.sent + !silent, received = d->node.received + 1, start;
    double ns;

    perf_device_fill(d, &lane->out, 1, number);
    if (d->me->rank == 1)
        post_message(d, &lane->in, 0);
    perf_pair_sync(d->me);
    start = perf_ticks();
    if (d->me->rank == 1)
        perf_node_await(&d->node, 0, received);
    send_message(d, &lane->out, 0, silent ? NIGH_INJECT | NIGH_SILENT : 0);
    if (d->me->rank == 0)
        post_message(d, &lane->in, 0);
    perf_node_await(&d->node, sent, received);
    ns = perf_ns_net(start, perf_ticks()) / 2;
    perf_device_check(d, &lane->in, 1, 1 - d->me->rank, number, "a message");
    return ns;
}

/* ---- bandwidth ---- */

static double send_window(struct perf_device *d, const struct perf_device_memory *out, uint64_t number)
{
    struct nigh_recv ack = {.size = sizeof(ack), .tag = ACK};
    uint64_t sent = d->node.sent + d->window, received = d->node.received + 1, start;

    perf_device_fill(d, out, d->window, number);
    d->node.expect = 0;
    perf_node_post_recv(&d->node, 1, &ack);
    perf_pair_sync(d->me);
    start = perf_ticks();
    for (uint32_t i = 0; i < d->window; i++)
        send_message(d, out, i, NIGH_MAY_WAIT);
    perf_node_await(&d->node, sent, received);
    return perf_ns_net(start, perf_ticks());
}

static void receive_window(struct perf_device *d, const struct perf_device_memory *in, uint64_t number)
{
    struct nigh_send ack = {.size = sizeof(ack), .tag = ACK};
    uint64_t sent = d->node.sent + 1, received = d->node.received + d->window;

    for (uint32_t i = 0; i < d->window; i++)
        post_message(d, in, i);
    perf_pair_sync(d->me);
    perf_node_await(&d->node, 0, received);
    perf_node_post_send(&d->node, 0, &ack);
    perf_node_await(&d->node, sent, 0);
    perf_device_check(d, in, d->window, 0, number, "a stream");
}

static double stream(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number)
{
    if (d->me->rank == 0)
        return (double)d->bytes * d->window / send_window(d, &lane->out, number);
    receive_window(d, &lane->in, number);
    return 0;
}

/* ---- lends ---- */

static void lend(struct perf_device *d, const struct perf_device_memory *out)
{
    struct nigh_lend lend = {.size = sizeof(lend),
                             .flags = device_flag(out),
                             .buffer = out->at,
                             .bytes = d->bytes,
                             .tag = LENT,
                             .region = region(out)};
    int rc;

    while ((rc = d->node.ops->post_lend(d->node.peer[1 - d->me->rank], &lend)) == -EAGAIN)
        perf_node_progress(&d->node);
    if (rc != 0)
        perf_node_fail(&d->node, "post_lend", rc);
}

/* The peer's memory, where it lies for the device of `in`. */
static struct perf_device_memory borrow(struct perf_device *d, const struct perf_device_memory *in)
{
    struct perf_device_memory seen = *in;
    struct nigh_completion c;
    int n;

    for (;;) {
        n = d->node.ops->poll_completions(d->node.context, &c, 1);
        if (n < 0)
            perf_node_fail(&d->node, "poll_completions", n);
        if (n == 0)
            continue;
        perf_node_count(&d->node, &c, n);
        if (c.op != NIGH_OP_RECV)
            continue;
        seen.at = c.data;
        seen.cuda.at = (uintptr_t)c.data;
        return seen;
    }
}

static double lend_there_and_back(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_IN_PLACE | device_flag(&lane->in),
                             .buffer = lane->in.at,
                             .bytes = d->bytes,
                             .tag = LENT,
                             .region = region(&lane->in)};
    uint64_t lent = d->node.sent + 1, start;
    struct perf_device_memory seen;
    double ns;
    int rc;

    perf_device_fill(d, &lane->out, 1, number);
    perf_node_post_recv(&d->node, 1 - d->me->rank, &recv);
    perf_pair_sync(d->me);
    start = perf_ticks();
    if (d->me->rank == 0)
        lend(d, &lane->out);
    seen = borrow(d, &lane->in);
    if (d->me->rank == 1)
        lend(d, &lane->out);
    ns = perf_ns_net(start, perf_ticks()) / 2;
    perf_device_check(d, &seen, 1, 1 - d->me->rank, number, "a lend");
    rc = d->node.ops->release(d->node.context, seen.at);
    if (rc != 0)
        perf_node_fail(&d->node, "release", rc);
    perf_node_await(&d->node, lent, 0);
    return ns;
}

/* ---- puts and gets ---- */

/* Rank 1 makes progress until rank 0 has its completion. */
static void serve(struct perf_device *d)
{
    const struct perf_line *line = &d->me->shared->line[PERF_LINE_DONE];

    while (perf_line_take(line) < d->me->messages)
        perf_node_progress(&d->node);
}

static double remote(struct perf_device *d, const struct perf_device_memory *local, uint64_t key)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .flags = device_flag(local),
                           .buffer = local->at,
                           .bytes = d->bytes,
                           .key = key,
                           .region = region(local)};
    bool is_get = d->test->shape == PERF_DEVICE_GET;
    uint64_t start = perf_ticks();
    int rc =
        is_get ? d->node.ops->post_get(d->node.peer[1], &rma) : d->node.ops->post_put(d->node.peer[1], &rma);
    double ns;

    if (rc != 0)
        perf_node_fail(&d->node, is_get ? "post_get" : "post_put", rc);
    perf_node_await(&d->node, d->node.sent + 1, 0);
    ns = perf_ns_net(start, perf_ticks());
    perf_line_give(&d->me->shared->line[PERF_LINE_DONE], d->me->messages);
    return ns;
}

static double put(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number)
{
    double ns = 0;

    d->me->messages++;
    if (d->me->rank == 0)
        perf_device_fill(d, &lane->out, 1, number);
    perf_pair_sync(d->me);
    if (d->me->rank == 0) {
        ns = remote(d, &lane->out, lane->key);
    } else {
        serve(d);
        perf_device_check(d, &lane->in, 1, 0, number, "a put");
    }
    perf_pair_sync(d->me);
    return ns;
}

static double get(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number)
{
    double ns = 0;

    d->me->messages++;
    if (d->me->rank == 1)
        perf_device_fill(d, &lane->out, 1, number);
    perf_pair_sync(d->me);
    if (d->me->rank == 0) {
        ns = remote(d, &lane->in, lane->key);
        perf_device_check(d, &lane->in, 1, 1, number, "a get");
    } else {
        serve(d);
    }
    perf_pair_sync(d->me);
    return ns;
}

/* ---- the tests ---- */

int perf_device_latency(struct perf_run *run)
{
    static const struct perf_device_test test = {"latency", "ns", "8,512,4K,32K,256K,1M,4M",
                                                 PERF_DEVICE_ONEWAY, there_and_back};

    return perf_device_run(run, &test);
}

int perf_device_bandwidth(struct perf_run *run)
{
    static const struct perf_device_test test = {"bandwidth", "GB/s", "4K,32K,256K,1M,4M,16M",
                                                 PERF_DEVICE_STREAM, stream};

    return perf_device_run(run, &test);
}

/* Memory that a peer may map, seen by a device. */
static bool may_lend(const struct perf_cuda_sides *sides)
{
    return sides->from.kind != PERF_CUDA_HOST && sides->from.kind != PERF_CUDA_MANAGED &&
           sides->to.kind != PERF_CUDA_HOST;
}

int perf_device_lend(struct perf_run *run)
{
    static const struct perf_device_test test = {"lend", "ns", "8,4K,1M,64M", PERF_DEVICE_LEND,
                                                 lend_there_and_back};

    if (may_lend(&run->options->cuda))
        return perf_device_run(run, &test);
    fprintf(
        stderr,
        "nigh-perf: lend is left out: it takes memory of plain, vmm or pool, and a device that sees it\n");
    return 0;
}

int perf_device_rma(struct perf_run *run)
{
    static const struct perf_device_test puts = {"put", "ns", "8,4K,256K,4M", PERF_DEVICE_PUT, put};
    static const struct perf_device_test gets = {"get", "ns", "8,4K,256K,4M", PERF_DEVICE_GET, get};
    int rc = perf_device_run(run, &puts);

    return rc ? rc : perf_device_run(run, &gets);
}
