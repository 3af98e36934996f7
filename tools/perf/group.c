/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a group through the table, and how calls of any layer are timed. */
#include "tools/perf/group.h"

#include "tools/perf/clock.h"
#include "tools/perf/compute.h"
#include "tools/perf/tally.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 32, WINDOW_BYTES = 512 << 10, LEAST_WINDOW = 2 };

uint32_t perf_group_window(const struct perf_operation *op, size_t bytes, uint32_t ranks, enum perf_how how)
{
    size_t all = bytes * perf_operation_blocks(op, (int)ranks), fit = all ? WINDOW_BYTES / all : WINDOW;

    if (how == PERF_HOW_BARRIER || how == PERF_HOW_OVERLAP)
        return 1;
    return op->kind == PERF_OP_BARRIER || fit > WINDOW ? WINDOW
           : fit < LEAST_WINDOW                        ? LEAST_WINDOW
                                                       : (uint32_t)fit;
}

/* ---- the layer of the table ---- */

static void table_begin(struct perf_group *g, const struct perf_operation *op, const void *send, void *recv)
{
    static const uint16_t ops[PERF_OPERATIONS] = {
        [PERF_OP_BARRIER] = NIGH_BARRIER,
        [PERF_OP_BROADCAST] = NIGH_BROADCAST,
        [PERF_OP_REDUCE] = NIGH_REDUCE,
        [PERF_OP_ALLREDUCE] = NIGH_ALLREDUCE,
        [PERF_OP_GATHER] = NIGH_GATHER,
        [PERF_OP_SCATTER] = NIGH_SCATTER,
        [PERF_OP_ALLGATHER] = NIGH_ALLGATHER,
        [PERF_OP_ALLTOALL] = NIGH_ALLTOALL,
        [PERF_OP_REDUCE_SCATTER] = NIGH_REDUCE_SCATTER,
        [PERF_OP_SCAN] = NIGH_SCAN,
        [PERF_OP_EXSCAN] = NIGH_EXSCAN,
    };
    struct nigh_collective call = {.size = sizeof(call), .op = ops[op->kind]};
    int rc;

    if (op->kind != PERF_OP_BARRIER) {
        call.type = NIGH_F32;
        call.reduction = op->sums ? NIGH_SUM : 0;
        call.count = g->bytes / sizeof(float);
        call.send = send;
        call.recv = op->kind == PERF_OP_BROADCAST && g->me->rank == 0 ? NULL : recv;
    }
    while ((rc = g->node.ops->post_collective(g->group, &call)) == -EAGAIN)
        perf_node_progress(&g->node);
    if (rc != 0)
        perf_node_fail(&g->node, "post_collective", rc);
}

/* Where ranks share CPUs wait() gives the CPU away, as it does for a host that blocks. */
static void table_finish(struct perf_group *g)
{
    struct perf_node *node = &g->node;
    uint64_t ended = node->sent + 1;

    while (node->sent < ended) {
        struct nigh_completion done;
        int n = node->ops->poll_completions(node->context, &done, 1);

        if (n > 0)
            perf_node_count(node, &done, n);
        else if (n < 0)
            perf_node_fail(node, "poll_completions", n);
        else if (g->me->crowded)
            (void)node->ops->wait(node->context, UINT64_MAX);
    }
}

static void table_call(struct perf_group *g, const struct perf_operation *op, const void *send, void *recv)
{
    table_begin(g, op, send, recv);
    table_finish(g);
}

const struct perf_group_layer perf_group_table = {table_call, table_begin, table_finish};

/* ---- opening ---- */

