/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/operation.h - one call of a communicator's group in nigh:
 *
 *     plan     what MPI's arguments are as a call of nigh; packs what does not lie as it is sent
 *     post     with the session's lock
 *     finish   unpacks what has come
 */
#ifndef NIGH_MPI_OPERATION_H
#define NIGH_MPI_OPERATION_H

#include "hosts/mpi/elements.h"
#include "hosts/mpi/group.h"
#include "hosts/mpi/kinds.h"
#include "hosts/mpi/types.h"
#include "hosts/mpi/vector.h"

struct nigh_mpi_operation {
    struct nigh_mpi_operation *next; /* of a list of the session's or the group's */
    const struct nigh_mpi_facts *facts;
    struct nigh_mpi_group *group;
    nigh_mpi_comm comm;
    struct nigh_collective call;
    struct nigh_mpi_reduction reduction;
    struct nigh_mpi_elements elements; /* of the program's operation */
    int reduce_error;                  /* MPI's, of that operation */

    char *memory;               /* what is packed: what goes, and behind it what comes; NULL: nothing */
    struct nigh_mpi_vector out; /* where what has come goes */
    int except;                 /* the block that is there already, or -1 */
    bool unpacks;
    bool holds_type; /* `out` has a copy of the program's type, which may be freed meanwhile */

    int status;        /* a negative errno */
    _Atomic bool done; /* `status` is there */

    bool is_request;
    _Atomic int told; /* not 0: the request is complete for the MPI, too */
    bool finished;
    int error; /* MPI's, when it has finished */
    nigh_mpi_request request;

    uint64_t *arrays; /* NIGH_MPI_ARRAYS a rank */
};

#define NIGH_MPI_ARRAYS 4

void nigh_mpi_operation_init(struct nigh_mpi_operation *operation, struct nigh_mpi_group *group,
                             nigh_mpi_comm comm, uint64_t *arrays);

/* Fills in one; where it is so, is_request and reduction are set. 0; a negative errno, logged; or MPI's error,
 * which it has reported. It may hold memory then, too. */
int nigh_mpi_operation_plan(struct nigh_mpi_operation *operation, enum nigh_mpi_kind kind,
                            const struct nigh_mpi_arguments *arguments);

/* 0; or a negative errno, logged: -ECONNRESET a rank has ended or given up, -EPROTO ranks have called different things, -EIO,
 * -ENOMEM. The group is broken then. With the session's lock, as the next two. */
int nigh_mpi_operation_post(struct nigh_mpi_operation *operation);

/* nigh has completed it. */
void nigh_mpi_operation_completed(struct nigh_mpi_operation *operation, int status);

/* This rank cannot make the call: the others, who may wait for it, hear of it. */
void nigh_mpi_operation_give_up(struct nigh_mpi_operation *operation, int rc);

/* Of one that is done, or was not posted, as `rc` says. 0, or errors as above. Needs no lock: MPI may call it, with its own. */
int nigh_mpi_operation_finish(struct nigh_mpi_operation *operation, int rc);

#endif
