/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/lives.c - a list, since a process joins few jobs. A forked child goes on counting from what
 * its parent has left. */
#include "lib/lives.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct lives {
    struct lives *next;
    uint64_t job, count;
};

static struct lives *all;

static struct lives *find(uint64_t job)
{
    struct lives *at = all;

    while (at && at->job != job)
        at = at->next;
    return at;
}

uint64_t nigh_lives_of(uint64_t job)
{
    const struct lives *lives = find(job);

    return lives ? lives->count : 0;
}

int nigh_lives_begin(uint64_t job)
{
    struct lives *lives;

    if (find(job))
        return 0;
    lives = malloc(sizeof(*lives));
    if (!lives)
        return -ENOMEM;
    *lives = (struct lives){.next = all, .job = job};
    all = lives;
    return 0;
}

void nigh_lives_end(uint64_t job)
{
    struct lives *lives = find(job);

    if (lives)
        lives->count++;
}
