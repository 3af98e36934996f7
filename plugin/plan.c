/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/plan.c - how the pieces of a large message are cut and copied. The pair's pace chooses; here is what it learns
 * from: what reading a word of the peer's costs, and of long messages the copies: each side times its own, the receiver
 * leaves its sum in its arena, and the slower of the two is the figure. Timing the whole message instead, first byte to
 * last credit, was tried and is wrong in a stream: it measures the messages that were queued before.
 */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/progress.h"
#include "plugin/shuttle.h"
#include "shm/clock.h"
#include "shm/cma.h"
#include "shm/copy.h"
#include "shm/cpu.h"
#include <errno.h>

/* Short messages from one feeling of the handoff to the next; until it is certain which state this is. */
#define FEEL_EACH     64u
#define FEEL_EACH_NEW 4u
/* Looks at the credit while something is timed: each costs two looks at the clock, 70 ns in which no message is seen. */
#define WATCH_EACH 8u
/* Looks for chunks that have been read, from one that feels the handoff to the next. */
#define RECLAIM_EACH 8u
/* Bytes in chunks from one feeling to the next, behind a copy; until it is certain which state this is. A look for free
 * chunks finds the word here already, since it comes behind the look at whether the peer sleeps, in the same line. */
#define FEEL_BYTES     (1024u * 1024)
#define FEEL_BYTES_NEW (128u * 1024)
/* Pieces of a timed message, from one that is timed to the next. Looking at the clock waits for what the CPU has under way,
 * so that the copies before and behind it do not overlap: with each piece timed on both sides a stream lost a twentieth. */
#define TIMED_PIECES 4u

void nigh_plan_open(struct nigh_endpoint *endpoint)
{
    const struct nigh_tune *tune = &endpoint->context->config.tune;

    /* Cannot fail: what the tuning holds was checked when it was read. */
    nigh_pace_open(&endpoint->pace, tune->strategy, tune->count, tune->near, tune->far, tune->far_ns);
    nigh_feel_open(&endpoint->feel);
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
    if (!rc || config->path != NIGH_PATH_CMA)
        return;
    nigh_log_use(&endpoint->context->log);
    nigh_log(NIGH_LOG_WARN,
             "rank %u: what rank %d sends cannot go by NIGH_PATH=cma and goes another way: reading its "
             "memory fails "
             "(%s): unset NIGH_PATH, or let processes read each other (kernel.yama.ptrace_scope=0, the "
             "container's "
             "seccomp profile)",
             config->rank, (int)endpoint->rank, strerror(-rc));
}

/*
 * Where ranks run in turns nobody copies beside another one: two copies take twice as long, and chunks, which fill the caches of
 * all ranks, longer still. What fits a shuttle nevertheless goes there: it lies in lines that its writer has read last, stays
 * there when it comes before its receive, and then all of it has come. 8 ranks on 2 CPUs, two copies of one: allgather of 256 KiB
 * 0.7 to 0.83, an allreduce of 1 MiB over Open MPI, in messages of 128 to 512 KiB, 0.56. Of longer ones neither is always better.
 * That is on AMD's. On a Golden Cove one copy is better from 256 KiB on: alltoall 0.64 of the time over Open MPI and
 * 0.69 over Intel MPI, allgather of 512 KiB 0.86 and 0.73, allreduce of 1 MiB 0.95 and 0.89; and of what goes to
 * several peers from 64 KiB on (spread.c), or both ways (swap.h). Nor is what the host has asked to be done with
 * before it is matched copied once.
 */
uint64_t nigh_plan_crowded_from(enum nigh_cpu cpu)
{
    static const uint64_t from[] = {
        [NIGH_CPU_OTHER] = NIGH_SHUTTLE_BYTES + 1,
        [NIGH_CPU_ZEN3] = NIGH_SHUTTLE_BYTES + 1,
        [NIGH_CPU_INTEL] = NIGH_SHUTTLE_BYTES + 1,
        [NIGH_CPU_GOLDEN_COVE] = 256u * 1024,
    };

    return from[cpu];
}

bool nigh_plan_prefers_once(const struct nigh_context *context)
{
    return context->config.place_from <= NIGH_SHUTTLE_BYTES;
}

uint64_t nigh_plan_place_from(const struct nigh_context *context)
{
    const struct nigh_config *config = &context->config;

    if (config->path == NIGH_PATH_CMA)
        return config->body_bytes + 1;
    return config->eager_bytes < config->place_from ? config->place_from : (uint64_t)config->eager_bytes + 1;
}

bool nigh_plan_in_place(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    const struct nigh_context *context = endpoint->context;
    int forced = context->config.path;

    if (forced != NIGH_PATH_CMA && (forced >= 0 || !context->crowd.full))
        return false;
    return bytes >= nigh_plan_place_from(context) && nigh_plan_peer_reads(endpoint);
}

void nigh_plan_unread(struct nigh_endpoint *endpoint, int rc)
{
    /* Of other memory the next message may be. */
    if (rc != -EFAULT && rc != -ENOMEM && rc != -EIO && rc != -ECONNRESET)
        nigh_plan_reading(endpoint, rc);
}

