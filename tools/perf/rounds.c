/* SPDX-License-Identifier: BSD-3-Clause */
/* Running the rounds of a plan. */
#include "tools/perf/rounds.h"

#include "tools/perf/clock.h"
#include "tools/perf/floors.h"

#include <stdio.h>
#include <string.h>

enum { PROBE_HANDOFFS = 96, LEAST_ROUNDS = 16, STOP = 1, CONTINUE = 2 };

/* Sampling is on for the piece that runs now; per process. */
static bool sampling;

void perf_rounds_sample(struct perf_rank *me, double value)
{
    struct perf_table *t = &me->shared->table;

    if (sampling && t->samples < PERF_SAMPLES)
        t->sample[t->samples++] = (float)value;
}

/* What rank 0 decides, everybody learns. */
static uint64_t decide(struct perf_rank *me, uint64_t what)
{
    uint64_t decided;

    if (me->rank == 0)
        perf_line_give(&me->shared->go, what);
    perf_barrier(me);
    decided = perf_line_take(&me->shared->go);
    perf_barrier(me);
    return decided;
}

/* Doubles the repetitions until the piece takes long enough for the clock and for the medians. Also its warm-up. */
static void find_count(struct perf_rank *me, struct perf_piece *piece)
{
    uint64_t most = 1u << 20, count = 1, start;
    double ns;

    if (piece->count != 0)
        return;
    for (;;) {
        perf_barrier(me);
        start = perf_ticks();
        piece->run(me, piece->arg, (uint32_t)count);
        perf_barrier(me);
        ns = perf_ns(start, perf_ticks());
        piece->count = (uint32_t)count;
        if (decide(me, ns >= PERF_PIECE_NS * 0.7 || count * 2 > most ? STOP : CONTINUE) == STOP)
            return;
        count *= 2;
    }
}

static uint32_t messages(const struct perf_piece *piece)
{
    return piece->messages ? piece->messages : 1;
}

/* The others do what the first one does. */
static void copy_count(struct perf_plan *plan)
{
    uint64_t all = (uint64_t)plan->piece[0].count * messages(&plan->piece[0]);

    for (uint32_t i = 1; i < plan->pieces; i++) {
        uint64_t count = all / messages(&plan->piece[i]);

        plan->piece[i].count = count ? (uint32_t)count : 1;
    }
}

uint32_t perf_rounds_warm(const struct perf_plan *plan, const struct perf_piece *piece)
{
    uint32_t per = messages(piece), half = piece->count / 2;
    uint64_t wanted = (plan->warm + per - 1) / per;

    return wanted > half ? (uint32_t)wanted : half;
}

static void prepare(struct perf_rank *me, struct perf_plan *plan)
{
    struct perf_table *t = &me->shared->table;

    if (me->rank == 0) {
        t->rounds = t->samples = 0;
        t->columns = plan->pieces;
        t->peers = plan->peers + plan->beside;
        t->sampled = plan->sampled;
        t->has_handoff = me->ranks > 1 && !plan->no_handoff;
        for (uint32_t i = 0; i < plan->pieces; i++)
            snprintf(t->name[i], sizeof(t->name[i]), "%s", plan->piece[i].name);
    }
    sampling = false;
    perf_barrier(me);
    for (uint32_t i = 0; i < (plan->warm ? 1 : plan->pieces); i++)
        find_count(me, &plan->piece[i]);
    if (plan->warm)
        copy_count(plan);
}

static void probe(struct perf_rank *me, uint32_t round)
{
    struct perf_table *t = &me->shared->table;
    double ns;

    if (!t->has_handoff)
        return;
    perf_barrier(me);
    ns = perf_handoff_probe(me, PROBE_HANDOFFS);
    if (me->rank == 0)
        t->handoff[round] = ns;
}

/* Some come first and do not count: the caches hold what the piece before has left there, which is
 * not what is asked. */
static void run_piece(struct perf_rank *me, struct perf_plan *plan, uint32_t round, uint32_t column)
{
    struct perf_piece *piece = &plan->piece[column];
    uint32_t warm = column < plan->pieces - plan->peers ? perf_rounds_warm(plan, piece) : 0;
    double value;

    if (me->rank == 0)
        perf_give(&me->shared->turn, column + 1);
    perf_barrier(me);
    if (warm > 0) {
        piece->run(me, piece->arg, warm);
        perf_barrier(me);
    }
    sampling = me->rank == 0 && plan->sampled == column;
    value = piece->run(me, piece->arg, piece->count);
    sampling = false;
    if (me->rank == 0)
        me->shared->table.value[column][round] = value;
}

bool perf_rounds_enough(const struct perf_table *t, const struct perf_plan *plan, double ns)
{
    uint32_t least = plan->least_rounds ? plan->least_rounds : LEAST_ROUNDS;
    uint32_t lasting = plan->least_rounds ? plan->least_rounds : PERF_STATE_ENOUGH;
    double budget_ns = plan->seconds * 1e9;

    if (t->rounds == PERF_ROUNDS)
        return true;
    if (t->rounds < least || ns <= budget_ns)
        return false;
    return plan->hasty || !t->has_handoff || ns > PERF_PATIENCE * budget_ns ||
           perf_table_state_rounds(t) >= lasting;
}

/* The order turns, so that no piece always inherits the caches of the same one. The peers come behind the
 * others, which take turns in following them: turned with them, the work was always the one that found its CPUs
 * left by a peer, and a stream of 4 MiB at 0.84 of a floor that never did. Their own circle turns when the other
 * one has come round, so that each piece follows each peer: with five pieces and ten peers, turned each round,
 * each piece always followed the same two. */
uint32_t perf_rounds_column(const struct perf_plan *plan, uint32_t round, uint32_t place)
{
    uint32_t own = plan->pieces - plan->peers;

    return place < own ? (round + place) % own : own + (round / own + place - own) % plan->peers;
}

void perf_rounds_run(struct perf_rank *me, struct perf_plan *plan)
{
    struct perf_table *t = &me->shared->table;
    uint32_t round = 0;
    uint64_t start, what;

    if (me->rank == 0)
        perf_give(&me->shared->turn, 0);
    perf_barrier(me);
    prepare(me, plan);
    start = perf_ticks();
    probe(me, 0);
    for (;;) {
        for (uint32_t i = 0; i < plan->pieces; i++)
            run_piece(me, plan, round, perf_rounds_column(plan, round, i));
        probe(me, ++round);
        if (me->rank == 0) {
            t->sample_end[round - 1] = t->samples;
            t->rounds = round;
        }
        what = me->rank == 0 && perf_rounds_enough(t, plan, perf_ns(start, perf_ticks())) ? STOP : CONTINUE;
        if (decide(me, what) == STOP) {
            if (me->rank == 0)
                perf_give(&me->shared->turn, 0);
            return;
        }
    }
}
