/* SPDX-License-Identifier: BSD-3-Clause */
/* What a message between devices costs with no protocol: the copies to and from slots of pinned memory that both ranks share,
 * and one process' own copy on the device. */
#include "tools/perf/clock.h"
#include "tools/perf/device.h"
#include "tools/perf/floors.h"
#include "tools/perf/tally.h"

#include <string.h>

/* One message at a time, or a stream of them, of which a slot each is a piece. */
struct passage {
    struct perf_device *d;
    const struct perf_device_slots *slots;
    const struct perf_device_memory *memory;
    struct perf_line *filled, *emptied; /* pieces so far */
    uint64_t base, end, asked, done;    /* numbers of pieces */
    uint64_t per;                       /* pieces of a message */
};

uint32_t perf_device_slots(size_t bytes, enum perf_device_shape shape,
                           struct perf_device_slots out[PERF_DEVICE_SLOTS_KINDS])
{
    static const struct perf_device_slots kinds[PERF_DEVICE_SLOTS_KINDS] = {
        {"1 slot", 1, 512 << 10}, {"4 slots", 4, 512 << 10}, {"8 short slots", 8, 128 << 10}};
    bool several = shape == PERF_DEVICE_STREAM || bytes > kinds[2].bytes;

    memcpy(out, kinds, sizeof(kinds));
    return several ? PERF_DEVICE_SLOTS_KINDS : 1;
}

static uint8_t *slot(const struct passage *p, uint64_t piece)
{
    return p->d->me->scratch + piece % p->slots->count * p->slots->bytes;
}

static unsigned mark(const struct passage *p, uint64_t piece)
{
    return (unsigned)(piece % p->slots->count);
}

/* Where the piece is in the window, and how long. */
static size_t place(const struct passage *p, uint64_t piece, size_t *bytes)
{
    uint64_t number = piece - p->base;
    size_t within = number % p->per * p->slots->bytes, left = p->d->bytes - within;

    *bytes = left < p->slots->bytes ? left : p->slots->bytes;
    return number / p->per * p->d->stride + within;
}

/* `from`: the rank that sends. */
static struct passage begin(struct perf_device *d, const struct perf_device_slots *slots,
                            const struct perf_device_memory *memory, uint32_t from, uint32_t messages)
{
    struct perf_line *line = &d->me->shared->line[PERF_LINE_SLOTS + 2 * from];
    uint64_t per = (d->bytes + slots->bytes - 1) / slots->bytes, base = d->pieces[from];

    per = per ? per : 1;
    d->pieces[from] = base + per * messages;
    return (struct passage){d, slots, memory, line, line + 1, base, d->pieces[from], base, base, per};
}

static bool arrived(const struct passage *p)
{
    int rc;

    if (!perf_device_has(p->memory))
        return true;
    rc = perf_cuda_reached(&p->d->cuda, p->memory->cuda.device, mark(p, p->done));
    if (rc != -EAGAIN)
        perf_device_must(p->d, rc);
    return rc == 0;
}

static void fill_slot(struct passage *p)
{
    size_t bytes, at = place(p, p->asked, &bytes);

    if (perf_device_has(p->memory))
        perf_device_must(p->d, perf_cuda_start_get(&p->d->cuda, slot(p, p->asked), &p->memory->cuda, at,
                                                   bytes, mark(p, p->asked)));
    else
        memcpy(slot(p, p->asked), p->memory->at + at, bytes);
    p->asked++;
}

static void empty_slot(struct passage *p)
{
    size_t bytes, at = place(p, p->asked, &bytes);

    if (perf_device_has(p->memory))
        perf_device_must(p->d, perf_cuda_start_put(&p->d->cuda, &p->memory->cuda, at, slot(p, p->asked),
                                                   bytes, mark(p, p->asked)));
    else
        memcpy(p->memory->at + at, slot(p, p->asked), bytes);
    p->asked++;
}

/* Copies are asked for as far ahead as there are slots. */
static void give(struct passage p)
{
    while (p.done < p.end) {
        if (p.asked < p.end && p.asked - perf_line_take(p.emptied) < p.slots->count)
            fill_slot(&p);
        if (p.done < p.asked && arrived(&p))
            perf_line_give(p.filled, ++p.done);
    }
}

static void take(struct passage p)
{
    while (p.done < p.end) {
        if (p.asked < p.end && p.asked < perf_line_take(p.filled))
            empty_slot(&p);
        if (p.done < p.asked && arrived(&p))
            perf_line_give(p.emptied, ++p.done);
    }
}

