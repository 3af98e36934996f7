/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/here.h - where this thread runs: a message that its receiver copies says so of its sender. */
#ifndef NIGH_PLUGIN_HERE_H
#define NIGH_PLUGIN_HERE_H

#include "shm/os.h"
#include <stdint.h>

/* Its CPU's number, + 1; 0: not known. */
static inline uint32_t nigh_here_cpu(void)
{
    return (uint32_t)(nigh_os.sched_getcpu() + 1);
}

#endif
