/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a 4 MiB message from the heap goes on while its sender, or its receiver, computes: 100 % when message and
 * computing together take no longer than the longer of both alone. Rank 0 computes; a receiver as long as
 * the message takes and twice as long. */
#include "tools/perf/clock.h"
#include "tools/perf/compute.h"
#include "tools/perf/floors.h"
#include "tools/perf/lib.h"
#include "tools/perf/pair.h"
#include "tools/perf/tally.h"

#include "nigh/nigh.h"

enum { TAG = 51 };

/* ---- one message, with `steps` of work between starting and waiting ---- */

typedef void message_fn(struct perf_pair *pair, uint64_t steps);

static void send_plugin(struct perf_pair *pair, uint64_t steps)
{
    struct nigh_send send = {
        .size = sizeof(send), .flags = NIGH_SYNC, .buffer = pair->out, .bytes = pair->bytes, .tag = TAG};
    uint64_t sent = pair->node.sent + 1;

    perf_node_post_send(&pair->node, perf_pair_peer(pair), &send);
    if (steps)
        perf_compute(steps);
    perf_node_await(&pair->node, sent, 0);
}

static void receive_plugin(struct perf_pair *pair, uint64_t steps)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = pair->in, .bytes = pair->bytes, .tag = TAG};
    uint64_t received = pair->node.received + 1;

    perf_node_post_recv(&pair->node, perf_pair_peer(pair), &recv);
    if (steps)
        perf_compute(steps);
    perf_node_await(&pair->node, 0, received);
}

static void must(struct perf_pair *pair, int rc)
{
    if (rc)
        perf_fail(pair->me, "libnigh: %s", nigh_error_text());
}

static void send_lib(struct perf_pair *pair, uint64_t steps)
{
    nigh_request request;

    must(pair, nigh_isend(pair->more, pair->bytes, (int)perf_pair_peer(pair), TAG, nigh_world(), &request));
    if (steps)
        perf_compute(steps);
    must(pair, nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static void receive_lib(struct perf_pair *pair, uint64_t steps)
{
    nigh_request request;

    must(pair, nigh_irecv(pair->in, pair->bytes, (int)perf_pair_peer(pair), TAG, nigh_world(), &request));
    if (steps)
        perf_compute(steps);
    must(pair, nigh_wait(&request, NIGH_STATUS_IGNORE));
}

/* ---- a piece ---- */

struct way {
    message_fn *send, *receive;
    bool receives; /* the rank that computes */
    uint32_t work; /* times what one message takes */
    bool lib;
};

/* libnigh has a heap of its own. */
static void *buffer(struct perf_pair *pair, const struct way *way)
{
    if (way->lib && !pair->more)
        must(pair, nigh_alloc_mem(pair->bytes, &pair->more));
    return way->lib ? pair->more : pair->out;
}

static double one(struct perf_pair *pair, const struct way *way, uint64_t steps)
{
    bool receives = way->receives == (pair->me->rank == 0);
    uint64_t number = pair->number++, start;
    double ns;

    if (!receives)
        perf_fill(buffer(pair, way), pair->bytes, perf_seed(pair->me->rank, number));
    perf_pair_sync(pair->me);
    start = perf_ticks();
    if (receives)
        way->receive(pair, steps);
    else
        way->send(pair, steps);
    ns = perf_ns(start, perf_ticks());
    if (receives) {
        size_t wrong = perf_check(pair->in, pair->bytes, perf_seed(perf_pair_peer(pair), number));

        if (wrong != pair->bytes)
            perf_pair_wrong(pair, wrong, perf_pair_peer(pair), number);
    }
    return ns;
}

/* The second of two that go the same way, as in a program that does nothing else: what the first finds in which
 * cache depends on the way before. Behind a thread that has written past the cache a rank's own copy takes a fifth
 * longer, which would count as hidden. */
static double steady(struct perf_pair *pair, const struct way *way, uint64_t steps)
{
    one(pair, way, steps);
    return one(pair, way, steps);
}

/* Work and message, alone and together. */
static double overlap(struct perf_pair *pair, const struct way *way)
{
    double alone = steady(pair, way, 0), work;
    uint64_t steps = perf_compute_steps(way->work * alone);

    work = perf_compute_ns(steps);
    return perf_hidden_share(alone, work, steady(pair, way, steps));
}

static double run(struct perf_pair *pair, const struct way *way, uint32_t count)
{
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; i < count; i++) {
        if (pair->me->rank == 0) {
            perf_tally_add(&tally, overlap(pair, way));
        } else if (pair->me->rank == 1) {
            steady(pair, way, 0);
            steady(pair, way, 0);
        }
    }
    return perf_tally_middle(&tally);
}

static double sending(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_plugin, receive_plugin, false, 1, false};

    (void)me;
    return run(arg, &way, count);
}

static double sending_lib(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_lib, receive_lib, false, 1, true};

    (void)me;
    return run(arg, &way, count);
}

static double receiving_as_long(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_plugin, receive_plugin, true, 1, false};

    (void)me;
    return run(arg, &way, count);
}

static double receiving_as_long_lib(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_lib, receive_lib, true, 1, true};

    (void)me;
    return run(arg, &way, count);
}

static double receiving(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_plugin, receive_plugin, true, 2, false};

    (void)me;
    return run(arg, &way, count);
}

static double receiving_lib(struct perf_rank *me, void *arg, uint32_t count)
{
    static const struct way way = {send_lib, receive_lib, true, 2, true};

    (void)me;
    return run(arg, &way, count);
}

int perf_test_overlap(struct perf_run *run_)
{
    struct perf_pair_test test = {
        .name = "overlap",
        .unit = "%",
        .more_is_better = true,
        .sizes = "4M",
        .out_in_heap = true,
        .floor = PERF_FLOOR_NONE,
        .note = "the sender computes as long as the message takes",
        .run = sending,
        .run_lib = sending_lib,
    };
    int rc = perf_pair_run(run_, &test);

    test.name = "overlap-recv";
    test.note =
        "the receiver computes twice as long; its thread copies, with --layer lib and NIGH_PROGRESS=thread";
    test.floor = PERF_FLOOR_HIDDEN;
    test.lib_reaches = true;
    test.work = 2;
    test.run = receiving;
    test.run_lib = receiving_lib;
    if (rc)
        return rc;
    rc = perf_pair_run(run_, &test);
    test.name = "overlap-recv-as-long";
    test.note = "the receiver computes as long as the message takes";
    test.work = 1;
    test.run = receiving_as_long;
    test.run_lib = receiving_as_long_lib;
    return rc ? rc : perf_pair_run(run_, &test);
}
