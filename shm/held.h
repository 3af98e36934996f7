/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/held.h - the descriptors that nigh has in this process. A forked child closes its copies by this set alone: what a
 * context knows of them another thread of the parent may have been changing when it forked. Kept by the calls of shm/os.h.
 */
#ifndef NIGH_SHM_HELD_H
#define NIGH_SHM_HELD_H

#include <stdbool.h>

/* No thread forks between these, so a descriptor is made and added, or removed and closed, as one. For calls that do not
 * block: a fork waits for them. The same thread may lock it twice: a signal's handler may fork. */
void nigh_held_lock(void);
void nigh_held_unlock(void);

/* With the lock. Returns `fd` and keeps errno; of -1 nothing. */
int nigh_held_add(int fd);
/* With the lock. Was it there? */
bool nigh_held_remove(int fd);

/* In a forked child: closes what is there, unless the program has closed it and opened other files under the numbers. From
 * then on the set is the child's own, and empty. */
void nigh_held_abandon(void);

#endif
