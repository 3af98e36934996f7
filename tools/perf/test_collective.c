/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of the peers of --compare beside each other, an MPI over nigh beside the same MPI over its own shared
 * memory. No rank of nigh's own runs here (its tests are in test_group.c): the rows have no value, and their note says how
 * each MPI over nigh does against itself, and a second job of one against the first.
 */
#include "tools/perf/clock.h"
#include "tools/perf/peers.h"
#include "tools/perf/progress.h"
#include "tools/perf/run.h"
#include "tools/perf/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 1024 };

#define ROUND_SECONDS   0.003
#define CROWDED_SECONDS 0.03 /* ranks share CPUs: some of the scheduler's time slices */

struct rival {
    const char *name;
    struct perf_peer *peer; /* NULL: failed, asked no more */
    double value[ROUNDS];   /* of this row; NAN where it had none */
};

struct collective {
    const struct perf_options *options;
    struct rival *rival;
    uint32_t rivals;
    int cpus[PERF_RANKS]; /* of each rank */
    double round_seconds;
    double ratio[ROUNDS];
    double handoff; /* the least between ranks 0 and 1 in this row's rounds: others wake up meanwhile */
};

struct row_case {
    const char *test;
    uint64_t bytes;
};

static void leave(struct rival *rival)
{
    perf_peer_close(rival->peer);
    rival->peer = NULL;
}

static double one_round(struct collective *all, struct rival *rival, const struct perf_case *c)
{
    struct perf_peer_round round;
    int rc;

    if (!rival->peer)
        return NAN;
    rc = perf_peer_round(rival->peer, c, &round);
    if (rc == 0) {
        all->handoff = fmin(all->handoff, fmin(round.handoff_before, round.handoff_after));
        return round.value;
    }
    perf_progress_clear();
    fprintf(stderr, "nigh-perf: %s: %s of %llu bytes: %s\n%s\n", rival->name, c->test,
            (unsigned long long)c->bytes, strerror(-rc), perf_peer_said(rival->peer));
    leave(rival);
    return NAN;
}

/* Numbers of `v` alone, in place. */
static size_t numbers(double *v, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            v[kept++] = v[i];
    return kept;
}

/* The same MPI over its own shared memory, of a second job the first one, or NULL. */
static const struct rival *own_of(const struct collective *c, const struct rival *over)
{
    const char *end = strpbrk(over->name, perf_peer_variant(over->name) ? ":" : "+");
    size_t length;

    if (!end)
        return NULL;
    length = (size_t)(end - over->name);
    for (uint32_t i = 0; i < c->rivals; i++)
        if (strlen(c->rival[i].name) == length && strncmp(c->rival[i].name, over->name, length) == 0)
            return &c->rival[i];
    return NULL;
}

/* Round by round, so that what the machine did meanwhile is the same for both. */
static void note_ratio(struct collective *c, const struct rival *over, uint32_t rounds,
                       struct perf_result *row)
{
    const struct rival *own = own_of(c, over);
    size_t used = strlen(row->note), n = 0;
    struct perf_interval around;

    if (c->options->how == PERF_HOW_OVERLAP)
        return; /* shares may be nothing, or less */
    for (uint32_t i = 0; own && i < rounds; i++)
        c->ratio[n++] = over->value[i] / own->value[i];
    n = numbers(c->ratio, n);
    if (n == 0)
        return;
    perf_sort(c->ratio, n);
    around = perf_median_interval(c->ratio, n);
    snprintf(row->note + used, sizeof(row->note) - used, "%s%s %.2f (%.2f to %.2f) of %s", used ? "; " : "",
             over->name, perf_quantile(c->ratio, n, 0.5), around.low, around.high,
             perf_peer_variant(over->name) ? "the first" : "its own");
}

static const char *unit_of(const struct collective *c)
{
    return c->options->how == PERF_HOW_OVERLAP ? "%" : "ns";
}

static int emit(struct perf_run *run, struct collective *c, const struct row_case *what, uint32_t rounds)
{
    struct perf_result row;

    perf_result_init(&row, what->test, "", unit_of(c));
    row.more_is_better = c->options->how == PERF_HOW_OVERLAP;
    row.bytes = strcmp(what->test, "barrier") == 0 ? 0 : what->bytes;
    row.ranks = c->options->ranks;
    row.rounds = rounds;
    row.handoff_ns = c->handoff;
    for (uint32_t i = 0; i < c->rivals; i++)
        note_ratio(c, &c->rival[i], rounds, &row);
    for (uint32_t i = 0; i < c->rivals && i < PERF_PEERS; i++) {
        struct rival *rival = &c->rival[i];

        snprintf(row.peers[i].name, sizeof(row.peers[i].name), "%s", rival->name);
        row.peers[i].value = perf_median(rival->value, numbers(rival->value, rounds));
        row.peer_count = i + 1;
    }
    return perf_run_emit(run, &row);
}

