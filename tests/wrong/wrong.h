/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/wrong/wrong.h - the corpus of wrong programs. Each is a function that every rank runs between nigh_init and
 * nigh_finalize, with what it must be told: a pattern per rank, looked for in what that rank has
 * written to standard error.
 */
#ifndef NIGH_TESTS_WRONG_WRONG_H
#define NIGH_TESTS_WRONG_WRONG_H

#include "nigh/nigh.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WRONG_RANKS = 8 };

#define WRONG_LOOSE  1u /* the program calls nigh_init and nigh_finalize itself */
#define WRONG_KILLED 2u /* a rank of it ends by a signal or with a status of its own */

struct wrong {
    const char *name;
    int ranks;
    void (*body)(int rank, int size);
    /* Of each rank, an extended regular expression; "": it must say nothing. Only one: of all ranks. */
    const char *expect[WRONG_RANKS];
    const char *environment; /* "NAME=VALUE NAME=VALUE" */
    unsigned flags;          /* WRONG_* */
};

/* Each ends with an entry without a name. */
extern const struct wrong wrong_collectives[], wrong_deadlocks[], wrong_matching[], wrong_requests[],
    wrong_memory[], wrong_ends[], wrong_arguments[], wrong_right[], wrong_premises[];

/* Writes what a call has returned: "returned EDEADLK". */
void wrong_told(int rc);
#define TELL(call) wrong_told(call)

void wrong_nap(unsigned ms);

/* Naps until `rank` has written `text`, what it is told included: on a slow machine, too, that
 * comes before whatever follows. */
void wrong_nap_until(int rank, const char *text);

/* A rank that may say anything or nothing. */
#define WHATEVER "()"

#define WORLD nigh_world()

#endif
