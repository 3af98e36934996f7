/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/log.h - one line of diagnosis to whoever opened the context on this thread, else to standard error. */
#ifndef NIGH_SHM_LOG_H
#define NIGH_SHM_LOG_H

enum nigh_log_level { NIGH_LOG_ERROR = 0, NIGH_LOG_WARN = 1, NIGH_LOG_INFO = 2 };

struct nigh_log_sink {
    void (*write)(void *data, int level, const char *text); /* NULL: stderr as "nigh: text" */
    void *data;
    int level; /* lines above it are dropped */
};

/* The sink of the calling thread; NULL restores the default (warn, stderr). Returns the one before. */
const struct nigh_log_sink *nigh_log_use(const struct nigh_log_sink *sink);

/* Looks whether standard error is closed: what is opened in its place later gets no lines. Any thread. */
void nigh_log_look(void);

/* Formats and writes a line of at most 1 KiB. */
void nigh_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