static bool is_timed(struct nigh_endpoint *endpoint, const struct nigh_send_op *op, bool stream)
{
    return op->kind == NIGH_SEND_CHUNKED && !op->device && endpoint->timed_count < NIGH_TIMED_MAX &&
           nigh_pace_asks(&endpoint->pace, op->strategy, op->paced, stream);
}

/*
 * A stream goes faster through chunks, where its reader has the message before to work at. Ranks that run in turns read none
 * meanwhile, and what holds them up is chunks, whose lines are in other caches: allgather and alltoall of 8 to 64 KiB, 8 ranks on
 * 2 CPUs, take 0.77 to 0.93 with a shuttle whenever one is held.
 */
bool nigh_plan_shuttles(const struct nigh_endpoint *endpoint, bool stream)
{
    return !stream || endpoint->context->crowd.full;
}

/* A message in a shuttle is copied alike wherever the peer is: there is nothing to choose by pace, and to time. One that comes from
 * a device would keep it for long. */
static bool by_shuttle(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    uint32_t flags;

    if (op->device)
        return false;
    op->shuttle = nigh_shuttle_take(endpoint, op->bytes, &flags);
    if (!op->shuttle)
        return false;
    op->copy = nigh_copy_select(NIGH_COPY_PLAIN);
    op->piece = nigh_shuttle_piece(op->bytes);
    op->piece_flags = (uint16_t)((uint32_t)NIGH_COPY_PLAIN << NIGH_F_KERNEL_SHIFT | flags);
    return true;
}

/*
 * Whether what was received should lie in the cache is a question of how much comes: several messages of 4 MiB, one behind the
 * other, fill it as one of 16 MiB does. Rows end when the peer has said something, and nothing is under way; the next one is mostly as
 * long. Shorter messages are used as they come.
 */
#define ROW_FROM (4u * 1024 * 1024)
#define ROW_MOST (16u * 1024 * 1024)

static uint64_t paced_as(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    uint64_t row;

    /* Not in_a_row: a shorter message, of which this file does not hear, may have begun the next one. */
    if (endpoint->rx.next != endpoint->row_heard && !endpoint->flow.head) {
        endpoint->row_before = endpoint->row;
        endpoint->row = 0;
    }
    endpoint->row_heard = endpoint->rx.next;
    endpoint->row += bytes;
    row = endpoint->row > endpoint->row_before ? endpoint->row : endpoint->row_before;
    row = row < ROW_MOST ? row : ROW_MOST;
    return bytes >= ROW_FROM && row > bytes ? row : bytes;
}

void nigh_plan_choose(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_pace *pace = &endpoint->pace;
    const struct nigh_strategy *strategy;
    bool stream = endpoint->in_a_row++ > 0;

    op->copy_ns = op->timed = 0;
    op->paced = paced_as(endpoint, op->bytes);
    if (op->kind == NIGH_SEND_CHUNKED && nigh_plan_shuttles(endpoint, stream) && by_shuttle(endpoint, op))
        return;
    /* Only messages are timed: a put or a reply that took the place of one in a trial would teach nothing. */
    op->strategy = (uint8_t)(op->kind == NIGH_SEND_CHUNKED ? nigh_pace_choose(pace, op->paced)
                                                           : nigh_pace_current(pace, op->paced));
    strategy = &pace->strategy[op->strategy];
    op->copy = nigh_copy_select(strategy->sender);
    op->piece_flags =
        (uint16_t)(strategy->receiver << NIGH_F_KERNEL_SHIFT | op->strategy << NIGH_F_STRATEGY_SHIFT);
    op->piece = (uint32_t)nigh_pace_piece(strategy, op->bytes, stream);
    if (is_timed(endpoint, op, stream))
        op->piece_flags |= NIGH_F_TIMED;
}

uint32_t nigh_plan_flags(const struct nigh_send_op *op)
{
    bool timed = op->piece_flags & NIGH_F_TIMED && op->sent / op->piece % TIMED_PIECES == 0;

    return timed ? op->piece_flags : op->piece_flags & ~NIGH_F_TIMED;
}

