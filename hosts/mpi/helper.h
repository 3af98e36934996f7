/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/helper.h - a thread that moves requests on where the MPI calls no hook of ours. */
#ifndef NIGH_MPI_HELPER_H
#define NIGH_MPI_HELPER_H

#include <stdbool.h>

/* There will be requests. False: no thread, which is logged. */
bool nigh_mpi_helper_begin(void);

/* With the session's lock. */
void nigh_mpi_helper_end(void);

#endif
