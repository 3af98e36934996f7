/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/plan.c - how the pieces of a large message are cut and copied. The pair's pace chooses; here is what it chooses
 * from, and the clock: a message is timed from its first byte until the receiver has returned the credit of its last
 * piece, which is the figure that both ends' copies, and the lines' way between them, make together.
 */
#include "plugin/context.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include <errno.h>
#include <time.h>

/* Smaller ones are over before two looks at the clock would be lost in them; of the small only some are timed. */
#define TIME_ALL_FROM (64u * 1024)
#define TIME_ONE_IN   16u
static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void nigh_plan_open(struct nigh_endpoint *endpoint)
{
    const struct nigh_tune *tune = &endpoint->context->config.tune;

    /* Cannot fail: what the tuning holds was checked when it was read. */
    nigh_pace_open(&endpoint->pace, tune->strategy, tune->count, tune->near);
}

void nigh_plan_probe(struct nigh_endpoint *endpoint)
{
    int rc;

    if (endpoint->pid <= 0) {
        endpoint->cma_error = ESRCH;
        return;
    }
    rc = nigh_cma_probe(endpoint->pid, endpoint->view.layout.nonce_address, endpoint->incarnation);
    endpoint->cma = rc == 0;
    endpoint->cma_error = -rc;
}

static bool is_timed(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return op->kind == NIGH_SEND_CHUNKED && !endpoint->timed.until &&
           (op->bytes >= TIME_ALL_FROM || ++endpoint->untimed % TIME_ONE_IN == 0);
}

void nigh_plan_choose(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    const struct nigh_strategy *strategy;

    op->strategy = (uint8_t)nigh_pace_choose(&endpoint->pace, op->bytes);
    strategy = &endpoint->pace.strategy[op->strategy];
    op->copy = nigh_copy_select(strategy->sender);
    op->piece_flags = (uint8_t)(strategy->receiver << NIGH_F_KERNEL_SHIFT);
    op->piece = (uint32_t)nigh_pace_piece(strategy, op->bytes);
    op->started_ns = is_timed(endpoint, op) ? now_ns() : 0;
}

void nigh_plan_sent(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    if (!op->started_ns || endpoint->timed.until)
        return;
    endpoint->timed = (struct nigh_timed){
        .until = endpoint->tx.next,
        .started_ns = op->started_ns,
        .looked_ns = now_ns(),
        .bytes = op->bytes,
        .strategy = op->strategy,
    };
    nigh_progress_busy(endpoint);
}

bool nigh_plan_watch(struct nigh_endpoint *endpoint)
{
    struct nigh_timed *timed = &endpoint->timed;
    uint64_t consumed, now, took;
    uint64_t changes = endpoint->pace.changes;

    if (!timed->until)
        return false;
    consumed = nigh_ring_consumed(&endpoint->tx);
    now = now_ns();
    if (consumed < timed->until || consumed == UINT64_MAX) {
        timed->looked_ns = now;
        return false;
    }
    took = now - timed->started_ns;
    /* We were away while it became complete: the time says when we came back. */
    nigh_pace_learn(&endpoint->pace, timed->strategy, timed->bytes, took, now - timed->looked_ns > took / 8);
    endpoint->context->counters.path_changes += endpoint->pace.changes - changes;
    timed->until = 0;
    return false;
}
