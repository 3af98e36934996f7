/* SPDX-License-Identifier: BSD-3-Clause */
/* A measured rank's presence in a nigh job: the vtable with what every test does with it. Calls that fail end the rank
 * (perf_fail): a benchmark has no use for half a result. */
#ifndef NIGH_PERF_NODE_H
#define NIGH_PERF_NODE_H

#include "nigh/transport.h"
#include "tools/perf/job.h"

#include <errno.h>

struct perf_node {
    struct perf_rank *me;
    const struct nigh_ops *ops;
    struct nigh_context *context;
    struct nigh_endpoint **peer; /* by rank; NULL: not connected */
    uint64_t sent, received;     /* completions so far */
    uint64_t expect;             /* bytes that a received message must have */
};

/* Opens this rank's context of job `job`; `path` forces a path, NULL leaves it to nigh. Connects to nobody. */
void perf_node_open(struct perf_node *node, struct perf_rank *me, const struct nigh_ops *ops, uint64_t job,
                    const char *path);

/* connect() to one rank, or to all ranks including this one; returns when they are READY. */
void perf_node_connect(struct perf_node *node, uint32_t rank);
void perf_node_connect_all(struct perf_node *node);

void perf_node_close(struct perf_node *node);

/* Ends the rank when a completion is an error or a received message has not the expected size. */
void perf_node_judge(const struct perf_node *node, const struct nigh_completion *c);

/* heap_alloc, or the end of this rank. */
void *perf_node_heap(struct perf_node *node, size_t bytes);

/* Blocking, with nothing else in flight: for what lies outside of the timed parts. */
void perf_node_send(struct perf_node *node, uint32_t rank, const void *buffer, size_t bytes, uint64_t tag);
void perf_node_recv(struct perf_node *node, uint32_t rank, void *buffer, size_t bytes, uint64_t tag);

/* A barrier of all ranks in which this one makes progress: what it has posted may not have left it yet, and what peers
 * wait for may need its help. */
void perf_node_barrier(struct perf_node *node);

/* Which path most messages took between two readings of the statistics: "inline", "eager", ... */
void perf_node_stats(const struct perf_node *node, struct nigh_query_stats *stats);
const char *perf_node_path(const struct nigh_query_stats *before, const struct nigh_query_stats *after);

/* Says which call failed and why, and ends the rank. */
void perf_node_fail(const struct perf_node *node, const char *call, int rc) __attribute__((noreturn));

/* Where ranks share cores an empty poll gives the core away. */
void perf_node_idle(const struct perf_node *node);

/* ---- in the timed parts ---- */

static inline void perf_node_count(struct perf_node *node, const struct nigh_completion *c, int n)
{
    for (int i = 0; i < n; i++) {
        if (c[i].status != 0 || (c[i].op == NIGH_OP_RECV && c[i].bytes != node->expect))
            perf_node_judge(node, &c[i]);
        node->received += c[i].op == NIGH_OP_RECV;
        node->sent += c[i].op != NIGH_OP_RECV;
    }
}

static inline void perf_node_progress(struct perf_node *node)
{
    struct nigh_completion c[8];
    int n = node->ops->poll_completions(node->context, c, 8);

    if (n > 0)
        perf_node_count(node, c, n);
    else if (n < 0)
        perf_node_fail(node, "poll_completions", n);
    else if (node->me->crowded)
        perf_node_idle(node);
}

static inline void perf_node_await(struct perf_node *node, uint64_t sent, uint64_t received)
{
    while (node->sent < sent || node->received < received)
        perf_node_progress(node);
}

static inline void perf_node_post_send(struct perf_node *node, uint32_t rank, const struct nigh_send *send)
{
    int rc;

    while ((rc = node->ops->post_send(node->peer[rank], send)) == -EAGAIN)
        perf_node_progress(node);
    if (rc != 0)
        perf_node_fail(node, "post_send", rc);
}

static inline void perf_node_post_recv(struct perf_node *node, uint32_t rank, const struct nigh_recv *recv)
{
    int rc;

    while ((rc = node->ops->post_recv(node->context, node->peer[rank], recv)) == -EAGAIN)
        perf_node_progress(node);
    if (rc != 0)
        perf_node_fail(node, "post_recv", rc);
}

#endif
