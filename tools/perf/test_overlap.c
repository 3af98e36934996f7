/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a 4 MiB message from the heap goes on while its sender computes: 100 % when sending and computing together
 * take no longer than the longer of both alone. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/tally.h"

enum { TAG = 51 };

/* Work that the compiler can neither drop nor shorten: each step needs the one before. */
static uint64_t compute(uint64_t steps)
{
    static volatile uint64_t kept;
    uint64_t x = kept | 1;

    for (uint64_t i = 0; i < steps; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    kept = x;
    return x;
}

static double compute_ns(uint64_t steps)
{
    uint64_t start = perf_ticks();

    compute(steps);
    return perf_ns(start, perf_ticks());
}

/* The sender's side of one message with `steps` of work between posting and waiting. */
static double send_while(struct perf_pair *pair, uint64_t steps)
{
    struct nigh_send send = {
        .size = sizeof(send), .flags = NIGH_SYNC, .buffer = pair->out, .bytes = pair->bytes, .tag = TAG};
    uint64_t sent = pair->node.sent + 1, start;

    perf_pair_fill(pair, 0, pair->number);
    perf_pair_sync(pair->me);
    start = perf_ticks();
    perf_node_post_send(&pair->node, 1, &send);
    if (steps)
        compute(steps);
    perf_node_await(&pair->node, sent, 0);
    return perf_ns(start, perf_ticks());
}

static void receive(struct perf_pair *pair)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = pair->in, .bytes = pair->bytes, .tag = TAG};
    uint64_t received = pair->node.received + 1;

    perf_node_post_recv(&pair->node, 0, &recv);
    perf_pair_sync(pair->me);
    perf_node_await(&pair->node, 0, received);
    perf_pair_check(pair, 0, 0, pair->number);
}

/* As much work as one message takes, and the message, alone and together. */
static double overlap(struct perf_pair *pair)
{
    double alone, work, together, ns_per_step = compute_ns(20000) / 20000;
    uint64_t steps;

    alone = send_while(pair, 0);
    pair->number++;
    steps = (uint64_t)(alone / ns_per_step);
    work = compute_ns(steps);
    together = send_while(pair, steps);
    pair->number++;
    return 100 * (alone + work - together) / (alone < work ? alone : work);
}

static double run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; i < count; i++) {
        if (me->rank == 0) {
            perf_tally_add(&tally, overlap(pair));
        } else if (me->rank == 1) {
            receive(pair);
            pair->number++;
            receive(pair);
            pair->number++;
        }
    }
    return perf_tally_middle(&tally);
}

int perf_test_overlap(struct perf_run *run_)
{
    static const struct perf_pair_test test = {
        .name = "overlap",
        .unit = "%",
        .more_is_better = true,
        .sizes = "4M",
        .out_in_heap = true,
        .floor = PERF_FLOOR_NONE,
        .run = run,
    };

    return perf_pair_run(run_, &test);
}
