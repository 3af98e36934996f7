/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/sweep.h - the socket files that processes which were killed leave in NIGH_DIR: the next job removes them. */
#ifndef NIGH_SHM_SWEEP_H
#define NIGH_SHM_SWEEP_H

#include "shm/name.h"

/*
 * Removes this user's sockets of other jobs from name->directory whose processes have ended: all where there are few, and
 * some of many. As far as it can: nothing is spoilt if it cannot. `directory` is that directory, open and locked as for
 * nigh_name_listen(), so that no file is there before its socket. Not on a file system that machines share.
 */
void nigh_sweep(const struct nigh_name *name, int directory);

#endif
