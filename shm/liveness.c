/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/liveness.c - credentials, pidfds and the limit of descriptors. */
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

int nigh_liveness_credentials(int socket, struct nigh_credentials *out)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    if (nigh_os.getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0 || bytes != sizeof(peer))
        return -EACCES;
    out->uid = peer.uid;
    out->pid = peer.pid > 0 ? peer.pid : 0;
    return 0;
}

/* The descriptor of the process that the kernel remembers with the socket: right even if the number was reused, and
 * across PID namespaces. */
static int pidfd_of_socket(int socket, int *pidfd)
{
#ifdef SO_PEERPIDFD
    int fd = -1;
    socklen_t bytes = sizeof(fd);

    if (nigh_os.getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0 && fd >= 0) {
        fd = nigh_os_take(fd);
        if (fd < 0)
            return -EMFILE;
        nigh_os.fcntl(fd, F_SETFD, FD_CLOEXEC);
        *pidfd = fd;
        return 0;
    }
    switch (errno) {
    case ESRCH:  /* Linux 6.5 to 6.15 have none for a process that was reaped; */
    case EINVAL: /* first they called it so */
        return -ESRCH;
    case EMFILE:
    case ENFILE:
        return -EMFILE;
    case ENOMEM:
        return -ENOMEM;
    default:
        return -ENOTSUP;
    }
#else
    (void)socket;
    (void)pidfd;
    return -ENOTSUP;
#endif
}

/* A signal that comes meanwhile, though nobody waits here, says nothing of the other side; no more does a look that fails. */
static bool tells(int fd, short events)
{
    struct pollfd look = {.fd = fd, .events = events};
    int count;

    do
        count = nigh_os.poll(&look, 1, 0);
    while (count < 0 && errno == EINTR);
    return count > 0;
}

bool nigh_liveness_hung_up(int socket)
{
    return tells(socket, 0);
}

/* By number. The number may have been given to another process since the socket was made; while the socket is open at
 * its other end, the first owner (or a child that inherited it) lives, so look after the open. */
static int pidfd_of_number(int socket, pid_t pid, int *pidfd)
{
    int fd = nigh_os.pidfd_open(pid, 0);

    if (fd < 0)
        return errno == ESRCH                       ? -ESRCH
               : errno == EMFILE || errno == ENFILE ? -EMFILE
               : errno == ENOMEM                    ? -ENOMEM
                                                    : -ENOTSUP;
    if (nigh_liveness_hung_up(socket)) {
        nigh_os_close(fd);
        return -ESRCH;
    }
    *pidfd = fd;
    return 0;
}

bool nigh_liveness_ended(int pidfd)
{
    return tells(pidfd, POLLIN);
}

bool nigh_liveness_gone(pid_t pid)
{
    int fd = pid > 0 ? nigh_os.pidfd_open(pid, 0) : -1;
    bool ended;

    if (fd < 0)
        return pid > 0 && errno == ESRCH;
    ended = nigh_liveness_ended(fd);
    nigh_os_close(fd);
    return ended;
}

int nigh_liveness_pidfd(int socket, pid_t pid, int *pidfd)
{
    int fd = -1, error = pidfd_of_socket(socket, &fd);

    if (error == -ENOTSUP && pid > 0)
        error = pidfd_of_number(socket, pid, &fd);
    if (error)
        return error;
    /* Since Linux 6.16 there is a descriptor even of a process that was reaped. */
    if (nigh_liveness_ended(fd)) {
        nigh_os_close(fd);
        return -ESRCH;
    }
    *pidfd = fd;
    return 0;
}

static void raise_limit(void)
{
    struct rlimit limit;
    rlim_t before;

    if (nigh_os.getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
        return;
    before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (nigh_os.setrlimit(RLIMIT_NOFILE, &limit) < 0)
        nigh_log(NIGH_LOG_INFO,
                 "the limit of open descriptors stays at %llu (ulimit -n): each peer takes two",
                 (unsigned long long)before);
    else
        nigh_log(NIGH_LOG_INFO, "raised the limit of open descriptors from %llu to %llu: each peer takes two",
                 (unsigned long long)before, (unsigned long long)limit.rlim_cur);
}

void nigh_liveness_raise_limit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, raise_limit);
}
