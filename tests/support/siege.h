/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/siege.h - a process, a peer that will lie to it and one that will not: what tests
 * of lies begin and end with. */
#ifndef NIGH_TESTS_SIEGE_H
#define NIGH_TESTS_SIEGE_H

#include "tests/support/foe.h"
#include "tests/support/hosted.h"

/* Ranks 0, 1 and 2 of a job of their own: the victim, connected to both others when it returns, the
 * foe with a ring, the good one. */
void siege_open(struct hosted *victim, struct foe *foe, struct hosted *good, struct nigh_endpoint **to_foe,
                struct nigh_endpoint **to_good);
void siege_close(struct hosted *victim, struct foe *foe, struct hosted *good);

#endif
