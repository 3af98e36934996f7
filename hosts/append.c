/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/append.c - see append.h. */
#include "hosts/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int nigh_host_append(const char *path, const char *line, size_t bytes)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDERR_FILENO)
                                    : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t wrote;
    int rc;

    if (fd < 0)
        return errno;
    wrote = write(fd, line, bytes);
    rc = wrote < 0 ? errno : (size_t)wrote < bytes ? ENOSPC : 0;
    close(fd);
    return rc;
}
