/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that an MPI runs beside nigh, and how they are timed: as nigh's own are in group.c. Written over op_barrier,
 * op_call and op_begin (an operation, its buffers, bytes of one block) of the file that includes peer_patterns.h. */
#ifndef NIGH_TOOLS_PERF_PEER_COLLECTIVES_H
#define NIGH_TOOLS_PERF_PEER_COLLECTIVES_H

#include "tools/perf/work.h"

struct collective_verb {
    const struct perf_operation *op;
    int with_barrier; /* a barrier behind each call, within its time */
};

static inline void verb_write(struct peer_rank *self, const struct collective_verb *verb,
                              const struct peer_case *c, size_t at, uint64_t seq)
{
    perf_operation_write(verb->op, self->rank, self->ranks, seq, outgoing + at, c->bytes);
}

static inline void verb_call(struct peer_rank *self, const struct collective_verb *verb,
                             const struct peer_case *c, size_t at)
{
    op_call(self, verb->op->kind, outgoing + at, incoming + at, c->bytes);
    if (verb->with_barrier)
        op_barrier(self);
}

static inline uint64_t verb_check(struct peer_rank *self, const struct collective_verb *verb,
                                  const struct peer_case *c, size_t at, uint64_t seq)
{
    return perf_operation_check(verb->op, self->rank, self->ranks, seq, incoming + at, c->bytes);
}

/* From buffer to buffer of a window. */
static size_t verb_step(const struct peer_rank *self, const struct collective_verb *verb,
                        const struct peer_case *c)
{
    return buffer_step(c->bytes * perf_operation_blocks(verb->op, self->ranks));
}

/* ---- how they are timed ---- */

/* Times of this rank, private while the clock runs: a store to a line that another rank has read would hold up the
 * call behind it. */
static uint64_t spent[PEER_SAMPLES_MAX];

/* A call is over when the last rank returns: each leaves its own time since the barrier, rank 0 takes the
 * largest. */
static int slowest(struct peer_rank *self, uint64_t count, uint32_t calls, double *samples)
{
    memcpy(self->shared->spent[self->rank], spent, count * sizeof *spent);
    op_barrier(self);
    for (uint64_t s = 0; samples && s < count; s++) {
        uint64_t worst = 0;
        for (int r = 0; r < self->ranks; r++)
            worst = self->shared->spent[r][s] > worst ? self->shared->spent[r][s] : worst;
        samples[s] = (double)worst * self->tick_ns / calls;
    }
    op_barrier(self);
    return (int)count;
}

/* A window of calls, each on buffers of its own, behind one barrier. The second barrier: what checks takes the CPU of ranks
 * that have not returned. */
static int timed_windows(struct peer_rank *self, const struct collective_verb *verb,
                         const struct peer_case *c, uint32_t window, double *samples)
{
    uint64_t count = min_u64(c->iterations, PEER_SAMPLES_MAX), wrong = 0, seq = 0;
    size_t step = verb_step(self, verb, c);

    for (uint64_t s = 0; s < count; s++) {
        for (uint32_t w = 0; w < window && (!c->stale || s == 0); w++)
            verb_write(self, verb, c, w * step, ++seq);
        op_barrier(self);
        uint64_t start = peer_ticks();
        for (uint32_t w = 0; w < window; w++)
            verb_call(self, verb, c, w * step);
        spent[s] = peer_ticks() - start;
        op_barrier(self);
        for (uint32_t w = 0; w < window; w++)
            wrong |= verb_check(self, verb, c, w * step, seq - window + 1 + w);
    }
    int done = slowest(self, count, window, samples);
    return wrong_data(c, wrong) ? -1 : done;
}

