/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wakeup.c - see wakeup.h. */
#include "hosts/libfabric/wakeup.h"
#include "hosts/libfabric/log.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define EACH_S 1

static void say(void)
{
    nigh_fi_log(NIGH_FI_WARN,
                "the program has closed descriptors of nigh's, or opened others under their numbers "
                "(closefrom closes all): whoever would sleep gets FI_EBADF (fi_cq_sread, fi_cntr_wait, "
                "fi_eq_sread, fi_trywait), and polling goes on: close only what is the program's own, or "
                "do it before queues and counters are opened");
}

static int lost(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, say);
    return -FI_EBADF;
}

/* ---- pairs --------------------------------------------------------------------------------------------- */

static bool is_own(const struct nigh_fi_pair *pair, int end)
{
    return nigh_fd_is(pair->fd[end], &pair->id[end]);
}

int nigh_fi_pair_open(struct nigh_fi_pair *out)
{
    struct nigh_fi_pair made;
    struct stat stat;
    int rc = 0;

    *out = (struct nigh_fi_pair){.fd = {-1, -1}};
    if (NIGH_FD_DURING(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, made.fd)))
        return -errno;
    for (int end = 0; end < 2; end++) {
        made.fd[end] = nigh_fd_above(made.fd[end]);
        if (!rc && (made.fd[end] < 0 || fstat(made.fd[end], &stat)))
            rc = -errno;
        else if (!rc)
            made.id[end] = nigh_file_id_of(&stat);
    }
    if (!rc) {
        *out = made;
        return 0;
    }
    for (int end = 0; end < 2; end++)
        if (made.fd[end] >= 0)
            close(made.fd[end]);
    return rc;
}

void nigh_fi_pair_close(struct nigh_fi_pair *pair)
{
    for (int end = 0; end < 2; end++) {
        if (is_own(pair, end))
            close(pair->fd[end]);
        pair->fd[end] = -1;
    }
}

int nigh_fi_pair_check(const struct nigh_fi_pair *pair)
{
    return is_own(pair, 0) && is_own(pair, 1) ? 0 : lost();
}

