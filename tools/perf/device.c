/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of the tests with buffers on CUDA devices; see device.h. */
#include "tools/perf/device.h"

#include "tools/perf/compare.h"
#include "tools/perf/floors.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KEY_TAG = 51, WARM_MESSAGES = 16, PAGE = 4096, PATHS_MAX = 256 };

/* What the launcher tells the ranks. */
struct task {
    const struct perf_device_test *test;
    const struct perf_options *options;
    const struct nigh_ops *ops;
    struct perf_compare *compare;
    size_t bytes;
    double seconds;
};

void perf_device_must(struct perf_device *d, int rc)
{
    if (rc != 0)
        perf_fail(d->me, "%s", d->cuda.why);
}

/* ---- data ---- */

static void write_all(struct perf_device *d, const struct perf_device_memory *memory, uint32_t messages,
                      uint64_t number)
{
    uint8_t *to = perf_device_has(memory) ? d->mirror : memory->at;

    for (uint32_t i = 0; i < messages; i++)
        perf_fill(to + i * d->stride, d->bytes, perf_seed(d->me->rank, number + i));
    if (perf_device_has(memory))
        perf_device_must(d, perf_cuda_put(&d->cuda, &memory->cuda, to, messages * d->stride));
}

void perf_device_fill(struct perf_device *d, const struct perf_device_memory *memory, uint32_t messages,
                      uint64_t number)
{
    if (!d->stale)
        write_all(d, memory, messages, number);
}

void perf_device_check(struct perf_device *d, const struct perf_device_memory *memory, uint32_t messages,
                       uint32_t rank, uint64_t number, const char *what)
{
    const uint8_t *from = memory->at;

    if (perf_device_has(memory)) {
        perf_device_must(d, perf_cuda_get(&d->cuda, d->mirror, &memory->cuda, messages * d->stride));
        from = d->mirror;
    }
    for (uint32_t i = 0; i < messages; i++) {
        size_t wrong =
            perf_check(from + i * d->stride, d->bytes, perf_seed(rank, (d->stale ? 0 : number) + i));

        if (wrong != d->bytes)
            perf_fail(d->me,
                      "%s, %s of %zu bytes: byte %zu of message %" PRIu64 " from rank %" PRIu32 " is wrong",
                      d->test->name, what, d->bytes, wrong, number + i, rank);
    }
}

/* ---- memory ---- */

static size_t room(const struct perf_device *d)
{
    return (d->stride * d->window + PAGE - 1) / PAGE * PAGE;
}

static void open_mirror(struct perf_device *d)
{
    void *at = mmap(NULL, room(d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        perf_fail(d->me, "no memory for %" PRIu32 " messages of %zu bytes", d->window, d->bytes);
    d->mirror = at;
    perf_device_must(d, perf_cuda_pin(&d->cuda, at, room(d)));
    perf_device_must(d, perf_cuda_pin(&d->cuda, d->me->scratch, PERF_DEVICE_SLOTS_BYTES));
}

/* On a device, or where the host has it. */
static void open_memory(struct perf_device *d, struct perf_device_memory *memory,
                        const struct perf_cuda_side *side, uint8_t *host)
{
    memory->at = host;
    if (side->kind != PERF_CUDA_HOST) {
        perf_device_must(d, perf_cuda_alloc(&d->cuda, side, room(d), &memory->cuda));
        memory->at = (uint8_t *)(uintptr_t)memory->cuda.at;
    }
    write_all(d, memory, d->window, 0);
}

static bool is_remote(const struct perf_device *d)
{
    return d->test->shape == PERF_DEVICE_PUT || d->test->shape == PERF_DEVICE_GET;
}

/* Device memory always, so that nothing is looked up in a call; the host's where the peer names it. */
static uint64_t register_memory(struct perf_device *d, struct perf_device_memory *memory)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE,
                                 .buffer = memory->at,
                                 .bytes = d->stride * d->window};
    uint64_t key = 0;
    int rc;

    if (!perf_device_has(memory) && !is_remote(d))
        return 0;
    if (perf_device_has(memory))
        what.flags |= NIGH_REGISTER_DEVICE;
    rc = d->node.ops->register_memory(d->node.context, &what, &key, &memory->region);
    if (rc != 0)
        perf_node_fail(&d->node, "register_memory", rc);
    return key;
}

