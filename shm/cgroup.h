/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/cgroup.h - what control groups leave to this process: memory and CPU time. Both versions of the interface, the
 * limits of all levels up to the root. Read from the kernel's files at each call; some ten system calls. */
#ifndef NIGH_SHM_CGROUP_H
#define NIGH_SHM_CGROUP_H

#include <stdint.h>

/* The smallest memory limit in bytes; UINT64_MAX: none, or it cannot be read. Cannot fail. */
uint64_t nigh_cgroup_memory(void);

/* How many bytes more their limits leave to all their processes together before the kernel kills one: what is used does
 * not count where it can be dropped (caches of files) or moved to swap, of which the machine has `swap` bytes free.
 * UINT64_MAX: there is no limit, or it cannot be read. A limit whose use cannot be read counts as
 * unused. Cannot fail. */
uint64_t nigh_cgroup_memory_left(uint64_t swap);

/* The smallest quota of CPU time in thousandths of a CPU, at least 1; UINT32_MAX: none, or it cannot be read. Cannot
 * fail. */
uint32_t nigh_cgroup_cpu_milli(void);

#endif
