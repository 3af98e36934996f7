/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rounds were taken in the same state of the machine. A virtual CPU moves between L3s while a program
 * runs and everything that crosses cores changes by a factor of five with it; the handoff time L, probed
 * between rounds, tells. A figure that mixes two states describes neither. */
#ifndef NIGH_PERF_STATE_H
#define NIGH_PERF_STATE_H

#include <stddef.h>
#include <stdint.h>

#define PERF_STATES      3    /* reported at most; a machine has two */
#define PERF_L_MOVE      1.15 /* two values of L further apart than this factor are two states */
#define PERF_STATE_LEAST 8    /* rounds below which a state is noise */

struct perf_state {
    double handoff_ns; /* median L of its rounds */
    uint32_t count;    /* rounds */
    uint32_t *rounds;  /* their indices, ascending; points into the caller's room */
};

struct perf_states {
    uint32_t count;   /* states, the one with most rounds first */
    uint32_t dropped; /* rounds that belong to none */
    struct perf_state state[PERF_STATES];
};

/*
 * Sorts `rounds` rounds into states. L was probed before the first round and after each: handoff has rounds +
 * 1 values. A round counts when L was the same (within PERF_L_MOVE) before and after it and within
 * PERF_L_MOVE of the middle of its state. `room` takes `rounds` indices and must outlive *out. 0, or -ENOMEM.
 */
int perf_states_find(const double *handoff, uint32_t rounds, uint32_t *room, struct perf_states *out);

#endif
