/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/wrong.h - arguments that MPI refuses at the rank that gives them. */
#ifndef NIGH_MPI_WRONG_H
#define NIGH_MPI_WRONG_H

#include "hosts/mpi/group.h"
#include "hosts/mpi/kinds.h"

/* Such a call goes to the MPI, whose error it gets, whatever the other ranks do. */
bool nigh_mpi_is_wrong(enum nigh_mpi_kind kind, const struct nigh_mpi_arguments *arguments,
                       const struct nigh_mpi_group *group);

#endif
