/* SPDX-License-Identifier: BSD-3-Clause */
/* A command and what it prints: started with nothing of this process but its environment, output kept in memory
 * and shown only when something went wrong. */
#ifndef NIGH_PERF_PEER_PROCESS_H
#define NIGH_PERF_PEER_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

struct perf_process {
    pid_t pid;  /* -1: none */
    int input;  /* our end of its standard input, a socket; -1 where it reads /dev/null */
    int output; /* what it prints, both streams: a memfd */
};

/* Starts `command` (found in PATH, NULL at the end). with_input: 1 makes process->input. On success the process is
 * to be waited for and closed. Errors: -ENOENT no such program; -EMFILE, -ENOMEM, -EAGAIN. */
int perf_process_start(char *const *command, int with_input, struct perf_process *process);

/* Waits for it at most `milliseconds`. Returns its exit status (128 + signal when one ended it); -EAGAIN it still
 * runs; -ECHILD it has been waited for, or another process started it. */
int perf_process_wait(struct perf_process *process, int milliseconds);

/* The last `size` - 1 bytes at most that it has printed, without the last line's end. Returns `text`. */
const char *perf_process_said(const struct perf_process *process, char *text, size_t size);

/* Ends it if it still runs and closes the descriptors. */
void perf_process_close(struct perf_process *process);

#endif
