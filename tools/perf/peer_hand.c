/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer's program without nigh-perf: all cases in turn, many rounds, one JSON line each. It is how a peer is
 * looked at alone, and how the comparison itself is checked. */
#include "tools/perf/peer_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAND_CASES_MAX  64
#define HAND_ROUNDS_MAX 1024
#define HAND_ROUND_NS   3e6

#define USUAL_TESTS                                                                                      \
    "latency:8,latency:512,latency:4096,latency:32768,rate:8,bandwidth:4096,bandwidth:262144,bandwidth:" \
    "4194304,"                                                                                           \
    "bandwidth:16777216,barrier:8,allreduce:8,allreduce:32768,allreduce:262144,allreduce:2097152,bcast:" \
    "262144,"                                                                                            \
    "bcast:2097152"

struct hand_case {
    struct peer_case c;
    double p50[HAND_ROUNDS_MAX], p99[HAND_ROUNDS_MAX], handoff[HAND_ROUNDS_MAX];
};

static int is_stream(const char *test)
{
    return !strcmp(test, "bandwidth") || !strcmp(test, "sends");
}

static uint32_t usual_window(const char *test, uint64_t bytes)
{
    if (!strcmp(test, "rate"))
        return 64;
    if (!is_stream(test))
        return 1;
    uint64_t fit = (2u << 20) / (bytes ? bytes : 1);
    return fit > 64 ? 64 : fit < 2 ? 2 : (uint32_t)fit;
}

static int hand_cases(struct hand_case *cases, const struct peer_options *options)
{
    int count = 0;
    for (const char *at = options->tests ? options->tests : USUAL_TESTS; *at && count < HAND_CASES_MAX;
         count++) {
        struct peer_case *c = &cases[count].c;
        unsigned long long bytes;
        int used = 0;
        if (sscanf(at, "%15[a-z_+]:%llu%n", c->test, &bytes, &used) != 2)
            return peer_wrong("--tests wants NAME:BYTES[:WINDOW],... not", at);
        at += used;
        c->bytes = bytes;
        c->window = usual_window(c->test, bytes);
        used = 0;
        sscanf(at, ":%u%n", &c->window, &used);
        at += used;
        if (*at && *at != ',')
            return peer_wrong("--tests wants NAME:BYTES[:WINDOW],... not", at);
        c->stale = (uint32_t)options->stale;
        c->iterations = 1;
        at += *at == ',';
    }
    return count;
}

static void hand_print(const struct peer_rank *self, struct hand_case *h, int rounds)
{
    const struct peer_case *c = &h->c;
    double p50 = peer_quantile(h->p50, rounds, 0.5), p99 = peer_quantile(h->p99, rounds, 0.5);
    double line = peer_quantile(h->handoff, rounds, 0.5), value = p50;
    const char *unit = "ns";

    if (!strcmp(c->test, "rate")) {
        value = c->window * 1e3 / p50;
        unit = "M/s";
    } else if (is_stream(c->test)) {
        value = (double)c->window * (double)c->bytes / p50;
        unit = "GB/s";
    }
    printf("{\"peer\":\"%s\",\"version\":\"%s\",\"test\":\"%s\",\"bytes\":%llu,\"ranks\":%d,\"window\":%u,"
           "\"stale\":%s,\"value\":%.4g,\"unit\":\"%s\",\"p50_ns\":%.1f,\"p99_ns\":%.1f,\"handoff_ns\":%.1f,"
           "\"rounds\":%d}\n",
           self->name, self->version, c->test, (unsigned long long)c->bytes, self->ranks, c->window,
           c->stale ? "true" : "false", value, unit, p50, p99, line, rounds);
    fflush(stdout);
}

/* Rank 0 picks the number of operations so that a round lasts about HAND_ROUND_NS. */
static void hand_adapt(struct peer_case *c, const struct peer_result *r)
{
    double factor = HAND_ROUND_NS / ((double)r->took + 1);
    factor = factor > 10 ? 10 : factor;
    double next = (double)c->iterations * factor;
    c->iterations = next < 1 ? 1 : (uint64_t)next;
}

int peer_by_hand(struct peer_rank *self, const struct peer_options *options)
{
    struct hand_case *cases = calloc(HAND_CASES_MAX, sizeof *cases);
    int count = cases ? hand_cases(cases, options) : -1, status = count > 0 ? 0 : 1;
    int rounds = options->rounds > HAND_ROUNDS_MAX ? HAND_ROUNDS_MAX : options->rounds;

    for (int round = -6; round < rounds && !status; round++) {
        for (int i = 0; i < count && !status; i++) {
            struct peer_case *c = &cases[i].c;
            struct peer_result r = {0};
            self->share(self, &c->iterations, sizeof c->iterations);
            c->warm = c->iterations / 8 + 1;
            status = peer_round(self, c, &r) ? 1 : 0;
            if (round < 0) {
                hand_adapt(c, &r);
                continue;
            }
            cases[i].p50[round] = r.p50;
            cases[i].p99[round] = r.p99;
            cases[i].handoff[round] = (r.handoff_before + r.handoff_after) / 2;
        }
    }
    for (int i = 0; i < count && !status && self->rank == 0; i++)
        hand_print(self, &cases[i], rounds);
    free(cases);
    return status;
}
