/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a command line of the shell as a user would, and keeps what it printed and how it ended. */
#ifndef NIGH_TESTS_SUPPORT_CAPTURE_H
#define NIGH_TESTS_SUPPORT_CAPTURE_H

#include <stdbool.h>
#include <sys/types.h>

struct capture {
    pid_t pid;
    int out_fd, err_fd;
    int status; /* exit status, or 128 + signal */
    double seconds;
    char *out, *err;
    double started;
};

/*
 * Start `line` with sh, after "exec " so that `pid` is the program's own; $RUN stands for nigh-run and $BIN for the
 * build's tests/support. Its stdin is /dev/null. It is killed when the test program dies.
 */
void capture_start(struct capture *capture, const char *line);

/* Wait for it, at most `seconds`; then it is killed, and the test fails. Fills status, seconds, out, err. */
void capture_wait(struct capture *capture, double seconds);

void capture_run(struct capture *capture, const char *line);
void capture_free(struct capture *capture);

/* What it has printed so far, until `text` is in it or a minute has passed; and on stderr. */
bool capture_until(struct capture *capture, const char *text);
bool capture_until_said(struct capture *capture, const char *text);

/*
 * A variable for -x that no other process has: "NIGH_TEST_MARK=..."; and how many processes have it in their
 * environment now. mark_gone waits up to a minute for none to.
 */
const char *capture_mark(void);
int capture_marked(const char *mark);
bool capture_mark_gone(const char *mark);

#endif
