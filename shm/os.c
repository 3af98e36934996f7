/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/os.c - the table's real calls: one thin function each, because libc has some as macros, as variadic
 * functions or not at all. */
#include "shm/os.h"
#include "shm/held.h"

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
static int futex_waitv(struct nigh_futex_wait *waits, unsigned count, unsigned flags,
                       struct timespec *timeout, int clock)
{
    return (int)syscall(SYS_futex_waitv, waits, count, flags, timeout, clock);
}

static int set_robust_list(void *head, size_t bytes)
{
    return (int)syscall(SYS_set_robust_list, head, bytes);
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
#define REAL_MAKER(result, failed, name, parameters, arguments) \
    static result real_##name parameters                        \
    {                                                           \
        int fd_;                                                \
                                                                \
        nigh_held_lock();                                       \
        fd_ = nigh_held_add(NIGH_FD(name arguments));           \
        nigh_held_unlock();                                     \
        return fd_;                                             \
    }
NIGH_OS_MAKERS(REAL_MAKER)
NIGH_OS_OTHERS(REAL_CALL)

/* ---- calls that bring descriptors ------------------------------------------------------------------------ */

/* With the low numbers filled the caller's nigh_os_take() has nothing to do, unless another thread closes one at that moment. */

static int real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    int rc;

#ifdef SO_PEERPIDFD
    if (level == SOL_SOCKET && name == SO_PEERPIDFD) {
        nigh_held_lock();
        rc = NIGH_FD_DURING(getsockopt(fd, level, name, value, bytes));
        if (!rc)
            nigh_held_add(*(int *)value);
        nigh_held_unlock();
        return rc;
    }
#endif
    rc = getsockopt(fd, level, name, value, bytes);
    return rc;
}

static void add_received(struct msghdr *message)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int fd;

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
            nigh_held_add(fd);
        }
    }
}

static ssize_t real_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got;

    nigh_held_lock();
    got = NIGH_FD_DURING(recvmsg(fd, message, flags));
    if (got >= 0)
        add_received(message);
    nigh_held_unlock();
    return got;
}

static int real_socketpair(int domain, int type, int protocol, int fds[2])
{
    int rc;

    nigh_held_lock();
    rc = NIGH_FD_DURING(socketpair(domain, type, protocol, fds));
    for (int i = 0; !rc && i < 2; i++)
        nigh_held_add(fds[i]);
    nigh_held_unlock();
    return rc;
}

/* ---- calls that make or close them ----------------------------------------------------------------------- */

/* What the kernel answers itself, and NIGH_DIR, where sockets are. */
static bool is_quick(const char *path, int flags)
{
    return flags & O_DIRECTORY || strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}

/* Other files may lie far away: no fork waits for them, so that a child may keep one which is being opened. */
static int real_open(const char *path, int flags, mode_t mode)
{
    int fd;

    if (!is_quick(path, flags))
        return NIGH_FD(open(path, flags, mode));
    nigh_held_lock();
    fd = nigh_held_add(NIGH_FD(open(path, flags, mode)));
    nigh_held_unlock();
    return fd;
}

static int real_fcntl(int fd, int command, int argument)
{
    int result;

    if (command != F_DUPFD_CLOEXEC)
        return fcntl(fd, command, argument);
    nigh_held_lock();
    result = nigh_held_add(fcntl(fd, command, argument));
    nigh_held_unlock();
    return result;
}

static int real_close(int fd)
{
    int rc;

    nigh_held_lock();
    if (!nigh_held_remove(fd)) {
        nigh_held_unlock();
        return close(fd);
    }
    rc = close(fd);
    nigh_held_unlock();
    return rc;
}

/* ---------------------------------------------------------------------------------------------------------- */

#define REAL_MEMBER(result, failed, name, parameters, arguments) .name = real_##name,
struct nigh_os nigh_os = {NIGH_OS_CALLS(REAL_MEMBER)};

void nigh_os_close(int fd)
{
    int error = errno;

    if (fd >= 0)
        nigh_os.close(fd);
    errno = error;
}

int nigh_os_take(int fd)
{
    nigh_held_lock();
    nigh_held_remove(fd);
    fd = nigh_held_add(nigh_fd_above(fd));
    nigh_held_unlock();
    return fd;
}

int nigh_os_identify(int fd, struct nigh_file_id *out)
{
    struct stat stat;

    if (nigh_os.fstat(fd, &stat))
        return -errno;
    *out = nigh_file_id_of(&stat);
    return 0;
}

int nigh_os_pair(int fds[2], struct nigh_file_id ids[2])
{
    int made[2], error = 0;

    fds[0] = fds[1] = -1;
    if (nigh_os.socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, made))
        return -errno;
    for (int i = 0; i < 2; i++) {
        made[i] = nigh_os_take(made[i]);
        if (made[i] < 0)
            error = -errno;
        else if (!error)
            error = nigh_os_identify(made[i], &ids[i]);
    }
    if (error) {
        nigh_os_close(made[0]);
        nigh_os_close(made[1]);
        return error;
    }
    fds[0] = made[0];
    fds[1] = made[1];
    return 0;
}

bool nigh_os_is(int fd, const struct nigh_file_id *id)
{
    int error = errno;
    struct stat stat;
    bool is = fd >= 0;

    /* Where it cannot be told nothing speaks against it. */
    if (is && nigh_os.fstat(fd, &stat))
        is = errno != EBADF;
    else if (is)
        is = nigh_file_id_is(&stat, id);
    errno = error;
    return is;
}

void nigh_os_close_own(int fd, const struct nigh_file_id *id)
{
    if (nigh_os_is(fd, id))
        nigh_os_close(fd);
}
