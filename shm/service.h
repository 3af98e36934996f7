/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/service.h - the thread that sleeps on descriptors so that the context's own thread need not look at
 * them: it raises a flag that polling reads for a nanosecond, rings the context's bell if that sleeps, and
 * waits until the flag was taken. It also holds the context's life words. It touches nothing else.
 */
#ifndef NIGH_SHM_SERVICE_H
#define NIGH_SHM_SERVICE_H

#include "shm/doorbell.h"
#include <stdbool.h>

struct nigh_life;
struct nigh_service;

/* Starts the thread (all signals blocked, named "nigh-service") on `fd`. `bell`, `state` and `life` (NULL: it holds no
 * words) outlive it. -ENOMEM (no room for its stack, or too many threads, included), -EMFILE; logged. */
int nigh_service_start(int fd, struct nigh_bell *bell, const struct nigh_arena_state *state,
                       struct nigh_life *life, struct nigh_service **out);
/* Releases the life words, ends and joins it; bounded. */
void nigh_service_stop(struct nigh_service *service);

/* The word to test on every poll: not 0 when there is something to do. */
const uint32_t *nigh_service_flag(const struct nigh_service *service);
/* The program has closed `fd`, or opened another file there: the thread does not look at it any more. */
void nigh_service_blind(struct nigh_service *service);
/* Raises the flag, and rings the bell of a context that sleeps; from any thread. */
void nigh_service_raise(struct nigh_service *service);
/* Takes the flag down and lets the thread sleep again; call before doing the work. */
void nigh_service_taken(struct nigh_service *service);

#endif
