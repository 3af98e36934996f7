/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/meet.h - calls that all ranks of a communicator make to make or use something: communicators, windows. To the table each
 * is an allgather of one card a rank; the ranks compare the cards. */
#ifndef NIGH_LIB_MEET_H
#define NIGH_LIB_MEET_H

#include "lib/comm.h"

enum nigh_meet_what {
    NIGH_MEET_DUP = 1,
    NIGH_MEET_SPLIT,
    NIGH_MEET_WIN_ALLOCATE,
    NIGH_MEET_WIN_CREATE,
    NIGH_MEET_WIN_FREE,
    NIGH_MEET_WIN_FENCE,
};

/* What a rank says. */
struct nigh_card {
    uint64_t mark; /* of the call and what must be equal; 0: it was refused */
    uint64_t words[4];
};

/*
 * Waits until all ranks of `comm` have come. `refused`: 0, or what this rank has found wrong, and said, which is returned then.
 * `window`: its number, 0 none. `all`: each rank's card is written there, NULL: nobody wants them. Errors, said: -EPROTO others
 * call something else, or were refused; those of a collective.
 */
int nigh_meet(struct nigh_call call, struct nigh_comm *comm, enum nigh_meet_what what, uint32_t window,
              int refused, const uint64_t words[4], struct nigh_card *all);

#endif
