/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of the tests between two ranks. */
#include "tools/perf/pair.h"

#include "tools/perf/compare.h"
#include "tools/perf/floors.h"
#include "tools/perf/lib.h"
#include "tools/perf/pattern.h"
#include "tools/perf/plugin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOORS = PERF_PIPE_BEST + PERF_RING_KINDS + 2, /* columns at most, of whatever kind */
    HALVES_FROM = 65536,                           /* of shorter ones a copy is less than two system calls, */
    WHOLE_FROM = 16384, /* and several of them in one call are as good from here on */
    LINE_BYTES = 40,    /* of payload that fit into one line beside tag and immediate */
};

/* What the launcher tells the ranks. */
struct task {
    const struct perf_pair_test *test;
    const struct perf_options *options;
    const struct nigh_ops *ops;
    const char *plugin; /* its file */
    bool lib;           /* beside it through libnigh */
    struct perf_compare *compare;
    size_t bytes;
    double seconds;
};

/* The floors that are raced: pieces and what they point to. */
struct racers {
    struct perf_pipe_load load;
    struct perf_pipe pipe[PERF_PIPE_BEST];
    struct perf_halves halves, whole;
    struct perf_rate_kind rate[2];
    struct perf_ring_kind ring[PERF_RING_KINDS];
    struct perf_hidden_kind hidden[PERF_HIDDEN_KINDS];
    struct perf_piece piece[FLOORS];
    uint32_t count;
};

void perf_pair_wrong(const struct perf_pair *pair, size_t wrong, uint32_t rank, uint64_t number)
{
    perf_fail(pair->me, "%s of %zu bytes: byte %zu of message %" PRIu64 " from rank %" PRIu32 " is wrong",
              pair->test->name, pair->bytes, wrong, number, rank);
}

/* ---- floors ---- */

/* 2 L. */
static double round_trip(struct perf_rank *me, void *arg, uint32_t count)
{
    return 2 * perf_handoff_load(me, arg, count);
}

/* A stream of one message and its acknowledgement, as a time. */
static double acked(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_pipe *pipe = arg;

    return (double)pipe->load->bytes / perf_pipe_stream(me, arg, count);
}

/* Messages of more than a line: what the pipeline carries, as messages a second. */
static double stream_rate(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_pipe *pipe = arg;

    return 1e3 * perf_pipe_stream(me, arg, count) / (double)pipe->load->bytes;
}

static void add_floor(struct racers *r, const char *name, perf_piece_fn run, void *arg, uint32_t messages)
{
    r->piece[r->count++] = (struct perf_piece){name, run, arg, 0, messages};
}

static void add_pipes(struct racers *r, struct perf_rank *me, const struct task *task, perf_piece_fn run)
{
    perf_piece_fn raced = run == perf_pipe_oneway ? run : perf_pipe_stream;
    uint32_t n = perf_pipe_choose(me, &r->load, raced, task->seconds * 0.2, r->pipe);

    for (uint32_t i = 0; i < n; i++)
        add_floor(r, r->pipe[i].kind.name, run, &r->pipe[i], run == perf_pipe_oneway ? 1 : r->load.window);
}

static void add_halves(struct racers *r, struct perf_rank *me, const struct task *task, perf_piece_fn run,
                       uint32_t messages)
{
    if (task->bytes >= HALVES_FROM && perf_halves_open(me, &r->load, 0, &r->halves))
        add_floor(r, "halves", run, &r->halves, messages);
}

static void add_whole(struct racers *r, struct perf_rank *me, const struct task *task)
{
    if (task->bytes >= WHOLE_FROM && perf_halves_open(me, &r->load, PERF_HALVES_CALL, &r->whole))
        add_floor(r, "whole ones", perf_halves_stream, &r->whole, r->load.window);
}

static void add_rings(struct racers *r, size_t bytes)
{
    uint32_t n = perf_ring_kinds(bytes, r->ring);

    for (uint32_t i = 0; i < n; i++)
        add_floor(r, r->ring[i].name, perf_ring_oneway, &r->ring[i], 1);
}

static void add_in_place(struct racers *r)
{
    uint32_t n = perf_pipe_in_place(&r->load, r->pipe);

    for (uint32_t i = 0; i < n; i++)
        add_floor(r, r->pipe[i].kind.name, perf_pipe_stream, &r->pipe[i], r->load.window);
}

static void add_hidden(struct racers *r, const struct perf_rank *me, const struct task *task)
{
    struct perf_hidden_kind like = {
        .bytes = task->bytes, .work = task->test->work, .cpu = perf_hidden_cpu(me), .to = r->load.to};
    uint32_t n = like.cpu < 0 ? 0 : perf_hidden_kinds(&like, r->hidden);

    for (uint32_t i = 0; i < n; i++)
        add_floor(r, r->hidden[i].name, perf_hidden, &r->hidden[i], 1);
}

