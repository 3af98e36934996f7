/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a rank that sleeps in a receive takes to go on. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/tally.h"

enum { TAG = 31, WAKES = 3 };

struct wake {
    const struct nigh_ops *ops;
    const char *path;
    double seconds;
    struct perf_node node;
};

/* Sleeps in wait() until its message is there, then answers on a line: no transport on the way back. */
static void sleeper(struct perf_node *node, struct perf_line *answer, uint64_t turn)
{
    uint64_t word = 0, received = node->received + 1;
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = &word, .bytes = sizeof(word), .tag = TAG};

    perf_node_post_recv(node, 0, &recv);
    perf_pair_sync(node->me);
    while (node->received < received) {
        int rc = node->ops->wait(node->context, UINT64_MAX);

        if (rc != 0 && rc != -EINTR)
            perf_node_fail(node, "wait", rc);
        perf_node_progress(node);
    }
    perf_line_give(answer, turn);
    if (word != turn)
        perf_fail(node->me, "wake: the message said %llu, not %llu", (unsigned long long)word,
                  (unsigned long long)turn);
}

static double waker(struct perf_node *node, struct perf_line *answer, uint64_t turn, double back_ns)
{
    struct nigh_send send = {.size = sizeof(send),
                             .flags = NIGH_INJECT | NIGH_SILENT,
                             .buffer = &turn,
                             .bytes = sizeof(turn),
                             .tag = TAG};
    uint64_t start;

    perf_pair_sync(node->me);
    perf_let_sleep();
    start = perf_ticks();
    perf_node_post_send(node, 1, &send);
    perf_line_await(answer, turn);
    return perf_ns_net(start, perf_ticks()) - back_ns;
}

static double wake_piece(struct perf_rank *me, void *arg, uint32_t count)
{
    struct wake *wake = arg;
    struct perf_line *answer = &me->shared->line[PERF_LINE_WAKE + 2];
    double back = perf_handoff_probe(me, 40);
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t turn = ++me->messages;

        if (me->rank == 1) {
            sleeper(&wake->node, answer, turn);
        } else {
            double ns = waker(&wake->node, answer, turn, back);

            perf_tally_add(&tally, ns);
            perf_rounds_sample(me, ns);
        }
    }
    return perf_tally_middle(&tally);
}

static int wake_rank(struct perf_rank *me, void *arg)
{
    struct wake *wake = arg;
    struct perf_piece piece[] = {{"wake", wake_piece, wake, WAKES, 0},
                                 {"futex", perf_futex_wake, NULL, WAKES, 0}};
    struct perf_plan plan = {.piece = piece, .pieces = 2, .sampled = 0, .seconds = wake->seconds};
    struct nigh_query_stats before, after;

    perf_node_open(&wake->node, me, wake->ops, me->shared->job, wake->path);
    wake->node.expect = sizeof(uint64_t);
    if (me->rank < 2)
        perf_node_connect(&wake->node, 1 - me->rank);
    perf_node_stats(&wake->node, &before);
    perf_rounds_run(me, &plan);
    perf_node_stats(&wake->node, &after);
    me->shared->figure[me->rank][0] = (double)(after.sleeps - before.sleeps);
    me->shared->figure[me->rank][1] = (double)(after.rescues - before.rescues);
    perf_node_barrier(&wake->node);
    perf_node_close(&wake->node);
    return 0;
}

/* A rank that was not asleep was not woken: then the figure is of something else, and the row says so. */
static void note_sleeps(const struct perf_job *job, struct perf_result *row)
{
    double sleeps = job->shared->figure[1][0], turns = (double)job->shared->table.rounds * WAKES;

    if (sleeps < 0.9 * turns)
        snprintf(row->note, sizeof(row->note),
                 "rank 1 slept only %.0f times for %.0f messages: it was spinning", sleeps, turns);
    else if (job->shared->figure[1][1] > 0)
        snprintf(row->note, sizeof(row->note), "%.0f sleeps were ended by their time-out, not by the sender",
                 job->shared->figure[1][1]);
}

int perf_test_wake(struct perf_run *run)
{
    static const uint32_t floors[] = {1};
    struct wake wake = {.path = run->options->path, .seconds = run->options->seconds};
    struct perf_result like;
    struct perf_job job;
    int rc = perf_run_need_cpus(run, "wake", 2);

    if (rc == 0)
        rc = perf_run_transport(run, &wake.ops);
    if (rc != 0)
        return rc;
    perf_run_job(run, &job, run->options->ranks, PERF_SCRATCH(0), "wake");
    rc = perf_job_run(&job, wake_rank, &wake);
    if (rc != 0)
        return rc;
    perf_result_init(&like, "wake", "", "ns");
    like.ranks = job.ranks;
    note_sleeps(&job, &like);
    rc = perf_run_rows(run, &job, 0, floors, 1, &like);
    perf_job_end(&job);
    return rc;
}
