/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through libnigh: the same steps as in test_latency.c and test_rate.c, with the calls that programs write. */
#include "tools/perf/lib.h"

#include "nigh/nigh.h"
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/tally.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHAINED_BYTES = 1024, TAG = 0x5a5a, ACK = 8, WINDOW = 64 };

static struct nigh_comm *world; /* as programs keep it */

#define MUST(call) ((call) == 0 ? (void)0 : fail(me))

static void fail(const struct perf_rank *me)
{
    perf_fail(me, "libnigh: %s", nigh_error_text());
}

/* The thread of NIGH_PROGRESS=thread is of no use on the CPU where its rank computes: it gets those that no rank has,
 * where there are any and nigh-run has not given it some. */
static void place_thread(const struct perf_rank *me)
{
    const char *progress = getenv("NIGH_PROGRESS");
    char list[CPU_SETSIZE * 5];
    cpu_set_t usable;

    if (me->cpu < 0 || !progress || strcmp(progress, "thread") != 0 ||
        sched_getaffinity(getppid(), sizeof(usable), &usable) != 0)
        return;
    perf_job_spare(me, &usable, list, sizeof(list));
    if (*list && setenv("NIGH_PROGRESS_CPUS", list, 0) != 0)
        perf_fail(me, "no memory for NIGH_PROGRESS_CPUS=%s", list);
}

void perf_lib_open(struct perf_rank *me, const char *plugin, const char *path)
{
    /* Another number than the job that is measured beside it: the rank is in both. */
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = me->rank,
                                 .ranks = me->ranks,
                                 .job = me->shared->job ^ 1,
                                 .plugin = plugin};

    if (path && setenv("NIGH_PATH", path, 1) != 0)
        perf_fail(me, "no memory for NIGH_PATH=%s", path);
    place_thread(me);
    MUST(nigh_init(&config));
    world = nigh_world();
}

void perf_lib_close(struct perf_rank *me)
{
    MUST(nigh_finalize());
}

/* ---- latency ---- */

static void send_slot(struct perf_pair *pair)
{
    struct perf_rank *me = pair->me;

    MUST(nigh_send(pair->out, pair->bytes, (int)perf_pair_peer(pair), TAG, world));
}

static void look_at(const struct perf_pair *pair, const struct nigh_status *status)
{
    if (status->bytes != pair->bytes)
        perf_fail(pair->me, "libnigh: a message of %" PRIu64 " bytes came where %zu were sent", status->bytes,
                  pair->bytes);
}

static void recv_slot(struct perf_pair *pair)
{
    struct perf_rank *me = pair->me;
    struct nigh_status status;

    MUST(nigh_recv(pair->in, pair->bytes, (int)perf_pair_peer(pair), TAG, world, &status));
    look_at(pair, &status);
}

static void chain(struct perf_pair *pair, uint32_t count, struct perf_tally *tally)
{
    struct perf_rank *me = pair->me;
    uint64_t last = 0, number = pair->number;
    uint32_t peer = perf_pair_peer(pair);

    perf_pair_sync(me);
    for (uint32_t i = 0; i < count; i++, number++) {
        if (me->rank == 0) {
            uint64_t now;

            perf_pair_fill(pair, 0, number);
            send_slot(pair);
            now = perf_ticks();
            if (i > 0)
                perf_tally_add(tally, perf_ns(last, now) / 2);
            last = now;
        }
        recv_slot(pair);
        perf_pair_check(pair, 0, peer, number);
        if (me->rank == 1) {
            perf_pair_fill(pair, 0, number);
            send_slot(pair);
        }
    }
    pair->number = number;
}

static double one_round_trip(struct perf_pair *pair, uint64_t number)
{
    struct perf_rank *me = pair->me;
    int peer = (int)perf_pair_peer(pair);
    nigh_request request[2];
    struct nigh_status status[2];
    uint64_t start;

    perf_pair_fill(pair, 0, number);
    if (me->rank == 1)
        MUST(nigh_irecv(pair->in, pair->bytes, peer, TAG, world, &request[0]));
    perf_pair_sync(me);
    start = perf_ticks();
    if (me->rank == 1) {
        MUST(nigh_wait(&request[0], &status[0]));
        send_slot(pair);
    } else {
        MUST(nigh_isend(pair->out, pair->bytes, peer, TAG, world, &request[1]));
        MUST(nigh_irecv(pair->in, pair->bytes, peer, TAG, world, &request[0]));
        MUST(nigh_waitall(2, request, status));
    }
    look_at(pair, &status[0]);
    return perf_ns_net(start, perf_ticks()) / 2;
}

double perf_lib_latency(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    if (me->rank < 2 && pair->bytes <= CHAINED_BYTES)
        chain(pair, count + 1, &tally);
    for (uint32_t i = 0; me->rank < 2 && pair->bytes > CHAINED_BYTES && i < count; i++) {
        uint64_t number = pair->number++;

        perf_tally_add(&tally, one_round_trip(pair, number));
        perf_pair_check(pair, 0, perf_pair_peer(pair), number);
    }
    return perf_tally_middle(&tally);
}

/* ---- rate ---- */

static void send_one_window(struct perf_pair *pair)
{
    struct perf_rank *me = pair->me;
    nigh_request request[WINDOW];

    for (uint32_t slot = 0; slot < WINDOW; slot++) {
        perf_pair_fill(pair, slot, pair->number + slot);
        MUST(nigh_isend(pair->out + slot * pair->stride, pair->bytes, 1, TAG, world, &request[slot]));
    }
    MUST(nigh_waitall(WINDOW, request, NIGH_STATUSES_IGNORE));
}

static void receive_one_window(struct perf_pair *pair)
{
    struct perf_rank *me = pair->me;
    nigh_request request[WINDOW];

    for (uint32_t slot = 0; slot < WINDOW; slot++)
        MUST(nigh_irecv(pair->in + slot * pair->stride, pair->bytes, 0, TAG, world, &request[slot]));
    MUST(nigh_waitall(WINDOW, request, NIGH_STATUSES_IGNORE));
    for (uint32_t slot = 0; slot < WINDOW; slot++)
        perf_pair_check(pair, slot, 0, pair->number + slot);
}

static double burst(struct perf_pair *pair)
{
    struct perf_rank *me = pair->me;
    nigh_request ack;
    uint64_t start;

    if (me->rank == 0)
        MUST(nigh_irecv(NULL, 0, 1, ACK, world, &ack));
    perf_pair_sync(me);
    start = perf_ticks();
    for (uint32_t i = 0; i < pair->windows; i++, pair->number += WINDOW) {
        if (me->rank == 0)
            send_one_window(pair);
        else
            receive_one_window(pair);
    }
    if (me->rank == 0)
        MUST(nigh_wait(&ack, NIGH_STATUS_IGNORE));
    else
        MUST(nigh_send(NULL, 0, 0, ACK, world));
    return perf_ns(start, perf_ticks());
}

double perf_lib_rate(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pair *pair = arg;
    double ns = 0;

    for (uint32_t i = 0; me->rank < 2 && i < count; i++)
        ns += burst(pair);
    return 1e3 * WINDOW * pair->windows * count / ns;
}