static void add_floors(struct racers *r, struct perf_rank *me, const struct task *task)
{
    enum perf_floor floor = task->test->floor;

    if (floor == PERF_FLOOR_ONEWAY && task->bytes <= LINE_BYTES)
        floor = PERF_FLOOR_HANDOFF;
    if (floor == PERF_FLOOR_ACKED && task->bytes <= LINE_BYTES)
        floor = PERF_FLOOR_ROUNDTRIP;
    switch (floor) {
    case PERF_FLOOR_NONE:
        break;
    case PERF_FLOOR_HANDOFF:
        add_floor(r, "L, load", perf_handoff_load, NULL, 1);
        add_floor(r, "L, cas", perf_handoff_cas, NULL, 1);
        break;
    case PERF_FLOOR_ROUNDTRIP:
        add_floor(r, "2 L", round_trip, NULL, 1);
        break;
    case PERF_FLOOR_ONEWAY:
        add_pipes(r, me, task, perf_pipe_oneway);
        add_halves(r, me, task, perf_halves_oneway, 1);
        add_rings(r, task->bytes);
        break;
    case PERF_FLOOR_STREAM:
        add_pipes(r, me, task, perf_pipe_stream);
        add_halves(r, me, task, perf_halves_stream, r->load.window);
        add_whole(r, me, task);
        break;
    case PERF_FLOOR_IN_PLACE:
        add_in_place(r);
        break;
    case PERF_FLOOR_HIDDEN:
        add_hidden(r, me, task);
        break;
    case PERF_FLOOR_ACKED:
        add_pipes(r, me, task, acked);
        break;
    case PERF_FLOOR_RATE:
        if (task->bytes > LINE_BYTES) {
            add_pipes(r, me, task, stream_rate);
            break;
        }
        r->rate[0] = (struct perf_rate_kind){64, 0};
        r->rate[1] = (struct perf_rate_kind){512, 8};
        add_floor(r, "64 lines", perf_line_rate, &r->rate[0], 1);
        add_floor(r, "512 lines", perf_line_rate, &r->rate[1], 1);
        break;
    }
}

/* ---- one size, in each rank ---- */

static uint32_t window_of(const struct task *task)
{
    return task->test->window ? task->test->window(task->bytes) : 1;
}

/* Streams and their floors go from the same memory to the same: where its pages lie in the caches makes a tenth of
 * either, for as long as the processes live. Not where it is written once. */
static bool shares(const struct task *task)
{
    return task->test->floor == PERF_FLOOR_STREAM && !task->options->stale;
}

static void open_pair(struct perf_pair *pair, struct perf_rank *me, const struct task *task, struct racers *r)
{
    *pair = (struct perf_pair){.me = me,
                               .test = task->test,
                               .bytes = task->bytes,
                               .stride = r->load.stride,
                               .window = r->load.window,
                               .windows = task->test->windows ? task->test->windows(task->bytes) : 1,
                               .stale = task->options->stale,
                               .number = 1};
    pair->shares = shares(task);
    if (pair->shares)
        pair->buffers = r->load;
    else if (perf_pipe_load_open(&pair->buffers, task->bytes, r->load.window, false) != 0)
        perf_fail(me, "no memory for %" PRIu32 " messages of %zu bytes", r->load.window, task->bytes);
    perf_node_open(&pair->node, me, task->ops, me->shared->job, task->options->path);
    pair->node.expect = task->bytes;
    if (task->lib)
        perf_lib_open(me, task->plugin, task->options->path);
    if (me->rank > 1)
        return; /* looks on: its context must not disturb */
    perf_node_connect(&pair->node, perf_pair_peer(pair));
    pair->out = task->test->out_in_heap ? perf_node_heap(&pair->node, pair->stride * pair->window)
                                        : pair->buffers.from;
    pair->in =
        task->test->in_in_heap ? perf_node_heap(&pair->node, pair->stride * pair->window) : pair->buffers.to;
    for (uint32_t i = 0; i < pair->window; i++)
        perf_fill(pair->out + i * pair->stride, pair->bytes, perf_seed(me->rank, i));
    if (task->test->begin)
        task->test->begin(pair);
}

static void close_pair(struct perf_pair *pair, const struct task *task)
{
    if (pair->me->rank < 2 && pair->test->end)
        pair->test->end(pair);
    perf_node_barrier(&pair->node);
    if (task->lib)
        perf_lib_close(pair->me);
    perf_node_close(&pair->node);
    if (!pair->shares)
        perf_pipe_load_close(&pair->buffers);
}

