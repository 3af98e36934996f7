/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/standing.h - jobs for nigh-top to look at, whose ranks stand in known states, and
 * what it prints of them. */
#ifndef NIGH_TESTS_STANDING_H
#define NIGH_TESTS_STANDING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/capture.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOP "$NIGH_BUILDDIR/tools/nigh-top"

static inline void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

struct job {
    struct capture run;
    char id[17];
};

/* Starts a rank in each state, and waits until all are in it. */
static inline void start(struct job *job, unsigned ranks, const char *states)
{
    char line[256], text[32];

    snprintf(line, sizeof(line), "$RUN -n %u --bind none --kill-grace 0.1 $BIN/stand %s", ranks, states);
    capture_start(&job->run, line);
    for (unsigned i = 0; i < ranks; i++) {
        snprintf(text, sizeof(text), "ready %u ", i);
        if (!capture_until(&job->run, text))
            fail_msg("%s: rank %u is not there", line, i);
    }
    memset(text, 0, sizeof(text));
    assert_true(pread(job->run.out_fd, text, sizeof(text) - 1, 0) > 0);
    assert_int_equal(sscanf(text, "ready %*u %16s", job->id), 1);
}

static inline void end(struct job *job)
{
    kill(job->run.pid, SIGTERM);
    capture_wait(&job->run, 300);
    capture_free(&job->run);
}

/* What `line` prints, with this status. */
static inline char *printed(const char *line, int status, bool err)
{
    struct capture run;
    char *text;

    capture_run(&run, line);
    if (run.status != status)
        fail_msg("%s: status %d, not %d\n%s%s", line, run.status, status, run.out, run.err);
    text = strdup(err ? run.err : run.out);
    capture_free(&run);
    return text;
}

static inline void has(const char *line, int status, bool err, const char *part)
{
    char *text = printed(line, status, err);

    if (!strstr(text, part))
        fail_msg("%s: lacks \"%s\":\n%s", line, part, text);
    free(text);
}

#endif
