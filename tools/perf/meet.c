/* SPDX-License-Identifier: BSD-3-Clause */
/* Handing one memfd to all ranks of a launched job. The name is abstract, so that nothing is left behind; the ranks
 * must therefore share a network namespace, which all ranks of one nigh-run do. */
#include "tools/perf/meet.h"

#include "tools/perf/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t name_of(uint64_t job, uint32_t number, struct sockaddr_un *name)
{
    int n;

    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "nigh-perf.%u.%" PRIx64 ".%u",
                 (unsigned)getuid(), job, (unsigned)number);
    if (n > (int)sizeof(name->sun_path) - 2)
        n = (int)sizeof(name->sun_path) - 2;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int send_fd(int socket, int fd)
{
    char byte = 0;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int receive_fd(int socket)
{
    char byte;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header;
    int fd;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
        return -EIO;
    header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int)))
        return -EPROTO;
    memcpy(&fd, CMSG_DATA(header), sizeof(int));
    return fd;
}

/* 0 when the listener can be accepted from before `end`. */
static int await_connection(int listener, uint64_t end)
{
    uint64_t now = perf_clock_system();
    struct pollfd one = {listener, POLLIN, 0};

    if (now >= end)
        return -ETIMEDOUT;
    return poll(&one, 1, (int)((end - now) / 1000000) + 1) == 1 ? 0 : -ETIMEDOUT;
}

static int serve(int listener, int fd, uint32_t others, uint64_t end)
{
    for (uint32_t i = 0; i < others; i++) {
        int rc = await_connection(listener, end), peer;

        if (rc != 0)
            return rc;
        peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0)
            return -errno;
        rc = send_fd(peer, fd);
        close(peer);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int make(const struct sockaddr_un *name, socklen_t length, uint32_t ranks, size_t bytes, uint64_t end)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1, rc = -errno;

    if (listener < 0)
        return rc;
    fd = memfd_create("nigh-perf", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
        bind(listener, (const struct sockaddr *)name, length) != 0 || listen(listener, (int)ranks) != 0)
        rc = -errno;
    else
        rc = serve(listener, fd, ranks - 1, end);
    if (rc != 0 && fd >= 0)
        close(fd);
    close(listener);
    return rc ? rc : fd;
}

static int fetch(const struct sockaddr_un *name, socklen_t length, uint64_t end)
{
    int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    if (peer < 0)
        return -errno;
    while (connect(peer, (const struct sockaddr *)name, length) != 0) {
        rc = -errno;
        if (perf_clock_system() > end || (rc != -ECONNREFUSED && rc != -ENOENT && rc != -EAGAIN)) {
            close(peer);
            return rc == -ECONNREFUSED ? -ETIMEDOUT : rc;
        }
        usleep(1000); /* rank 0 has not come this far */
    }
    rc = receive_fd(peer);
    close(peer);
    return rc;
}

int perf_meet(uint64_t job, uint32_t number, uint32_t rank, uint32_t ranks, size_t bytes,
              double limit_seconds)
{
    uint64_t end = perf_clock_system() + (uint64_t)(limit_seconds * 1e9);
    struct sockaddr_un name;
    socklen_t length = name_of(job, number, &name);

    return rank == 0 ? make(&name, length, ranks, bytes, end) : fetch(&name, length, end);
}
