/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel says of a process. */
#ifndef NIGH_TOOLS_TOP_PROCESS_H
#define NIGH_TOOLS_TOP_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct top_process {
    char name[16]; /* of the program, printable */
    char state;    /* R, S, D, T, t, Z, X as in proc(5) */
    uint64_t cpu_ns, started;
};

/* False: there is no such process, or it is not ours to see. */
bool top_process_read(pid_t pid, struct top_process *out);

#endif
