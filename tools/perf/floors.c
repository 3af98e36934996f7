/* SPDX-License-Identifier: BSD-3-Clause */
/* `nigh-perf floors`: the machine without nigh. */
#include "tools/perf/floors.h"

#include "tools/perf/pipe.h"
#include "tools/perf/run.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { RATE_KINDS = 6, BEST = PERF_PIPE_BEST };

/* What rank functions are told. */
struct task {
    double seconds;
    size_t bytes;
    uint32_t window;
    bool stale, vm;
};

static void note(struct perf_result *row, const char *text)
{
    snprintf(row->note, sizeof(row->note), "%s", text);
}

/* ---- lines: L and R ---- */

static struct perf_rate_kind rate_kinds[RATE_KINDS] = {{64, 0},  {64, 8},   {512, 0},
                                                       {512, 8}, {4096, 0}, {4096, 8}};
static const char *const rate_names[RATE_KINDS] = {"64",           "64/prefetch", "512",
                                                   "512/prefetch", "4096",        "4096/prefetch"};

enum line_columns { LOAD, CAS, SHARED_LOAD, SHARED_CAS, WAKE, RATE };

static int lines_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_piece piece[RATE + RATE_KINDS] = {
        [LOAD] = {"load", perf_handoff_load, NULL, 0, 0},
        [CAS] = {"cas", perf_handoff_cas, NULL, 0, 0},
        [SHARED_LOAD] = {"shared line, load", perf_handoff_shared_load, NULL, 0, 0},
        [SHARED_CAS] = {"shared line, cas", perf_handoff_shared_cas, NULL, 0, 0},
        [WAKE] = {"futex", perf_futex_wake, NULL, 3, 0},
    };
    struct perf_plan plan = {
        .piece = piece, .pieces = RATE + RATE_KINDS, .sampled = PERF_COLUMN_NONE, .seconds = task->seconds};

    for (uint32_t i = 0; i < RATE_KINDS; i++)
        piece[RATE + i] = (struct perf_piece){rate_names[i], perf_line_rate, &rate_kinds[i], 0, 0};
    perf_rounds_run(me, &plan);
    return 0;
}

static int emit_best(struct perf_run *run, const struct perf_job *job, const struct perf_result *like,
                     const uint32_t *columns, uint32_t count)
{
    struct perf_race race = {columns, count, NULL, 0};

    return perf_run_race(run, job, &race, like);
}

static int emit_lines(struct perf_run *run, const struct perf_job *job)
{
    uint32_t rates[RATE_KINDS];
    struct perf_result like;
    int rc = 0;

    for (uint32_t i = LOAD; rc == 0 && i <= SHARED_CAS; i++) {
        perf_result_init(&like, "floor-handoff", job->shared->table.name[i], "ns");
        like.ranks = 2;
        rc = perf_run_rows(run, job, i, NULL, 0, &like);
    }
    for (uint32_t i = 0; i < RATE_KINDS; i++)
        rates[i] = RATE + i;
    perf_result_init(&like, "floor-line-rate", "", "M/s");
    like.ranks = 2;
    like.bytes = 64;
    if (rc == 0)
        rc = emit_best(run, job, &like, rates, RATE_KINDS);
    perf_result_init(&like, "floor-wake", "futex", "ns");
    like.ranks = 2;
    return rc ? rc : perf_run_rows(run, job, WAKE, NULL, 0, &like);
}

static int lines(struct perf_run *run, double seconds)
{
    struct task task = {.seconds = seconds};
    struct perf_job job;
    int rc;

    perf_run_job(run, &job, 2, PERF_SCRATCH(0), "floors: lines");
    rc = perf_job_run(&job, lines_rank, &task);
    if (rc != 0)
        return rc;
    rc = emit_lines(run, &job);
    perf_job_end(&job);
    return rc;
}

/* ---- short messages through a bare ring ---- */

static const size_t ring_sizes[] = {8, 64, 512, PERF_RING_BYTES};
enum { RING_SIZES = sizeof(ring_sizes) / sizeof(ring_sizes[0]) };

static int rings_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_ring_kind kind[RING_SIZES * PERF_RING_KINDS];
    struct perf_piece piece[RING_SIZES * PERF_RING_KINDS];
    struct perf_plan plan = {.piece = piece, .sampled = PERF_COLUMN_NONE, .seconds = task->seconds};

    for (uint32_t i = 0, n; i < RING_SIZES; i++) {
        n = perf_ring_kinds(ring_sizes[i], kind + plan.pieces);
        for (; n; n--, plan.pieces++)
            piece[plan.pieces] =
                (struct perf_piece){kind[plan.pieces].name, perf_ring_oneway, &kind[plan.pieces], 0, 0};
    }
    perf_rounds_run(me, &plan);
    return 0;
}