void nigh_plan_copy(struct nigh_send_op *op, void *to, const uint8_t *from, uint32_t bytes, uint32_t flags)
{
    uint64_t started;

    if (!(flags & NIGH_F_TIMED)) {
        op->copy(to, from, bytes);
        return;
    }
    started = nigh_clock_ns();
    op->copy(to, from, bytes);
    op->copy_ns += nigh_clock_ns() - started;
    op->timed += bytes;
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

static void wait_for(struct nigh_endpoint *endpoint, struct nigh_timed timed)
{
    uint32_t at = (endpoint->timed_head + endpoint->timed_count) % NIGH_TIMED_MAX;

    if (endpoint->timed_count == NIGH_TIMED_MAX)
        return;
    timed.until = endpoint->tx.next;
    endpoint->timed[at] = timed;
    endpoint->timed_count++;
    nigh_progress_busy(endpoint);
}

/* Is it known on which caches the pair lies, and was it so the last time that it was felt? */
static bool is_certain(const struct nigh_endpoint *endpoint)
{
    return endpoint->pace.handoff > 0 && !endpoint->pace.crossed;
}

void nigh_plan_sent_short(struct nigh_endpoint *endpoint)
{
    struct nigh_feel *feel = &endpoint->feel;

    if (++feel->waited < (is_certain(endpoint) ? FEEL_EACH : FEEL_EACH_NEW) || endpoint->timed_count)
        return;
    feel->waited = 0;
    wait_for(endpoint, (struct nigh_timed){0});
}

void nigh_plan_sent(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    if (op->timed)
        wait_for(endpoint,
                 (struct nigh_timed){0, op->paced, (uint64_t)((double)op->copy_ns * op->paced / op->timed),
                                     op->strategy, op->piece});
    else if (op->bytes < NIGH_PACE_MEASURED)
        nigh_plan_sent_short(endpoint);
}

/*
 * What a message takes when both sides copy at once: the slower side all the time, the other one for the piece with
 * which it begins or ends. What either side waited for says nothing and is not in the figures.
 */
static uint64_t both(uint64_t copy, uint64_t read, uint64_t pieces)
{
    return copy > read ? copy + read / pieces : read + copy / pieces;
}

/* What the peer's copies cost a line. One word of the peer's may tell of several messages at once: those that are learned
 * from behind the first one have the same. */
static float read_line_ns(struct nigh_endpoint *endpoint, uint32_t strategy)
{
    uint64_t now = nigh_load_relaxed(&endpoint->peer_read_cost[strategy]);
    uint64_t before = endpoint->read_before[strategy];
    uint32_t lines = (uint32_t)(now >> 32) - (uint32_t)(before >> 32), ns = (uint32_t)now - (uint32_t)before;

    if (lines) {
        endpoint->read_before[strategy] = now;
        endpoint->read_line_ns[strategy] = (float)ns / (float)lines;
    }
    return endpoint->read_line_ns[strategy];
}

static void learn(struct nigh_endpoint *endpoint, const struct nigh_timed *timed)
{
    float line_ns = read_line_ns(endpoint, timed->strategy);
    uint64_t changes = endpoint->pace.changes, read;

    if (line_ns <= 0)
        return;
    read = (uint64_t)(line_ns * (float)(timed->bytes / NIGH_LINE));
    nigh_pace_learn(&endpoint->pace, timed->strategy, timed->bytes,
                    both(timed->copy_ns, read, timed->bytes / timed->piece + 1));
    nigh_count(&endpoint->context->counters->path_changes, endpoint->pace.changes - changes);
}

static void feel(struct nigh_endpoint *endpoint, uint64_t ticks)
{
    float handoff = nigh_feel_take(&endpoint->feel, ticks);
    uint64_t changes = endpoint->pace.changes;

    if (handoff <= 0)
        return;
    nigh_pace_handoff(&endpoint->pace, handoff);
    nigh_count(&endpoint->context->counters->path_changes, endpoint->pace.changes - changes);
}

uint64_t nigh_plan_consumed(struct nigh_endpoint *endpoint)
{
    uint64_t before = nigh_clock_ticks(), consumed = nigh_ring_consumed(&endpoint->tx);
    uint64_t took = nigh_clock_ticks() - before;

    /* What is as it was the last time was not written meanwhile: a slow look at it was an interruption. */
    if (consumed != UINT64_MAX && consumed != endpoint->feel.at)
        feel(endpoint, took);
    endpoint->feel.at = consumed;
    return consumed;
}

uint64_t nigh_plan_consumed_for_chunk(struct nigh_endpoint *endpoint)
{
    struct nigh_feel *feel = &endpoint->feel;

    if (++feel->reclaims % RECLAIM_EACH == 0)
        return nigh_plan_consumed(endpoint);
    return feel->at = nigh_ring_consumed(&endpoint->tx);
}

void nigh_plan_copied(struct nigh_endpoint *endpoint, uint32_t bytes)
{
    struct nigh_feel *feel = &endpoint->feel;

    feel->bytes += bytes;
    if (feel->bytes < (is_certain(endpoint) ? FEEL_BYTES : FEEL_BYTES_NEW))
        return;
    feel->bytes = 0;
    nigh_plan_consumed(endpoint);
}

void nigh_plan_watch(struct nigh_endpoint *endpoint)
{
    uint64_t consumed;

    if (!endpoint->timed_count || ++endpoint->feel.watched % WATCH_EACH)
        return;
    consumed = nigh_plan_consumed(endpoint);
    if (consumed == UINT64_MAX)
        return;
    while (endpoint->timed_count && endpoint->timed[endpoint->timed_head].until <= consumed) {
        if (endpoint->timed[endpoint->timed_head].bytes)
            learn(endpoint, &endpoint->timed[endpoint->timed_head]);
        endpoint->timed_head = (endpoint->timed_head + 1) % NIGH_TIMED_MAX;
        endpoint->timed_count--;
    }
}
