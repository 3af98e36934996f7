/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/file.h - small files that the kernel writes (/proc, /sys), read whole and as numbers. */
#ifndef NIGH_SHM_FILE_H
#define NIGH_SHM_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Reads at most room - 1 bytes of `path` into text and ends it with 0. 0, or a negative errno of open or read. */
int nigh_file_read(const char *path, char *text, size_t room);

/* The same into memory of its own, which the caller frees; NULL: it cannot be read, or there is no memory. */
char *nigh_file_load(const char *path, size_t room);

/* Calls `each` with every line of a file of any length, without its newline; what a line has beyond NIGH_FILE_LINE bytes is
 * left out. 0, a negative errno of open or read, -ENOMEM; `each` may have been called by then. */
#define NIGH_FILE_LINE 1024u
int nigh_file_each_line(const char *path, void (*each)(const char *line, void *data), void *data);

/* The number that the file begins with. 0, a negative errno of open or read, -EBADMSG no number. */
int nigh_file_read_number(const char *path, uint64_t *out);

/* A list as the kernel writes it, "0-3,8,10-11". Calls `each` for every number below `limit`. Returns how many, or
 * -EBADMSG for anything else; `each` may have been called by then. */
int nigh_file_each_of_list(const char *text, uint32_t limit, void (*each)(uint32_t number, void *data),
                           void *data);

#endif
