/* SPDX-License-Identifier: BSD-3-Clause */
/* L: how long one cache line takes from core to core. How one spins decides what the hardware does: a load-spin costs
 * an invalidation and a fetch, a compare-and-swap moves ownership at once. L is the better of both. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"
#include "tools/perf/tally.h"

enum { BATCHES = 5 };

typedef void (*variant)(struct perf_rank *me, uint32_t count);

void perf_pair_sync(struct perf_rank *me)
{
    struct perf_line *line = &me->shared->line[PERF_LINE_SYNC];
    uint64_t now = ++me->syncs;

    perf_line_give(&line[me->rank], now);
    perf_line_await(&line[1 - me->rank], now);
}

static uint64_t see_by_load(struct perf_line *line)
{
    return perf_line_take(line);
}

/* The failing compare-and-swap fetches the line in the state in which it is needed for a store. */
static uint64_t see_by_cas(struct perf_line *line)
{
    return __sync_val_compare_and_swap(&line->word, 0, 0);
}

/* Inlined into each of the variants, with `see` known: nothing is called through a pointer. */
static inline __attribute__((always_inline)) void turns(struct perf_rank *me, struct perf_line *mine,
                                                        struct perf_line *theirs,
                                                        uint64_t (*see)(struct perf_line *), uint32_t count)
{
    uint64_t turn = me->turns;

    if (me->rank == 0)
        for (uint32_t i = 0; i < count; i++, turn += 2) {
            perf_line_give(mine, turn + 1);
            while (see(theirs) != turn + 2)
                ;
        }
    else
        for (uint32_t i = 0; i < count; i++, turn += 2) {
            while (see(theirs) != turn + 1)
                ;
            perf_line_give(mine, turn + 2);
        }
}

static struct perf_line *line_of(struct perf_rank *me, uint32_t rank)
{
    return &me->shared->line[PERF_LINE_HANDOFF + rank];
}

/* A line per direction, each written by one rank only: what arenas that peers may only read allow. */
static void turns_load(struct perf_rank *me, uint32_t count)
{
    turns(me, line_of(me, me->rank), line_of(me, 1 - me->rank), see_by_load, count);
}

static void turns_cas(struct perf_rank *me, uint32_t count)
{
    turns(me, line_of(me, me->rank), line_of(me, 1 - me->rank), see_by_cas, count);
}

/* One line that both write. */
static void turns_shared_load(struct perf_rank *me, uint32_t count)
{
    turns(me, line_of(me, 2), line_of(me, 2), see_by_load, count);
}

/* The same without ever loading: who finds the other's number swaps its own in. */
static void turns_shared_cas(struct perf_rank *me, uint32_t count)
{
    struct perf_line *line = line_of(me, 3);
    uint64_t turn = me->shared_turns + me->rank;

    for (uint32_t i = 0; i < count; i++, turn += 2)
        while (!__sync_bool_compare_and_swap(&line->word, turn, turn + 1))
            ;
    if (me->rank == 0)
        perf_line_await(line, turn); /* rank 1 has had its last turn */
    me->shared_turns += 2 * (uint64_t)count;
}

/* Median of a few batches: an interrupt spoils one. */
static double measure(struct perf_rank *me, variant run, uint32_t count)
{
    uint32_t batch = count / BATCHES + 1;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (int i = 0; me->rank < 2 && i < BATCHES; i++) {
        uint64_t start;

        perf_pair_sync(me);
        start = perf_ticks();
        run(me, batch);
        perf_tally_add(&tally, perf_ns(start, perf_ticks()) / (2.0 * batch));
        me->turns += 2 * (uint64_t)batch;
    }
    return perf_tally_middle(&tally);
}

double perf_handoff_load(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)arg;
    return measure(me, turns_load, count);
}

double perf_handoff_cas(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)arg;
    return measure(me, turns_cas, count);
}

double perf_handoff_shared_load(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)arg;
    return measure(me, turns_shared_load, count);
}

double perf_handoff_shared_cas(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)arg;
    return measure(me, turns_shared_cas, count);
}

double perf_handoff_probe(struct perf_rank *me, uint32_t count)
{
    double load = measure(me, turns_load, count), cas = measure(me, turns_cas, count);

    return load < cas ? load : cas;
}
