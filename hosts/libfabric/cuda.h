/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cuda.h - whether this process has a CUDA driver that nigh can use, and whose a pointer is. Copies are
 * nigh's (NIGH_DEVICE). Nothing of CUDA is linked. */
#ifndef NIGH_LIBFABRIC_CUDA_H
#define NIGH_LIBFABRIC_CUDA_H

#include <stdbool.h>

struct nigh_fi_cuda;

/* The driver's calls, once it was found to be usable; they stay. NULL: *why says what is missing, and the next call
 * looks again. Any thread. Starts the driver: not before a host asks for its memory. */
const struct nigh_fi_cuda *nigh_fi_cuda_open(const char **why);

/* *ordinal is the device that `memory` is of, -1 for the host's. -FI_EIO: the driver fails, which was logged. */
int nigh_fi_cuda_find(const struct nigh_fi_cuda *cuda, const void *memory, int *ordinal);

#endif
