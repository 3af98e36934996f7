/* SPDX-License-Identifier: BSD-3-Clause */
/* The floor of short messages: a ring of slots in each direction, payload written and read, and nothing
 * else: no matching, no completions, no calls. L is one line of which one word is used; this is what a
 * message that has to lie somewhere costs. */
#include "tools/perf/floors.h"

#include "shm/copy.h"
#include "tools/perf/clock.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <string.h>

enum {
    LINE = 64,
    SLOTS = 128, /* as many as nigh's: larger rings are slower */
    RINGS_AT = PERF_SCRATCH_RING / 2,
    HEAD_BYTES = 40, /* of payload beside the word that publishes, tag and immediate */
};

struct slot {
    uint64_t head, tag, imm;
    uint8_t payload[HEAD_BYTES];
};
_Static_assert(sizeof(struct slot) == LINE, "a slot is a line");

/* Both directions as one rank sees them: message n of one goes with message n of the other. */
struct rings {
    const struct perf_ring_kind *kind;
    struct slot *out, *in;
    uint32_t lines; /* of body, below the header's */
    uint32_t laps;  /* messages in a ring */
    nigh_copy_fn copy;
};

static struct rings rings_open(struct perf_rank *me, const struct perf_ring_kind *kind)
{
    struct slot *rings = (struct slot *)(void *)(me->scratch + RINGS_AT);
    struct rings r = {.kind = kind, .out = rings + me->rank * SLOTS, .in = rings + (1 - me->rank) * SLOTS};

    r.lines = kind->bytes > HEAD_BYTES ? (uint32_t)(kind->bytes - HEAD_BYTES + LINE - 1) / LINE : 0;
    r.laps = SLOTS / (1 + r.lines);
    r.copy = nigh_copy_select(NIGH_COPY_PLAIN);
    memset(r.out, 0, SLOTS * sizeof(*r.out)); /* numbers begin with 1 each time, whatever lay here */
    perf_pair_sync(me);
    return r;
}

/* The header of a message: downwards, so that a prefetcher that runs on upwards finds what has been read. */
static struct slot *header_of(const struct rings *r, struct slot *ring, uint64_t number)
{
    return ring + SLOTS - 1 - number % r->laps * (1 + r->lines);
}

/* As in the rings that this is the floor of: bodies of more than a line by whole lines. */
static void copy(const struct rings *r, void *to, const void *from, size_t bytes)
{
    if (bytes < 2 * LINE)
        nigh_copy_small(to, from, bytes);
    else
        r->copy(to, from, bytes);
}

static inline void put(const struct rings *r, const uint8_t *from, uint64_t number)
{
    struct slot *header = header_of(r, r->out, number);

    if (r->lines)
        copy(r, header - r->lines, from + HEAD_BYTES, r->kind->bytes - HEAD_BYTES);
    nigh_copy_slot(header->payload, from, r->lines ? HEAD_BYTES : r->kind->bytes);
    perf_give(&header->head, number);
    if (!r->kind->own)
        return;
    header = header_of(r, r->out, number + 1);
    for (uint32_t i = 1; i <= r->lines; i++)
        __atomic_store_n(&header[-(int)i].imm, 0, __ATOMIC_RELAXED);
}

static inline void ask(const struct rings *r, const struct slot *header)
{
    for (uint32_t i = 1; i <= r->lines; i++)
        __builtin_prefetch(header - i);
}

static inline void get(const struct rings *r, uint8_t *to, uint64_t number)
{
    const struct slot *header = header_of(r, r->in, number);

    while (perf_take(&header->head) != number)
        if (r->kind->ahead)
            ask(r, header);
    ask(r, header);
    if (r->lines)
        copy(r, to + HEAD_BYTES, header - r->lines, r->kind->bytes - HEAD_BYTES);
    nigh_copy_slot(to, header->payload, r->lines ? HEAD_BYTES : r->kind->bytes);
}

/* Written, sent, received and checked, in turn; rank 0 reads the clock while its message is under way. */
static void chain(struct perf_rank *me, const struct rings *r, uint32_t count, struct perf_tally *tally)
{
    _Alignas(LINE) uint8_t out[PERF_RING_BYTES], in[PERF_RING_BYTES];
    uint64_t last = 0, first = me->messages;

    memset(in, 0, sizeof(in));
    for (uint64_t number = 1; number <= count; number++) {
        uint64_t now;

        if (me->rank == 0) {
            perf_fill(out, r->kind->bytes, perf_seed(0, first + number));
            put(r, out, number);
            now = perf_ticks();
            if (number > 1)
                perf_tally_add(tally, perf_ns(last, now) / 2);
            last = now;
        }
        get(r, in, number);
        if (perf_check(in, r->kind->bytes, perf_seed(1 - me->rank, first + number)) != r->kind->bytes)
            perf_fail(me, "floor ring: message %u of %zu bytes is wrong", (unsigned)number, r->kind->bytes);
        if (me->rank == 1) {
            perf_fill(out, r->kind->bytes, perf_seed(1, first + number));
            put(r, out, number);
        }
    }
    me->messages += count;
}

double perf_ring_oneway(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_ring_kind *kind = arg;
    struct perf_tally tally;

    perf_tally_start(&tally);
    if (me->rank < 2) {
        struct rings r = rings_open(me, kind);

        chain(me, &r, count + 1, &tally);
        perf_pair_sync(me); /* nobody clears a ring that is being read */
    }
    return perf_tally_middle(&tally);
}

uint32_t perf_ring_kinds(size_t bytes, struct perf_ring_kind out[PERF_RING_KINDS])
{
    uint32_t n = 0;

    if (bytes > PERF_RING_BYTES)
        return 0;
    out[n++] = (struct perf_ring_kind){"ring", bytes, false, false};
    if (bytes <= HEAD_BYTES)
        return n;
    out[n++] = (struct perf_ring_kind){"ring/ahead", bytes, true, false};
    out[n++] = (struct perf_ring_kind){"ring/own/ahead", bytes, true, true};
    return n;
}
