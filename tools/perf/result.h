/* SPDX-License-Identifier: BSD-3-Clause */
/* One row of a report: what was measured, next to what the machine allows and what others reach. It is the
 * only thing that the measuring half of nigh-perf and the reporting half (table, JSON, plot) share. */
#ifndef NIGH_PERF_RESULT_H
#define NIGH_PERF_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#define PERF_PEERS      12
#define PERF_NAME_BYTES 40
#define PERF_PEER_BYTES 96 /* with the variables of a second job */

/* A figure that does not exist is NAN: null in JSON, "-" in the table. Never 0. */
struct perf_peer_value {
    char name[PERF_PEER_BYTES];
    double value; /* in the row's unit */
    double ratio; /* median of the row's value by this one, round by round */
};

struct perf_result {
    char test[PERF_NAME_BYTES]; /* "latency", "handoff-load", ... */
    char path[PERF_NAME_BYTES]; /* how the bytes travelled, or the floor's combination; "" = none */
    char unit[16];              /* "ns", "GB/s", "M/s", "%", "bytes", "1/s" */
    bool more_is_better;
    uint64_t bytes; /* of one message, 0 where there is none */
    uint32_t ranks;
    double value;      /* median over the rounds of this state */
    double low, high;  /* 95 % interval of that median */
    double p99;        /* 99 % of the samples are at least as good as this */
    double floor;      /* median of the floor in the same rounds, same unit */
    double ratio;      /* median of value/floor, round by round */
    double handoff_ns; /* L, the state of the machine in these rounds */
    uint32_t rounds;   /* rounds that count */
    uint32_t dropped;  /* rounds of the whole run in which L moved */
    char note[480];    /* what a reader must know, e.g. why a value is missing; "" = nothing */
    uint32_t peer_count;
    struct perf_peer_value peers[PERF_PEERS];
};

/* A row with the given names and every figure absent. Names longer than their field are cut. */
void perf_result_init(struct perf_result *row, const char *test, const char *path, const char *unit);

#endif
