/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/pollers.h - this process' threads that read queues: nigh counts ranks, and a host may have more
 * threads than ranks that all wait for each other. */
#ifndef NIGH_LIBFABRIC_POLLERS_H
#define NIGH_LIBFABRIC_POLLERS_H

#include <stdbool.h>

/* Have more threads of this process looked at queues that were empty, the calling one now, than there are CPUs for
 * them? One counts until it ends. Any thread; its first call makes a system call. */
bool nigh_fi_pollers_crowd(void);

#endif
