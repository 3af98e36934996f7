/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/malloc/fork.h - the lock of everything here, which a fork holds: memory in a shared mapping would be one of parent
 * and child, so it becomes each process's own before.
 */
#ifndef NIGH_MALLOC_FORK_H
#define NIGH_MALLOC_FORK_H

#include <stdbool.h>

/* A thread that forks has it already, and may lock and unlock it once more: other handlers of a fork allocate, too. */
void nigh_malloc_lock(void);
void nigh_malloc_unlock(void);

/* Whether this thread forks. With the lock. */
bool nigh_malloc_forks(void);

/* From now on forks are told of; at the latest when anybody else asks for that, whose handlers then run outside of ours:
 * what they wait for nobody holds who waits for the lock. False: they cannot be. */
bool nigh_malloc_fork_register(void);

#endif
