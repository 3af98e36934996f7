/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/group.h - the group of the table that a communicator has its collectives from. It is made at the first collective, of all
 * ranks in their order; its id is the communicator's.
 *
 * A group that has ended, by a mismatch, a time-out or arguments that one rank refused, is followed by another one: its
 * *generation*. Ranks may have ended different numbers of collectives by then, as one that had all it needed is ahead. So the
 * first call of a later generation gathers the number that each rank comes with; the highest is where they go on, and ranks
 * that are behind fail in those that others are through with. A group that has lost a rank is not followed by any.
 *
 *   collective n of the communicator   is call n - 1 of generation 0, and call n - start + 1 of a later one
 */
#ifndef NIGH_LIB_GROUP_H
#define NIGH_LIB_GROUP_H

#include "lib/comm.h"
#include "lib/op.h"
#include "lib/request.h"

#define NIGH_SET_WORDS (NIGH_GROUP_MAX / 64)

/* A collective that was called: `owner` of its operation. */
struct nigh_coll_call {
    struct nigh_collective what;
    const char *name;                     /* "nigh_bcast" */
    struct nigh_operation *operation;     /* NULL: this rank has refused the call, with `refused` and `why` */
    int refused;                          /* the error for the other ranks */
    struct nigh_coll_call *next;          /* of those that wait for a group */
    uint64_t number;                      /* of the communicator's collectives: from 1 on */
    uint8_t factor[NIGH_OP_FACTOR_BYTES]; /* NIGH_PREMUL: the operation may have been freed since */
    bool begun;                           /* a group has it, or had it: data may have moved */
    bool waits;                           /* in the communicator's queue */
    bool lost;                            /* it has failed because the communicator has lost a rank */
    char why[NIGH_GROUP_TEXT_BYTES + 96]; /* it has failed, and not for that */
};

/* The operation of a call, not started. NULL with -ENOMEM said. */
struct nigh_operation *nigh_coll_operation(struct nigh_call call, struct nigh_comm *comm,
                                           struct nigh_coll_call *it, uint32_t flags);

/* Starts it; its operation is active then. Never waits. Errors, said: it could not be. */
int nigh_coll_start(struct nigh_call call, struct nigh_coll_call *it);

/* Takes the number of a collective that this rank does not start, and ends the group in it: `error` and `text` are for the others. Where
 * collectives of this rank are under way the group ends when they have ended. */
void nigh_coll_refuse(struct nigh_call call, struct nigh_comm *comm, int error, const char *text);

/* Ends the group, as `operation` is not waited for any longer, which has ended when this returns. */
void nigh_coll_give_up(struct nigh_operation *operation, int error);

/* Says why a collective has ended with its error, which it returns. */
int nigh_coll_failed(struct nigh_call call, const struct nigh_operation *operation);

/* Has another rank failed in the last collective that this one has made, and gone well here? Then its error, said. */
int nigh_coll_check_end(struct nigh_call call, struct nigh_comm *comm);

/* Whom it waits for: bit r of the set is rank r of its communicator. */
/* False: they have come, and move what they lack in whatever call of nigh they are. */
bool nigh_coll_waits_for(const struct nigh_operation *operation, uint64_t set[NIGH_SET_WORDS]);

/* A communicator is freed: its group too, once its collectives have ended. */
void nigh_coll_drop(struct nigh_comm *comm);
/* Memory of it, when no operation of it is active any more. */
void nigh_coll_forget(struct nigh_comm *comm);

/* Memory of requests that were never waited for or freed: the context is closed. */
void nigh_coll_close(void);

/* Says of each communicator whose group others have ended by a mismatch that this rank was not told of. */
void nigh_coll_report(void);

#endif
