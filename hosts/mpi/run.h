/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/run.h - one call of a communicator's group in nigh, from its post to its end. */
#ifndef NIGH_MPI_RUN_H
#define NIGH_MPI_RUN_H

#include "hosts/mpi/group.h"

struct nigh_mpi_run {
    struct nigh_mpi_group *group;
    const char *what;  /* for people: the call's name */
    uint64_t bytes;    /* of one rank's vector */
    bool gives, keeps; /* this rank has a vector, and a place for the result */
    struct nigh_collective call;
};

/* A call of `op` on vectors of bytes; the caller fills in buffers, root and what else there is. */
struct nigh_mpi_run nigh_mpi_run_of(struct nigh_mpi_group *group, const char *what, uint16_t op,
                                    uint64_t bytes);

/* Makes it one on elements that are reduced: MPI's own, or by the program's operation (MPI_Reduce_local()), for which the three
 * must live as long as the run. */
struct nigh_mpi_reduction {
    nigh_mpi_type type;
    nigh_mpi_op op;
    uint64_t width;
};
void nigh_mpi_run_reduces(struct nigh_mpi_run *run, struct nigh_mpi_reduction *reduction);

/* Runs it to its end. All ranks of the group call it alike. 0; or a negative errno, logged: -ECONNRESET a rank has ended or
 * given up, -EPROTO ranks have called different things, -EIO, -ENOMEM. The group is broken then. */
int nigh_mpi_run(struct nigh_mpi_run *run);

#endif
