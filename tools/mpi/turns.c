/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * glibc registers an area for restartable sequences in each thread, for sched_getcpu alone, and the kernel
 * (6.18) writes the CPU's number there whenever the thread has got a CPU again: a sched_yield to another
 * process takes 0.91 of its time without (docs/rationale/crowd-turns.md). A program that has sequences of
 * its own registers them by itself then.
 */
#include "tools/mpi/turns.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "GLIBC_TUNABLES"
#define TUNABLE  "glibc.pthread.rseq="

static bool names_it(const char *tunables)
{
    for (const char *at = tunables; (at = strstr(at, TUNABLE)); at++)
        if (at == tunables || at[-1] == ':')
            return true;
    return false;
}

char *mpi_turns(void)
{
    const char *has = getenv(VARIABLE);
    bool more = has && *has;
    char *text;

    if (more && names_it(has))
        return NULL;
    if (asprintf(&text, VARIABLE "=%s%s" TUNABLE "0", more ? has : "", more ? ":" : "") < 0)
        return NULL;
    return text;
}
