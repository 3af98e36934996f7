/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/pace_begin.h - what shm/pace_begin.c and shm/pace.c share: with which strategy a size class begins, and
 * which it may try. For these two alone. */
#ifndef NIGH_SHM_PACE_BEGIN_H
#define NIGH_SHM_PACE_BEGIN_H

#include "shm/pace.h"

enum {
    NIGH_PACE_NONE = NIGH_PACE_STRATEGIES, /* no strategy */
    NIGH_PACE_PATIENCE = 64,               /* messages between sweeps, as long as none was for nothing */
};

/* Do two strategies write alike? What is right where the pair lies is then right for both. */
bool nigh_pace_are_kin(const struct nigh_pace *pace, unsigned a, unsigned b);

/* Is a strategy one of those that a class takes? */
bool nigh_pace_fits(const struct nigh_pace *pace, unsigned strategy, unsigned index);

/* The first message of a class: `current` is chosen. */
void nigh_pace_begin(struct nigh_pace *pace, unsigned index);

/* A message of the current strategy was learned from. True where the handoff has ruled that strategy out for long: the
 * class has begun anew with what is right here. */
bool nigh_pace_begin_anew(struct nigh_pace *pace, unsigned index);

#endif
