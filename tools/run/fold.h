/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of nigh's own that several ranks say alike, made one that names them. Ranks give them away over a socket
 * (include/common/relay.h); what their programs print never comes here. A line is held for a moment, so that others can say it
 * too, and nigh-run's own lines stay behind those that came before them. Nothing here blocks.
 */
#ifndef NIGH_TOOLS_RUN_FOLD_H
#define NIGH_TOOLS_RUN_FOLD_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_FOLD_CALLERS 32 /* ranks that are just giving a line away; others wait for a place */

struct run_fold_line;

struct run_fold {
    int listener; /* -1: nothing is folded */
    int callers[RUN_FOLD_CALLERS];
    uint32_t caller_count, ranks;
    struct run_fold_line *lines; /* in the order in which they began to wait */
    size_t count, room;
    char name[48]; /* the socket's, abstract */
    void (*put)(void *data, const char *text, size_t bytes);
    void *data;
};

/* Opens the socket for the ranks of `job`. What is shown goes to `put`, in whole lines. -ENOMEM or another negative errno:
 * nothing is folded, and ranks write for themselves. */
int run_fold_open(struct run_fold *fold, uint32_t ranks, uint64_t job,
                  void (*put)(void *data, const char *text, size_t bytes), void *data);
void run_fold_close(struct run_fold *fold);

/* The value of NIGH_LINES; "" where nothing is folded. */
void run_fold_variable(const struct run_fold *fold, char *text, size_t room);

/* A line of nigh-run's own, with its newline. False: no line waits, and it is the caller's to write. */
bool run_fold_own(struct run_fold *fold, const char *text);

/* For poll(): entries (RUN_FOLD_CALLERS + 1 at most), and after how many ms a line must be shown (-1: none waits). */
size_t run_fold_poll_fill(const struct run_fold *fold, struct pollfd *polls);
int run_fold_wait_ms(const struct run_fold *fold);

/* Takes what ranks have given, and shows what has waited long enough; or all that waits. */
void run_fold_step(struct run_fold *fold);
void run_fold_show_all(struct run_fold *fold);

#endif
