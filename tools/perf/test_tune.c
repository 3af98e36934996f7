/* SPDX-License-Identifier: BSD-3-Clause */
/* `nigh-perf tune`: races the ways in which large messages can be copied and writes the winners to the
 * file that nigh reads when it opens. What was not seen (often one of the two states of the machine)
 * keeps its default, and that is said. */
#include "tools/perf/floors.h"
#include "tools/perf/pipe.h"
#include "tools/perf/run.h"
#include "tools/perf/state.h"

#include "shm/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KIB = 1024, MIB = 1024 * KIB, LONG = 16 * MIB, MOST = 30 };

/* What a pair feels of a handoff, which stores under way lengthen, in parts of L: 1.2 to 1.5 near, 1.1 to 1.2 far. */
#define FELT 1.3

/* A race: messages of one size, one list of candidates. */
struct step {
    size_t bytes;
    uint32_t window;
    double seconds;
    uint32_t count;
    struct nigh_strategy candidate[MOST];
};

/* The winner of one step in each state; L is NAN where that state was not seen. */
struct winner {
    double handoff;
    double value;
    struct nigh_strategy strategy;
};

struct outcome {
    struct winner near, far;
};

static void name_of(const struct nigh_strategy *s, char *name, size_t size)
{
    char span[24], piece[24];

    snprintf(name, size, "%s>%s %s/%s", nigh_copy_name(s->sender), nigh_copy_name(s->receiver),
             perf_size_text(s->span, span, sizeof(span)), perf_size_text(s->piece, piece, sizeof(piece)));
}

static void add(struct step *step, uint8_t sender, uint8_t receiver, uint32_t span, uint32_t piece,
                uint32_t from)
{
    struct nigh_strategy s = {
        .sender = sender, .receiver = receiver, .span = span, .piece = piece, .from = from};

    if (step->count < MOST && nigh_strategy_check(&s, NULL) == 0)
        step->candidate[step->count++] = s;
}

static int step_rank(struct perf_rank *me, void *arg)
{
    const struct step *step = arg;
    struct perf_pipe pipe[MOST];
    struct perf_piece piece[MOST];
    struct perf_plan plan = {.piece = piece,
                             .pieces = step->count,
                             .warm = perf_pipe_warm(step->bytes),
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = step->seconds,
                             .least_rounds = PERF_STATE_LEAST}; /* of many candidates, each takes long */
    struct perf_pipe_load load;

    if (perf_pipe_load_open(&load, step->bytes, step->window, false) != 0)
        perf_fail(me, "no memory for %" PRIu32 " messages of %zu bytes", step->window, step->bytes);
    for (uint32_t i = 0; i < step->count; i++) {
        const struct nigh_strategy *s = &step->candidate[i];
        struct perf_pipe_kind kind = {
            .span = s->span, .piece = s->piece, .in = s->sender, .out = s->receiver};

        name_of(s, kind.name, sizeof(kind.name));
        pipe[i] = (struct perf_pipe){kind, &load, nigh_copy_select(kind.in), nigh_copy_select(kind.out)};
        piece[i] = (struct perf_piece){pipe[i].kind.name, perf_pipe_stream, &pipe[i], 0, step->window};
    }
    perf_rounds_run(me, &plan);
    perf_pipe_load_close(&load);
    return 0;
}

static void note_winner(const struct step *step, const struct perf_result *row, double far_ns,
                        struct outcome *out)
{
    struct winner *w = row->handoff_ns > far_ns ? &out->far : &out->near;
    char name[PERF_NAME_BYTES];

    if (isfinite(w->handoff))
        return; /* states come with most rounds first */
    for (uint32_t i = 0; i < step->count; i++) {
        name_of(&step->candidate[i], name, sizeof(name));
        if (strcmp(name, row->path) == 0)
            *w = (struct winner){row->handoff_ns, row->value, step->candidate[i]};
    }
}

