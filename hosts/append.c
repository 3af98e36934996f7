/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/append.c - see append.h. */
#include "hosts/append.h"
#include "include/common/standard_error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct nigh_standard_error standard_error;

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
}

static int append(int fd, const char *line, size_t bytes)
{
    ssize_t wrote = write(fd, line, bytes);

    return wrote < 0 ? errno : (size_t)wrote < bytes ? ENOSPC : 0;
}

int nigh_host_append(const char *path, const char *line, size_t bytes)
{
    int fd, rc;

    if (strcmp(path, "-") == 0)
        return nigh_standard_error_is(&standard_error) ? append(STDERR_FILENO, line, bytes) : EBADF;
    fd = NIGH_FD(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (fd < 0)
        return errno;
    rc = append(fd, line, bytes);
    close(fd);
    return rc;
}