static void open_lane(struct perf_device *d, struct perf_device_lane *lane)
{
    uint64_t out = register_memory(d, &lane->out), in = register_memory(d, &lane->in);

    lane->key = d->test->shape == PERF_DEVICE_GET ? out : in;
    if (is_remote(d) && d->me->rank == 1)
        perf_node_send(&d->node, 0, &lane->key, sizeof(lane->key), KEY_TAG);
    else if (is_remote(d))
        perf_node_recv(&d->node, 1, &lane->key, sizeof(lane->key), KEY_TAG);
}

/* Rank 0's own copy goes from memory as the sender's to memory as the receiver's; a side of the host's is as the other. */
static void open_own(struct perf_device *d, const struct perf_cuda_sides *sides)
{
    const struct perf_cuda_side *from = sides->from.kind == PERF_CUDA_HOST ? &sides->to : &sides->from;
    const struct perf_cuda_side *to = sides->to.kind == PERF_CUDA_HOST ? &sides->from : &sides->to;

    if (d->me->rank != 0 || !d->cuda.reach)
        return;
    open_memory(d, &d->own_from, from, NULL);
    open_memory(d, &d->own_to, to, NULL);
}

/* Puts, gets and lends of the host's are in its heap. */
static void open_host_lane(struct perf_device *d)
{
    static const struct perf_cuda_side host = {PERF_CUDA_HOST, 0};
    bool heap = is_remote(d) || d->test->shape == PERF_DEVICE_LEND;

    open_memory(d, &d->both.out, &host, heap ? perf_node_heap(&d->node, room(d)) : d->host[1].from);
    open_memory(d, &d->both.in, &host, heap ? perf_node_heap(&d->node, room(d)) : d->host[1].to);
}

static void open_loads(struct perf_device *d, const struct task *task)
{
    for (int i = 0; i < 2; i++)
        if (perf_pipe_load_open(&d->host[i], d->bytes, d->window, d->stale) != 0)
            perf_fail(d->me, "no memory for %" PRIu32 " messages of %zu bytes", d->window, task->bytes);
    d->stride = d->host[0].stride;
}

static uint32_t window_of(const struct task *task)
{
    return task->test->shape == PERF_DEVICE_STREAM ? perf_pipe_window(task->bytes) : 1;
}

static void open_all(struct perf_device *d, struct perf_rank *me, const struct task *task)
{
    const struct perf_cuda_sides *sides = &task->options->cuda;

    *d = (struct perf_device){.me = me,
                              .test = task->test,
                              .bytes = task->bytes,
                              .window = window_of(task),
                              .stale = task->options->stale,
                              .number = 1};
    open_loads(d, task);
    perf_node_open(&d->node, me, task->ops, me->shared->job, task->options->path);
    d->node.expect = d->bytes;
    if (me->rank > 1)
        return; /* looks on */
    perf_device_must(d, perf_cuda_open(&d->cuda, sides));
    open_mirror(d);
    perf_node_connect(&d->node, 1 - me->rank);
    open_memory(d, &d->device.out, &sides->from, d->host[0].from);
    open_memory(d, &d->device.in, &sides->to, d->host[0].to);
    open_host_lane(d);
    open_own(d, sides);
    open_lane(d, &d->device);
    open_lane(d, &d->both);
}

static void close_memory(struct perf_device *d, struct perf_device_memory *memory)
{
    int rc = 0;

    while (memory->region && (rc = d->node.ops->deregister(d->node.context, memory->region)) == -EBUSY)
        perf_node_progress(&d->node);
    if (rc != 0)
        perf_node_fail(&d->node, "deregister", rc);
    perf_device_must(d, perf_cuda_free(&d->cuda, &memory->cuda));
}

static void close_all(struct perf_device *d)
{
    struct perf_device_memory *all[] = {&d->device.out, &d->device.in, &d->both.out,
                                        &d->both.in,    &d->own_from,  &d->own_to};

    perf_node_barrier(&d->node);
    for (size_t i = 0; d->me->rank < 2 && i < sizeof(all) / sizeof(all[0]); i++)
        close_memory(d, all[i]);
    perf_node_barrier(&d->node);
    perf_node_close(&d->node);
    if (d->me->rank < 2) {
        perf_device_must(d, perf_cuda_unpin(&d->cuda, d->me->scratch));
        perf_device_must(d, perf_cuda_unpin(&d->cuda, d->mirror));
        munmap(d->mirror, room(d));
        perf_cuda_close(&d->cuda);
    }
    for (int i = 0; i < 2; i++)
        perf_pipe_load_close(&d->host[i]);
}

