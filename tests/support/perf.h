/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf as a user runs it, and what its rows must have. */
#ifndef NIGH_TESTS_SUPPORT_PERF_H
#define NIGH_TESTS_SUPPORT_PERF_H

/* Standard output of a command; its exit status in *status. The caller frees it. */
char *output_of(const char *command, int *status);

/* The same of nigh-perf with these arguments, behind `prefix` (variables). */
char *perf(const char *prefix, const char *arguments, int *status);

enum expected { NO_FLOOR, A_FLOOR, MIXED };

/* Rows in what --json - printed, each of which has a figure that can be, or a note that says why not. */
unsigned rows_in(char *text, enum expected floor);

/* How often a row of this test is in the output. */
unsigned rows_of(const char *text, const char *test);

/* Runs nigh-perf and looks at its rows. */
void measure(const char *arguments, unsigned least_rows, enum expected floor);

#endif
