/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pipelines are raced, and the race. */
#include "tools/perf/pipe.h"

#include "tools/perf/floors.h"
#include "tools/perf/sizes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define FAR_NS      120 /* a handoff that takes longer crosses between L3s */

enum { WINDOW = 64, WINDOW_BYTES = 16 << 20, WARM_BYTES = 16 << 20, WARM_MESSAGES = 1024 };
enum { TRIAL_ROUNDS = 5, MEDIUM = 64 << 10, LONG = 4 << 20 };
/* Its chunks are only those of the flags. */
enum { SHUTTLED = 512 << 10, SLOTS = 16 };

struct shape {
    uint32_t span;
    uint32_t piece; /* medium sizes: the message's divisor */
    enum nigh_copy_kernel in, out;
    bool down;
};

/* What is best within an L3 and what is best across two, each list in the order in which its kinds won when the machine
 * was in that state. Within: spans of twice a 1 MiB L2, so that the reader's copy of a chunk is gone when the writer
 * comes again. Across: stores past the caches, or a reader that gives the lines back. */
static const struct shape large_near[] = {
    {2 << 20, 64 << 10, NIGH_COPY_QUARTERS, NIGH_COPY_NT, false},
    {2 << 20, 64 << 10, NIGH_COPY_QUARTERS, NIGH_COPY_QUARTERS, false},
    {2 << 20, 32 << 10, NIGH_COPY_QUARTERS, NIGH_COPY_QUARTERS, false},
    {2 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_NT, false},
    {2 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 64 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 64 << 10, NIGH_COPY_PLAIN, NIGH_COPY_NT, false},
    {2 << 20, 16 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 32 << 10, NIGH_COPY_PREFETCHW, NIGH_COPY_PLAIN, false},
    {4 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
};

static const struct shape large_far[] = {
    {2 << 20, 64 << 10, NIGH_COPY_NT, NIGH_COPY_NT, false},
    {2 << 20, 64 << 10, NIGH_COPY_NT, NIGH_COPY_QUARTERS, false},
    {2 << 20, 64 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {512 << 10, 32 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {4 << 20, 16 << 10, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {1 << 20, 32 << 10, NIGH_COPY_PLAIN, NIGH_COPY_FLUSH, false},
};

/* Messages of at most 64 KiB. Downwards: the reader's prefetcher runs past the end of a short piece, and then not into
 * the lines that are written next. */
static const struct shape medium_near[] = {
    {2 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 2, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 8, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {2 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
    {256 << 10, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {4 << 20, 4, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, true},
    {2 << 20, 4, NIGH_COPY_PREFETCHW, NIGH_COPY_PLAIN, true},
};

static const struct shape medium_far[] = {
    {2 << 20, 1, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 4, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 2, NIGH_COPY_NT, NIGH_COPY_PLAIN, false},
    {2 << 20, 1, NIGH_COPY_NT, NIGH_COPY_FLUSH, false},
    {256 << 10, 1, NIGH_COPY_PLAIN, NIGH_COPY_FLUSH, true},
    {256 << 10, 1, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false},
};

static int add(struct perf_pipe_kind *out, uint32_t *n, struct shape s, bool in_place)
{
    struct perf_pipe_kind *kind = &out[*n];
    char size[24];

    if (*n == PERF_PIPE_KINDS || !nigh_copy_select(s.in) || !nigh_copy_select(s.out))
        return 0;
    *kind = (struct perf_pipe_kind){s.span, s.piece, s.in, s.out, s.down, in_place, false, false, ""};
    if (in_place)
        snprintf(kind->name, sizeof(kind->name), "in-place/%s", nigh_copy_name(s.out));
    else
        snprintf(kind->name, sizeof(kind->name), "%uK/%s/%s/%s%s", s.span >> 10,
                 perf_size_text(s.piece, size, sizeof(size)), nigh_copy_name(s.in), nigh_copy_name(s.out),
                 s.down ? "/down" : "");
    *n += 1;
    return 1;
}

static void add_medium(const struct shape *list, size_t count, size_t bytes, struct perf_pipe_kind *out,
                       uint32_t *n)
{
    for (size_t i = 0; i < count; i++) {
        struct shape s = list[i];

        if (s.piece > 1 && bytes / s.piece < 1024)
            continue;
        if (bytes <= 1024 && (s.in != NIGH_COPY_PLAIN || s.out != NIGH_COPY_PLAIN))
            continue; /* so small a copy is inline: the kernels would be the same */
        s.piece = (uint32_t)(bytes / s.piece + 63) / 64 * 64;
        add(out, n, s, false);
    }
}

/* A reader that writes past its caches wins every timing, but leaves the message in memory: no floor for messages that
 * fit into a cache. */
static void add_large(const struct shape *list, size_t count, size_t bytes, struct perf_pipe_kind *out,
                      uint32_t *n)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].out != NIGH_COPY_NT || bytes >= LONG)
            add(out, n, list[i], false);
}

static void add_in_place(struct perf_pipe_kind *out, uint32_t *n)
{
    static const enum nigh_copy_kernel readers[] = {NIGH_COPY_PLAIN, NIGH_COPY_MOVSB, NIGH_COPY_FLUSH};

    for (size_t i = 0; i < COUNT(readers); i++)
        add(out, n, (struct shape){1, 1, NIGH_COPY_PLAIN, readers[i], false}, true);
}

uint32_t perf_pipe_kinds(size_t bytes, enum perf_pipe_group group, struct perf_pipe_kind *out)
{
    bool near = group == PERF_PIPE_NEAR;
    uint32_t n = 0;

    if (group == PERF_PIPE_IN_PLACE)
        add_in_place(out, &n);
    else if (bytes <= MEDIUM)
        add_medium(near ? medium_near : medium_far, near ? COUNT(medium_near) : COUNT(medium_far), bytes, out,
                   &n);
    else
        add_large(near ? large_near : large_far, near ? COUNT(large_near) : COUNT(large_far), bytes, out, &n);
    return n;
}

/* By the whole message down to eighths, each with a flag or all with a count; stores are plain, as the lines are
 * at hand. Above 512 KiB they are not. */
uint32_t perf_pipe_shuttles(size_t bytes, struct perf_pipe_kind *out)
{
    static const struct {
        uint32_t parts;
        bool counted;
    } ways[] = {{4, true}, {8, true}, {2, true}, {4, false}, {1, false}, {8, false}};
    uint32_t n = 0;

    for (size_t i = 0; i < COUNT(ways) && bytes <= SHUTTLED; i++) {
        uint32_t piece = (uint32_t)(bytes / ways[i].parts + 63) / 64 * 64;
        struct shape s = {SLOTS * piece, piece, NIGH_COPY_PLAIN, NIGH_COPY_PLAIN, false};
        char size[24];

        if (ways[i].parts > 1 && s.piece < 1024)
            continue;
        if (!add(out, &n, s, false))
            break;
        out[n - 1].shuttle = true;
        out[n - 1].counted = ways[i].counted;
        snprintf(out[n - 1].name, sizeof(out[n - 1].name), "%s/%s", ways[i].counted ? "counted" : "shuttle",
                 perf_size_text(s.piece, size, sizeof(size)));
    }
    return n;
}

uint32_t perf_pipe_window(size_t bytes)
{
    uint64_t fit = WINDOW_BYTES / (bytes ? bytes : 1);

    return fit > WINDOW ? WINDOW : fit < 2 ? 2 : (uint32_t)fit;
}

uint32_t perf_pipe_warm(size_t bytes)
{
    uint64_t fit = WARM_BYTES / (bytes ? bytes : 1);

    return fit > WARM_MESSAGES ? WARM_MESSAGES : fit ? (uint32_t)fit : 1;
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

/* Prepares the kinds of one group in their own order; those of a message that is answered come first. */
static uint32_t prepare(const struct perf_pipe_load *load, enum perf_pipe_group group, bool answered,
                        struct perf_pipe *out)
{
    struct perf_pipe_kind kinds[2 * PERF_PIPE_KINDS];
    uint32_t n = answered ? perf_pipe_shuttles(load->bytes, kinds) : 0;

    n += perf_pipe_kinds(load->bytes, group, kinds + n);
    if (n > PERF_PIPE_KINDS)
        n = PERF_PIPE_KINDS;
    for (uint32_t i = 0; i < n; i++)
        out[i] =
            (struct perf_pipe){kinds[i], load, nigh_copy_select(kinds[i].in), nigh_copy_select(kinds[i].out)};
    return n;
}

/* Races the kinds and moves the `want` best to the front, best first. */
static void race(struct perf_rank *me, struct perf_pipe *pipe, uint32_t n, perf_piece_fn run, double seconds,
                 uint32_t want)
{
    struct perf_piece piece[PERF_PIPE_KINDS];
    struct perf_plan plan = {.piece = piece,
                             .pieces = n,
                             .warm = perf_pipe_warm(pipe->load->bytes),
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = seconds,
                             .least_rounds = TRIAL_ROUNDS,
                             .hasty = true};
    struct perf_pipe sorted[PERF_PIPE_KINDS];
    uint32_t columns[PERF_PIPE_KINDS], left = n, per = run == perf_pipe_oneway ? 1 : pipe->load->window;

    for (uint32_t i = 0; i < n; i++) {
        piece[i] = (struct perf_piece){pipe[i].kind.name, run, &pipe[i], 0, per};
        columns[i] = i;
    }
    perf_rounds_run(me, &plan);
    for (uint32_t i = 0; i < want && left > 0; i++) {
        uint32_t best = agree_on_best(me, columns, left, run == perf_pipe_stream), keep = 0;

        sorted[i] = pipe[best];
        for (uint32_t c = 0; c < left; c++)
            if (columns[c] != best)
                columns[keep++] = columns[c];
        left = keep;
    }
    memcpy(pipe, sorted, (want < n ? want : n) * sizeof(*pipe));
}

/* What all ranks take for the machine's state now. */
static enum perf_pipe_group state_now(struct perf_rank *me)
{
    double ns = 0;
    uint64_t far;

    perf_barrier(me);
    if (me->rank < 2)
        ns = perf_handoff_probe(me, 500);
    if (me->rank == 0)
        perf_line_give(&me->shared->go, ns > FAR_NS);
    perf_barrier(me);
    far = perf_line_take(&me->shared->go);
    perf_barrier(me);
    return far ? PERF_PIPE_FAR : PERF_PIPE_NEAR;
}

uint32_t perf_pipe_choose(struct perf_rank *me, const struct perf_pipe_load *load, perf_piece_fn run,
                          double seconds, struct perf_pipe best[PERF_PIPE_BEST])
{
    struct perf_pipe pipe[PERF_PIPE_KINDS];
    enum perf_pipe_group now = state_now(me);
    uint32_t half = PERF_PIPE_BEST / 2, n = 0;

    for (enum perf_pipe_group group = PERF_PIPE_NEAR; group <= PERF_PIPE_FAR; group++) {
        uint32_t kinds = prepare(load, group, run == perf_pipe_oneway, pipe),
                 want = kinds < half ? kinds : half;

        if (group == now && kinds > half)
            race(me, pipe, kinds, run, seconds, want);
        memcpy(best + n, pipe, want * sizeof(*pipe));
        n += want;
    }
    return n;
}

uint32_t perf_pipe_in_place(const struct perf_pipe_load *load, struct perf_pipe best[PERF_PIPE_BEST])
{
    struct perf_pipe pipe[PERF_PIPE_KINDS];
    uint32_t n = prepare(load, PERF_PIPE_IN_PLACE, false, pipe);

    memcpy(best, pipe, n * sizeof(*pipe));
    return n;
}
