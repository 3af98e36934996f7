/* SPDX-License-Identifier: BSD-3-Clause */
/* One program for every MPI: cases by name in tables, each run by all ranks, judged together, and told by rank 0 as
 * TAP. It is compiled by the MPI that is tested and sees nothing of nigh. */
#ifndef NIGH_TESTS_HOSTS_MPI_SUITE_H
#define NIGH_TESTS_HOSTS_MPI_SUITE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct suite_case {
    const char *name;
    void (*run)(void);
};

extern const struct suite_case suite_messages[], suite_requests[], suite_wild[], suite_types[],
    suite_collectives[], suite_windows[], suite_long[], suite_rooted[], suite_counts[];

extern int suite_rank, suite_ranks;

/* The next and the previous rank. */
int suite_right(void);
int suite_left(void);

/* This rank's view of a failure; the case goes on. */
void suite_failed(const char *file, int line, const char *what, long long found, long long wanted);

#define EQUAL(found, wanted)                                                  \
    do {                                                                      \
        long long found_ = (long long)(found), wanted_ = (long long)(wanted); \
        if (found_ != wanted_)                                                \
            suite_failed(__FILE__, __LINE__, #found, found_, wanted_);        \
    } while (0)

/* `count` bytes that depend on `seed`; whether they are still those: the number of wrong ones. */
void suite_fill(void *bytes, size_t count, unsigned seed);
size_t suite_wrong(const void *bytes, size_t count, unsigned seed);

/* At least 1 byte, zeroed; the process ends when there is none. */
void *suite_memory(size_t bytes);

#endif
