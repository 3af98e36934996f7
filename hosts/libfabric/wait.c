/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wait.c - see wait.h. */
#include "hosts/libfabric/wait.h"
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/idle.h"
#include "hosts/libfabric/look.h"
#include "include/common/descriptor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NEVER    UINT64_MAX
#define SPIN_NS  20000u /* a wake through a descriptor takes about as long */
#define BOUND_MS 1000   /* no sleep is longer: the second line of defence */

uint64_t nigh_fi_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? NEVER : nigh_fi_now() + (uint64_t)timeout_ms * 1000000u;
}

int nigh_fi_left_ms(uint64_t deadline)
{
    uint64_t now = deadline == NEVER ? 0 : nigh_fi_now(), left = deadline > now ? deadline - now : 0;

    return deadline == NEVER ? -1 : left / 1000000 < INT_MAX ? (int)((left + 999999) / 1000000) : INT_MAX;
}

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno != EEXIST ? -errno : 0;
}

static int new_event(int *fd)
{
    *fd = NIGH_FD(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return *fd < 0 ? -errno : 0;
}

static int open_descriptors(struct nigh_fi_waiter *waiter)
{
    int rc = new_event(&waiter->news_fd);

    if (!rc)
        rc = new_event(&waiter->signal_fd);
    if (!rc)
        waiter->epoll_fd = NIGH_FD(epoll_create1(EPOLL_CLOEXEC));
    if (!rc && waiter->epoll_fd < 0)
        rc = -errno;
    if (!rc)
        rc = watch(waiter->epoll_fd, waiter->news_fd);
    return rc ? rc : watch(waiter->epoll_fd, waiter->signal_fd);
}

static void close_descriptors(struct nigh_fi_waiter *waiter)
{
    int *fds[] = {&waiter->epoll_fd, &waiter->news_fd, &waiter->signal_fd, &waiter->repeat_fd};

    for (int i = 0; i < 4; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

int nigh_fi_waiter_open(struct nigh_fi_domain *domain, enum fi_wait_obj object, struct nigh_fi_waiter *waiter)
{
    int rc;

    *waiter = (struct nigh_fi_waiter){
        .object = object, .epoll_fd = -1, .news_fd = -1, .signal_fd = -1, .repeat_fd = -1};
    if (object == FI_WAIT_NONE)
        return 0;
    if (object != FI_WAIT_UNSPEC && object != FI_WAIT_FD && object != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    rc = open_descriptors(waiter);
    if (rc) {
        close_descriptors(waiter);
        return rc;
    }
    nigh_fi_lock(domain);
    waiter->next = domain->waiters;
    domain->waiters = waiter;
    nigh_fi_unlock(domain);
    return 0;
}

static bool is_awaited(const struct nigh_fi_waiter *waiter)
{
    return waiter->sleepers || waiter->watched;
}

/* What the two fields become, and the domain's count of it. */
static void await(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, uint32_t sleepers,
                  bool watched)
{
    bool was = is_awaited(waiter);

    waiter->sleepers = sleepers;
    waiter->watched = watched;
    domain->pending += (uint32_t)is_awaited(waiter) - (uint32_t)was;
}

void nigh_fi_waiter_close(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter)
{
    struct nigh_fi_waiter **link = &domain->waiters;

    free(waiter->eps);
    nigh_fi_looks_free(waiter);
    if (waiter->object == FI_WAIT_NONE)
        return;
    nigh_fi_lock(domain);
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    await(domain, waiter, 0, false);
    nigh_fi_unlock(domain);
    close_descriptors(waiter);
}

int nigh_fi_waiter_add(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, struct nigh_fi_ep *ep)
{
    struct nigh_fi_ep **grown;

    for (uint32_t i = 0; i < waiter->ep_count; i++)
        if (waiter->eps[i] == ep)
            return 0;
    grown = realloc(waiter->eps, (waiter->ep_count + 1) * sizeof(struct nigh_fi_ep *));
    if (!grown)
        return -FI_ENOMEM;
    grown[waiter->ep_count++] = ep;
    waiter->eps = grown;
    nigh_fi_news(domain, waiter);
    return 0;
}

void nigh_fi_waiter_drop(struct nigh_fi_waiter *waiter, const struct nigh_fi_ep *ep)
{
    uint32_t kept = 0;

    /* Closing it is not enough: a forked child may hold it. */
    if (waiter->epoll_fd >= 0 && ep->wait_fd >= 0)
        epoll_ctl(waiter->epoll_fd, EPOLL_CTL_DEL, ep->wait_fd, NULL);
    for (uint32_t i = 0; i < waiter->ep_count; i++)
        if (waiter->eps[i] != ep)
            waiter->eps[kept++] = waiter->eps[i];
    waiter->ep_count = kept;
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

/* Whoever watches has to ask again anyway, so once is enough. */
void nigh_fi_ring(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter)
{
    uint64_t one = 1;

    /* It can only fail when it is readable already. */
    if (!waiter->rung && write(waiter->news_fd, &one, sizeof(one)) < 0)
        return;
    waiter->rung = true;
    waiter->told |= waiter->watched;
    await(domain, waiter, waiter->sleepers, false);
}

static bool take(int fd)
{
    uint64_t value;

    return read(fd, &value, sizeof(value)) == (ssize_t)sizeof(value);
}

/* While others sleep it stays readable, so that they wake, too. A thread that watches a queue may not have run since it
 * was rung: it sleeps on, and hears of the next. */
static void take_ring(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter)
{
    if (waiter->repeat_fd >= 0)
        take(waiter->repeat_fd);
    if (!waiter->rung || waiter->sleepers || nigh_fi_is_unseen(waiter))
        return;
    take(waiter->news_fd);
    await(domain, waiter, 0, waiter->watched || waiter->told);
    waiter->rung = waiter->told = false;
}

static void ring_all(struct nigh_fi_domain *domain)
{
    for (struct nigh_fi_waiter *at = domain->waiters; at; at = at->next)
        if (is_awaited(at))
            nigh_fi_ring(domain, at);
}

/* Where there may be more, which nothing rings for, those who sleep look themselves: peers could
 * keep us here without end. */
void nigh_fi_spread(struct nigh_fi_domain *domain)
{
    bool more = false;

    for (struct nigh_fi_ep *ep = domain->eps; ep; ep = ep->next)
        more |= nigh_fi_ep_progress(ep) == (int)NIGH_FI_BATCH;
    if (more)
        ring_all(domain);
}

/*
 * Arms the endpoints' descriptors. -FI_EAGAIN: one has something now. The lock is held. Not before somebody wants to
 * sleep: whoever sends to an armed one makes a system call for each message.
 */
static int arm(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter)
{
    int fd, rc = 0;

    for (uint32_t i = 0; i < waiter->ep_count && !rc; i++) {
        struct nigh_fi_ep *ep = waiter->eps[i];

        rc = ep->nigh->wait_fd(ep->context, &fd);
        if (rc)
            break;
        ep->wait_fd = fd;
        rc = watch(waiter->epoll_fd, fd);
    }
    if (rc != -FI_EAGAIN || !nigh_fi_is_awaited(domain))
        return rc;
    /* It is not armed any more, which others may have counted on. */
    ring_all(domain);
    return rc;
}

/* Armed, each message costs its peer a system call: 8 bytes took 480 to 740 ns in place of 126 to 150. */
static void disarm(const struct nigh_fi_waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->ep_count; i++)
        waiter->eps[i]->nigh->wait_fd(waiter->eps[i]->context, NULL);
}

static int block(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, uint64_t deadline)
{
    struct pollfd on = {.fd = waiter->epoll_fd, .events = POLLIN};
    int left = nigh_fi_left_ms(deadline);
    int rc =
        poll(&on, 1, left < 0 || left > BOUND_MS ? BOUND_MS : left) < 0 && errno == EINTR ? -FI_EINTR : 0;

    nigh_fi_lock(domain);
    await(domain, waiter, waiter->sleepers - 1, waiter->watched);
    take_ring(domain, waiter);
    /* Others may count on the arms; where something has come they hear of it, and arm by themselves. */
    if (nigh_fi_is_awaited(domain))
        arm(domain, waiter);
    else
        disarm(waiter);
    nigh_fi_unlock(domain);
    return rc;
}

/* Spins first; true: something came. */
static bool spin(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter, uint64_t stamp,
                 uint64_t until)
{
    do {
        bool came;

        nigh_fi_lock(domain);
        came = waiter->stamp != stamp;
        for (uint32_t i = 0; i < waiter->ep_count && !came; i++)
            came = waiter->eps[i]->nigh->wait(waiter->eps[i]->context, 0) == 0;
        nigh_fi_unlock(domain);
        if (came)
            return true;
        sched_yield();
    } while (nigh_fi_now() < until);
    return false;
}

int nigh_fi_sleep(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, uint64_t stamp,
                  uint64_t deadline)
{
    uint64_t now = nigh_fi_now(), until = now + SPIN_NS < deadline ? now + SPIN_NS : deadline;
    int rc;

    if (take(waiter->signal_fd) || now >= deadline)
        return -FI_EAGAIN;
    if (spin(domain, waiter, stamp, until))
        return 0;
    nigh_fi_lock(domain);
    rc = waiter->stamp != stamp ? -FI_EAGAIN : arm(domain, waiter);
    if (!rc)
        await(domain, waiter, waiter->sleepers + 1, waiter->watched);
    nigh_fi_unlock(domain);
    if (rc)
        return rc == -FI_EAGAIN ? 0 : rc;
    return block(domain, waiter, deadline);
}

/* `has`: there is something to read, and no reason to sleep. Then it stays readable for those who do. */
static int try_waiter(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter, bool has)
{
    int rc = take(waiter->signal_fd) || has ? -FI_EAGAIN : arm(domain, waiter);

    if (rc)
        return rc;
    take_ring(domain, waiter);
    await(domain, waiter, waiter->sleepers, true);
    return 0;
}

static int try_cq(struct nigh_fi_cq *cq)
{
    int rc;

    if (cq->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    nigh_fi_lock(cq->domain);
    rc = try_waiter(cq->domain, &cq->waiter, cq->head != cq->tail);
    nigh_fi_unlock(cq->domain);
    return rc;
}

/* A count that this thread has not read may be what it waits for; it is told once. While another one has not woken yet,
 * for which the descriptor stays readable, there is no sleeping. Nothing rings for what is done to memory. */
static int try_cntr(struct nigh_fi_cntr *cntr)
{
    bool has;
    int rc;

    if (cntr->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    nigh_fi_lock(cntr->domain);
    has = !nigh_fi_has_looked(&cntr->waiter) || cntr->of_memory || nigh_fi_is_unseen(&cntr->waiter);
    rc = try_waiter(cntr->domain, &cntr->waiter, has);
    if (!rc)
        nigh_fi_looks_no_more(&cntr->waiter);
    nigh_fi_unlock(cntr->domain);
    return rc;
}

/* The thread does not sleep after all. */
static void untry_cntr(struct nigh_fi_cntr *cntr)
{
    nigh_fi_lock(cntr->domain);
    nigh_fi_looks_again(&cntr->waiter);
    nigh_fi_unlock(cntr->domain);
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
    int rc = 0, tried;

    (void)fabric;
    for (tried = 0; tried < count && !rc; tried++) {
        switch (fids[tried]->fclass) {
        case FI_CLASS_CQ:
            rc = try_cq((struct nigh_fi_cq *)(void *)fids[tried]);
            break;
        case FI_CLASS_CNTR:
            rc = try_cntr((struct nigh_fi_cntr *)(void *)fids[tried]);
            break;
        case FI_CLASS_EQ:
            rc = try_eq((struct nigh_fi_eq *)(void *)fids[tried]);
            break;
        default:
            rc = -FI_EINVAL;
        }
    }
    while (rc && tried-- > 0)
        if (fids[tried]->fclass == FI_CLASS_CNTR)
            untry_cntr((struct nigh_fi_cntr *)(void *)fids[tried]);
    return rc;
}
