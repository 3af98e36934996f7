/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/form.h - how the group of a communicator comes into being: ranks tell each other where
 * they are, and meet in nigh. */
#ifndef NIGH_MPI_FORM_H
#define NIGH_MPI_FORM_H

#include "hosts/mpi/group.h"

/* Collective over the communicator, as all ranks come here in the same call. `active` becomes alike in all; one that is
 * not has nothing in nigh that is still to come. */
void nigh_mpi_group_form(struct nigh_mpi_group *group, nigh_mpi_comm comm);

#endif
