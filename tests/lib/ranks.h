/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/lib/ranks.h - a job of forked ranks that use libnigh as a program does. The body runs in each of them; a failed
 * CHECK ends that rank and, through it, the test, with file and line.
 */
#ifndef NIGH_TESTS_LIB_RANKS_H
#define NIGH_TESTS_LIB_RANKS_H

#include "nigh/nigh.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

struct ranks_how {
    uint32_t threads, progress;
    double timeout;
    int finalize;            /* what nigh_finalize returns */
    bool loose;              /* the body calls nigh_finalize itself, or ends without */
    int killed;              /* 1 + the rank that ends by a signal; 0: none */
    const char *environment; /* "NAME=VALUE" set in every rank, or NULL */
};

typedef void ranks_body(int rank, int size);

/* Runs `body` in `ranks` processes; fails the cmocka test when one of them does. `how` NULL: nothing special. */
void ranks_run(int ranks, ranks_body *body, const struct ranks_how *how);
/* The same with 1, 2, 4 and 8. */
void ranks_run_all(ranks_body *body, const struct ranks_how *how);

/* ---- in the ranks ---- */

void ranks_check(const char *file, int line, bool good, const char *what);
void ranks_check_int(const char *file, int line, const char *what, long long got, long long expected);
void ranks_check_text(const char *file, int line, const char *text, const char *part);
#define CHECK(condition) ranks_check(__FILE__, __LINE__, (condition), #condition)
#define CHECK_INT(got, expected) \
    ranks_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(expected))
/* Is `part` in nigh_error_text()? */
#define CHECK_TEXT(part) ranks_check_text(__FILE__, __LINE__, nigh_error_text(), part)
#define OK(call)         ranks_check_int(__FILE__, __LINE__, #call, (call), 0)

/* What this rank, and the library in it, has written to standard error so far; the buffer is this function's. */
const char *ranks_said(void);

void ranks_fill(void *buffer, uint64_t bytes, uint64_t seed);
bool ranks_is_filled(const void *buffer, uint64_t bytes, uint64_t seed);
void ranks_nap(unsigned ms);

/* nigh_config.job of the job that they are in. */
uint64_t ranks_job(void);

/* What has happened, told from rank to rank past the library, so that no test has to guess how long it takes: `note` is
 * below 16, untold when a job starts. hear waits, without a call of the library, and fails the test after a minute. */
void ranks_tell(unsigned note);
bool ranks_told(unsigned note);
void ranks_hear(unsigned note);

/* Lets the library move everything, a few times. */
void ranks_poll(void);

#endif
