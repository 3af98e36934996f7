/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/append.h - what a host has done, written down when it ends. */
#ifndef NIGH_HOSTS_APPEND_H
#define NIGH_HOSTS_APPEND_H

#include <stddef.h>

/* Appends a line to a file, or to standard error ("-"), by one write, so that those of ranks that end together do not
 * mix. 0, or an errno. Blocks as writing to that file does. */
int nigh_host_append(const char *path, const char *line, size_t bytes);

#endif
