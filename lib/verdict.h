/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/verdict.h - what ranks that are stuck tell each other. Whoever has proved a circle tells its members, so that all
 * of them return with the same sentence, whoever found it. A rank that is leaving asks those who wait for it to look.
 */
#ifndef NIGH_LIB_VERDICT_H
#define NIGH_LIB_VERDICT_H

#include "lib/graph.h"

/* Tells all other members of the circle, and waits for a moment until they have heard it, as they do in
 * nigh_verdict_hear(): nothing that one of them does next can free another before. */
void nigh_verdict_pass(const struct nigh_graph *graph);

/* Asks a rank of the world to look at whom it waits for, now. */
void nigh_verdict_ask(int world_rank);

/* Says on behalf of `block` that its rank is in the circle. Returns -EDEADLK. */
int nigh_verdict_say(const struct nigh_block *block, const struct nigh_vertex *members, int count, int total);

/* Says what those do that wait for each other until one's time-out has passed, or for ranks that have left. */
void nigh_verdict_warn(const struct nigh_block *block, const struct nigh_vertex *members, int count);

/* Takes what others have told this rank. -EDEADLK (said) if that is about `block`; otherwise 0, and *asked
 * becomes true if somebody asks it to look. */
int nigh_verdict_hear(struct nigh_block *block, bool *asked);

#endif
