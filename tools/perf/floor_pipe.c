/* SPDX-License-Identifier: BSD-3-Clause */
/* The two-core chunk pipeline, bare. */
#include "tools/perf/pipe.h"

#include "tools/perf/clock.h"
#include "tools/perf/floors.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

enum {
    HEAD = 64,
    SMALL = 1024,
    SHUTTLE_AT = 3 << 20
}; /* a chunk's flag has a line of its own in front of the chunk */

/* One direction, as one rank sees it. Chunks are numbered through all kinds, so that no stale flag ever matches. */
struct way {
    const struct perf_pipe *pipe;
    struct perf_line *credits; /* chunks that the receiver is done with */
    uint8_t *arena;
    uint8_t *shuttle; /* NULL: chunks */
    uint64_t number;  /* of the last chunk; kept in the rank between calls */
    uint64_t credit;
    uint32_t slots;
};

static struct way way_open(struct perf_rank *me, const struct perf_pipe *pipe, uint32_t from)
{
    struct way w = {.pipe = pipe, .number = me->pieces[from], .credit = me->pieces[from]};

    w.credits = &me->shared->line[PERF_LINE_PIPE + from];
    w.arena = me->scratch + PERF_SCRATCH_RING + from * PERF_SCRATCH_ARENA;
    if (pipe->kind.shuttle)
        w.shuttle = me->scratch + PERF_SCRATCH_RING + SHUTTLE_AT;
    w.slots = pipe->kind.span / pipe->kind.piece;
    return w;
}

static uint64_t *way_slot(const struct way *w)
{
    uint64_t at = w->number % w->slots;

    if (w->shuttle) /* the flags alone */
        return (uint64_t *)(w->arena + at * HEAD);
    if (w->pipe->kind.down)
        at = w->slots - 1 - at;
    return (uint64_t *)(w->arena + at * (w->pipe->kind.piece + HEAD));
}

static void copy(nigh_copy_fn fn, void *to, const void *from, size_t bytes)
{
    if (bytes <= SMALL)
        nigh_copy_small(to, from, bytes);
    else
        fn(to, from, bytes);
}

/* The bytes of the piece that begins at `at` of its message. */
static uint8_t *way_bytes(const struct way *w, uint64_t *slot, size_t at)
{
    return w->shuttle ? w->shuttle + at : (uint8_t *)slot + HEAD;
}

static void put_piece(struct way *w, const uint8_t *from, size_t at, size_t bytes)
{
    uint64_t *slot;

    w->number++;
    while (w->number > w->credit + w->slots)
        w->credit = perf_line_take(w->credits);
    slot = way_slot(w);
    __builtin_prefetch(slot, 1);
    copy(w->pipe->in, way_bytes(w, slot, at), from + at, bytes);
    perf_give(slot, w->number);
}

static void get_piece(struct way *w, uint8_t *to, size_t at, size_t bytes)
{
    uint64_t *slot;

    w->number++;
    slot = way_slot(w);
    while (perf_take(slot) != w->number)
        ;
    copy(w->pipe->out, to + at, way_bytes(w, slot, at), bytes);
    if (w->slots <= 8 || w->number % (w->slots / 8) == 0)
        perf_line_give(w->credits, w->number);
}

/* The number of the last piece that was written: a line that nothing else writes, as any more would
 * count for pieces. */
static uint64_t *way_count(const struct way *w)
{
    return &w->credits[PERF_LINE_COUNT - PERF_LINE_PIPE].word;
}

static void put_counted(struct way *w, const uint8_t *from, size_t bytes)
{
    size_t piece = w->pipe->kind.piece;

    for (size_t at = 0; at < bytes; at += piece) {
        __builtin_prefetch(way_count(w), 1);
        copy(w->pipe->in, w->shuttle + at, from + at, bytes - at < piece ? bytes - at : piece);
        perf_give(way_count(w), ++w->number);
    }
}

static void get_counted(struct way *w, uint8_t *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint64_t count = perf_take(way_count(w));
        size_t come = (count - w->number) * w->pipe->kind.piece;

        if (count <= w->number) /* less: other kinds have counted on since */
            continue;
        come = come < bytes - at ? come : bytes - at;
        copy(w->pipe->out, to + at, w->shuttle + at, come);
        at += come;
        w->number = count;
    }
}

