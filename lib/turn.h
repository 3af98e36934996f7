/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/turn.h - how often a rank of nigh-run has joined its job, in whichever process: it may be a script that runs one
 * program behind the other. One that has done early must not meet those of the others that have not:
 * each turn is a life of its own (lib/lives.h). nigh-run keeps the counts, as it alone lives as long as
 * the job; NIGH_LIVES=JOB:FILE names them.
 */
#ifndef NIGH_LIB_TURN_H
#define NIGH_LIB_TURN_H

#include "nigh/transport.h"

#include <stdbool.h>

/* Counts one turn more for the rank that `options` is about, and says which it is. Of a rank that is
 * in the job just now it is the same: open() says that the place is taken. False: nobody counts for
 * this job here, *life is untouched. */
bool nigh_turn_begin(const struct nigh_open *options, uint64_t *life);

/* It could not join, or not stay: the next try is the same turn. */
void nigh_turn_undo(void);

/* It has left: the next program may begin. */
void nigh_turn_end(void);

#endif
