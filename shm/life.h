/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/life.h - the life words of a context, one in each pair line: robust futexes that its service thread holds. When the
 * process ends, the kernel marks each and wakes whoever waits on it, before it gives back the process's memory; a pidfd
 * tells only afterwards. docs/memory-model.md, "Death", has what follows from a mark, and what does not.
 */
#ifndef NIGH_SHM_LIFE_H
#define NIGH_SHM_LIFE_H

#include "shm/layout.h"
#include "shm/shared.h"
#include <linux/futex.h>
#include <stdbool.h>

struct nigh_life;

/* For the words in `pairs`, which outlive it. -ENOMEM. */
int nigh_life_open(struct nigh_pair *pairs, uint32_t peers_max, struct nigh_life **out);
/* No thread holds the words any more. NULL: nothing. */
void nigh_life_close(struct nigh_life *life);

/* The calling thread holds the words from now on: it uses no robust mutex, and ends behind nigh_life_release(). Once.
 * Where the kernel refuses that (logged) there are no words, and peers hear of a death by its pidfd. */
void nigh_life_enter(struct nigh_life *life);
/* Makes the word of pair `index` one that the kernel marks; waits for the thread to enter. A word that is held already
 * stays. Not beside another call. */
void nigh_life_hold(struct nigh_life *life, uint32_t index);
/* The thread may end, and no word is marked for it. */
void nigh_life_release(struct nigh_life *life);

/* A peer's word as it was loaded (LIFE_SEE). Can it be waited on? */
static inline bool nigh_life_is_held(uint32_t word)
{
    return (word & FUTEX_TID_MASK) && (word & FUTEX_WAITERS) && !(word & FUTEX_OWNER_DIED);
}

/* The thread that held it has ended. All that the process had published before can be seen; it may do a little yet. */
static inline bool nigh_life_is_marked(uint32_t word)
{
    return word & FUTEX_OWNER_DIED;
}

#endif
