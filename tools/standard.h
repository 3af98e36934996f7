/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/standard.h - a program that is started with stdin, stdout or stderr closed must not open something else there: what it
 * prints would go into that. Programs of tools/ call this first in main(), and need not look afterwards. */
#ifndef NIGH_TOOLS_STANDARD_H
#define NIGH_TOOLS_STANDARD_H

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Opens /dev/null as those of 0 to 2 that are closed. False and errno: it cannot be opened. */
static inline bool tool_fill_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

#endif
