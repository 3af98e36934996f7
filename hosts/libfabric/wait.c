/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/wait.c - see wait.h. */
#include "hosts/libfabric/wait.h"
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/idle.h"
#include "hosts/libfabric/look.h"

#include <sched.h>
#include <stdlib.h>

#define NEVER    UINT64_MAX
#define MS       UINT64_C(1000000)
#define SPIN_NS  20000u /* a wake through a descriptor takes about as long */
#define BOUND_MS 1000   /* no sleep is longer: the second line of defence */

uint64_t nigh_fi_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? NEVER : nigh_fi_now() + (uint64_t)timeout_ms * MS;
}

int nigh_fi_left_ms(uint64_t deadline)
{
    uint64_t now = nigh_fi_now(), left = deadline > now ? deadline - now : 0;

    return left < BOUND_MS * MS ? (int)((left + MS - 1) / MS) : BOUND_MS;
}

int nigh_fi_waiter_open(struct nigh_fi_domain *domain, enum fi_wait_obj object, struct nigh_fi_waiter *waiter)
{
    int rc;

    *waiter = (struct nigh_fi_waiter){.object = object, .wakeup = NIGH_FI_NO_WAKEUP};
    if (object == FI_WAIT_NONE)
        return 0;
    if (object != FI_WAIT_UNSPEC && object != FI_WAIT_FD && object != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    rc = nigh_fi_wakeup_open(&waiter->wakeup);
    if (rc)
        return rc;
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
    nigh_fi_wakeup_close(&waiter->wakeup);
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
    if (ep->wait_fd >= 0)
        nigh_fi_wakeup_drop(&waiter->wakeup, ep->wait_fd);
    for (uint32_t i = 0; i < waiter->ep_count; i++)
        if (waiter->eps[i] != ep)
            waiter->eps[kept++] = waiter->eps[i];
    waiter->ep_count = kept;
}

int nigh_fi_waiter_control(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter, int command,
                           void *arg)
{
    int rc;

    if (!arg)
        return -FI_EINVAL;
    switch (command) {
    case FI_GETWAIT:
        if (waiter->object != FI_WAIT_FD && waiter->object != FI_WAIT_UNSPEC)
            return -FI_ENODATA;
        nigh_fi_lock(domain);
        rc = nigh_fi_wakeup_check(&waiter->wakeup);
        nigh_fi_unlock(domain);
        if (!rc)
            *(int *)arg = waiter->wakeup.epoll_fd;
        return rc;
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
    /* Those who sleep on what is lost find out by themselves. */
    if (!waiter->rung)
        (void)nigh_fi_pair_wake(&waiter->wakeup.pair, NIGH_FI_NEWS);
    waiter->rung = true;
    waiter->told |= waiter->watched;
    await(domain, waiter, waiter->sleepers, false);
}

/* While others sleep it stays readable, so that they wake, too. A thread that watches a queue may not have run since it
 * was rung: it sleeps on, and hears of the next. */
static void take_ring(struct nigh_fi_domain *domain, struct nigh_fi_waiter *waiter)
{
    nigh_fi_wakeup_take_repeat(&waiter->wakeup);
    if (!waiter->rung || waiter->sleepers || nigh_fi_is_unseen(waiter))
        return;
    nigh_fi_pair_take(&waiter->wakeup.pair, NIGH_FI_NEWS);
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
 * Arms the endpoints' descriptors. -FI_EAGAIN: one has something now; -FI_EBADF: the program has closed what one sleeps on.
 * The lock is held. Not before somebody wants to sleep: whoever sends to an armed one makes a system call for each message.
 */
static int arm(struct nigh_fi_domain *domain, const struct nigh_fi_waiter *waiter)
{
    int fd, rc = nigh_fi_wakeup_check(&waiter->wakeup);

    for (uint32_t i = 0; i < waiter->ep_count && !rc; i++) {
        struct nigh_fi_ep *ep = waiter->eps[i];

        rc = ep->nigh->wait_fd(ep->context, &fd);
        if (rc)
            break;
        ep->wait_fd = fd;
        rc = nigh_fi_wakeup_add(&waiter->wakeup, fd);
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
    int rc = nigh_fi_wakeup_sleep(&waiter->wakeup, nigh_fi_left_ms(deadline));

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

    if (nigh_fi_wakeup_take_signal(&waiter->wakeup) || now >= deadline)
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
    int rc = nigh_fi_wakeup_take_signal(&waiter->wakeup) || has ? -FI_EAGAIN : arm(domain, waiter);

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
    /* First: who waits for a thread that sleeps on what is lost waits for ever. */
    rc = nigh_fi_wakeup_check(&cntr->waiter.wakeup);
    if (!rc) {
        has = !nigh_fi_has_looked(&cntr->waiter) || cntr->of_memory || nigh_fi_is_unseen(&cntr->waiter);
        rc = try_waiter(cntr->domain, &cntr->waiter, has);
    }
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
    rc = eq->head ? -FI_EAGAIN : eq->pair.fd[0] >= 0 ? nigh_fi_pair_check(&eq->pair) : 0;
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