static int emit_rings(struct perf_run *run, const struct perf_job *job)
{
    uint32_t columns[PERF_RING_KINDS], at = 0;
    struct perf_ring_kind kind[PERF_RING_KINDS];
    struct perf_result like;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < RING_SIZES; i++) {
        uint32_t n = perf_ring_kinds(ring_sizes[i], kind);

        for (uint32_t k = 0; k < n; k++)
            columns[k] = at++;
        perf_result_init(&like, "floor-ring", n == 1 ? kind[0].name : "", "ns");
        like.ranks = 2;
        like.bytes = ring_sizes[i];
        rc = emit_best(run, job, &like, columns, n);
    }
    return rc;
}

static int rings(struct perf_run *run, double seconds)
{
    struct task task = {.seconds = seconds};
    struct perf_job job;
    int rc;

    perf_run_job(run, &job, 2, PERF_SCRATCH(0), "floors: rings");
    rc = perf_job_run(&job, rings_rank, &task);
    if (rc != 0)
        return rc;
    rc = emit_rings(run, &job);
    perf_job_end(&job);
    return rc;
}

/* ---- S ---- */

static int yield_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_piece piece = {"yield", perf_yield_switch, NULL, 0, 0};
    struct perf_plan plan = {.piece = &piece,
                             .pieces = 1,
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = task->seconds,
                             .no_handoff = true};

    perf_rounds_run(me, &plan);
    return 0;
}

static int yields(struct perf_run *run, double seconds)
{
    struct task task = {.seconds = seconds};
    struct perf_result like;
    struct perf_job job;
    int rc;

    perf_result_init(&like, "floor-switch", "sched_yield", "ns");
    like.ranks = 2;
    if (run->options->keep_cpus) {
        note(&like, "not under nigh-run, which keeps ranks on cores of their own");
        return perf_run_emit(run, &like);
    }
    perf_run_job(run, &job, 2, PERF_SCRATCH(0), "floors: yield");
    job.cpu_count = 1;
    rc = perf_job_run(&job, yield_rank, &task);
    if (rc != 0)
        return rc;
    rc = perf_run_rows(run, &job, 0, NULL, 0, &like);
    perf_job_end(&job);
    return rc;
}

/* ---- copies and pipelines of one size ---- */

enum size_columns {
    COPY_ONE,
    COPY_BOTH,
    STREAM,
    ONEWAY = STREAM + BEST,
    HEAP = ONEWAY + BEST,
    HEAP_ONEWAY = HEAP + BEST,
    COPY_VM = HEAP_ONEWAY + BEST, /* where processes may read each other, as what follows */
    HALVES,
    HALVES_ONEWAY,
    WHOLE,
    COLUMNS,
};

/* Columns that a size has no kind for repeat the last one: the table's shape is the same for all sizes. */
static void add_group(struct perf_piece *piece, perf_piece_fn run, struct perf_pipe *pipe, uint32_t n)
{
    for (uint32_t i = 0; i < BEST; i++) {
        struct perf_pipe *one = &pipe[i < n ? i : n - 1];

        piece[i] =
            (struct perf_piece){one->kind.name, run, one, 0, run == perf_pipe_oneway ? 1 : one->load->window};
    }
}

static int size_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_pipe stream[BEST], oneway[BEST], heap[BEST];
    struct perf_piece piece[COLUMNS];
    struct perf_plan plan = {.piece = piece,
                             .pieces = COPY_VM + task->vm,
                             .warm = perf_pipe_warm(task->bytes),
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = task->seconds * 0.7};
    struct perf_pipe_load load;
    struct perf_copy_kind copy;
    struct perf_halves halves, whole;

    if (perf_pipe_load_open(&load, task->bytes, task->window, task->stale) != 0)
        perf_fail(me, "no memory for %u messages of %zu bytes", task->window, task->bytes);
    copy = (struct perf_copy_kind){task->bytes, load.from, load.to};
    piece[COPY_ONE] = (struct perf_piece){"1 core", perf_copy_one, &copy, 0, 0};
    piece[COPY_BOTH] = (struct perf_piece){"2 cores", perf_copy_both, &copy, 0, 0};
    piece[COPY_VM] = (struct perf_piece){"process_vm_readv", perf_copy_vm, &copy, 0, 0};
    piece[HALVES] = (struct perf_piece){"halves", perf_halves_stream, &halves, 0, load.window};
    piece[HALVES_ONEWAY] = (struct perf_piece){"halves", perf_halves_oneway, &halves, 0, 1};
    piece[WHOLE] = (struct perf_piece){"whole ones", perf_halves_stream, &whole, 0, load.window};
    if (task->vm && perf_halves_open(me, &load, 0, &halves) &&
        perf_halves_open(me, &load, PERF_HALVES_CALL, &whole))
        plan.pieces = COLUMNS;
    add_group(piece + STREAM, perf_pipe_stream, stream,
              perf_pipe_choose(me, &load, perf_pipe_stream, task->seconds * 0.15, stream));
    add_group(piece + ONEWAY, perf_pipe_oneway, oneway,
              perf_pipe_choose(me, &load, perf_pipe_oneway, task->seconds * 0.15, oneway));
    add_group(piece + HEAP, perf_pipe_stream, heap, perf_pipe_in_place(&load, heap));
    add_group(piece + HEAP_ONEWAY, perf_pipe_oneway, heap, perf_pipe_in_place(&load, heap));
    perf_rounds_run(me, &plan);
    perf_pipe_load_close(&load);
    return 0;
}