static int run_step(struct perf_run *run, struct step *step, double far_ns, struct outcome *out)
{
    uint32_t columns[MOST];
    struct perf_race race = {columns, step->count, NULL, 0};
    struct perf_result like, rows[4];
    struct perf_job job;
    int n, rc;

    out->near.handoff = out->far.handoff = NAN;
    for (uint32_t i = 0; i < step->count; i++)
        columns[i] = i;
    perf_run_job(run, &job, 2, PERF_SCRATCH((step->bytes + 128) * step->window), "tune");
    rc = perf_job_run(&job, step_rank, step);
    if (rc != 0)
        return rc;
    perf_result_init(&like, "tune", "", "GB/s");
    like.bytes = step->bytes;
    like.ranks = 2;
    n = perf_table_rows(&job.shared->table, &race, &like, rows, 4);
    if (n == 0)
        rc = perf_run_restless(run, &job.shared->table, &like);
    for (int i = 0; i < n && rc == 0; i++) {
        note_winner(step, &rows[i], far_ns, out);
        rc = perf_run_emit(run, &rows[i]);
    }
    perf_job_end(&job);
    return n < 0 ? n : rc;
}

/* Kernels and pieces, with the default's span. */
static void kernels(struct step *step, size_t bytes, uint32_t span, uint32_t from)
{
    static const uint8_t pairs[][2] = {
        {NIGH_COPY_PLAIN, NIGH_COPY_PLAIN},
        {NIGH_COPY_PREFETCHW, NIGH_COPY_PLAIN},
        {NIGH_COPY_NT, NIGH_COPY_PLAIN},
        {NIGH_COPY_PLAIN, NIGH_COPY_FLUSH},
        {NIGH_COPY_PLAIN, NIGH_COPY_MOVSB},
        {NIGH_COPY_PLAIN, NIGH_COPY_NT},
        {NIGH_COPY_NT, NIGH_COPY_NT},
        {NIGH_COPY_QUARTERS, NIGH_COPY_NT},
        {NIGH_COPY_QUARTERS, NIGH_COPY_QUARTERS},
        {NIGH_COPY_NT, NIGH_COPY_QUARTERS},
    };

    *step = (struct step){.bytes = bytes, .window = (uint32_t)(16 * MIB / bytes)};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        for (uint32_t piece = 16 * KIB; piece <= 64 * KIB; piece *= 2)
            if (pairs[i][1] != NIGH_COPY_NT ||
                from > 0) /* see struct nigh_strategy: only for long messages */
                add(step, pairs[i][0], pairs[i][1], span, piece, from);
    if (step->window < 2)
        step->window = 2;
}

/* Spans for what has won. */
static void spans(struct step *step, const struct nigh_strategy *s)
{
    *step = (struct step){.bytes = MIB, .window = 16};
    for (uint32_t span = 256 * KIB; span <= 8 * MIB; span *= 2)
        add(step, s->sender, s->receiver, span, s->piece, 0);
}

static bool same(const struct nigh_strategy *a, const struct nigh_strategy *b)
{
    return a->sender == b->sender && a->receiver == b->receiver && a->span == b->span &&
           a->piece == b->piece && a->from == b->from;
}

/* The index of the strategy in the list, where it is put if it is new. What is known of it by default but was not measured,
 * from when on it is tried, is added. */
static uint32_t put(struct nigh_tune *tune, const struct nigh_strategy *s)
{
    for (uint32_t i = 0; i < tune->count; i++)
        if (same(&tune->strategy[i], s)) {
            tune->strategy[i].tried = s->tried;
            return i;
        }
    if (tune->count == NIGH_PACE_STRATEGIES)
        return NIGH_PACE_STRATEGIES - 1;
    tune->strategy[tune->count] = *s;
    return tune->count++;
}

