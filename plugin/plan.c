/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/plan.c - how the pieces of a large message are cut and copied. The pair's pace chooses; here is what it learns
 * from: each side times its own copies of a message, the receiver leaves its sum in its arena, and the slower of the two
 * is the figure. Timing the whole message instead, first byte to last credit, was tried and is wrong in a stream: it
 * measures the messages that were queued before.
 */
#include "plugin/context.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include <errno.h>

/* Smaller ones are over before two looks at the clock would be lost in them; of the small only some are timed. */
#define TIME_ALL_FROM (64u * 1024)
/* A load that takes less than this was no handoff. */
#define HIT_NS      15u
#define TIME_ONE_IN 16u

/* What looking at the clock twice costs, at the least. */
static uint64_t clock_cost(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        uint64_t before = nigh_clock_ns(), took = nigh_clock_ns() - before;

        least = took < least ? took : least;
    }
    return least;
}

void nigh_plan_open(struct nigh_endpoint *endpoint)
{
    const struct nigh_tune *tune = &endpoint->context->config.tune;

    /* Cannot fail: what the tuning holds was checked when it was read. */
    endpoint->clock_ns = clock_cost();
    nigh_pace_open(&endpoint->pace, tune->strategy, tune->count, tune->near);
}

/* The one that reads knows whether it may, and the one that sends must know before it sends: so it is left where the
 * peer sees it. That we may read the peer says nothing of the other way round: one of the two may be in a sandbox. */
void nigh_plan_probe(struct nigh_endpoint *endpoint)
{
    int rc = -ESRCH;

    if (endpoint->pid > 0)
        rc = nigh_cma_probe(endpoint->pid, endpoint->view.layout.nonce_address, endpoint->incarnation);
    nigh_plan_reading(endpoint, rc);
}

void nigh_plan_reading(struct nigh_endpoint *endpoint, int rc)
{
    const struct nigh_config *config = &endpoint->context->config;

    /* Relaxed: a peer that sees it late sends the other way. */
    nigh_store_relaxed(&endpoint->pair->reading, 1 + (uint32_t)-rc);
    if (rc && config->path == NIGH_PATH_CMA)
        nigh_log(NIGH_LOG_WARN,
                 "rank %u: what rank %d sends cannot go by NIGH_PATH=cma and goes another way: reading its "
                 "memory fails "
                 "(%s): unset NIGH_PATH, or let processes read each other (kernel.yama.ptrace_scope=0, the "
                 "container's "
                 "seccomp profile)",
                 config->rank, (int)endpoint->rank, strerror(-rc));
}

bool nigh_plan_is_due(const struct nigh_endpoint *endpoint)
{
    return (endpoint->untimed + 1) % TIME_ONE_IN == 0;
}

static bool is_timed(struct nigh_endpoint *endpoint, const struct nigh_send_op *op, bool curious)
{
    if (op->kind != NIGH_SEND_CHUNKED || endpoint->timed_count == NIGH_TIMED_MAX)
        return false;
    return curious || op->bytes >= TIME_ALL_FROM || ++endpoint->untimed % TIME_ONE_IN == 0;
}

void nigh_plan_choose(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_pace *pace = &endpoint->pace;
    const struct nigh_strategy *strategy;

    op->strategy = (uint8_t)nigh_pace_choose(pace, op->bytes);
    strategy = &pace->strategy[op->strategy];
    op->copy = nigh_copy_select(strategy->sender);
    op->piece_flags =
        (uint16_t)(strategy->receiver << NIGH_F_KERNEL_SHIFT | op->strategy << NIGH_F_STRATEGY_SHIFT);
    op->piece = (uint32_t)nigh_pace_piece(strategy, op->bytes);
    op->copy_ns = 0;
    if (is_timed(endpoint, op, nigh_pace_is_curious(pace, op->strategy, op->bytes)))
        op->piece_flags |= NIGH_F_TIMED;
}

void nigh_plan_copy(struct nigh_send_op *op, void *to, uint32_t bytes)
{
    uint64_t started;

    if (!(op->piece_flags & NIGH_F_TIMED)) {
        op->copy(to, op->buffer + op->sent, bytes);
        return;
    }
    started = nigh_clock_ns();
    op->copy(to, op->buffer + op->sent, bytes);
    op->copy_ns += nigh_clock_ns() - started;
}

