/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/near.h - near misses: messages that have come and do not match what a call waits for, but nearly do. */
#ifndef NIGH_LIB_NEAR_H
#define NIGH_LIB_NEAR_H

#include "lib/line.h"

/* "; not received so far: rank 1 has sent tag 6, 400 bytes", or "" where nothing is near. And what a receive from
 * anyone, or with any tag, has taken instead. */
struct nigh_sentence nigh_near_text(const struct nigh_block *block);

/* The same for one operation, which may be no receive, and for a probe. */
struct nigh_sentence nigh_near_operation(const struct nigh_operation *operation);
struct nigh_sentence nigh_near_receive(const struct nigh_comm *comm, int source, int tag);

/*
 * Warns that a receive seems to wait for the wrong message; true: it has. Only if the rank that it waits for waits,
 * too, or after a long time: a program whose ranks just have much to do is not to be blamed.
 */
bool nigh_near_warn(const struct nigh_block *block);

#endif
