/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/win.h - windows: memory that all ranks of a communicator may read and write by put, get and atomics.
 *
 * For each target there is one operation (lib/request.h) that stands for all posts to it that are under way: they carry
 * its address as their context, its `spare` counts them, and it is DONE while there are none. So a post allocates
 * nothing, and waiting for a target is waiting for one operation.
 */
#ifndef NIGH_LIB_WIN_H
#define NIGH_LIB_WIN_H

#include "lib/comm.h"
#include "lib/request.h"

#define NIGH_WIN_MAX 4096u /* at one time */

enum nigh_win_state { NIGH_WIN_UNUSED = 0, NIGH_WIN_MAKING, NIGH_WIN_ALIVE, NIGH_WIN_FREED };

struct nigh_win_target {
    uint64_t key, bytes;              /* of its memory */
    struct nigh_operation *operation; /* NULL: none was ever posted */
    int error;                        /* of the first that failed since the last flush */
    uint32_t incoming; /* gets and atomics under way: what still writes to the program's memory */
};

struct nigh_win {
    uint32_t state;  /* enum nigh_win_state */
    uint32_t number; /* in the communicator, the same at all ranks */
    struct nigh_comm *comm;
    struct nigh_operation *hold; /* keeps the tables of `comm` although the program may free it */
    struct nigh_win_target *targets;
    struct nigh_region *region; /* NULL: no bytes */
    void *base;
    bool allocated;   /* `base` goes with the window */
    const char *site; /* of the call that made it */
};

/* -EINVAL, said. Safe for any pointer. */
int nigh_win_check(struct nigh_call call, const struct nigh_win *win);

/* "window 3 of world (made at a.c:7)" */
struct nigh_sentence nigh_win_text(const struct nigh_win *win);

/* Waits until nothing is under way to `target`. Errors (said): what its operations have failed with; -ETIMEDOUT,
 * -EDEADLK. */
int nigh_win_await(struct nigh_call call, struct nigh_win *win, int target);

/* To all of them: goes on after an error, and returns the first. */
int nigh_win_await_all(struct nigh_call call, struct nigh_win *win);

/* Lets go of all operations of targets, also such as have not ended. */
void nigh_win_drop_targets(struct nigh_win *win);

/* Names each that was not freed; how many. */
int nigh_win_report(void);

/* With the library: all are gone. */
void nigh_wins_close(void);

#endif
