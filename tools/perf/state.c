/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting rounds into states of the machine by their handoff time. */
#include "tools/perf/state.h"

#include "tools/perf/stats.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct round {
    double handoff; /* mean of before and after, NAN once it is used or dropped */
    uint32_t index;
};

static bool near(double a, double b)
{
    return a <= b * PERF_L_MOVE && b <= a * PERF_L_MOVE;
}

static int by_handoff(const void *a, const void *b)
{
    double x = ((const struct round *)a)->handoff, y = ((const struct round *)b)->handoff;

    return (x > y) - (x < y);
}

static int by_index(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The rounds during which L stood still, sorted by L. */
static uint32_t steady(const double *handoff, uint32_t rounds, struct round *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < rounds; i++)
        if (near(handoff[i], handoff[i + 1])) {
            out[n].handoff = (handoff[i] + handoff[i + 1]) / 2;
            out[n++].index = i;
        }
    qsort(out, n, sizeof(*out), by_handoff);
    return n;
}

/* The window of L values, a factor of PERF_L_MOVE to either side of its middle, that holds the most rounds. A
 * mode and not the run's median: with two states of equal weight the median lies between them. */
static uint32_t densest(const struct round *r, uint32_t n, uint32_t *first)
{
    uint32_t best = 0;

    for (uint32_t low = 0, high = 0; low < n; low++) {
        while (high < n && r[high].handoff <= r[low].handoff * PERF_L_MOVE * PERF_L_MOVE)
            high++;
        if (high - low > best) {
            best = high - low;
            *first = low;
        }
    }
    return best;
}

static void take(struct round *r, uint32_t *n, uint32_t first, uint32_t count, uint32_t *room,
                 struct perf_state *state)
{
    double middle = (count % 2) ? r[first + count / 2].handoff
                                : (r[first + count / 2 - 1].handoff + r[first + count / 2].handoff) / 2;

    for (uint32_t i = 0; i < count; i++)
        room[i] = r[first + i].index;
    qsort(room, count, sizeof(*room), by_index);
    state->handoff_ns = middle;
    state->count = count;
    state->rounds = room;
    memmove(r + first, r + first + count, (*n - first - count) * sizeof(*r));
    *n -= count;
}

int perf_states_find(const double *handoff, uint32_t rounds, uint32_t *room, struct perf_states *out)
{
    struct round *r = malloc((rounds + 1) * sizeof(*r));
    uint32_t n, used = 0, first = 0, count;

    if (!r)
        return -ENOMEM;
    memset(out, 0, sizeof(*out));
    n = steady(handoff, rounds, r);
    while (out->count < PERF_STATES) {
        count = densest(r, n, &first);
        /* Stragglers beside a state (an interrupt in the probe) must not become a state of their own. */
        if (count < PERF_STATE_LEAST || count * 20 < rounds)
            break;
        take(r, &n, first, count, room + used, &out->state[out->count++]);
        used += count;
    }
    out->dropped = rounds - used;
    free(r);
    return 0;
}
