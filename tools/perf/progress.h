/* SPDX-License-Identifier: BSD-3-Clause */
/* The line that tells a person at a terminal that something goes on. Written to stderr by the process that
 * waits, never by one that measures, and not at all when stderr is no terminal. */
#ifndef NIGH_PERF_PROGRESS_H
#define NIGH_PERF_PROGRESS_H

/* Replaces the line by "nigh-perf: " and the text; at most ten times a second. */
void perf_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Removes the line, before anything else is written. */
void perf_progress_clear(void);

#endif
