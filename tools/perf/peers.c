/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds with the processes of a peer, over one socket per rank. A peer that fails, hangs or dies costs its own
 * figures and nothing else: every wait here has an end. */
#include "tools/perf/peer_session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WINDOW_MAX 256
#define SAMPLE_MAX 1000 /* rounds of one perf_peer_measure */

size_t perf_peer_names(const char **names, size_t max)
{
    return perf_peer_all(names, max);
}

int perf_peer_installed(const char *name, char *why, size_t room)
{
    struct perf_peer_place place;

    return perf_peer_find(name, &place, why, room);
}

const char *perf_peer_version(const struct perf_peer *peer)
{
    return peer->version;
}

const char *perf_peer_command(const struct perf_peer *peer)
{
    return peer->command;
}

/* ---- rounds ---- */

struct answer {
    double p50, p99, best, before, after;
    uint64_t samples, took_ns;
};

static int ask(struct perf_peer *peer, const struct perf_peer_pace *pace, uint64_t warm, double seconds,
               struct answer *answer)
{
    char line[PERF_PEER_LINE];
    unsigned limit = 10 + (unsigned)(20 * seconds);
    uint64_t end = perf_peer_now() + limit * 1000;
    unsigned long long samples, took;

    /* The ranks' own limit lies behind ours: it is for a nigh-perf that is gone. */
    int length = snprintf(line, sizeof line, "round %s %" PRIu64 " %u %u %u %" PRIu64 " %" PRIu64 " %u",
                          pace->test, pace->bytes, pace->window, (unsigned)pace->how, pace->stale,
                          pace->iterations, warm, limit + 5);
    for (uint32_t r = 0; r < peer->ranks; r++) {
        if (send(peer->socket[r], line, (size_t)length, MSG_NOSIGNAL) != length)
            return -EIO;
    }
    for (uint32_t r = 0; r < peer->ranks; r++) {
        int got = perf_peer_receive(peer->socket[r], line, sizeof line, end);
        if (got == -EAGAIN)
            return -ETIMEDOUT;
        if (got <= 0 || strncmp(line, "done ", 5))
            return -EIO;
        if (r == 0 && (sscanf(line, "done %lf %lf %lf %lf %lf %llu %llu", &answer->p50, &answer->p99,
                              &answer->best, &answer->before, &answer->after, &samples, &took) != 7 ||
                       !(answer->p50 > 0 || pace->how == PERF_HOW_OVERLAP) || !samples))
            return -EIO;
    }
    answer->samples = samples;
    answer->took_ns = took;
    return 0;
}

/* Looks at the shorter of two rounds: one that was interrupted must not change the next ones. */
static void adapt(struct perf_peer_pace *pace, double seconds, uint64_t took_ns)
{
    double shorter = (double)(took_ns < pace->last_ns ? took_ns : pace->last_ns), target = seconds * 1e9;
    double factor = target / (shorter + 1);

    bool fits = factor > 0.4 && factor < 2.5;
    if (!pace->last_ns || fits) {
        pace->last_ns = took_ns;
        return;
    }
    double next = (double)pace->iterations * (factor > 10 ? 10 : factor);
    pace->iterations = next < 1 ? 1 : next > 1e9 ? 1000000000u : (uint64_t)next;
    pace->last_ns = 0;
}

static struct perf_peer_pace begin_pace(const struct perf_case *c, uint64_t iterations)
{
    struct perf_peer_pace pace = {.bytes = c->bytes,
                                  .window = c->window ? c->window : 1,
                                  .how = c->how,
                                  .stale = c->stale,
                                  .iterations = iterations};

    memcpy(pace.test, c->test, strlen(c->test) + 1);
    return pace;
}

static uint64_t warm_of(const struct perf_peer_pace *pace)
{
    return pace->iterations / 8 + 1;
}

/* The pace of a case; a new one is found by rounds that do not count. */
static int find_pace(struct perf_peer *peer, const struct perf_case *c, struct perf_peer_pace **out)
{
    uint32_t window = c->window ? c->window : 1;
    struct perf_peer_pace *pace;
    struct answer answer;

    for (uint32_t i = 0; i < peer->paces; i++) {
        pace = &peer->pace[i];
        if (!strcmp(pace->test, c->test) && pace->bytes == c->bytes && pace->window == window &&
            pace->how == c->how && pace->stale == c->stale) {
            *out = pace;
            return 0;
        }
    }
    pace = &peer->pace[peer->paces < PERF_PEER_PACES ? peer->paces++ : PERF_PEER_PACES - 1];
    *pace = begin_pace(c, 1);
    /* Two rounds at each step, a factor of ten between steps, until two of them fit or one operation is too long. */
    for (int tries = 0; tries < 20; tries++) {
        uint64_t iterations = pace->iterations;
        bool second = pace->last_ns;
        int rc = ask(peer, pace, warm_of(pace), c->seconds, &answer);
        if (rc)
            return rc;
        adapt(pace, c->seconds, answer.took_ns);
        if (second && pace->iterations == iterations)
            break;
    }
    *out = pace;
    return 0;
}

