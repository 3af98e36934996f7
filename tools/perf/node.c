/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, connecting and closing; sending where time does not matter. */
#include "tools/perf/node.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

void perf_node_fail(const struct perf_node *node, const char *call, int rc)
{
    perf_fail(node->me, "%s: %s (%d)", call, strerror(-rc), rc);
}

void perf_node_judge(const struct perf_node *node, const struct nigh_completion *c)
{
    static const char *const names[] = {"?",   "send",   "receive",    "lend", "put",
                                        "get", "atomic", "collective", "put"};
    const char *name = c->op < sizeof(names) / sizeof(names[0]) ? names[c->op] : names[0];

    if (c->status != 0)
        perf_fail(node->me, "a %s ended with %s (%d), %" PRIu64 " bytes, tag %" PRIu64, name,
                  strerror(-c->status), c->status, c->bytes, c->tag);
    if (c->op == NIGH_OP_RECV && c->bytes != node->expect)
        perf_fail(node->me, "a message of %" PRIu64 " bytes came where %" PRIu64 " were sent", c->bytes,
                  node->expect);
}

void perf_node_open(struct perf_node *node, struct perf_rank *me, const struct nigh_ops *ops, uint64_t job,
                    const char *path)
{
    struct nigh_open options = {
        .size = sizeof(options), .job = job, .rank = me->rank, .ranks = me->ranks, .path = path};
    int rc;

    memset(node, 0, sizeof(*node));
    node->me = me;
    node->ops = ops;
    node->peer = calloc(me->ranks, sizeof(*node->peer));
    rc = node->peer ? ops->open(&options, &node->context) : -ENOMEM;
    if (rc != 0)
        perf_node_fail(node, "open", rc);
}

static void post_connect(struct perf_node *node, uint32_t rank)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};
    int rc;

    while ((rc = node->ops->connect(node->context, &to, &node->peer[rank])) == -EAGAIN)
        perf_node_progress(node);
    if (rc != 0)
        perf_node_fail(node, "connect", rc);
}

static uint32_t state_of(struct perf_node *node, uint32_t rank)
{
    struct nigh_query_endpoint answer = {.size = sizeof(answer)};
    uint64_t bytes = sizeof(answer);
    int rc = node->ops->query(node->context, node->peer[rank], NIGH_QUERY_ENDPOINT, &answer, &bytes);

    if (rc != 0)
        perf_node_fail(node, "query of an endpoint", rc);
    if (answer.state > NIGH_READY)
        perf_fail(node->me, "the connection to rank %" PRIu32 " ended (state %" PRIu32 ")", rank,
                  answer.state);
    return answer.state;
}

static void await_ready(struct perf_node *node, uint32_t rank)
{
    while (state_of(node, rank) != NIGH_READY)
        perf_node_progress(node);
}

void perf_node_connect(struct perf_node *node, uint32_t rank)
{
    post_connect(node, rank);
    await_ready(node, rank);
}

void perf_node_connect_all(struct perf_node *node)
{
    for (uint32_t rank = 0; rank < node->me->ranks; rank++)
        post_connect(node, rank);
    for (uint32_t rank = 0; rank < node->me->ranks; rank++)
        await_ready(node, rank);
}

void perf_node_close(struct perf_node *node)
{
    node->ops->close(node->context);
    free(node->peer);
    memset(node, 0, sizeof(*node));
}

void *perf_node_heap(struct perf_node *node, size_t bytes)
{
    void *memory = NULL;
    int rc = node->ops->heap_alloc(node->context, bytes, &memory);

    if (rc != 0)
        perf_fail(node->me, "heap_alloc of %zu bytes: %s", bytes, strerror(-rc));
    return memory;
}

void perf_node_send(struct perf_node *node, uint32_t rank, const void *buffer, size_t bytes, uint64_t tag)
{
    struct nigh_send send = {.size = sizeof(send), .buffer = buffer, .bytes = bytes, .tag = tag};
    uint64_t sent = node->sent + 1;

    perf_node_post_send(node, rank, &send);
    perf_node_await(node, sent, 0);
}

void perf_node_recv(struct perf_node *node, uint32_t rank, void *buffer, size_t bytes, uint64_t tag)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = buffer, .bytes = bytes, .tag = tag};
    uint64_t received = node->received + 1, expect = node->expect;

    node->expect = bytes;
    perf_node_post_recv(node, rank, &recv);
    perf_node_await(node, 0, received);
    node->expect = expect;
}

void perf_node_barrier(struct perf_node *node)
{
    while (!perf_barrier_poll(node->me))
        perf_node_progress(node);
}

void perf_node_stats(const struct perf_node *node, struct nigh_query_stats *stats)
{
    uint64_t bytes = sizeof(*stats);
    int rc;

    memset(stats, 0, sizeof(*stats));
    stats->size = sizeof(*stats);
    rc = node->ops->query(node->context, NULL, NIGH_QUERY_STATS, stats, &bytes);
    if (rc != 0)
        perf_node_fail(node, "query of the statistics", rc);
}

const char *perf_node_path(const struct nigh_query_stats *before, const struct nigh_query_stats *after)
{
    const struct {
        const char *name;
        int64_t messages; /* of cma one less than none: it was counted before, and went another way */
    } path[] = {
        {"inline", (int64_t)(after->inline_sent - before->inline_sent)},
        {"eager", (int64_t)(after->eager_sent - before->eager_sent)},
        {"chunked", (int64_t)(after->chunked_sent - before->chunked_sent)},
        {"heap", (int64_t)(after->heap_sent - before->heap_sent)},
        {"cma", (int64_t)(after->cma_sent - before->cma_sent)},
        {"lend", (int64_t)(after->lend_sent - before->lend_sent)},
        {"device", (int64_t)(after->device_sent - before->device_sent)},
    };
    size_t most = 0;

    for (size_t i = 1; i < sizeof(path) / sizeof(path[0]); i++)
        if (path[i].messages > path[most].messages)
            most = i;
    return path[most].messages > 0 ? path[most].name : "";
}

void perf_node_idle(const struct perf_node *node)
{
    (void)node;
    sched_yield();
}