/* Writing and checking are timed, too. Behind calls whose root the others need not wait for comes a barrier. */
static int timed_in_a_row(struct peer_rank *self, const struct collective_verb *verb,
                          const struct peer_case *c, double *samples)
{
    uint64_t group = group_size(c, 32), count = c->iterations / group, wrong = 0, seq = 1;

    for (uint64_t s = 0; s < count; s++) {
        uint64_t start = peer_ticks();
        for (uint64_t i = 0; i < group; i++) {
            verb_write(self, verb, c, 0, ++seq);
            verb_call(self, verb, c, 0);
            wrong |= verb_check(self, verb, c, 0, seq);
        }
        if (verb->op->one_way && !verb->with_barrier)
            op_barrier(self);
        if (samples)
            samples[s] = (double)(peer_ticks() - start) * self->tick_ns / (double)group;
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

/* ---- overlap ---- */

static double begun_and_finished(struct peer_rank *self, const struct collective_verb *verb,
                                 const struct peer_case *c, uint64_t steps)
{
    op_barrier(self);
    uint64_t start = peer_ticks();
    op_begin(self, verb->op->kind, outgoing, incoming, c->bytes);
    if (steps)
        perf_compute(steps);
    op_waitall(self, 1);
    double ns = (double)(peer_ticks() - start) * self->tick_ns;
    op_barrier(self);
    return ns;
}

static double compute_ns(const struct peer_rank *self, uint64_t steps)
{
    uint64_t start = peer_ticks();

    perf_compute(steps);
    return (double)(peer_ticks() - start) * self->tick_ns;
}

/* All ranks compute as long as the call of rank 0 has taken alone. */
static int timed_overlap(struct peer_rank *self, const struct collective_verb *verb,
                         const struct peer_case *c, double *samples)
{
    uint64_t count = min_u64(c->iterations, PEER_SAMPLES_MAX), wrong = 0, seq = 0, steps;
    double ns[2], work;

    for (uint64_t s = 0; s < count; s++) {
        for (int together = 0; together < 2; together++) {
            if (!c->stale || seq == 0)
                verb_write(self, verb, c, 0, ++seq);
            if (together) {
                steps = (uint64_t)(ns[0] * PERF_WORK_TRIAL / compute_ns(self, PERF_WORK_TRIAL));
                self->share(self, &steps, sizeof steps);
                work = compute_ns(self, steps);
            }
            ns[together] = begun_and_finished(self, verb, c, together ? steps : 0);
            wrong |= verb_check(self, verb, c, 0, seq);
        }
        if (samples)
            samples[s] = perf_hidden_share(ns[0], work, ns[1]);
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

static int collective_verb(const char *test, struct collective_verb *verb)
{
    int with_barrier = !strcmp(test, "bcast+barrier");

    *verb = (struct collective_verb){perf_operation_named(test), with_barrier};
    if (with_barrier || !strcmp(test, "bcast"))
        verb->op = perf_operation(PERF_OP_BROADCAST);
    return verb->op ? 0 : -1;
}

static size_t collective_step(const struct peer_rank *self, const struct peer_case *c)
{
    struct collective_verb verb;

    return collective_verb(c->test, &verb) ? buffer_step(c->bytes) : verb_step(self, &verb, c);
}

/* Each broadcast follows a barrier, as its root would run ahead of the others. */
static int in_a_row_is_usual(const struct collective_verb *verb, const struct peer_case *c)
{
    return verb->op->kind == PERF_OP_BARRIER ||
           (c->bytes <= SMALL_MAX && (verb->op->kind != PERF_OP_BROADCAST || verb->with_barrier));
}

static int run_collective(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    struct collective_verb verb;

    if (collective_verb(c->test, &verb)) {
        fprintf(stderr, "peer: no test '%s'\n", c->test);
        return -1;
    }
    if (c->how == PERF_HOW_OVERLAP)
        return timed_overlap(self, &verb, c, samples);
    if (c->how == PERF_HOW_USUAL && in_a_row_is_usual(&verb, c))
        return timed_in_a_row(self, &verb, c, samples);
    return timed_windows(self, &verb, c, c->how == PERF_HOW_ROW ? c->window : 1, samples);
}

#endif