static double in_unit(const struct perf_case *c, double ns)
{
    const char *unit = c->unit ? c->unit : "ns";
    double window = c->window ? c->window : 1;

    if (!strcmp(unit, "us"))
        return ns / 1000;
    if (!strcmp(unit, "GB/s"))
        return window * (double)c->bytes / ns;
    if (!strcmp(unit, "M/s"))
        return window * 1000 / ns;
    return ns;
}

const char *const perf_peer_collectives[] = {
    "barrier",   "allreduce",      "reduce",   "bcast", "bcast+barrier", "gather", "scatter",
    "allgather", "reduce_scatter", "alltoall", "scan",  "exscan",        NULL};

static bool in_list(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list))
        list++;
    return *list;
}

/* 0, -EOPNOTSUPP, or -EINVAL. */
static int check_case(const struct perf_peer *peer, const struct perf_case *c)
{
    static const char *const pairs[] = {"latency", "rate", "bandwidth", "sends", NULL};
    static const char *const units[] = {"ns", "us", "GB/s", "M/s", "%", NULL};

    if (c->ranks != peer->ranks || c->bytes % 8 || c->window > WINDOW_MAX ||
        (!c->count && !(c->seconds > 0)) || c->seconds > 600 || (c->unit && !in_list(c->unit, units)))
        return -EINVAL;
    if (in_list(c->test, pairs) || (peer->place.collectives && (in_list(c->test, perf_peer_collectives) ||
                                                                perf_operation_named(c->test))))
        return 0;
    return -EOPNOTSUPP;
}

/* As much work as fits into the wanted time. */
static int round_of_time(struct perf_peer *peer, const struct perf_case *c, struct answer *answer)
{
    struct perf_peer_pace *pace;
    int rc = find_pace(peer, c, &pace);

    if (rc == 0)
        rc = ask(peer, pace, warm_of(pace), c->seconds, answer);
    if (rc == 0)
        adapt(pace, c->seconds, answer->took_ns);
    return rc;
}

int perf_peer_round(struct perf_peer *peer, const struct perf_case *c, struct perf_peer_round *out)
{
    struct answer answer;
    int rc = peer->broken ? -EIO : check_case(peer, c);

    if (rc)
        return rc;
    if (c->count) {
        struct perf_peer_pace pace = begin_pace(c, c->count);

        rc = ask(peer, &pace, c->warm, c->seconds, &answer);
    } else {
        rc = round_of_time(peer, c, &answer);
    }
    if (rc) {
        perf_peer_break(peer);
        return rc;
    }
    *out = (struct perf_peer_round){.value = in_unit(c, answer.p50),
                                    .p50 = answer.p50,
                                    .p99 = answer.p99,
                                    .best = answer.best,
                                    .handoff_before = answer.before,
                                    .handoff_after = answer.after,
                                    .samples = answer.samples};
    return 0;
}

/* ---- one figure ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int perf_peer_measure(const char *name, const struct perf_case *c, double *value)
{
    static double values[SAMPLE_MAX];
    char why[PERF_WHY_BYTES];
    struct perf_peer *peer;
    struct perf_case one = *c;
    uint64_t end;
    size_t count = 0;
    int rc = perf_peer_open(name, c, &peer, why, sizeof why);

    if (rc) {
        fprintf(stderr, "nigh-perf: %s\n", why);
        return rc;
    }
    one.seconds = c->seconds < 0.005 ? c->seconds : 0.005;
    end = perf_peer_now() + (uint64_t)(c->seconds * 1000);
    do {
        struct perf_peer_round round;
        rc = perf_peer_round(peer, &one, &round);
        if (!rc)
            values[count++] = round.value;
    } while (!rc && count < SAMPLE_MAX && perf_peer_left(end));
    if (rc) {
        fprintf(stderr, "nigh-perf: %s: %s of %" PRIu64 " bytes: %s\n%s\n", name, c->test, c->bytes,
                strerror(-rc), perf_peer_said(peer));
    } else {
        qsort(values, count, sizeof *values, by_value);
        *value = values[count / 2];
    }
    perf_peer_close(peer);
    return rc;
}
