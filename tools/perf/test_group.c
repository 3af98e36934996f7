/* SPDX-License-Identifier: BSD-3-Clause */
/* Each collective as a test: nigh's through the table and through libnigh, floors, and the peers' own, in the same rounds. */
#include "tools/perf/compare.h"
#include "tools/perf/group.h"
#include "tools/perf/group_floors.h"
#include "tools/perf/lib.h"
#include "tools/perf/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CROWDED_ROUNDS = 6 }; /* at least: a round may take seconds there */

/* What the launcher tells the ranks. */
struct task {
    const struct perf_operation *op;
    const struct perf_options *options;
    const struct nigh_ops *ops;
    const char *plugin; /* its file */
    struct perf_compare *compare;
    enum perf_how how;
    size_t bytes;
    uint32_t window;
    double seconds;
};

/* ---- one size, in each rank ---- */

static perf_piece_fn piece_of(const struct task *task)
{
    return task->how == PERF_HOW_OVERLAP ? perf_group_overlap : perf_group_calls;
}

/* Where ranks share CPUs, and with a computation beside it, a call takes so long that a window warms enough. */
static uint64_t warm_of(const struct perf_rank *me, const struct task *task)
{
    size_t all = task->bytes * perf_operation_blocks(task->op, (int)me->ranks);

    if (me->crowded || task->how == PERF_HOW_OVERLAP)
        return task->window;
    return perf_pipe_warm(task->op->kind == PERF_OP_BARRIER ? 8 : all);
}

static void race(struct perf_rank *me, const struct task *task, struct perf_group *group,
                 const struct perf_group_floors *floors)
{
    struct perf_group_way table = {group, &perf_group_table}, lib = {group, &perf_group_lib};
    struct perf_piece piece[PERF_COLUMNS] = {
        {task->op->name, piece_of(task), &table, 0, task->window},
    };
    struct perf_plan plan = {.piece = piece,
                             .warm = warm_of(me, task),
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = task->seconds * 0.8,
                             .least_rounds = me->crowded ? CROWDED_ROUNDS : 0,
                             .no_handoff = me->crowded};

    memcpy(piece + 1, floors->piece, floors->count * sizeof(*piece));
    plan.pieces = 1 + floors->count;
    if (task->options->lib)
        piece[plan.pieces++] = (struct perf_piece){"libnigh", piece_of(task), &lib, 0, task->window};
    plan.peers = plan.pieces;
    plan.pieces += perf_compare_pieces(task->compare, &plan, piece + plan.pieces, PERF_COLUMNS - plan.pieces);
    plan.peers = plan.pieces - plan.peers;
    if (me->rank == 0)
        me->shared->floors = floors->count;
    perf_rounds_run(me, &plan);
}

static int group_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_group group = {
        .op = task->op, .bytes = task->bytes, .window = task->window, .stale = task->options->stale};
    struct perf_group_floors floors;

    perf_group_floors_open(&floors, me, task->op, task->bytes, task->window, task->how, task->seconds * 0.2);
    perf_group_open(&group, me, task->ops, task->options->path,
                    me->scratch + perf_group_floors_scratch(task->bytes, task->window));
    if (task->options->lib)
        perf_lib_open(me, task->plugin, task->options->path);
    race(me, task, &group, &floors);
    perf_node_barrier(&group.node);
    if (task->options->lib)
        perf_lib_close(me);
    perf_group_close(&group);
    perf_group_floors_close(&floors);
    return 0;
}

/* ---- one size, in the launcher ---- */

static const char *const words[] = {"", "in a row", "behind a barrier", "overlap"};