/* ---- one size, in each rank ---- */

/* A device message and its check cost many microseconds: a thousand of them, as elsewhere, would leave no time for rounds. */
static uint64_t warm(size_t bytes)
{
    uint64_t messages = perf_pipe_warm(bytes);

    return messages < WARM_MESSAGES ? messages : WARM_MESSAGES;
}

/* Through slots, or, where no byte moves, what a line takes from core to core. Returns how many. */
static uint32_t add_floors(struct perf_device *d, struct perf_device_floor *floor, struct perf_piece *piece)
{
    struct perf_device_slots slots[PERF_DEVICE_SLOTS_KINDS];
    uint32_t count = perf_device_slots(d->bytes, d->test->shape, slots);

    if (d->test->shape == PERF_DEVICE_LEND) {
        piece[0] = (struct perf_piece){"L, load", perf_handoff_load, NULL, 0, 1};
        piece[1] = (struct perf_piece){"L, cas", perf_handoff_cas, NULL, 0, 1};
        return 2;
    }
    for (uint32_t i = 0; i < count; i++) {
        floor[i] = (struct perf_device_floor){d, slots[i]};
        piece[i] = (struct perf_piece){slots[i].name, perf_device_slots_run, &floor[i], 0, d->window};
    }
    return count;
}

/* A piece; the argument is a work. */
static double repeat(struct perf_rank *me, void *arg, uint32_t count)
{
    const struct perf_device_work *work = arg;
    struct perf_device *d = work->of;
    struct perf_tally tally;

    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        double figure = d->test->once(d, work->lane, d->number);

        perf_tally_add(&tally, figure);
        perf_rounds_sample(me, figure);
        d->number += d->window;
    }
    return perf_tally_middle(&tally);
}

static void race(struct perf_device *d, const struct task *task)
{
    struct perf_device_floor floor[PERF_DEVICE_SLOTS_KINDS];
    struct perf_device_work work = {d, &d->device}, host = {d, &d->both};
    struct perf_piece piece[PERF_COLUMNS] = {{task->test->name, repeat, &work, 0, d->window}};
    struct perf_plan plan = {.piece = piece,
                             .warm = warm(d->bytes),
                             .sampled = d->test->shape == PERF_DEVICE_STREAM ? PERF_COLUMN_NONE : 0,
                             .seconds = task->seconds * 0.7};
    struct perf_rank *me = d->me;
    uint32_t floors = add_floors(d, floor, piece + 1);

    plan.pieces = plan.beside = 1 + floors;
    if (me->shared->figure[0][0] > 0)
        piece[plan.pieces++] = (struct perf_piece){"own copy", perf_device_own_run, d, 0, d->window};
    piece[plan.pieces++] = (struct perf_piece){"host", repeat, &host, 0, d->window};
    plan.beside = plan.pieces - plan.beside;
    plan.peers = perf_compare_pieces(task->compare, &plan, piece + plan.pieces, PERF_COLUMNS - plan.pieces);
    plan.pieces += plan.peers;
    perf_rounds_run(me, &plan);
    if (me->rank == 0)
        me->shared->floors = floors;
}

/* Which path nigh takes is asked of one repetition alone, as host messages go in the same rounds. */
static void find_path(struct perf_device *d)
{
    struct perf_device_work work = {d, &d->device};
    struct nigh_query_stats before, after;

    perf_node_stats(&d->node, &before);
    repeat(d->me, &work, 1);
    perf_node_stats(&d->node, &after);
    if (d->me->rank == 0)
        snprintf(d->me->shared->path, sizeof(d->me->shared->path), "%s", perf_node_path(&before, &after));
}

/* By rank 0, behind the slots: how nigh says that such memory goes, and why. */
static char *way_of(const struct perf_job *job)
{
    return (char *)job->shared + job->mapped - PAGE;
}

static bool is_of(const struct nigh_query_device_path *path, const struct perf_cuda_sides *sides)
{
    static const uint32_t memory[PERF_CUDA_KINDS] = {[PERF_CUDA_PLAIN] = NIGH_DEVICE_PLAIN,
                                                     [PERF_CUDA_VMM] = NIGH_DEVICE_MAPPED,
                                                     [PERF_CUDA_POOL] = NIGH_DEVICE_POOLED,
                                                     [PERF_CUDA_MANAGED] = NIGH_DEVICE_MANAGED};

    return path->from == (uint32_t)sides->from.device && path->to == (uint32_t)sides->to.device &&
           path->memory == memory[sides->from.kind];
}

