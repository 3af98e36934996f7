/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/os.c - the table's real calls: one thin function each, because libc has some as macros, as variadic
 * functions or not at all. */
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc has no functions for these, or has them only in later versions than the oldest that is supported. */
static int futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return (int)syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static int membarrier(int command, unsigned flags)
{
    return (int)syscall(SYS_membarrier, command, flags, 0);
}

static int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static int pidfd_getfd(int process, int fd, unsigned flags)
{
    return (int)syscall(SYS_pidfd_getfd, process, fd, flags);
}

static ssize_t getdents64(int directory, void *to, size_t bytes)
{
    return syscall(SYS_getdents64, directory, to, bytes);
}

#define REAL_CALL(result, failed, name, parameters, arguments) \
    static result real_##name parameters                       \
    {                                                          \
        return name arguments;                                 \
    }
NIGH_OS_CALLS(REAL_CALL)

#define REAL_MEMBER(result, failed, name, parameters, arguments) .name = real_##name,
struct nigh_os nigh_os = {NIGH_OS_CALLS(REAL_MEMBER)};

void nigh_os_close(int fd)
{
    int error = errno;

    if (fd >= 0)
        nigh_os.close(fd);
    errno = error;
}