static void put(struct way *w, const uint8_t *from, size_t bytes)
{
    size_t piece = w->pipe->kind.piece;

    if (w->pipe->kind.counted) {
        put_counted(w, from, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += piece)
        put_piece(w, from, at, bytes - at < piece ? bytes - at : piece);
}

static void get(struct way *w, uint8_t *to, size_t bytes)
{
    size_t piece = w->pipe->kind.piece;

    if (w->pipe->kind.counted) {
        get_counted(w, to, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += piece)
        get_piece(w, to, at, bytes - at < piece ? bytes - at : piece);
}

static void in_place_put(struct way *w)
{
    perf_line_give(w->credits + PERF_LINE_HEAP - PERF_LINE_PIPE, ++w->number);
}

static void in_place_get(struct way *w, uint8_t *to, const uint8_t *from, size_t bytes)
{
    perf_line_await(w->credits + PERF_LINE_HEAP - PERF_LINE_PIPE, ++w->number);
    w->pipe->out(to, from, bytes);
}

/* The end of a run: nothing in flight, all credits told, both ranks at the same number. */
static void way_close(struct perf_rank *me, const struct way *w, uint32_t from)
{
    if (me->rank != from && !w->pipe->kind.in_place)
        perf_line_give(w->credits, w->number);
    me->pieces[from] = w->number;
}

/* Where the sender's messages lie: its private memory, or shared memory where that is what is measured. */
static uint8_t *source(const struct perf_rank *me, const struct perf_pipe *pipe, uint32_t from)
{
    size_t bytes = (pipe->load->stride * pipe->load->window + 4095) / 4096 * 4096;

    if (!pipe->kind.in_place)
        return pipe->load->from;
    return me->scratch + PERF_SCRATCH_RING + 2 * PERF_SCRATCH_ARENA + from * bytes;
}

static void fill(const struct perf_pipe_load *load, uint8_t *from, uint32_t messages, uint64_t first)
{
    for (uint32_t i = 0; i < messages; i++)
        perf_fill(from + i * load->stride, load->bytes, perf_seed(0, first + i));
}

static void check(const struct perf_rank *me, const struct perf_pipe *pipe, uint32_t messages, uint64_t first)
{
    const struct perf_pipe_load *load = pipe->load;

    for (uint32_t i = 0; i < messages; i++) {
        size_t wrong = perf_check(load->to + i * load->stride, load->bytes, perf_seed(0, first + i));

        if (wrong != load->bytes)
            perf_fail(me, "floor %s: byte %zu of %zu is wrong", pipe->kind.name, wrong, load->bytes);
    }
}

/* The number of the first message: a stale run sends the first window for ever. */
static uint64_t first_message(struct perf_rank *me, const struct perf_pipe_load *load, uint32_t messages)
{
    uint64_t first = load->stale ? 0 : me->messages;

    me->messages += messages;
    return first;
}

static double send_window(struct perf_rank *me, struct way *w, uint8_t *from, uint64_t mark)
{
    const struct perf_pipe_load *load = w->pipe->load;
    uint64_t start = perf_ticks();

    for (uint32_t i = 0; i < load->window; i++)
        if (w->pipe->kind.in_place)
            in_place_put(w);
        else
            put(w, from + i * load->stride, load->bytes);
    perf_line_await(&me->shared->line[PERF_LINE_DONE], mark);
    return perf_ns_net(start, perf_ticks());
}

static void receive_window(struct perf_rank *me, struct way *w, const uint8_t *from, uint64_t mark)
{
    const struct perf_pipe_load *load = w->pipe->load;

    for (uint32_t i = 0; i < load->window; i++)
        if (w->pipe->kind.in_place)
            in_place_get(w, load->to + i * load->stride, from + i * load->stride, load->bytes);
        else
            get(w, load->to + i * load->stride, load->bytes);
    perf_line_give(&me->shared->line[PERF_LINE_DONE], mark);
}

double perf_pipe_stream(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pipe *pipe = arg;
    const struct perf_pipe_load *load = pipe->load;
    struct way w = way_open(me, pipe, 0);
    uint8_t *from = source(me, pipe, 0);
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t first = first_message(me, load, load->window), mark = 2 * me->messages;

        if (me->rank == 0 && (!load->stale || i == 0))
            fill(load, from, load->window, first);
        perf_pair_sync(me);
        if (me->rank == 0) {
            double ns = send_window(me, &w, from, mark);

            perf_tally_add(&tally, (double)load->bytes * load->window / ns);
        } else {
            receive_window(me, &w, from, mark);
            check(me, pipe, load->window, first);
        }
    }
    way_close(me, &w, 0);
    return perf_tally_middle(&tally);
}

static void exchange(struct perf_rank *me, struct way *out, struct way *in, uint8_t *mine,
                     const uint8_t *theirs)
{
    const struct perf_pipe_load *load = out->pipe->load;
    bool in_place = out->pipe->kind.in_place;

    for (uint32_t turn = 0; turn < 2; turn++) {
        if (turn == me->rank && in_place)
            in_place_put(out);
        else if (turn == me->rank)
            put(out, mine, load->bytes);
        else if (in_place)
            in_place_get(in, load->to, theirs, load->bytes);
        else
            get(in, load->to, load->bytes);
    }
}

double perf_pipe_oneway(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_pipe *pipe = arg;
    const struct perf_pipe_load *load = pipe->load;
    uint32_t peer = 1 - me->rank % 2;
    struct way out = way_open(me, pipe, me->rank % 2), in = way_open(me, pipe, peer);
    uint8_t *mine = source(me, pipe, me->rank % 2), *theirs = source(me, pipe, peer);
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t first = first_message(me, load, 1), start;

        if (!load->stale || i == 0)
            fill(load, mine, 1, first);
        perf_pair_sync(me);
        start = perf_ticks();
        exchange(me, &out, &in, mine, theirs);
        perf_tally_add(&tally, perf_ns_net(start, perf_ticks()) / 2);
        check(me, pipe, 1, first);
        perf_pair_sync(me); /* in place: the peer has read what is written anew next */
    }
    if (me->rank < 2) {
        way_close(me, &out, me->rank);
        way_close(me, &in, peer);
        perf_pair_sync(me);
    }
    return perf_tally_middle(&tally);
}
