/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pipelines are raced, and the race. */
#include "tools/perf/pipe.h"

#include "tools/perf/floors.h"
#include "tools/perf/sizes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 64, WINDOW_BYTES = 16 << 20, TRIAL_ROUNDS = 5 };

struct shape {
    uint32_t span;
    uint32_t piece; /* medium sizes: the message's divisor */
    enum nigh_copy_kernel in, out;
    bool down;
};

/* Spans: twice a 1 MiB L2 finds the reader's copy of a chunk gone when the writer comes again; less only helps where
 * lines are flushed or written past the caches. Kernels: plain within an L3, past the caches across two. */
static const struct shape large[] = {
    {2 << 20, 16 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 64 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {4 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {8 << 20, 64 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 32 << 10, NIGH_COPY_PREFETCHW, NIGH_COPY_PLAIN, false},
    {256 << 10, 16 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {512 << 10, 32 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 64 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {4 << 20, 16 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {1 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_FLUSH, false},
};

/* Messages of at most 64 KiB. Downwards: the reader's prefetcher runs past the end of a short piece, and then not into
 * the lines that are written next. */
static const struct shape medium[] = {
    {2 << 20, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 2, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 8, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {256 << 10, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {256 << 10, 2, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {4 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 4, NIGH_COPY_PREFETCHW, NIGH_COPY_PLAIN, true},
    {2 << 20, 1, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 4, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 1, NIGH_COPY_NT, NIGH_COPY_FLUSH, false},
};

static int add(struct perf_pipe_kind *out, uint32_t *n, struct shape s, bool in_place)
{
    struct perf_pipe_kind *kind = &out[*n];
    char size[24];

    if (*n == PERF_PIPE_KINDS || !nigh_copy_select(s.in) || !nigh_copy_select(s.out))
        return 0;
    *kind = (struct perf_pipe_kind){s.span, s.piece, s.in, s.out, s.down, in_place, ""};
    if (in_place)
        snprintf(kind->name, sizeof(kind->name), "in-place/%s", nigh_copy_name(s.out));
    else
        snprintf(kind->name, sizeof(kind->name), "%uK/%s/%s/%s%s", s.span >> 10,
                 perf_size_text(s.piece, size, sizeof(size)), nigh_copy_name(s.in), nigh_copy_name(s.out),
                 s.down ? "/down" : "");
    *n += 1;
    return 1;
}

static void add_medium(size_t bytes, struct perf_pipe_kind *out, uint32_t *n)
{
    for (size_t i = 0; i < sizeof(medium) / sizeof(medium[0]); i++) {
        struct shape s = medium[i];

        if (s.piece > 1 && bytes / s.piece < 1024)
            continue;
        if (bytes <= 1024 && (s.in != NIGH_COPY_PLAIN || s.out != NIGH_COPY_PLAIN))
            continue; /* so small a copy is inline: the kernels would be the same */
        s.piece = (uint32_t)(bytes / s.piece + 63) / 64 * 64;
        add(out, n, s, false);
    }
}

uint32_t perf_pipe_kinds(size_t bytes, bool in_place, struct perf_pipe_kind *out)
{
    static const enum nigh_copy_kernel readers[] = {NIGH_COPY_PLAIN, NIGH_COPY_FLUSH, NIGH_COPY_MOVSB};
    uint32_t n = 0;

    for (size_t i = 0; in_place && i < sizeof(readers) / sizeof(readers[0]); i++)
        add(out, &n, (struct shape){1, 1, NIGH_COPY_PLAIN, readers[i], false}, true);
    if (in_place)
        return n;
    if (bytes <= 64 << 10)
        add_medium(bytes, out, &n);
    else
        for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
            add(out, &n, large[i], false);
    return n;
}

uint32_t perf_pipe_window(size_t bytes)
{
    uint64_t fit = WINDOW_BYTES / (bytes ? bytes : 1);

    return fit > WINDOW ? WINDOW : fit < 2 ? 2 : (uint32_t)fit;
}

/* Small pages even where huge ones could be had: programs' buffers are malloc'ed, and a floor must not have better
 * memory than the work. */
static uint8_t *pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_NOHUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

int perf_pipe_load_open(struct perf_pipe_load *load, size_t bytes, uint32_t window, bool stale)
{
    *load = (struct perf_pipe_load){.bytes = bytes, .window = window, .stale = stale};
    load->stride = (bytes + 63) / 64 * 64 + 64;
    load->from = pages(load->stride * window);
    load->to = pages(load->stride * window);
    if (load->from && load->to)
        return 0;
    perf_pipe_load_close(load);
    return -ENOMEM;
}

void perf_pipe_load_close(struct perf_pipe_load *load)
{
    if (load->from)
        munmap(load->from, load->stride * load->window);
    if (load->to)
        munmap(load->to, load->stride * load->window);
    load->from = load->to = NULL;
}

/* Rank 0 names the best column that is not taken yet; everybody learns it. */
static uint32_t agree_on_best(struct perf_rank *me, const uint32_t *columns, uint32_t count, bool more)
{
    uint32_t best;

    perf_barrier(me);
    if (me->rank == 0)
        perf_line_give(&me->shared->go, perf_table_best(&me->shared->table, columns, count, more));
    perf_barrier(me);
    best = (uint32_t)perf_line_take(&me->shared->go);
    perf_barrier(me);
    if (best >= PERF_PIPE_KINDS)
        perf_fail(me, "no memory to choose a pipeline");
    return best;
}

static uint32_t pick(struct perf_rank *me, const struct perf_pipe *tried, uint32_t n, bool more,
                     struct perf_pipe *best, uint32_t want)
{
    uint32_t columns[PERF_PIPE_KINDS], picked = 0;

    for (uint32_t i = 0; i < n; i++)
        columns[i] = i;
    for (; picked < want && n > 0; picked++) {
        uint32_t column = agree_on_best(me, columns, n, more), keep = 0;

        best[picked] = tried[column];
        for (uint32_t i = 0; i < n; i++)
            if (columns[i] != column)
                columns[keep++] = columns[i];
        n = keep;
    }
    return picked;
}

uint32_t perf_pipe_choose(struct perf_rank *me, const struct perf_pipe_load *load, bool in_place,
                          double (*run)(struct perf_rank *, void *, uint32_t), double seconds,
                          struct perf_pipe *best, uint32_t want)
{
    struct perf_pipe_kind kinds[PERF_PIPE_KINDS];
    struct perf_pipe tried[PERF_PIPE_KINDS];
    struct perf_piece piece[PERF_PIPE_KINDS];
    uint32_t n = perf_pipe_kinds(load->bytes, in_place, kinds);
    struct perf_plan plan = {.piece = piece,
                             .pieces = n,
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = seconds,
                             .least_rounds = TRIAL_ROUNDS};

    for (uint32_t i = 0; i < n; i++) {
        tried[i] =
            (struct perf_pipe){kinds[i], load, nigh_copy_select(kinds[i].in), nigh_copy_select(kinds[i].out)};
        piece[i] = (struct perf_piece){kinds[i].name, run, &tried[i], 0, 0};
    }
    perf_rounds_run(me, &plan);
    return pick(me, tried, n, run == perf_pipe_stream, best, want);
}
