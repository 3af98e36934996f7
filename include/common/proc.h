/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common/proc.h - whether /proc can be trusted with process numbers. In a container or a chroot it may be missing, and in a
 * PID namespace it may still be that of another one, whose numbers are other processes. Not installed.
 */
#ifndef NIGH_COMMON_PROC_H
#define NIGH_COMMON_PROC_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* This process's number as /proc counts; 0: /proc is not mounted, or does not show this process. */
static inline pid_t nigh_proc_self(void)
{
    char text[16] = "";

    return readlink("/proc/self", text, sizeof(text) - 1) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* Whether a number from getpid() or fork() is the same process in /proc. */
static inline bool nigh_proc_counts_as_we(void)
{
    return nigh_proc_self() == getpid();
}

#endif
