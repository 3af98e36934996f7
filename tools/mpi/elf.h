/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of shared libraries in a program's file, read without loading it. */
#ifndef NIGH_TOOLS_MPI_ELF_H
#define NIGH_TOOLS_MPI_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPI_ELF_NAME 256

/* Calls `take` with each name that the dynamic section of `file` has under `tag` (DT_NEEDED, DT_SONAME), until it
 * returns true; returns whether it did. A file of another kind, or a damaged one, has no names. */
bool mpi_elf_any(const char *file, int64_t tag, bool (*take)(const char *name, void *context), void *context);

#endif
