/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-run --mpi: an MPI's own launcher, told to use nigh. The ranks of an MPI find each other through their launcher,
 * so nigh-run does not start them itself: it becomes that launcher. */
#ifndef NIGH_TOOLS_RUN_MPI_H
#define NIGH_TOOLS_RUN_MPI_H

#include "tools/run/options.h"

/* Does not return: what fails is said on stderr, and the exit status is one of enum run_status. */
_Noreturn void run_mpi(const struct run_options *options);

#endif
