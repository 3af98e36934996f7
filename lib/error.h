/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/error.h - the sentence that goes with an error: kept for nigh_error_text() and written to stderr. */
#ifndef NIGH_LIB_ERROR_H
#define NIGH_LIB_ERROR_H

#include "lib/core.h"

enum { NIGH_LOG_ERROR = 0, NIGH_LOG_WARN = 1, NIGH_LOG_INFO = 2 };

/*
 * Keep and log "CALL at SITE: ..." as the calling thread's error; returns `error`. To be called once per error, where
 * it is decided. A line equal to the last one logged is not logged again: programs that try in a loop; and of lines of
 * one format and site the first 16 are.
 */
int nigh_fail(struct nigh_call call, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The same without a line on stderr: for what a program may well expect, such as a time-out that it has chosen. */
int nigh_fail_quietly(struct nigh_call call, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* A line on stderr, "nigh: rank R: ...", if NIGH_LOG shows its level; the first 16 of one format. */
void nigh_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* A line, as it is, to standard error if that is the program's yet (common/standard_error.h). Keeps errno. */
void nigh_error_write(const char *lines, size_t bytes);
/* Looks whether standard error is closed: what is opened in its place later gets no lines. */
void nigh_error_look(void);

/* "" or " at file.c:12", for messages about something that was called there. Valid as long as the site. */
struct nigh_where {
    char text[96];
};
struct nigh_where nigh_where(const char *site);

#endif
