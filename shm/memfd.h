/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/memfd.h - making the files that arenas and doorbells are: what both of them ask of the system. */
#ifndef NIGH_SHM_MEMFD_H
#define NIGH_SHM_MEMFD_H

/* An empty memfd that can be sealed, closed on exec; `name` is for /proc. -1 and errno. */
int nigh_memfd_create(const char *name);

/* What a caller of open() hears of an errno from making, sizing, sealing or mapping one: -EMFILE, -EPERM, -ENOSYS or
 * -ENOMEM. */
int nigh_memfd_error(int error);

#endif
