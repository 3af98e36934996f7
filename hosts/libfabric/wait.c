/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wait.c - see wait.h. */
#include "hosts/libfabric/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NEVER    UINT64_MAX
#define SPIN_NS  20000u /* a wake through a descriptor takes about as long */
#define BOUND_MS 1000   /* no sleep is longer: the second line of defence */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t nigh_fi_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? NEVER : now_ns() + (uint64_t)timeout_ms * 1000000u;
}

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno != EEXIST ? -errno : 0;
}

static int new_event(int *fd)
{
    *fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

int nigh_fi_waiter_open(struct nigh_fi_domain *domain, enum fi_wait_obj object, struct nigh_fi_waiter *waiter)
{
    int rc = 0;

    *waiter = (struct nigh_fi_waiter){.object = object, .epoll_fd = -1, .event_fd = -1};
    if (object == FI_WAIT_NONE)
        return 0;
    if (object != FI_WAIT_UNSPEC && object != FI_WAIT_FD && object != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    nigh_fi_lock(domain);
    if (domain->wake_fd < 0)
        rc = new_event(&domain->wake_fd);
    nigh_fi_unlock(domain);
    if (!rc)
        rc = new_event(&waiter->event_fd);
    if (!rc)
        waiter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!rc && waiter->epoll_fd < 0)
        rc = -errno;
    if (!rc)
        rc = watch(waiter->epoll_fd, waiter->event_fd);
    if (!rc)
        rc = watch(waiter->epoll_fd, domain->wake_fd);
    if (rc)
        nigh_fi_waiter_close(waiter);
    return rc;
}

void nigh_fi_waiter_close(struct nigh_fi_waiter *waiter)
{
    if (waiter->epoll_fd >= 0)
        close(waiter->epoll_fd);
    if (waiter->event_fd >= 0)
        close(waiter->event_fd);
    waiter->epoll_fd = waiter->event_fd = -1;
}

int nigh_fi_waiter_control(const struct nigh_fi_waiter *waiter, int command, void *arg)
{
    if (!arg)
        return -FI_EINVAL;
    switch (command) {
    case FI_GETWAIT:
        if (waiter->object != FI_WAIT_FD && waiter->object != FI_WAIT_UNSPEC)
            return -FI_ENODATA;
        *(int *)arg = waiter->epoll_fd;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = waiter->object == FI_WAIT_UNSPEC ? FI_WAIT_FD : waiter->object;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

void nigh_fi_wake(struct nigh_fi_domain *domain)
{
    uint64_t one = 1;

    /* It can only fail when it is readable already. */
    if (write(domain->wake_fd, &one, sizeof(one)) < 0)
        return;
}

/*
 * Arms the endpoints' descriptors. -FI_EAGAIN: one has something now. The lock is held. Not before somebody wants to
 * sleep: whoever sends to an armed one makes a system call for each message.
 */
static int arm(const struct nigh_fi_waiter *waiter, struct nigh_fi_ep **eps, uint32_t count)
{
    int fd, rc = 0;

    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = eps[i]->nigh->wait_fd(eps[i]->context, &fd);
        if (!rc)
            rc = watch(waiter->epoll_fd, fd);
    }
    return rc;
}

static bool take(int fd)
{
    uint64_t value;

    return read(fd, &value, sizeof(value)) == (ssize_t)sizeof(value);
}

static int block(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter, uint64_t left)
{
    struct pollfd on = {.fd = waiter->epoll_fd, .events = POLLIN};
    uint64_t ms = left == NEVER ? BOUND_MS : (left + 999999) / 1000000;
    int rc = poll(&on, 1, ms < BOUND_MS ? (int)ms : BOUND_MS) < 0 && errno == EINTR ? -FI_EINTR : 0;

    nigh_fi_lock(domain);
    /* While others sleep it stays readable, so that they wake, too. */
    if (--domain->sleepers == 0)
        take(domain->wake_fd);
    nigh_fi_unlock(domain);
    return rc;
}

/* Spins first; true: something came. */
static bool spin(struct nigh_fi_domain *domain, struct nigh_fi_ep **eps, uint32_t count, uint64_t until)
{
    do {
        int rc = -ETIMEDOUT;

        nigh_fi_lock(domain);
        for (uint32_t i = 0; i < count && rc; i++)
            rc = eps[i]->nigh->wait(eps[i]->context, 0);
        nigh_fi_unlock(domain);
        if (!rc)
            return true;
        sched_yield();
    } while (now_ns() < until);
    return false;
}

int nigh_fi_sleep(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, struct nigh_fi_ep **eps,
                  uint32_t count, uint64_t deadline)
{
    uint64_t now = now_ns(), until = now + SPIN_NS < deadline ? now + SPIN_NS : deadline;
    int rc;

    if (take(waiter->event_fd) || now >= deadline)
        return -FI_EAGAIN;
    if (spin(domain, eps, count, until))
        return 0;
    nigh_fi_lock(domain);
    rc = arm(waiter, eps, count);
    if (!rc)
        domain->sleepers++;
    nigh_fi_unlock(domain);
    if (rc)
        return rc == -EAGAIN ? 0 : rc;
    now = now_ns();
    rc = block(domain, waiter, deadline == NEVER ? NEVER : deadline > now ? deadline - now : 0);
    /* Where something has come this takes the arms off again. */
    nigh_fi_lock(domain);
    arm(waiter, eps, count);
    nigh_fi_unlock(domain);
    return rc;
}

static int try_cq(struct nigh_fi_cq *cq)
{
    int rc;

    if (cq->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    nigh_fi_lock(cq->domain);
    rc = cq->head != cq->tail ? -FI_EAGAIN : arm(&cq->waiter, cq->eps, cq->ep_count);
    nigh_fi_unlock(cq->domain);
    return rc;
}

static int try_cntr(struct nigh_fi_cntr *cntr)
{
    int rc;

    if (cntr->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    nigh_fi_lock(cntr->domain);
    rc = arm(&cntr->waiter, cntr->eps, cntr->ep_count);
    nigh_fi_unlock(cntr->domain);
    return rc;
}

static int try_eq(struct nigh_fi_eq *eq)
{
    int rc;

    pthread_mutex_lock(&eq->lock);
    rc = eq->head ? -FI_EAGAIN : 0;
    pthread_mutex_unlock(&eq->lock);
    return rc;
}

int nigh_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int rc = 0;

    (void)fabric;
    for (int i = 0; i < count && !rc; i++) {
        switch (fids[i]->fclass) {
        case FI_CLASS_CQ:
            rc = try_cq((struct nigh_fi_cq *)(void *)fids[i]);
            break;
        case FI_CLASS_CNTR:
            rc = try_cntr((struct nigh_fi_cntr *)(void *)fids[i]);
            break;
        case FI_CLASS_EQ:
            rc = try_eq((struct nigh_fi_eq *)(void *)fids[i]);
            break;
        default:
            rc = -FI_EINVAL;
        }
    }
    return rc;
}
