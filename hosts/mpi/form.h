/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/form.h - how the group of a communicator comes into being: ranks learn of each other's CPUs, and where they
 * share them meet in nigh. */
#ifndef NIGH_MPI_FORM_H
#define NIGH_MPI_FORM_H

#include "hosts/mpi/group.h"

/* Collective over the communicator, as all ranks come here in the same call. Never NULL; `active` is alike in all. */
struct nigh_mpi_group *nigh_mpi_group_form(nigh_mpi_comm comm);

/* Lets go of what a group has in nigh, of one that is whole or as far as it came. With the session's lock. */
void nigh_mpi_group_leave(struct nigh_mpi_group *group);

#endif
