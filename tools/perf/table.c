/* SPDX-License-Identifier: BSD-3-Clause */
/* From measured rounds to rows of a report. */
#include "tools/perf/table.h"

#include "tools/perf/state.h"
#include "tools/perf/stats.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one state's values, as large as anything that is sorted. */
struct work {
    double *value; /* PERF_ROUNDS or the samples, whatever is more */
    uint32_t *room;
    struct perf_states states;
};

static size_t gather(const double *column, const struct perf_state *state, double *out)
{
    for (uint32_t i = 0; i < state->count; i++)
        out[i] = column[state->rounds[i]];
    return state->count;
}

static double column_median(const struct perf_table *t, uint32_t column, const struct perf_state *state,
                            double *room)
{
    return perf_median(room, gather(t->value[column], state, room));
}

static double samples_p99(const struct perf_table *t, const struct perf_state *state, double *room)
{
    size_t n = 0;

    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t round = state->rounds[i];

        for (uint32_t s = round ? t->sample_end[round - 1] : 0; s < t->sample_end[round]; s++)
            room[n++] = t->sample[s];
    }
    perf_sort(room, n);
    return perf_quantile(room, n, 0.99);
}

static void set_value(const struct perf_table *t, uint32_t column, const struct perf_state *state,
                      struct perf_result *row, double *room)
{
    size_t n = gather(t->value[column], state, room);
    struct perf_interval around;

    perf_sort(room, n);
    around = perf_median_interval(room, n);
    row->value = perf_quantile(room, n, 0.5);
    row->low = around.low;
    row->high = around.high;
    row->p99 = perf_quantile(room, n, row->more_is_better ? 0.01 : 0.99);
    if (t->sampled == column && t->samples > 0)
        row->p99 = samples_p99(t, state, room);
}

static uint32_t best_in(const struct perf_table *t, const uint32_t *columns, uint32_t count, int more,
                        const struct perf_state *state, double *room)
{
    uint32_t best = PERF_COLUMN_NONE;
    double at = 0;

    for (uint32_t i = 0; i < count; i++) {
        double median = column_median(t, columns[i], state, room);

        if (best == PERF_COLUMN_NONE || (more ? median > at : median < at)) {
            best = columns[i];
            at = median;
        }
    }
    return best;
}

static void set_floor(const struct perf_table *t, uint32_t work, uint32_t floor,
                      const struct perf_state *state, struct perf_result *row, double *room)
{
    row->floor = column_median(t, floor, state, room);
    perf_ratios(t->value[work], t->value[floor], state->rounds, state->count, room);
    row->ratio = perf_median(room, state->count);
}

/* Of the rounds in which the peer took part. */
static void set_peer(const struct perf_table *t, uint32_t work, uint32_t column,
                     const struct perf_state *state, struct perf_peer_value *out, double *room)
{
    size_t n = 0;

    for (uint32_t i = 0; i < state->count; i++)
        if (!isnan(t->value[column][state->rounds[i]]))
            room[n++] = t->value[column][state->rounds[i]];
    out->value = perf_median(room, n);
    n = 0;
    for (uint32_t i = 0; i < state->count; i++)
        if (t->value[column][state->rounds[i]] > 0)
            room[n++] = t->value[work][state->rounds[i]] / t->value[column][state->rounds[i]];
    out->ratio = perf_median(room, n);
}

static void set_peers(const struct perf_table *t, uint32_t work, const struct perf_state *state,
                      struct perf_result *row, double *room)
{
    for (uint32_t i = 0; i < t->peers && i < PERF_PEERS; i++) {
        uint32_t column = t->columns - t->peers + i;

        snprintf(row->peers[i].name, sizeof(row->peers[i].name), "%s", t->name[column]);
        set_peer(t, work, column, state, &row->peers[i], room);
        if (strcmp(row->unit, "%") == 0)
            row->peers[i].ratio = NAN; /* a share may be nothing, or less */
        row->peer_count = i + 1;
    }
}

/* All rounds as one state, for jobs whose L cannot be probed. */
static void one_state(const struct perf_table *t, struct work *w)
{
    w->states.count = 1;
    w->states.dropped = 0;
    for (uint32_t i = 0; i < t->rounds; i++)
        w->room[i] = i;
    w->states.state[0] = (struct perf_state){NAN, t->rounds, w->room};
}

static int prepare(const struct perf_table *t, struct work *w)
{
    size_t most = t->samples > PERF_ROUNDS ? t->samples : PERF_ROUNDS;
    int rc = 0;

    w->value = malloc(most * sizeof(*w->value));
    w->room = malloc(PERF_ROUNDS * sizeof(*w->room));
    if (!w->value || !w->room)
        return -ENOMEM;
    if (t->has_handoff)
        rc = perf_states_find(t->handoff, t->rounds, w->room, &w->states);
    else
        one_state(t, w);
    return rc;
}

static void release(struct work *w)
{
    free(w->value);
    free(w->room);
}

static void make_row(const struct perf_table *t, const struct perf_race *race, const struct perf_state *state,
                     struct perf_result *row, double *room)
{
    uint32_t work = best_in(t, race->work, race->work_count, row->more_is_better, state, room);
    uint32_t floor = best_in(t, race->floors, race->floor_count, row->more_is_better, state, room);

    row->handoff_ns = state->handoff_ns;
    row->rounds = state->count;
    if (race->work_count > 1)
        snprintf(row->path, sizeof(row->path), "%s", t->name[work]);
    set_value(t, work, state, row, room);
    if (floor != PERF_COLUMN_NONE)
        set_floor(t, work, floor, state, row, room);
    set_peers(t, work, state, row, room);
}

int perf_table_rows(const struct perf_table *t, const struct perf_race *race, const struct perf_result *like,
                    struct perf_result *rows, uint32_t max)
{
    struct work w = {0};
    uint32_t n = 0;
    int rc = prepare(t, &w);

    for (; rc == 0 && n < w.states.count && n < max; n++) {
        rows[n] = *like;
        rows[n].dropped = n == 0 ? w.states.dropped : 0;
        make_row(t, race, &w.states.state[n], &rows[n], w.value);
    }
    release(&w);
    return rc ? rc : (int)n;
}

uint32_t perf_table_state_rounds(const struct perf_table *t)
{
    struct work w = {0};
    uint32_t rounds = prepare(t, &w) == 0 && w.states.count > 0 ? w.states.state[0].count : 0;

    release(&w);
    return rounds;
}

uint32_t perf_table_best(const struct perf_table *t, const uint32_t *columns, uint32_t count, int more)
{
    struct work w = {0};
    uint32_t best = PERF_COLUMN_NONE;

    if (prepare(t, &w) == 0) {
        if (w.states.count == 0)
            one_state(t, &w);
        best = best_in(t, columns, count, more, &w.states.state[0], w.value);
    }
    release(&w);
    return best;
}