static int measure(struct perf_run *run, struct collective *c, const struct row_case *what, double seconds)
{
    struct perf_case one = {.test = what->test,
                            .bytes = what->bytes,
                            .ranks = c->options->ranks,
                            .how = c->options->how,
                            .stale = c->options->stale,
                            .unit = unit_of(c),
                            .seconds = c->round_seconds};
    double end = (double)perf_clock_system() + seconds * 1e9;
    uint32_t rounds = 0;

    c->handoff = NAN;
    do {
        perf_progress("%s, %llu bytes, round %u", what->test, (unsigned long long)what->bytes, rounds + 1);
        for (uint32_t i = 0; i < c->rivals; i++)
            c->rival[i].value[rounds] = one_round(c, &c->rival[i], &one);
        rounds++;
    } while (rounds < ROUNDS && (rounds < 6 || (double)perf_clock_system() < end));
    perf_progress_clear();
    return emit(run, c, what, rounds);
}

/* Of each operation every size; a barrier has none. */
static size_t rows_asked(const struct perf_options *o, struct row_case *row)
{
    static const char *const usual[] = {"barrier", "allreduce", "bcast"};
    const char *const *op = o->op_count ? o->ops : usual;
    size_t ops = o->op_count ? o->op_count : sizeof(usual) / sizeof(usual[0]), rows = 0;

    for (size_t i = 0; i < ops; i++) {
        size_t sizes = strcmp(op[i], "barrier") == 0 || o->sizes.count == 0 ? 1 : o->sizes.count;

        for (size_t k = 0; k < sizes; k++)
            row[rows++] = (struct row_case){
                op[i], sizes == 1 && o->sizes.count == 0 ? 8 : (o->sizes.bytes[k] + 7) / 8 * 8};
    }
    return rows;
}

static int measure_all(struct perf_run *run, struct collective *c)
{
    static const struct row_case usual[] = {{"barrier", 8},
                                            {"allreduce", 8},
                                            {"allreduce", 32768},
                                            {"allreduce", 1048576},
                                            {"bcast", 8},
                                            {"bcast+barrier", 8},
                                            {"bcast+barrier", 262144},
                                            {"reduce", 8},
                                            {"gather", 8},
                                            {"allgather", 8},
                                            {"alltoall", 8}};
    static struct row_case asked[PERF_OPS * PERF_SIZES];
    const struct row_case *row = usual;
    size_t rows = sizeof(usual) / sizeof(usual[0]);
    int rc = 0;

    if (c->options->sizes.count > 0 || c->options->op_count > 0) {
        row = asked;
        rows = rows_asked(c->options, asked);
    }
    for (size_t i = 0; rc == 0 && i < rows; i++)
        rc = measure(run, c, &row[i], c->options->seconds / (double)rows);
    return rc;
}

static void open_all(struct collective *c)
{
    const struct perf_options *o = c->options;
    struct perf_case start = {.ranks = o->ranks, .cpus = c->cpus};
    char why[PERF_WHY_BYTES];

    for (uint32_t i = 0; i < o->peer_count; i++) {
        struct rival *rival = &c->rival[c->rivals];

        rival->name = o->peers[i];
        if (perf_peer_open(rival->name, &start, &rival->peer, why, sizeof(why)) == 0)
            c->rivals++;
        else
            fprintf(stderr, "nigh-perf: without %s: %s\n", rival->name, why);
    }
}

int perf_test_collective(struct perf_run *run)
{
    const struct perf_options *o = run->options;
    struct collective *c;
    int rc = 0;

    if (o->peer_count == 0) {
        fprintf(stderr, "nigh-perf: collective has no figures of nigh's own, which barrier, allreduce and so "
                        "on have; say "
                        "which MPIs, for example --compare=openmpi,openmpi+nigh\n");
        return 0;
    }
    c = calloc(1, sizeof(*c));
    if (!c || !(c->rival = calloc(o->peer_count, sizeof(*c->rival)))) {
        free(c);
        return -ENOMEM;
    }
    c->options = o;
    c->round_seconds = o->ranks > o->cpu_count ? CROWDED_SECONDS : ROUND_SECONDS;
    for (uint32_t i = 0; i < o->ranks; i++)
        c->cpus[i] = o->cpus[i % o->cpu_count];
    open_all(c);
    if (c->rivals > 0)
        rc = measure_all(run, c);
    for (uint32_t i = 0; i < c->rivals; i++)
        leave(&c->rival[i]);
    free(c->rival);
    free(c);
    return rc;
}
