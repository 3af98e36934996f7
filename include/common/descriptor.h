/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common/descriptor.h - nigh owns none of the descriptors 0, 1 and 2: where a program has closed them, what it prints would
 * change nigh's memory. Every call that makes a descriptor goes through here; tests/repository/descriptors looks.
 * docs/architecture.md, "Descriptors". Not installed.
 */
#ifndef NIGH_COMMON_DESCRIPTOR_H
#define NIGH_COMMON_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fills those of 0, 1 and 2 that are closed, so that no call puts anything there. Another thread of the program that prints
 * meanwhile gets EBADF, as if they were closed: the filler is opened with O_PATH. Returns a set for nigh_low_release(). */
static inline unsigned nigh_low_hold(void)
{
    unsigned held = 0;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int filler;

        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        filler = open("/", O_PATH | O_CLOEXEC);
        if (filler > STDERR_FILENO) /* another thread has just opened something there */
            close(filler);
        else if (filler >= 0)
            held |= 1u << filler;
    }
    return held;
}

/* Keeps errno. What the program has put in a filler's place meanwhile stays. */
static inline void nigh_low_release(unsigned held)
{
    int error = errno;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int flags = held & 1u << fd ? fcntl(fd, F_GETFL) : -1;

        if (flags >= 0 && (flags & O_PATH))
            close(fd);
    }
    errno = error;
}

/* Moves a descriptor of 0, 1 or 2 above them and closes it there; others, and -1 with its errno, it returns as they are.
 * -1 and errno: there was no room, and it is closed. */
static inline int nigh_fd_above(int fd)
{
    int high, error;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    error = errno;
    close(fd);
    errno = error;
    return high;
}

/* The descriptor that `call` makes, above 2; -1 and errno if it fails. */
#define NIGH_FD(call)                    \
    __extension__({                      \
        unsigned low_ = nigh_low_hold(); \
        int fd_ = (call);                \
        nigh_low_release(low_);          \
        nigh_fd_above(fd_);              \
    })

/* `call`, of any type, that may open descriptors and keep them: a library's. */
#define NIGH_FD_DURING(call)               \
    __extension__({                        \
        unsigned low_ = nigh_low_hold();   \
        __typeof__(call) result_ = (call); \
        nigh_low_release(low_);            \
        result_;                           \
    })

/* fopen(path, "re"). */
static inline FILE *nigh_fd_fopen(const char *path)
{
    int fd = NIGH_FD(open(path, O_RDONLY | O_CLOEXEC));
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

    if (!stream && fd >= 0)
        close(fd);
    return stream;
}

/* Which file a descriptor is of: its number says little where a program closes all and opens others. Not for what
 * has no inode of its own (eventfd, epoll, timerfd, and pidfd before Linux 6.9). */
struct nigh_file_id {
    uint64_t device, inode;
};

static inline struct nigh_file_id nigh_file_id_of(const struct stat *stat)
{
    return (struct nigh_file_id){.device = stat->st_dev, .inode = stat->st_ino};
}

static inline bool nigh_file_id_is(const struct stat *stat, const struct nigh_file_id *id)
{
    return stat->st_dev == id->device && stat->st_ino == id->inode;
}

/* Where it cannot be told nothing speaks against it. Keeps errno. */
static inline bool nigh_fd_is(int fd, const struct nigh_file_id *id)
{
    int error = errno;
    struct stat stat;
    bool is = fd >= 0;

    if (is && fstat(fd, &stat))
        is = errno != EBADF;
    else if (is)
        is = nigh_file_id_is(&stat, id);
    errno = error;
    return is;
}

#endif
