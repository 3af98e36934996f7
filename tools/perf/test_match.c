/* SPDX-License-Identifier: BSD-3-Clause */
/* What matching costs when much is outstanding: one way of 8 bytes past 1, 100 and 10,000 receives that are posted for
 * other tags, or past as many messages that nobody has asked for. */
#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pair.h"
#include "tools/perf/tally.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TAG = 1000000, LAST = 10000 };

struct matching {
    const struct nigh_ops *ops;
    const char *path;
    double seconds;
    uint32_t outstanding;
    bool posted; /* receives; else messages */
    struct perf_node node;
    uint64_t *word; /* one per outstanding receive */
    uint64_t number;
};

static void send_word(struct perf_node *node, uint64_t word, uint64_t tag)
{
    struct nigh_send send = {.size = sizeof(send),
                             .flags = NIGH_INJECT | NIGH_SILENT,
                             .buffer = &word,
                             .bytes = sizeof(word),
                             .tag = tag};

    perf_node_post_send(node, 1 - node->me->rank, &send);
}

static void post_word(struct perf_node *node, uint64_t *word, uint64_t tag)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = word, .bytes = sizeof(*word), .tag = tag};

    perf_node_post_recv(node, 1 - node->me->rank, &recv);
}

static uint32_t waiting(struct perf_node *node, bool posted)
{
    struct nigh_query_context answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);
    int rc = node->ops->query(node->context, NULL, NIGH_QUERY_CONTEXT, &answer, &bytes);

    if (rc != 0)
        perf_node_fail(node, "query of the context", rc);
    return posted ? answer.posted : answer.unexpected;
}

/* Both ranks are in the way of both. */
static void pile_up(struct matching *m)
{
    struct perf_node *node = &m->node;

    for (uint32_t i = 0; i < m->outstanding; i++) {
        if (m->posted)
            post_word(node, &m->word[i], i);
        else
            send_word(node, i, i);
    }
    while (waiting(node, m->posted) < m->outstanding)
        perf_node_progress(node);
}

/* Everything that was in the way is still there, and whole. */
static void clear_away(struct matching *m)
{
    struct perf_node *node = &m->node;

    for (uint32_t i = m->outstanding; i > 0; i--) {
        if (m->posted)
            send_word(node, i - 1, i - 1);
        else
            post_word(node, &m->word[i - 1], i - 1);
        if (i % 64 == 0)
            perf_node_progress(node);
    }
    perf_node_await(node, 0, node->received);
    while (waiting(node, m->posted) > 0)
        perf_node_progress(node);
    for (uint32_t i = 0; i < m->outstanding; i++)
        if (m->word[i] != i)
            perf_fail(node->me, "match: the message with tag %" PRIu32 " said %" PRIu64, i, m->word[i]);
}

static double pass(struct perf_rank *me, void *arg, uint32_t count)
{
    struct matching *m = arg;
    struct perf_node *node = &m->node;
    uint64_t word = 0, start;

    if (me->rank > 1)
        return 0;
    perf_pair_sync(me);
    start = perf_ticks();
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = m->number++, received = node->received + 1;

        if (me->rank == 0)
            send_word(node, number, TAG);
        post_word(node, &word, TAG);
        perf_node_await(node, 0, received);
        if (word != number)
            perf_fail(me, "match: %" PRIu64 " came instead of %" PRIu64, word, number);
        if (me->rank == 1)
            send_word(node, number, TAG);
    }
    return perf_ns(start, perf_ticks()) / (2.0 * count);
}

static int match_rank(struct perf_rank *me, void *arg)
{
    struct matching *m = arg;
    struct perf_piece piece[] = {{"match", pass, m, 0, 0}, {"L", perf_handoff_load, NULL, 0, 0}};
    struct perf_plan plan = {.piece = piece, .pieces = 2, .sampled = PERF_COLUMN_NONE, .seconds = m->seconds};

    m->word = calloc(LAST, sizeof(*m->word));
    if (!m->word)
        return -ENOMEM;
    perf_node_open(&m->node, me, m->ops, me->shared->job, m->path);
    m->node.expect = sizeof(uint64_t);
    if (me->rank < 2) {
        perf_node_connect(&m->node, 1 - me->rank);
        pile_up(m);
    }
    perf_node_barrier(&m->node);
    perf_rounds_run(me, &plan);
    if (me->rank < 2)
        clear_away(m);
    perf_node_barrier(&m->node);
    perf_node_close(&m->node);
    free(m->word);
    return 0;
}

static int one(struct perf_run *run, struct matching *m)
{
    static const uint32_t floors[] = {1};
    struct perf_result like;
    struct perf_job job;
    char what[64];
    int rc;

    snprintf(what, sizeof(what), "match: %" PRIu32 " %s", m->outstanding,
             m->posted ? "posted" : "unexpected");
    perf_run_job(run, &job, run->options->ranks, PERF_SCRATCH(0), what);
    rc = perf_job_run(&job, match_rank, m);
    if (rc != 0)
        return rc;
    perf_result_init(&like, m->posted ? "match-posted" : "match-unexpected", "", "ns");
    snprintf(like.path, sizeof(like.path), "past %" PRIu32, m->outstanding);
    like.bytes = sizeof(uint64_t);
    like.ranks = job.ranks;
    rc = perf_run_rows(run, &job, 0, floors, 1, &like);
    perf_job_end(&job);
    return rc;
}

int perf_test_match(struct perf_run *run)
{
    static const uint32_t outstanding[] = {1, 100, LAST};
    struct matching m = {.path = run->options->path, .seconds = run->options->seconds / 6};
    int rc = perf_run_need_cpus(run, "match", 2);

    if (rc == 0)
        rc = perf_run_transport(run, &m.ops);
    for (uint32_t i = 0; rc == 0 && i < 6; i++) {
        m.outstanding = outstanding[i % 3];
        m.posted = i < 3;
        rc = one(run, &m);
    }
    return rc;
}