static int emit(struct perf_run *run, const struct perf_job *job, const struct task *task)
{
    const char *unit = task->how == PERF_HOW_OVERLAP ? "%" : "ns";
    uint32_t floors[PERF_GROUP_FLOORS], table = 0;
    struct perf_result like;
    char name[PERF_NAME_BYTES];
    int rc;

    snprintf(name, sizeof(name), "%s%s", task->op->name, task->how == PERF_HOW_OVERLAP ? "-overlap" : "");
    perf_result_init(&like, name, words[task->how], unit);
    like.more_is_better = task->how == PERF_HOW_OVERLAP;
    like.bytes = task->op->kind == PERF_OP_BARRIER ? 0 : task->bytes;
    like.ranks = job->ranks;
    for (uint32_t i = 0; i < job->shared->floors; i++)
        floors[i] = 1 + i;
    rc = perf_run_rows(run, job, 0, floors, job->shared->floors, &like);
    if (rc != 0 || !task->options->lib)
        return rc;
    snprintf(like.test, sizeof(like.test), "%.30s-lib", name);
    snprintf(like.note, sizeof(like.note), "through libnigh; the floor is the row of the plugin");
    return perf_run_rows(run, job, 1 + job->shared->floors, &table, 1, &like);
}

static int one_size(struct perf_run *run, struct task *task)
{
    const struct perf_options *o = run->options;
    struct perf_case c = {.test = task->op->name,
                          .bytes = task->bytes,
                          .ranks = o->ranks,
                          .window = task->window,
                          .how = task->how,
                          .stale = o->stale,
                          .seconds = 1, /* a round's limit follows from it */
                          .cpus = o->cpus,
                          .unit = task->how == PERF_HOW_OVERLAP ? "%" : "ns"};
    char what[64], text[24];
    struct perf_job job;
    int rc;

    snprintf(what, sizeof(what), "%s: %s", task->op->name, perf_size_text(task->bytes, text, sizeof(text)));
    perf_compare_case(task->compare, &c);
    perf_run_job(run, &job, o->ranks,
                 perf_group_floors_scratch(task->bytes, task->window) + perf_group_scratch(o->ranks), what);
    job.limit_seconds *= 1 + o->ranks / o->cpu_count;
    rc = perf_job_run(&job, group_rank, task);
    if (rc != 0)
        return rc;
    rc = emit(run, &job, task);
    perf_job_end(&job);
    return rc;
}

/* Data is checked in words of 8 bytes. */
static int take_size(struct task *task, size_t bytes)
{
    if (task->op->kind == PERF_OP_BARRIER)
        bytes = 8;
    if (bytes == 0 || bytes % 8 != 0) {
        fprintf(stderr, "nigh-perf: %s takes sizes that are a multiple of 8, not %zu\n", task->op->name,
                bytes);
        return -EINVAL;
    }
    task->bytes = bytes;
    task->window = perf_group_window(task->op, bytes, task->options->ranks, task->how);
    return 0;
}

static int run_operation(struct perf_run *run, enum perf_operation_kind kind)
{
    const struct perf_options *o = run->options;
    struct perf_sizes room;
    const struct perf_sizes *sizes =
        perf_run_sizes(run, kind == PERF_OP_BARRIER ? "8" : "8,256,4K,32K,256K,2M,16M", &room);
    size_t count = kind == PERF_OP_BARRIER ? 1 : sizes->count;
    struct task task = {.op = perf_operation(kind),
                        .options = o,
                        .how = o->how ? o->how : PERF_HOW_ROW,
                        .seconds = o->seconds / (double)count};
    int rc = perf_run_transport(run, &task.ops);
    task.plugin = run->plugin.file;
    if (rc == 0)
        rc = perf_compare_open(&task.compare, o, task.op->name, o->ranks);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = take_size(&task, sizes->bytes[i]);
        if (rc == 0)
            rc = one_size(run, &task);
    }
    perf_compare_close(task.compare);
    return rc;
}

#define TEST(name, kind)                           \
    int perf_test_##name(struct perf_run *run)     \
    {                                              \
        return run_operation(run, PERF_OP_##kind); \
    }

TEST(barrier, BARRIER)
TEST(broadcast, BROADCAST)
TEST(reduce, REDUCE)
TEST(allreduce, ALLREDUCE)
TEST(gather, GATHER)
TEST(scatter, SCATTER)
TEST(allgather, ALLGATHER)
TEST(alltoall, ALLTOALL)
TEST(reduce_scatter, REDUCE_SCATTER)
TEST(scan, SCAN)
TEST(exscan, EXSCAN)