void nigh_plan_read(struct nigh_endpoint *endpoint, uint64_t started, uint64_t bytes, uint32_t flags)
{
    uint32_t strategy = flags >> NIGH_F_STRATEGY_SHIFT & NIGH_F_STRATEGY_MASK;
    uint64_t *cost = &endpoint->pair->read_cost[strategy];
    uint64_t was;

    if (strategy >= NIGH_PACE_STRATEGIES)
        return;
    /* Relaxed, here and below: a figure, nothing depends on it. We alone write it. */
    was = nigh_load_relaxed(cost);
    nigh_store_relaxed(cost, (uint64_t)((uint32_t)(was >> 32) + (uint32_t)(bytes / NIGH_LINE)) << 32 |
                                 (uint32_t)(was + nigh_clock_ns() - started));
}

void nigh_plan_sent(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    uint32_t at = (endpoint->timed_head + endpoint->timed_count) % NIGH_TIMED_MAX;

    if (!(op->piece_flags & NIGH_F_TIMED) || endpoint->timed_count == NIGH_TIMED_MAX)
        return;
    endpoint->timed[at] = (struct nigh_timed){endpoint->tx.next, op->bytes, op->copy_ns, op->strategy};
    endpoint->timed_count++;
    nigh_progress_busy(endpoint);
}

/*
 * What a message takes when both sides copy at once: the slower side all the time, the other one for the piece with
 * which it begins or ends. What either side waited for says nothing and is not in the figures.
 */
static uint64_t both(uint64_t copy, uint64_t read, uint64_t pieces)
{
    return copy > read ? copy + read / pieces : read + copy / pieces;
}

/* The receiver's part may be that of later messages of the same strategy too: it is a figure per line. */
static void learn(struct nigh_endpoint *endpoint, const struct nigh_timed *timed)
{
    uint64_t now = nigh_load_relaxed(&endpoint->peer_read_cost[timed->strategy]);
    uint64_t before = endpoint->read_before[timed->strategy];
    uint32_t lines = (uint32_t)(now >> 32) - (uint32_t)(before >> 32), ns = (uint32_t)now - (uint32_t)before;
    uint64_t changes = endpoint->pace.changes, read, piece;

    if (!lines || lines < timed->bytes / NIGH_LINE / 2)
        return;
    endpoint->read_before[timed->strategy] = now;
    read = (uint64_t)ns * (timed->bytes / NIGH_LINE) / lines;
    piece = nigh_pace_piece(&endpoint->pace.strategy[timed->strategy], timed->bytes);
    nigh_pace_learn(&endpoint->pace, timed->strategy, timed->bytes,
                    both(timed->copy_ns, read, timed->bytes / piece + 1), false);
    endpoint->context->counters.path_changes += endpoint->pace.changes - changes;
}

static uint64_t middle(const uint64_t v[3])
{
    uint64_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

    return v[2] < low ? low : v[2] < high ? v[2] : high;
}

/*
 * A word that the peer has just written costs one handoff of a line to read: that is how the pair notices at once, in
 * either direction, that its CPUs have come to lie on one L3 or on two. Figures alone do not show it: non-temporal copies
 * cost the same in both. One sample of three may have been interrupted.
 */
static void feel(struct nigh_endpoint *endpoint, uint64_t ns)
{
    if (ns < endpoint->clock_ns + HIT_NS)
        return; /* the line was here already */
    ns -= endpoint->clock_ns;
    endpoint->felt[endpoint->felt_count++ % 3] = ns;
    if (endpoint->felt_count >= 3 && endpoint->felt_count % 3 == 0)
        nigh_pace_handoff(&endpoint->pace, (float)middle(endpoint->felt));
}

void nigh_plan_watch(struct nigh_endpoint *endpoint)
{
    uint64_t consumed, before, after;

    if (!endpoint->timed_count)
        return;
    before = nigh_clock_ns();
    consumed = nigh_ring_consumed(&endpoint->tx);
    after = nigh_clock_ns();
    if (consumed == UINT64_MAX || endpoint->timed[endpoint->timed_head].until > consumed)
        return;
    feel(endpoint, after - before);
    while (endpoint->timed_count && endpoint->timed[endpoint->timed_head].until <= consumed) {
        learn(endpoint, &endpoint->timed[endpoint->timed_head]);
        endpoint->timed_head = (endpoint->timed_head + 1) % NIGH_TIMED_MAX;
        endpoint->timed_count--;
    }
}
