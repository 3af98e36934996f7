/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/group_state.h - what lib/group.c and lib/group_end.c know of a communicator's group. */
#ifndef NIGH_LIB_GROUP_STATE_H
#define NIGH_LIB_GROUP_STATE_H

#include "lib/group.h"

/* How a generation has ended. */
struct end {
    int status;
    int about;
    bool by_host;
    uint64_t number; /* collectives up to this one have failed, at ranks that were not through with them */
    char text[NIGH_GROUP_TEXT_BYTES];
};

struct nigh_comm_group {
    struct nigh_group *group; /* NULL: the next one is to be made */
    uint64_t generation, start;
    bool agreed;                         /* `start` is known */
    struct nigh_coll_call *first, *last; /* wait for that */
    struct nigh_operation *agreement;
    struct nigh_collective agreeing;
    uint64_t *numbers; /* by rank, and this rank's own behind them */
    struct end end;    /* of the last generation that has ended */
};

/* If the group has ended: keeps how, makes way for the next one, and fails what waits for it. */
bool nigh_coll_learn(struct nigh_comm *comm);
/* Makes the next one; `number` is that of the first collective that this rank has for it. Errors are said. 0 without a group:
 * it has ended already. */
int nigh_coll_create(struct nigh_call call, struct nigh_comm *comm, uint64_t number);
/* Ends it for all ranks: this one could not post a call that it counts. The last error of this thread says why. */
void nigh_coll_break(struct nigh_comm *comm, int error);
/* Frees it, unless it is still needed. */
void nigh_coll_release_group(struct nigh_comm *comm);
/* The collective in which the others have failed went well here: nobody else tells this rank that they differ. */
void nigh_coll_say_through(const struct nigh_comm *comm);
/* Ends a call by the end of its group. */
void nigh_coll_fail_by_end(struct nigh_coll_call *it);

#endif