int nigh_fi_pair_wake(const struct nigh_fi_pair *pair, int end)
{
    if (!is_own(pair, !end))
        return lost();
    /* Where there is no room it is readable already. The program may have closed the other end: no signal comes of that. */
    if (send(pair->fd[!end], &(char){1}, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
        return lost();
    return 0;
}

void nigh_fi_pair_take(const struct nigh_fi_pair *pair, int end)
{
    char bytes[64];

    while (is_own(pair, end) && recv(pair->fd[end], bytes, sizeof(bytes), MSG_DONTWAIT) == sizeof(bytes))
        continue;
}

/* ---- the set ------------------------------------------------------------------------------------------- */

/* The kernel knows members by file and number. */
static bool is_member(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ||
           (errno != ENOENT && errno != EBADF && errno != EINVAL && errno != EPERM);
}

static bool is_set_own(const struct nigh_fi_wakeup *wakeup)
{
    const struct nigh_fi_pair *pair = &wakeup->pair;

    for (int end = 0; end < 2; end++)
        if (is_own(pair, end) && is_member(wakeup->epoll_fd, pair->fd[end]))
            return true;
    return false;
}

/* Of a set that is. */
static bool is_repeat_own(const struct nigh_fi_wakeup *wakeup)
{
    return wakeup->repeat_fd >= 0 && is_member(wakeup->epoll_fd, wakeup->repeat_fd);
}

int nigh_fi_wakeup_add(const struct nigh_fi_wakeup *wakeup, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(wakeup->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno != EEXIST ? -errno : 0;
}

void nigh_fi_wakeup_drop(const struct nigh_fi_wakeup *wakeup, int fd)
{
    if (is_set_own(wakeup))
        epoll_ctl(wakeup->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int nigh_fi_wakeup_open(struct nigh_fi_wakeup *out)
{
    int rc;

    *out = NIGH_FI_NO_WAKEUP;
    rc = nigh_fi_pair_open(&out->pair);
    if (rc)
        return rc;
    out->epoll_fd = NIGH_FD(epoll_create1(EPOLL_CLOEXEC));
    if (out->epoll_fd < 0) {
        rc = -errno;
        goto close_pair;
    }
    for (int end = 0; end < 2 && !rc; end++)
        rc = nigh_fi_wakeup_add(out, out->pair.fd[end]);
    if (!rc)
        return 0;

    close(out->epoll_fd);
    out->epoll_fd = -1;
close_pair:
    nigh_fi_pair_close(&out->pair);
    return rc;
}

void nigh_fi_wakeup_close(struct nigh_fi_wakeup *wakeup)
{
    if (is_set_own(wakeup)) {
        if (is_repeat_own(wakeup))
            close(wakeup->repeat_fd);
        close(wakeup->epoll_fd);
    }
    wakeup->epoll_fd = wakeup->repeat_fd = -1;
    nigh_fi_pair_close(&wakeup->pair);
    pthread_mutex_destroy(&wakeup->lock);
}

int nigh_fi_wakeup_check(const struct nigh_fi_wakeup *wakeup)
{
    int rc = nigh_fi_pair_check(&wakeup->pair);

    if (!rc && (!is_set_own(wakeup) || (wakeup->repeat_fd >= 0 && !is_repeat_own(wakeup))))
        rc = lost();
    return rc;
}

bool nigh_fi_wakeup_repeat(struct nigh_fi_wakeup *wakeup)
{
    struct itimerspec each = {{.tv_sec = EACH_S}, {.tv_sec = EACH_S}};
    int fd;

    if (wakeup->repeat_fd >= 0)
        return true;
    if (!is_set_own(wakeup))
        return false;
    fd = NIGH_FD(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (fd < 0)
        return false;
    if (timerfd_settime(fd, 0, &each, NULL) < 0 || nigh_fi_wakeup_add(wakeup, fd))
        close(fd);
    else
        wakeup->repeat_fd = fd;
    return wakeup->repeat_fd >= 0;
}

void nigh_fi_wakeup_take_repeat(const struct nigh_fi_wakeup *wakeup)
{
    uint64_t times;

    if (wakeup->repeat_fd >= 0 && is_set_own(wakeup) && is_repeat_own(wakeup) &&
        read(wakeup->repeat_fd, &times, sizeof(times)) < 0)
        return; /* it has not run out since */
}

int nigh_fi_wakeup_signal(struct nigh_fi_wakeup *wakeup)
{
    int rc;

    pthread_mutex_lock(&wakeup->lock);
    rc = nigh_fi_pair_wake(&wakeup->pair, NIGH_FI_SIGNAL);
    if (!rc)
        wakeup->signalled = true;
    pthread_mutex_unlock(&wakeup->lock);
    return rc;
}

bool nigh_fi_wakeup_take_signal(struct nigh_fi_wakeup *wakeup)
{
    bool was;

    pthread_mutex_lock(&wakeup->lock);
    was = wakeup->signalled;
    wakeup->signalled = false;
    if (was)
        nigh_fi_pair_take(&wakeup->pair, NIGH_FI_SIGNAL);
    pthread_mutex_unlock(&wakeup->lock);
    return was;
}

int nigh_fi_wakeup_sleep(const struct nigh_fi_wakeup *wakeup, int timeout_ms)
{
    /* A set tells nothing of members that are closed; an end hangs up when the other one is. */
    struct pollfd on[] = {{.fd = wakeup->epoll_fd, .events = POLLIN}, {.fd = wakeup->pair.fd[NIGH_FI_NEWS]}};

    return poll(on, 2, timeout_ms) < 0 && errno == EINTR ? -FI_EINTR : 0;
}
