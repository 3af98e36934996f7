/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers as pieces of a round. */
#include "tools/perf/compare.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rival {
    struct perf_compare *compare;
    const char *name;
    struct perf_peer *peer;
    bool silent; /* failed or has no such test: it is asked no more */
};

struct perf_compare {
    const struct perf_case *c;
    const struct perf_plan *plan;
    uint32_t count;
    struct rival rival[PERF_PEERS];
};

static long futex(struct perf_line *line, int op, uint32_t value)
{
    return syscall(SYS_futex, (uint32_t *)&line->word, op, value, NULL, NULL, 0);
}

/* The other ranks sleep until rank 0 has counted one more. */
static void sleep_until(struct perf_rank *me, uint32_t count)
{
    struct perf_line *line = &me->shared->sleep;
    uint32_t now;

    while ((now = perf_take((uint32_t *)&line->word)) != count)
        futex(line, FUTEX_WAIT, now);
}

static void wake_all(struct perf_rank *me, uint32_t count)
{
    perf_give((uint32_t *)&me->shared->sleep.word, count);
    futex(&me->shared->sleep, FUTEX_WAKE, INT32_MAX);
}

static uint32_t windows(const struct perf_case *c, uint64_t messages)
{
    uint32_t window = c->window ? c->window : 1;

    return (uint32_t)((messages + window - 1) / window);
}

static double ask(struct rival *rival)
{
    struct perf_case c = *rival->compare->c;
    const struct perf_plan *plan = rival->compare->plan;
    const struct perf_piece *work = &plan->piece[0];
    uint64_t per = work->messages ? work->messages : 1;
    struct perf_peer_round round;
    int rc;

    if (rival->silent)
        return NAN;
    c.count = windows(&c, work->count * per);
    c.warm = windows(&c, perf_rounds_warm(plan, work) * per);
    rc = perf_peer_round(rival->peer, &c, &round);
    if (rc == 0)
        return round.value;
    rival->silent = true;
    if (rc != -EOPNOTSUPP)
        fprintf(stderr, "nigh-perf: %s: %s of %llu bytes: %s\n%s\n", rival->name, c.test,
                (unsigned long long)c.bytes, strerror(-rc), perf_peer_said(rival->peer));
    return NAN;
}

static double peer_piece(struct perf_rank *me, void *arg, uint32_t count)
{
    uint32_t number = (uint32_t)++me->sleeps;
    double value = 0;

    (void)count;
    if (me->rank == 0) {
        value = ask(arg);
        wake_all(me, number);
    } else {
        sleep_until(me, number);
    }
    return value;
}

int perf_compare_open(struct perf_compare **out, const struct perf_options *options, const char *test,
                      uint32_t ranks)
{
    struct perf_case c = {.test = test, .ranks = ranks, .cpus = options->cpus};
    char why[PERF_WHY_BYTES], sides[PERF_CUDA_SIDES_BYTES];
    struct perf_compare *compare;

    *out = NULL;
    if (options->peer_count == 0)
        return 0;
    if (options->cuda.asked)
        c.cuda = perf_cuda_sides_text(&options->cuda, sides);
    compare = calloc(1, sizeof(*compare));
    if (!compare)
        return -ENOMEM;
    for (uint32_t i = 0; i < options->peer_count; i++) {
        struct rival *rival = &compare->rival[compare->count];

        *rival = (struct rival){compare, options->peers[i], NULL, false};
        if (perf_peer_open(rival->name, &c, &rival->peer, why, sizeof(why)) == 0)
            compare->count++;
        else
            fprintf(stderr, "nigh-perf: without %s: %s\n", rival->name, why);
    }
    *out = compare;
    return 0;
}

void perf_compare_close(struct perf_compare *compare)
{
    for (uint32_t i = 0; compare && i < compare->count; i++)
        perf_peer_close(compare->rival[i].peer);
    free(compare);
}

void perf_compare_case(struct perf_compare *compare, const struct perf_case *c)
{
    if (compare)
        compare->c = c;
}

uint32_t perf_compare_pieces(struct perf_compare *compare, const struct perf_plan *plan,
                             struct perf_piece *piece, uint32_t max)
{
    uint32_t n = 0;

    if (compare)
        compare->plan = plan;
    for (; compare && n < compare->count && n < max; n++)
        piece[n] = (struct perf_piece){compare->rival[n].name, peer_piece, &compare->rival[n], 1, 0};
    return n;
}
