/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends every process that descends from this one, however it has tried to get away: new process groups, new
 * sessions, double forks. The caller must be a child subreaper, so that all of them end up as its children.
 */
#ifndef NIGH_TOOLS_RUN_ORPHANS_H
#define NIGH_TOOLS_RUN_ORPHANS_H

#include <stdint.h>

struct run_orphans {
    uint32_t ended; /* processes found running */
    uint32_t left;  /* that could not be ended in bounded time: another user's, or stuck in the kernel */
};

/* TERM, up to `grace_ns` of waiting (0: no TERM at all), then KILL and a bounded wait. Blocks; reaps all children. */
void run_orphans_end(uint64_t grace_ns, struct run_orphans *result);

/* Send a signal to every descendant. Their number. Without a /proc that counts processes as we do: to children alone, which
 * others become as soon as their parents have ended. */
uint32_t run_orphans_signal(int number);

#endif