static void race(struct perf_rank *me, const struct task *task, struct perf_pair *pair, struct racers *r)
{
    struct perf_piece piece[PERF_COLUMNS] = {
        {task->test->name, task->test->run, pair, 0, pair->windows * pair->window}};
    struct perf_plan plan = {.piece = piece,
                             .warm = perf_pipe_warm(task->bytes),
                             .sampled = task->test->sampled ? 0 : PERF_COLUMN_NONE,
                             .seconds = task->seconds * 0.7};
    struct nigh_query_stats before, after;

    for (uint32_t i = 0; i < r->count; i++)
        piece[1 + i] = r->piece[i];
    plan.pieces = 1 + r->count;
    if (task->lib)
        piece[plan.pieces++] =
            (struct perf_piece){"libnigh", task->test->run_lib, pair, 0, piece[0].messages};
    plan.peers = plan.pieces;
    plan.pieces += perf_compare_pieces(task->compare, &plan, piece + plan.pieces, PERF_COLUMNS - plan.pieces);
    plan.peers = plan.pieces - plan.peers;
    perf_node_stats(&pair->node, &before);
    perf_rounds_run(me, &plan);
    perf_node_stats(&pair->node, &after);
    if (me->rank == 0) {
        me->shared->floors = r->count;
        snprintf(me->shared->path, sizeof(me->shared->path), "%s", perf_node_path(&before, &after));
    }
}

static int pair_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct racers r = {0};
    struct perf_pair pair;

    if (perf_pipe_load_open(&r.load, task->bytes, window_of(task), task->options->stale) != 0)
        perf_fail(me, "no memory for %" PRIu32 " messages of %zu bytes", window_of(task), task->bytes);
    add_floors(&r, me, task);
    open_pair(&pair, me, task, &r);
    race(me, task, &pair, &r);
    close_pair(&pair, task);
    perf_pipe_load_close(&r.load);
    return 0;
}

/* ---- one size, in the launcher ---- */

/* The library's row: its floor is the row of the table, or the same. */
static int emit_lib(struct perf_run *run, const struct perf_job *job, const struct perf_result *plugin,
                    const uint32_t *floors)
{
    struct perf_result like = *plugin;
    uint32_t row = 0;

    snprintf(like.test, sizeof(like.test), "%.35s-lib", plugin->test);
    snprintf(like.note, sizeof(like.note), "through libnigh; the floor is %s",
             floors ? "a bare copy by another core" : "the row of the plugin");
    return perf_run_rows(run, job, 1 + job->shared->floors, floors ? floors : &row,
                         floors ? job->shared->floors : 1, &like);
}

static int emit(struct perf_run *run, const struct perf_job *job, const struct task *task)
{
    uint32_t floors[FLOORS];
    struct perf_result like;
    int rc;

    perf_result_init(&like, task->test->name, job->shared->path, task->test->unit);
    like.bytes = task->bytes;
    like.more_is_better |= task->test->more_is_better;
    like.ranks = job->ranks;
    if (task->test->note)
        snprintf(like.note, sizeof(like.note), "%s", task->test->note);
    for (uint32_t i = 0; i < job->shared->floors; i++)
        floors[i] = 1 + i;
    rc = perf_run_rows(run, job, 0, floors, job->shared->floors, &like);
    return rc == 0 && task->lib ? emit_lib(run, job, &like, task->test->lib_reaches ? floors : NULL) : rc;
}

static int one_size(struct perf_run *run, struct task *task)
{
    const struct perf_options *o = run->options;
    struct perf_case c = {.test = task->test->name,
                          .bytes = task->bytes,
                          .ranks = 2,
                          .window = window_of(task),
                          .stale = o->stale,
                          .cpus = o->cpus,
                          .unit = task->test->unit};
    char what[64], text[24];
    struct perf_job job;
    int rc;

    snprintf(what, sizeof(what), "%s: %s", task->test->name, perf_size_text(task->bytes, text, sizeof(text)));
    perf_compare_case(task->compare, &c);
    perf_run_job(run, &job, o->ranks, PERF_SCRATCH((task->bytes + 128) * window_of(task)), what);
    rc = perf_job_run(&job, pair_rank, task);
    if (rc != 0)
        return rc;
    rc = emit(run, &job, task);
    perf_job_end(&job);
    return rc;
}

int perf_pair_run(struct perf_run *run, const struct perf_pair_test *test)
{
    struct perf_sizes room;
    const struct perf_sizes *sizes = perf_run_sizes(run, test->sizes, &room);
    struct task task = {
        .test = test, .options = run->options, .seconds = run->options->seconds / (double)sizes->count};
    int rc = perf_run_need_cpus(run, test->name, 2);

    if (rc == 0)
        rc = perf_run_transport(run, &task.ops);
    task.plugin = run->plugin.file;
    task.lib = run->options->lib && test->run_lib;
    if (rc == 0)
        rc = perf_compare_open(&task.compare, run->options, test->name, 2);
    for (size_t i = 0; rc == 0 && i < sizes->count; i++) {
        task.bytes = sizes->bytes[i];
        rc = one_size(run, &task);
    }
    perf_compare_close(task.compare);
    return rc;
}
