/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks there are on this machine. */
#ifndef NIGH_TOOLS_TOP_FIND_H
#define NIGH_TOOLS_TOP_FIND_H

#include "shm/observe.h"
#include "tools/top/process.h"
#include <stddef.h>

/* A rank that was found, with its page. */
struct top_found {
    pid_t pid;
    int fd; /* the arena's number in that process */
    struct top_process process;
    struct nigh_observed arena;
};

struct top_crop {
    struct top_found *all; /* by job, rank, process */
    size_t count;
    unsigned hidden; /* processes of this user that may not be inspected */
    unsigned others; /* arenas of another version of nigh */
};

/* Looks through all processes that may be inspected. -errno where that is not possible at all. */
int top_find(struct top_crop *out);
/* Closes what is still open in it. */
void top_crop_free(struct top_crop *crop);

/* Does the process still hold that arena? */
bool top_still_there(pid_t pid, int fd, uint64_t file);

#endif
