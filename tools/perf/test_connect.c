/* SPDX-License-Identifier: BSD-3-Clause */
/* From open() to "all connected": the slowest of N ranks that begin together. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/node.h"
#include "tools/perf/rounds.h"
#include "tools/perf/run.h"

struct connecting {
    const struct nigh_ops *ops;
    const char *path;
    double seconds;
    uint64_t jobs;
};

static double slowest(const struct perf_rank *me)
{
    double ns = 0;

    for (uint32_t rank = 0; rank < me->ranks; rank++)
        if (me->shared->figure[rank][0] > ns)
            ns = me->shared->figure[rank][0];
    return ns;
}

/* A new job each time; closing is not timed, and nobody closes before all are connected. */
static double connect_all(struct perf_rank *me, void *arg, uint32_t count)
{
    struct connecting *c = arg;
    struct perf_node node;
    uint64_t start;
    double ns;

    (void)count;
    perf_barrier(me);
    start = perf_ticks();
    perf_node_open(&node, me, c->ops, me->shared->job + 2 * c->jobs++, c->path);
    perf_node_connect_all(&node);
    me->shared->figure[me->rank][0] = perf_ns(start, perf_ticks());
    perf_node_barrier(&node);
    ns = slowest(me);
    perf_barrier(me);
    perf_node_close(&node);
    perf_barrier(me);
    return ns;
}

static int connect_rank(struct perf_rank *me, void *arg)
{
    struct connecting *c = arg;
    struct perf_piece piece = {"connect", connect_all, c, 1, 0};
    struct perf_plan plan = {.piece = &piece,
                             .pieces = 1,
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = c->seconds,
                             .no_handoff = true,
                             .least_rounds = 5};

    perf_rounds_run(me, &plan);
    return 0;
}

int perf_test_connect(struct perf_run *run)
{
    struct connecting c = {.path = run->options->path, .seconds = run->options->seconds};
    struct perf_result like;
    struct perf_job job;
    int rc = perf_run_transport(run, &c.ops);

    if (rc != 0)
        return rc;
    perf_run_job(run, &job, run->options->ranks, 0, "connect");
    rc = perf_job_run(&job, connect_rank, &c);
    if (rc != 0)
        return rc;
    perf_result_init(&like, "connect", "", "ns");
    like.ranks = job.ranks;
    rc = perf_run_rows(run, &job, 0, NULL, 0, &like);
    perf_job_end(&job);
    return rc;
}
