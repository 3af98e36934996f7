/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/log.h - lines for people on standard error, written without any memory of the heap. */
#ifndef NIGH_MALLOC_LOG_H
#define NIGH_MALLOC_LOG_H

/* One line, by one write. Any thread, also within a malloc. Keeps errno. */
void nigh_malloc_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
