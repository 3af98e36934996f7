/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/lock.h - builds of MPICH with one lock for all calls (its device ch3, or --enable-thread-cs=global) hold it while
 * MPI_Waitall() waits in a function of ours: no other thread's call would go on, and what is waited for might need one. */
#ifndef NIGH_MPI_LOCK_H
#define NIGH_MPI_LOCK_H

#include "hosts/mpi/abi.h"

#include <stdbool.h>

/* Does another thread's call go on while one waits so? Tried with two threads; true also where the program has one thread, and false
 * where none can be made. `start`: MPIX_Grequest_start(). Takes a second where the answer is no. */
bool nigh_mpi_lock_is_shared(nigh_mpi_request_start start);

#endif
