/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of what goes both ways at once: each of two ranks has written its data in shared memory, says so by a line, and
 * copies the other's. Two buffers each, in turn: nobody has to say that it has read. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

enum { BUFFERS = 2, LONG = 4 << 20 };

static size_t room(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096 + 4096;
}

size_t perf_exchange_scratch(size_t bytes)
{
    return 2 * BUFFERS * room(bytes);
}

static uint8_t *buffer(const struct perf_exchange *kind, uint32_t rank, uint64_t number)
{
    return kind->shared + (rank * BUFFERS + number % BUFFERS) * room(kind->bytes);
}

double perf_exchange(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_exchange *kind = arg;
    struct perf_line *line = &me->shared->line[PERF_LINE_EXCHANGE];
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t number = ++me->messages, start;
        uint32_t other = 1 - me->rank;
        size_t wrong;

        perf_fill(buffer(kind, me->rank, number), kind->bytes, perf_seed(me->rank, number));
        perf_pair_sync(me);
        start = perf_ticks();
        perf_line_give(&line[me->rank], number);
        perf_line_await(&line[other], number);
        kind->copy(kind->to, buffer(kind, other, number), kind->bytes);
        perf_tally_add(&tally, perf_ns_net(start, perf_ticks()));
        wrong = perf_check(kind->to, kind->bytes, perf_seed(other, number));
        if (wrong != kind->bytes)
            perf_fail(me, "exchange: byte %zu of %zu is wrong", wrong, kind->bytes);
    }
    return perf_tally_middle(&tally);
}

/* A reader that writes past its caches wins every timing, but leaves the data in memory: no floor for what fits into a
 * cache. */
uint32_t perf_exchange_kinds(const struct perf_exchange *like, struct perf_exchange out[PERF_EXCHANGE_KINDS])
{
    static const struct {
        const char *name;
        enum nigh_copy_kernel copy;
        size_t from;
    } kinds[PERF_EXCHANGE_KINDS] = {{"exchange/plain", NIGH_COPY_PLAIN, 0},
                                    {"exchange/movsb", NIGH_COPY_MOVSB, 4096},
                                    {"exchange/nt", NIGH_COPY_NT, LONG}};
    uint32_t n = 0;

    for (uint32_t i = 0; i < PERF_EXCHANGE_KINDS; i++) {
        nigh_copy_fn copy = nigh_copy_select(kinds[i].copy);

        if (!copy || like->bytes < kinds[i].from)
            continue;
        out[n] = *like;
        out[n].name = kinds[i].name;
        out[n++].copy = copy;
    }
    return n;
}