/* In small pages, as the buffers of the peers and of the floors are. */
static uint8_t *pages(const struct perf_group *g, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        perf_fail(g->me, "no memory for %" PRIu32 " buffers of %zu bytes", g->window, g->stride);
    madvise(at, bytes, MADV_NOHUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

static void form(struct perf_group *g)
{
    struct nigh_group_options of = {.size = sizeof(of), .count = g->me->ranks, .members = g->node.peer};
    int rc;

    if (!NIGH_HAS(g->node.ops, group_create) || !NIGH_HAS(g->node.ops, post_collective))
        perf_fail(g->me, "this nigh.so has no collectives in its table");
    if (g->me->ranks > NIGH_GROUP_MAX)
        perf_fail(g->me, "a group has at most %u ranks, not %" PRIu32, NIGH_GROUP_MAX, g->me->ranks);
    rc = g->node.ops->group_create(g->node.context, &of, &g->group);
    if (rc != 0)
        perf_node_fail(&g->node, "group_create", rc);
}

void perf_group_open(struct perf_group *g, struct perf_rank *me, const struct nigh_ops *ops, const char *path,
                     uint8_t *scratch)
{
    g->me = me;
    g->work = (uint64_t *)scratch;
    g->spent = (double *)(scratch + 4096);
    g->stride = (g->bytes * perf_operation_blocks(g->op, (int)me->ranks) + 63) / 64 * 64 + 64;
    g->send = pages(g, g->stride * g->window);
    g->recv = pages(g, g->stride * g->window);
    perf_node_open(&g->node, me, ops, me->shared->job, path);
    perf_node_connect_all(&g->node);
    form(g);
}

void perf_group_close(struct perf_group *g)
{
    int rc;

    perf_node_barrier(&g->node);
    rc = g->node.ops->group_free(g->group);
    if (rc != 0)
        perf_node_fail(&g->node, "group_free", rc);
    perf_node_close(&g->node);
    munmap(g->send, g->stride * g->window);
    munmap(g->recv, g->stride * g->window);
}

/* ---- data ---- */

static void write_window(struct perf_group *g)
{
    if (g->stale && g->seq > 0)
        return;
    for (uint32_t w = 0; w < g->window; w++)
        perf_operation_write(g->op, (int)g->me->rank, (int)g->me->ranks, ++g->seq, g->send + w * g->stride,
                             g->bytes);
}

static void check_window(const struct perf_group *g)
{
    for (uint32_t w = 0; w < g->window; w++)
        if (perf_operation_check(g->op, (int)g->me->rank, (int)g->me->ranks, g->seq - g->window + 1 + w,
                                 g->recv + w * g->stride, g->bytes))
            perf_fail(g->me, "%s of %zu bytes: the result of call %" PRIu64 " is wrong", g->op->name,
                      g->bytes, g->seq - g->window + 1 + w);
}

/* ---- timing ---- */

static void meet(const struct perf_group_way *way)
{
    way->layer->call(way->group, perf_operation(PERF_OP_BARRIER), NULL, NULL);
}

/* What is over when the last rank returns: each rank leaves its own times, rank 0 takes the largest of each. */
static void take_slowest(struct perf_group *g, const double *spent, uint32_t count, struct perf_tally *tally)
{
    memcpy(g->spent + g->me->rank * PERF_GROUP_SAMPLES, spent, count * sizeof(*spent));
    perf_node_barrier(&g->node);
    for (uint32_t s = 0; g->me->rank == 0 && s < count; s++) {
        double worst = 0;

        for (uint32_t r = 0; r < g->me->ranks; r++)
            worst =
                g->spent[r * PERF_GROUP_SAMPLES + s] > worst ? g->spent[r * PERF_GROUP_SAMPLES + s] : worst;
        perf_tally_add(tally, worst / g->window);
    }
    perf_node_barrier(&g->node);
}

/* The second barrier: what checks takes the CPU of ranks that have not returned. */
static double one_window(const struct perf_group_way *way)
{
    struct perf_group *g = way->group;
    uint64_t start;
    double ns;

    write_window(g);
    meet(way);
    start = perf_ticks();
    for (uint32_t w = 0; w < g->window; w++)
        way->layer->call(g, g->op, g->send + w * g->stride, g->recv + w * g->stride);
    ns = perf_ns_net(start, perf_ticks());
    meet(way);
    check_window(g);
    return ns;
}

double perf_group_calls(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_group_way *way = arg;
    double spent[PERF_GROUP_SAMPLES];
    struct perf_tally tally;
    uint32_t n = 0;

    (void)me;
    perf_tally_start(&tally);
    for (uint32_t i = 0; i < count; i++) {
        spent[n++] = one_window(way);
        if (n == PERF_GROUP_SAMPLES || i + 1 == count) {
            take_slowest(way->group, spent, n, &tally);
            n = 0;
        }
    }
    return perf_tally_middle(&tally);
}

/* ---- overlap ---- */

static double begun_and_finished(const struct perf_group_way *way, uint64_t steps)
{
    struct perf_group *g = way->group;
    uint64_t start;
    double ns;

    write_window(g);
    meet(way);
    start = perf_ticks();
    way->layer->begin(g, g->op, g->send, g->recv);
    if (steps)
        perf_compute(steps);
    way->layer->finish(g);
    ns = perf_ns(start, perf_ticks());
    meet(way);
    check_window(g);
    return ns;
}

/* All ranks compute as long as the call of rank 0 has taken alone. */
static double hidden(const struct perf_group_way *way)
{
    struct perf_group *g = way->group;
    double alone = begun_and_finished(way, 0), work;

    if (g->me->rank == 0)
        *g->work = perf_compute_steps(alone);
    perf_node_barrier(&g->node);
    work = perf_compute_ns(*g->work);
    return perf_hidden_share(alone, work, begun_and_finished(way, *g->work));
}

double perf_group_overlap(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_tally tally;

    (void)me;
    perf_tally_start(&tally);
    for (uint32_t i = 0; i < count; i++)
        perf_tally_add(&tally, hidden(arg));
    return perf_tally_middle(&tally);
}