/* Between two devices alone. Where nigh cannot say it, nothing is said. */
static void find_way(struct perf_device *d, const struct perf_cuda_sides *sides)
{
    uint64_t bytes = PATHS_MAX * sizeof(struct nigh_query_device_path);
    struct nigh_query_device_path *path = malloc(bytes);
    char *way = (char *)d->me->scratch + d->me->scratch_bytes - PAGE;

    if (path && d->me->rank == 0 && sides->from.kind != PERF_CUDA_HOST && sides->to.kind != PERF_CUDA_HOST &&
        d->node.ops->query(d->node.context, d->node.peer[1], NIGH_QUERY_DEVICE_PATHS, path, &bytes) == 0)
        for (uint64_t i = 0; i < bytes / sizeof(*path) && !*way; i++)
            if (is_of(&path[i], sides))
                snprintf(way, PAGE, "%.16s%s%.200s", path[i].path, path[i].reason ? ": " : "",
                         path[i].reason ? path[i].text : "");
    free(path);
}

static int device_rank(struct perf_rank *me, void *arg)
{
    const struct task *task = arg;
    struct perf_device d;

    open_all(&d, me, task);
    if (me->rank == 0)
        me->shared->figure[0][0] = d.cuda.reach;
    perf_node_barrier(&d.node);
    find_path(&d);
    find_way(&d, &task->options->cuda);
    race(&d, task);
    close_all(&d);
    return 0;
}

/* ---- one size, in the launcher ---- */

static int emit(struct perf_run *run, const struct perf_job *job, const struct task *task)
{
    uint32_t floors[PERF_DEVICE_SLOTS_KINDS];
    char name[PERF_NAME_BYTES], sides[PERF_CUDA_SIDES_BYTES];
    struct perf_result like;

    snprintf(name, sizeof(name), "%s-cuda", task->test->name);
    perf_result_init(&like, name, perf_cuda_sides_text(&task->options->cuda, sides), task->test->unit);
    like.bytes = task->bytes;
    like.ranks = job->ranks;
    if (*job->shared->path)
        snprintf(like.note, sizeof(like.note), "nigh's path: %s", job->shared->path);
    if (*way_of(job))
        snprintf(like.note + strlen(like.note), sizeof(like.note) - strlen(like.note), "%sdevice memory: %s",
                 *like.note ? "; " : "", way_of(job));
    for (uint32_t i = 0; i < job->shared->floors; i++)
        floors[i] = 1 + i;
    return perf_run_rows(run, job, 0, floors, job->shared->floors, &like);
}

static int one_size(struct perf_run *run, struct task *task)
{
    struct perf_case c = {.test = task->test->name,
                          .bytes = task->bytes,
                          .ranks = 2,
                          .window = window_of(task),
                          .stale = run->options->stale,
                          .unit = task->test->unit};
    char what[64], text[24];
    struct perf_job job;
    int rc;

    snprintf(what, sizeof(what), "%s-cuda: %s", task->test->name,
             perf_size_text(task->bytes, text, sizeof(text)));
    perf_compare_case(task->compare, &c);
    perf_run_job(run, &job, run->options->ranks, PERF_DEVICE_SLOTS_BYTES + PAGE, what);
    rc = perf_job_run(&job, device_rank, task);
    if (rc != 0)
        return rc;
    rc = emit(run, &job, task);
    perf_job_end(&job);
    return rc;
}

int perf_device_run(struct perf_run *run, const struct perf_device_test *test)
{
    struct perf_sizes otherwise;
    const struct perf_sizes *sizes = perf_run_sizes(run, test->sizes, &otherwise);
    struct task task = {
        .test = test, .options = run->options, .seconds = run->options->seconds / (double)sizes->count};
    int rc = perf_run_need_cpus(run, test->name, 2);

    if (rc == 0)
        rc = perf_run_transport(run, &task.ops);
    if (rc == 0 && (test->shape == PERF_DEVICE_ONEWAY || test->shape == PERF_DEVICE_STREAM))
        rc = perf_compare_open(&task.compare, run->options, test->name, 2); /* peers have messages alone */
    for (size_t i = 0; rc == 0 && i < sizes->count; i++) {
        task.bytes = sizes->bytes[i];
        rc = one_size(run, &task);
    }
    perf_compare_close(task.compare);
    return rc;
}
