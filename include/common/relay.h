/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common/relay.h - lines of nigh's own on their way to nigh-run, which makes one of those that several ranks say alike
 * (tools/run/fold.h). NIGH_LINES=DEVICE:INODE:NAME names its standard error and its socket. Nothing waits: a line that cannot
 * go there is its caller's to write. Not installed.
 */
#ifndef NIGH_COMMON_RELAY_H
#define NIGH_COMMON_RELAY_H

#include "include/common/descriptor.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NIGH_RELAY_NAME 48
#define NIGH_RELAY_HEAD 16 /* "RANK\n" in front of the lines */

/* One for each object that writes lines. */
struct nigh_relay {
    struct nigh_file_id standard_error;
    char name[NIGH_RELAY_NAME]; /* abstract, as of unix(7); "": nobody folds */
    long rank;
};

/* Reads the environment, so when the object is loaded. */
static inline void nigh_relay_begin(struct nigh_relay *self)
{
    const char *text = getenv("NIGH_LINES"), *rank = getenv("NIGH_RANK");
    char *end = NULL;

    if (!text || !rank)
        return;
    self->rank = strtol(rank, NULL, 10);
    self->standard_error.device = strtoull(text, &end, 10);
    if (*end != ':')
        return;
    self->standard_error.inode = strtoull(end + 1, &end, 10);
    if (*end == ':' && strlen(end + 1) < sizeof(self->name))
        memcpy(self->name, end + 1, strlen(end + 1) + 1);
}

static inline socklen_t nigh_relay_address(const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* Another user's process could have taken the name of a nigh-run that has ended. */
static inline bool nigh_relay_is_ours(int fd)
{
    struct ucred other;
    socklen_t bytes = sizeof(other);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

/* Gives whole lines away; `rank` below 0: that of the environment. False: they are still the caller's. Keeps errno. */
static inline bool nigh_relay_give(const struct nigh_relay *self, long rank, const char *lines, size_t bytes)
{
    char head[NIGH_RELAY_HEAD];
    struct iovec parts[2] = {{head, 0}, {(void *)(uintptr_t)lines, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int fd, error = errno;
    struct sockaddr_un to;
    struct stat stat;
    bool given;

    if (!self->name[0] || fstat(STDERR_FILENO, &stat) || !nigh_file_id_is(&stat, &self->standard_error)) {
        errno = error;
        return false;
    }
    parts[0].iov_len = (size_t)snprintf(head, sizeof(head), "%ld\n", rank < 0 ? self->rank : rank);
    fd = NIGH_FD(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    given = fd >= 0 && connect(fd, (struct sockaddr *)&to, nigh_relay_address(self->name, &to)) == 0 &&
            nigh_relay_is_ours(fd) &&
            sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)(parts[0].iov_len + bytes);
    if (fd >= 0)
        close(fd);
    errno = error;
    return given;
}

#endif