/* ---- shapes ---- */

static double there_and_back(struct perf_device *d, const struct perf_device_slots *slots, uint64_t number)
{
    const struct perf_device_memory *out = &d->device.out, *in = &d->device.in;
    uint32_t rank = d->me->rank;
    uint64_t start;
    double ns;

    perf_device_fill(d, out, 1, number);
    perf_pair_sync(d->me);
    start = perf_ticks();
    if (rank == 0)
        give(begin(d, slots, out, 0, 1));
    else
        take(begin(d, slots, in, 0, 1));
    if (rank == 0)
        take(begin(d, slots, in, 1, 1));
    else
        give(begin(d, slots, out, 1, 1));
    ns = perf_ns_net(start, perf_ticks()) / 2;
    perf_device_check(d, in, 1, 1 - rank, number, slots->name);
    return ns;
}

/* Until rank 1 has all: a stream of one window, or a put. */
static double there(struct perf_device *d, const struct perf_device_slots *slots, uint64_t number)
{
    const struct perf_device_memory *memory = d->me->rank == 0 ? &d->device.out : &d->device.in;
    struct passage p;
    uint64_t start;
    double ns;

    if (d->me->rank == 0)
        perf_device_fill(d, memory, d->window, number);
    perf_pair_sync(d->me);
    p = begin(d, slots, memory, 0, d->window);
    start = perf_ticks();
    if (d->me->rank == 0) {
        give(p);
        perf_line_await(p.emptied, p.end);
    } else {
        take(p);
    }
    ns = perf_ns_net(start, perf_ticks());
    if (d->me->rank == 1)
        perf_device_check(d, memory, d->window, 0, number, slots->name);
    return ns;
}

/* Rank 1 begins when it is asked. */
static double back(struct perf_device *d, const struct perf_device_slots *slots, uint64_t number)
{
    struct perf_line *ask = &d->me->shared->line[PERF_LINE_ASK];
    const struct perf_device_memory *memory = d->me->rank == 0 ? &d->device.in : &d->device.out;
    struct passage p;
    uint64_t start;
    double ns;

    if (d->me->rank == 1)
        perf_device_fill(d, memory, 1, number);
    perf_pair_sync(d->me);
    p = begin(d, slots, memory, 1, 1);
    d->asked++;
    start = perf_ticks();
    if (d->me->rank == 0) {
        perf_line_give(ask, d->asked);
        take(p);
    } else {
        perf_line_await(ask, d->asked);
        give(p);
    }
    ns = perf_ns_net(start, perf_ticks());
    if (d->me->rank == 0)
        perf_device_check(d, memory, 1, 1, number, slots->name);
    return ns;
}

/* In the test's unit. */
static double figure(const struct perf_device *d, double ns)
{
    return d->test->shape == PERF_DEVICE_STREAM ? (double)d->bytes * d->window / ns : ns;
}

double perf_device_slots_run(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_device_floor *floor = arg;
    struct perf_device *d = floor->of;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        double ns = d->test->shape == PERF_DEVICE_ONEWAY ? there_and_back(d, &floor->slots, d->number)
                    : d->test->shape == PERF_DEVICE_GET  ? back(d, &floor->slots, d->number)
                                                         : there(d, &floor->slots, d->number);

        perf_tally_add(&tally, figure(d, ns));
        d->number += d->window;
    }
    return perf_tally_middle(&tally);
}

/* A window of copies is asked for at once, and the last is waited for. */
static double own_copy(struct perf_device *d, uint64_t number)
{
    uint64_t start;
    double ns;
    int rc;

    perf_device_fill(d, &d->own_from, d->window, number);
    start = perf_ticks();
    for (uint32_t i = 0; i < d->window; i++)
        perf_device_must(
            d, perf_cuda_start_copy(&d->cuda, &d->own_to.cuda, &d->own_from.cuda, i * d->stride, d->bytes));
    while ((rc = perf_cuda_ended(&d->cuda, d->own_to.cuda.device)) == -EAGAIN)
        ;
    ns = perf_ns_net(start, perf_ticks());
    perf_device_must(d, rc);
    perf_device_check(d, &d->own_to, d->window, 0, number, "own copy");
    return ns;
}

double perf_device_own_run(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_device *d = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank == 0 && i < count; i++)
        perf_tally_add(&tally, figure(d, own_copy(d, me->lone + (uint64_t)i * d->window)));
    me->lone += (uint64_t)count * d->window;
    return perf_tally_middle(&tally);
}
