/* SPDX-License-Identifier: BSD-3-Clause */
/* Which floors a collective is raced against. */
#include "tools/perf/group_floors.h"

#include <inttypes.h>

enum {
    HALVES_FROM = 65536, /* of shorter ones a copy is less than two system calls */
    LINE_BYTES = 40,     /* of payload that fit into a line beside its flag */
};

/* Lines a second, as the time of one. */
static double line_time(struct perf_rank *me, void *arg, uint32_t count)
{
    return 1e3 / perf_line_rate(me, arg, count);
}

static double stream_time(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_pipe *pipe = arg;

    return (double)pipe->load->bytes / perf_pipe_stream(me, arg, count);
}

static double halves_time(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_halves *halves = arg;

    return (double)halves->load->bytes / perf_halves_stream(me, arg, count);
}

static void add(struct perf_group_floors *f, const char *name, perf_piece_fn run, void *arg,
                uint32_t messages)
{
    f->piece[f->count++] = (struct perf_piece){name, run, arg, 0, messages};
}

static void add_handoffs(struct perf_group_floors *f)
{
    add(f, "L, load", perf_handoff_load, NULL, 1);
    add(f, "L, cas", perf_handoff_cas, NULL, 1);
}

/* A line each, the sender ahead of the receiver. */
static void add_lines(struct perf_group_floors *f)
{
    f->rate[0] = (struct perf_rate_kind){64, 0};
    f->rate[1] = (struct perf_rate_kind){512, 8};
    add(f, "64 lines", line_time, &f->rate[0], 1);
    add(f, "512 lines", line_time, &f->rate[1], 1);
}

static void add_stream(struct perf_group_floors *f, struct perf_rank *me, double seconds)
{
    uint32_t n = perf_pipe_choose(me, &f->load, perf_pipe_stream, seconds, f->pipe);

    for (uint32_t i = 0; i < n; i++)
        add(f, f->pipe[i].kind.name, stream_time, &f->pipe[i], f->load.window);
    if (f->load.bytes >= HALVES_FROM && perf_halves_open(me, &f->load, 0, &f->halves))
        add(f, "halves", halves_time, &f->halves, f->load.window);
}

static void add_one_way(struct perf_group_floors *f, struct perf_rank *me, double seconds)
{
    uint32_t n = perf_pipe_choose(me, &f->load, perf_pipe_oneway, seconds, f->pipe);
    uint32_t rings = perf_ring_kinds(f->load.bytes, f->ring);

    for (uint32_t i = 0; i < n; i++)
        add(f, f->pipe[i].kind.name, perf_pipe_oneway, &f->pipe[i], 1);
    for (uint32_t i = 0; i < rings; i++)
        add(f, f->ring[i].name, perf_ring_oneway, &f->ring[i], 1);
    if (f->load.bytes >= HALVES_FROM && perf_halves_open(me, &f->load, 0, &f->halves))
        add(f, "halves", perf_halves_oneway, &f->halves, 1);
}

static void add_exchange(struct perf_group_floors *f, const struct perf_rank *me)
{
    struct perf_exchange like = {.bytes = f->load.bytes,
                                 .to = f->load.to,
                                 .shared = me->scratch + PERF_SCRATCH(f->load.bytes * f->load.window)};
    uint32_t n = perf_exchange_kinds(&like, f->exchange);

    for (uint32_t i = 0; i < n; i++)
        add(f, f->exchange[i].name, perf_exchange, &f->exchange[i], 1);
}

size_t perf_group_floors_scratch(size_t bytes, uint32_t window)
{
    return PERF_SCRATCH((bytes + 128) * window) + perf_exchange_scratch(bytes);
}

void perf_group_floors_open(struct perf_group_floors *f, struct perf_rank *me,
                            const struct perf_operation *op, size_t bytes, uint32_t window, enum perf_how how,
                            double seconds)
{
    bool streams = op->one_way && how == PERF_HOW_ROW;

    *f = (struct perf_group_floors){.count = 0};
    if (me->crowded || how == PERF_HOW_OVERLAP)
        return;
    if (perf_pipe_load_open(&f->load, bytes, window, false) != 0)
        perf_fail(me, "no memory for %" PRIu32 " messages of %zu bytes", window, bytes);
    if (op->kind == PERF_OP_BARRIER || (bytes <= LINE_BYTES && !streams))
        add_handoffs(f);
    else if (bytes <= LINE_BYTES)
        add_lines(f);
    else if (streams)
        add_stream(f, me, seconds);
    else if (op->one_way)
        add_one_way(f, me, seconds);
    else
        add_exchange(f, me);
}

void perf_group_floors_close(struct perf_group_floors *f)
{
    perf_pipe_load_close(&f->load);
}
