/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes any program cheaper to switch to and from, where ranks outnumber CPUs and so run in turns. */
#ifndef NIGH_TOOLS_MPI_TURNS_H
#define NIGH_TOOLS_MPI_TURNS_H

/* "GLIBC_TUNABLES=..." with which programs register no restartable sequences, behind the tunables that the environment
 * has. The caller's, to be freed or put into an environment. NULL: it already says what it wants of
 * them, or there is no memory. */
char *mpi_turns(void);

#endif
