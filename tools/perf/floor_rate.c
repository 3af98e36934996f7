/* SPDX-License-Identifier: BSD-3-Clause */
/* R: how many lines a second one core can hand to another when it never waits for an answer, only for room. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"

enum { WORDS = 8 };

/* The whole line is written and the whole line is read: a line of which one word is used is no message. */
static void write_line(uint64_t *line, uint64_t number)
{
    for (int w = 1; w < WORDS; w++)
        line[w] = number + (uint64_t)w;
    perf_give(&line[0], number);
}

static uint64_t read_line(const uint64_t *line, uint64_t number)
{
    uint64_t wrong = 0;

    while (perf_take(&line[0]) != number)
        ;
    for (int w = 1; w < WORDS; w++)
        wrong |= line[w] ^ (number + (uint64_t)w);
    return wrong;
}

static void produce(struct perf_rank *me, const struct perf_rate_kind *kind, uint64_t first, uint32_t count)
{
    struct perf_line *credits = &me->shared->line[PERF_LINE_RATE];
    uint64_t *ring = (uint64_t *)me->scratch, mask = kind->lines - 1, credit = first - 1;

    for (uint64_t n = first; n < first + count; n++) {
        while (n - credit > kind->lines)
            credit = perf_line_take(credits);
        if (kind->prefetch)
            __builtin_prefetch(ring + ((n + kind->prefetch) & mask) * WORDS, 1);
        write_line(ring + (n & mask) * WORDS, n);
    }
    perf_line_await(credits, first + count - 1);
}

static void consume(struct perf_rank *me, const struct perf_rate_kind *kind, uint64_t first, uint32_t count)
{
    struct perf_line *credits = &me->shared->line[PERF_LINE_RATE];
    const uint64_t *ring = (const uint64_t *)me->scratch;
    uint64_t mask = kind->lines - 1, wrong = 0;

    for (uint64_t n = first; n < first + count; n++) {
        wrong |= read_line(ring + (n & mask) * WORDS, n);
        if ((n & (mask / 4)) == 0)
            perf_line_give(credits, n);
    }
    perf_line_give(credits, first + count - 1);
    if (wrong)
        perf_fail(me, "the line stream delivered a wrong word");
}

double perf_line_rate(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_rate_kind *kind = arg;
    uint64_t first = me->lines + 1, start;

    me->lines += count;
    if (me->rank > 1)
        return 0;
    perf_pair_sync(me);
    start = perf_ticks();
    if (me->rank == 0)
        produce(me, kind, first, count);
    else
        consume(me, kind, first, count);
    return count * 1e3 / perf_ns(start, perf_ticks());
}
