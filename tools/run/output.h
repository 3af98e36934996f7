/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of many ranks on one stdout and one stderr, each line whole and labelled. Nothing here blocks: a slow
 * reader holds the ranks back, never the watch over them.
 */
#ifndef NIGH_TOOLS_RUN_OUTPUT_H
#define NIGH_TOOLS_RUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/run/fold.h"

/* What a rank has written and has not ended with a newline yet. */
struct run_source {
    int fd; /* our end of the pipe, -1: closed */
    uint32_t rank;
    char *line;
    size_t length, room;
};

/* What waits to be written to our own stdout or stderr. */
struct run_sink {
    int fd;
    bool broken; /* nobody reads it any more */
    char *data;
    size_t length, room;
};

struct run_output {
    struct run_source *sources; /* two a rank: stdout, stderr; NULL: ranks write for themselves */
    uint32_t source_count;
    struct run_sink sinks[2];
    struct run_sink *sink_of[2]; /* both the same when stdout and stderr are one file */
    struct run_fold fold;        /* for lines of nigh's own, without labels */
};

/* Prepare for `ranks` ranks, labelled or not. 0 or -ENOMEM. */
int run_output_open(struct run_output *output, uint32_t ranks, bool label);

/* Without labels: equal lines of nigh's own from several ranks of `job` become one. Where that cannot be had, they do not. */
void run_output_fold(struct run_output *output, uint32_t ranks, uint64_t job);
void run_output_close(struct run_output *output);

/*
 * Pipes for a rank's stdout and stderr: ends[0], ends[1] are the rank's, close-on-exec, the caller's to close.
 * Without labels both are -1. 0 or a negative errno, nothing open then.
 */
int run_output_connect(struct run_output *output, uint32_t rank, int ends[2]);

/* Say something of our own on stderr: "nigh-run: ..." and a newline, never inside a rank's line, and behind those of nigh that
 * came before. */
void run_output_say(struct run_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For poll(): how many entries at most, fill them (the number used), and act on what came back. */
size_t run_output_poll_max(const struct run_output *output);
size_t run_output_poll_fill(const struct run_output *output, struct pollfd *polls);
void run_output_handle(struct run_output *output, const struct pollfd *polls, size_t count);

/* After how many ms run_output_handle() must be called, whatever poll() says; -1: not at all. */
int run_output_wait_ms(const struct run_output *output);

/* Take what is left in the pipes, close them, and complete unfinished lines. To be called when no rank is left. */
void run_output_end(struct run_output *output);

/* Is there anything that has not been written out yet? */
bool run_output_pending(const struct run_output *output);

#endif
