/* SPDX-License-Identifier: BSD-3-Clause */
/* One killed process and one that hears of it, for tools/perf/test_death.c: what each interface does for the two. */
#ifndef NIGH_PERF_DEATH_H
#define NIGH_PERF_DEATH_H

#include "nigh/transport.h"
#include "tools/perf/job.h"

/* How the survivor waits. */
enum perf_death_wait { PERF_DEATH_BLOCKED, PERF_DEATH_POLLING, PERF_DEATH_ASLEEP };

/* What the two and their parent share; times are of the monotonic clock, ns. */
struct perf_death {
    uint32_t word; /* the bare robust futex, held by a thread of the victim's */
    uint32_t held, victim_ready, survivor_ready;
    uint64_t killed, word_ns, pidfd_ns, told_ns;
    uint32_t name_set[2]; /* libfabric's addresses of victim and survivor */
    uint8_t name[2][64];
    /* Set by the parent. */
    uint64_t job, bytes;
    const struct nigh_ops *ops;
    const char *plugin, *providers; /* files; providers: NULL, there are none */
};

/* An interface. Both functions run in a process of their own and end it when something fails. */
struct perf_death_layer {
    const char *name;
    /* Until the survivor has heard of it; then it waits to be killed. */
    void (*live)(struct perf_rank *me, struct perf_death *death);
    /* Returns when the receive that names the victim has failed with ECONNRESET. perf_death_begin() before it waits. */
    void (*survive)(struct perf_rank *me, struct perf_death *death, enum perf_death_wait how);
    bool waits[3]; /* by enum perf_death_wait */
};

extern const struct perf_death_layer perf_death_table, perf_death_lib, perf_death_fabric;

/* Whether libfabric and nigh's provider can be had; if not, `why` says what is missing. */
bool perf_death_has_fabric(char *why, size_t room, char *providers, size_t size);

/* The survivor is connected, and about to wait. */
void perf_death_begin(struct perf_death *death);

/* Kills a process of death->bytes and fills in the times. */
void perf_death_once(struct perf_rank *me, struct perf_death *death, const struct perf_death_layer *layer,
                     enum perf_death_wait how);

#endif
