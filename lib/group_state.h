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
    bool agreed; /* `start` is known */
    struct nigh_coll_call
        *first; /* those that wait: for the agreement, or behind a call that this rank has refused */
    struct nigh_operation *agreement;
    struct nigh_collective agreeing;
    uint64_t *numbers; /* by rank, and this rank's own behind them */
    struct end end;    /* of the last generation that has ended */
};

/* Number of the collective in which the group has ended; 0: it has not. */
uint64_t nigh_coll_ended_in(const struct nigh_comm *comm);
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

/* Gives a call to the group, or to the next one. 0 also if it has failed since: errors, said, are those of no call yet. */
int nigh_coll_place(struct nigh_call call, struct nigh_coll_call *it);
/* A call that has its number, and was not given to the group. */
void nigh_coll_fail_unplaced(struct nigh_coll_call *it, int error);

/* ---- group_queue.c: calls that wait, in their order ---- */
void nigh_coll_append(struct nigh_comm_group *its, struct nigh_coll_call *it);
/* The ranks have not agreed on the next call: all that wait for that fail. Calls that were refused stay. */
void nigh_coll_fail_queue(struct nigh_comm *comm);
/* The ranks have agreed: goes on with what waits. */
void nigh_coll_flush(struct nigh_comm *comm);
/* The same if something waits, and the group has no call of the program's. */
void nigh_coll_flush_behind(struct nigh_comm *comm);
/* Memory of calls that were refused. */
void nigh_coll_forget_queue(struct nigh_comm_group *its);

#endif