static int emit_column(struct perf_run *run, const struct perf_job *job, size_t bytes, const char *test,
                       const char *unit, uint32_t first, uint32_t count)
{
    uint32_t columns[BEST];
    struct perf_result like;

    for (uint32_t i = 0; i < count; i++)
        columns[i] = first + i;
    perf_result_init(&like, test, count == 1 ? job->shared->table.name[first] : "", unit);
    like.ranks = first == COPY_ONE ? 1 : 2;
    like.bytes = bytes;
    return emit_best(run, job, &like, columns, count);
}

static int emit_size(struct perf_run *run, const struct perf_job *job, const struct task *task,
                     const char *why)
{
    static const struct {
        const char *test, *unit;
        uint32_t first, count;
    } rows[] = {
        {"floor-copy", "GB/s", COPY_ONE, 1},
        {"floor-copy-both", "GB/s", COPY_BOTH, 1},
        {"floor-stream", "GB/s", STREAM, BEST},
        {"floor-in-place", "GB/s", HEAP, BEST},
        {"floor-oneway", "ns", ONEWAY, BEST},
        {"floor-in-place-oneway", "ns", HEAP_ONEWAY, BEST},
        {"floor-vm-readv", "GB/s", COPY_VM, 1},
        {"floor-halves", "GB/s", HALVES, 1},
        {"floor-halves-oneway", "ns", HALVES_ONEWAY, 1},
        {"floor-whole", "GB/s", WHOLE, 1},
    };
    struct perf_result refused;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].first < job->shared->table.columns) {
            rc = emit_column(run, job, task->bytes, rows[i].test, rows[i].unit, rows[i].first, rows[i].count);
            continue;
        }
        perf_result_init(&refused, rows[i].test, rows[i].first == COPY_VM ? "process_vm_readv" : "halves",
                         rows[i].unit);
        refused.bytes = task->bytes;
        refused.ranks = 2;
        note(&refused, *why ? why : "ranks may not write each other's memory");
        rc = perf_run_emit(run, &refused);
    }
    return rc;
}

static int one_size(struct perf_run *run, size_t bytes, double seconds)
{
    uint32_t window = perf_pipe_window(bytes);
    struct task task = {seconds, bytes, window, run->options->stale, false};
    char what[64], text[24];
    const char *why = "";
    struct perf_job job;
    int rc;

    task.vm = perf_copy_vm_allowed(&why);
    snprintf(what, sizeof(what), "floors: %s", perf_size_text(bytes, text, sizeof(text)));
    perf_run_job(run, &job, 2, PERF_SCRATCH((bytes + 128) * window), what);
    rc = perf_job_run(&job, size_rank, &task);
    if (rc != 0)
        return rc;
    rc = emit_size(run, &job, &task, why);
    perf_job_end(&job);
    return rc;
}

int perf_test_floors(struct perf_run *run)
{
    struct perf_sizes room;
    const struct perf_sizes *sizes = perf_run_sizes(run, "512,4K,32K,256K,1M,4M,16M", &room);
    double share = run->options->seconds / ((double)sizes->count + 1);
    int rc = perf_run_need_cpus(run, "floors", 2);

    if (rc == 0)
        rc = lines(run, share * 0.5);
    if (rc == 0)
        rc = rings(run, share * 0.3);
    if (rc == 0)
        rc = yields(run, share * 0.2);
    for (size_t i = 0; rc == 0 && i < sizes->count; i++)
        rc = sizes->bytes[i] == 0 ? 0 : one_size(run, sizes->bytes[i], share);
    return rc;
}