/* What was found, with the defaults for what was not. One span for all: the chunks of all pairs come from one pool. */
static void compose(struct nigh_tune *tune, const struct outcome *medium, const struct outcome *large,
                    uint32_t span)
{
    struct nigh_tune defaults = *tune;
    struct nigh_strategy near = defaults.strategy[defaults.near], far = defaults.strategy[defaults.far];

    if (isfinite(medium->near.handoff))
        near = medium->near.strategy;
    if (isfinite(medium->far.handoff))
        far = medium->far.strategy;
    tune->count = 0;
    near.span = far.span = span;
    tune->near = put(tune, &near);
    tune->far = put(tune, &far);
    if (isfinite(large->near.handoff))
        put(tune, &large->near.strategy);
    if (isfinite(large->far.handoff))
        put(tune, &large->far.strategy);
    for (uint32_t i = 0; i < defaults.count && tune->count < NIGH_PACE_STRATEGIES; i++) {
        struct nigh_strategy s = defaults.strategy[i];

        s.span = span;
        put(tune, &s);
    }
    for (uint32_t i = 0; i < tune->count; i++)
        tune->strategy[i].span = span;
    if (isfinite(medium->near.handoff) && isfinite(medium->far.handoff))
        tune->far_ns = (uint32_t)(FELT * sqrt(medium->near.handoff * medium->far.handoff));
}

static void describe(char *text, size_t size, const struct outcome *o)
{
    int n = snprintf(text, size, "Written by nigh-perf tune.");

    if (isfinite(o->near.handoff))
        n += snprintf(text + n, size - (size_t)n, " Within an L3 (a handoff took %.0f ns): measured.",
                      o->near.handoff);
    else
        n += snprintf(text + n, size - (size_t)n, " Within an L3: not seen, defaults.");
    if (isfinite(o->far.handoff))
        snprintf(text + n, size - (size_t)n, " Across L3s (%.0f ns): measured.", o->far.handoff);
    else
        snprintf(text + n, size - (size_t)n, " Across L3s: not seen, defaults.");
}

/* Makes the folders above the file, where they are missing. */
static void make_folders(const char *file)
{
    char path[NIGH_TUNE_PATH];

    snprintf(path, sizeof(path), "%s", file);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777); /* saving says what is wrong when this fails */
        *slash = '/';
    }
}

static int save(const struct perf_run *run, const struct nigh_tune *tune, const struct outcome *medium)
{
    char path[NIGH_TUNE_PATH], comment[256], error[NIGH_TUNE_ERROR] = "";
    int rc = 0;

    if (run->options->tune_file)
        snprintf(path, sizeof(path), "%s", run->options->tune_file);
    else
        rc = nigh_tune_path(path);
    if (rc < 0) {
        fprintf(stderr,
                "nigh-perf: tune: neither NIGH_TUNE nor XDG_CONFIG_HOME nor HOME is set; use --tune-file\n");
        return rc;
    }
    describe(comment, sizeof(comment), medium);
    make_folders(path);
    rc = nigh_tune_save(path, tune, comment, error);
    if (rc != 0)
        fprintf(stderr, "nigh-perf: tune: %s\n", error);
    else
        fprintf(stderr, "nigh-perf: %s is written. %s\n", path, comment);
    return rc;
}

int perf_test_tune(struct perf_run *run)
{
    struct outcome medium, large, span;
    struct nigh_tune tune;
    struct step step;
    uint32_t best_span;
    int rc = perf_run_need_cpus(run, "tune", 2);

    nigh_tune_default(&tune);
    best_span = tune.strategy[tune.near].span;
    kernels(&step, MIB, best_span, 0);
    step.seconds = run->options->seconds * 0.5;
    if (rc == 0)
        rc = run_step(run, &step, tune.far_ns / FELT, &medium);
    kernels(&step, LONG, best_span, LONG);
    step.seconds = run->options->seconds * 0.3;
    if (rc == 0)
        rc = run_step(run, &step, tune.far_ns / FELT, &large);
    if (rc == 0) {
        spans(&step, isfinite(medium.near.handoff) ? &medium.near.strategy : &tune.strategy[tune.near]);
        step.seconds = run->options->seconds * 0.2;
        rc = run_step(run, &step, tune.far_ns / FELT, &span);
    }
    if (rc != 0 || !perf_job_reports())
        return rc;
    if (isfinite(span.near.handoff))
        best_span = span.near.strategy.span;
    compose(&tune, &medium, &large, best_span);
    return save(run, &tune, &medium);
}
