/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/group.h - what this host knows of a communicator: its group in nigh.
 * It comes with the communicator's first call that may be answered, is kept as an attribute, and forms when there
 * have been enough of them.
 */
#ifndef NIGH_MPI_GROUP_H
#define NIGH_MPI_GROUP_H

#include "hosts/mpi/cpus.h"
#include "hosts/mpi/session.h"

struct nigh_mpi_operation;

struct nigh_mpi_group {
    uint32_t calls; /* before it formed */
    bool formed;
    bool active;         /* else MPI's own do: several machines, no nigh */
    bool requests;       /* and calls that return a request are answered */
    bool broken;         /* a call failed: so do all later ones */
    bool dead;           /* the communicator is freed, and nobody finds it any more */
    _Atomic(bool) freed; /* or is being freed; any thread may look */
    int me;              /* NIGH_MPI_NONE in an intercommunicator */
    int ranks;
    uint32_t live; /* operations */
    struct nigh_group *nigh;
    struct nigh_mpi_operation *spare; /* for requests */
    struct nigh_mpi_group *next_dead;
};

/* The active group of a communicator, or NULL: this call is the MPI's. The call that comes after enough others that `count` is
 * collective over the communicator, and so is made by all ranks or by none: requests must not count, as they wait for nobody. */
struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm, bool counts);

/* MPI is being finalized: all later calls are the MPI's. Requests under way go on. */
void nigh_mpi_group_close(void);

/* This rank gives up: calls of all others fail. With the session's lock, as the rest. */
void nigh_mpi_group_give_up(struct nigh_mpi_group *group, int error, const char *text);

/* An operation is over: with the last of a communicator that is freed the group goes. */
void nigh_mpi_group_unuse(struct nigh_mpi_group *group);

/* Lets groups go whose communicators have been freed. */
void nigh_mpi_group_clean_always(void);
extern _Atomic(struct nigh_mpi_group *) nigh_mpi_group_dead;
static inline void nigh_mpi_group_clean(void)
{
    if (nigh_mpi_group_dead)
        nigh_mpi_group_clean_always();
}

#endif
