/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/enable.c - an endpoint begins to work: nigh's context is opened, and queues and counters poll it. */
#include "hosts/libfabric/account.h"
#include "hosts/libfabric/endpoint.h"
#include "hosts/libfabric/launcher.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/op.h"
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/post.h"
#include "hosts/libfabric/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static int check(const struct nigh_fi_ep *ep)
{
    bool sends = ep->caps & FI_SEND, receives = ep->caps & FI_RECV;

    if (ep->context)
        return -FI_EOPBADSTATE;
    if (!ep->av)
        return -FI_ENOAV;
    if (sends && !ep->tx_cq && !ep->cntr[NIGH_FI_SENDS])
        return -FI_ENOCQ;
    return receives && !ep->rx_cq && !ep->cntr[NIGH_FI_RECVS] ? -FI_ENOCQ : 0;
}

/* A domain with a lock takes it before anything is looked at. */
static uint32_t odd(const struct nigh_fi_ep *ep, bool record, bool by_desc)
{
    if (ep->domain->locked)
        return NIGH_FI_ODD;
    return !record ? 0 : by_desc ? NIGH_FI_ODD_BY_DESC : NIGH_FI_ODD;
}

/* Calls without flags: what they ask for is known from here on. */
static void settle(struct nigh_fi_ep *ep)
{
    bool tx_hidden = !ep->tx_cq || (ep->tx_selective && !(ep->tx_op_flags & FI_COMPLETION));

    ep->send_flags = (tx_hidden ? NIGH_SILENT : 0) | (ep->tx_op_flags & FI_MATCH_COMPLETE ? NIGH_SYNC : 0) |
                     (ep->tx_op_flags & FI_INJECT ? NIGH_INJECT : 0);
    ep->tx_record = tx_hidden && ep->tx_counted;
    ep->rx_record = !ep->rx_cq || (ep->rx_selective && !(ep->rx_op_flags & FI_COMPLETION));
    ep->tx_by_desc = ep->hmem && !ep->tx_record && !ep->domain->detects;
    ep->rx_by_desc = ep->hmem && !ep->rx_record && !ep->domain->detects;
    ep->tx_record |= ep->hmem;
    ep->rx_record |= ep->hmem;
    ep->inject_record = ep->tx_counted || (ep->hmem && ep->domain->detects);
    ep->tx_odd = ep->send_flags ? NIGH_FI_ODD : odd(ep, ep->tx_record, ep->tx_by_desc);
    ep->inject_odd = odd(ep, ep->inject_record, false);
    /* Those from anyone name no peer, and are not asked whom they name. */
    ep->rx_odd = ep->directed ? odd(ep, ep->rx_record, ep->rx_by_desc) : NIGH_FI_ODD;
}

static bool sleeps(const struct nigh_fi_ep *ep)
{
    bool any = (ep->tx_cq && ep->tx_cq->waiter.object) || (ep->rx_cq && ep->rx_cq->waiter.object);

    for (int i = 0; i < NIGH_FI_COUNTED; i++)
        any |= ep->cntr[i] && ep->cntr[i]->waiter.object;
    return any;
}

/* Not if NIGH_THREADS says that several threads use it, and not behind a lock that threads which sleep do without. */
static bool takes(const struct nigh_fi_ep *ep)
{
    struct nigh_taken none = {.size = sizeof(none)};

    return !ep->domain->locked && ep->nigh->take_completions(ep->context, &none, 0) == 0;
}

/* A job of its own for each endpoint, unless it has a name: peers connect by address. Rank and size are those of the
 * launcher, for whoever reads the log and for nigh's judgement of how crowded the machine is. */
static int open_context(struct nigh_fi_ep *ep)
{
    struct nigh_open options = {.size = sizeof(options), .log = nigh_fi_log_nigh};
    struct nigh_fi_job job;
    size_t peers;
    int rc;

    nigh_fi_lock(ep->domain);
    peers = ep->av->room;
    nigh_fi_unlock(ep->domain);
    nigh_fi_job_find(&job);
    options.job = ep->named;
    options.rank = ep->named ? 0 : job.rank;
    options.ranks = job.size;
    if (!getenv("NIGH_PEERS_MAX")) /* which a refused peer is told to set */
        options.peers_max = peers + 64 < 1024 ? 1024 : peers + 64 < 65536 ? (uint32_t)peers + 64 : 65536;
    options.flags = sleeps(ep) ? NIGH_OPEN_WAIT_FD : 0;
    while (!options.job)
        if (getrandom(&options.job, sizeof(options.job), 0) < 0)
            return -errno;
    rc = ep->nigh->open(&options, &ep->context);
    if (rc) {
        nigh_fi_log(NIGH_FI_WARN, "endpoint cannot be enabled: nigh's open fails with error %d", -rc);
        return rc;
    }
    ep->takes = takes(ep);
    return 0;
}

/* ---- those who poll ------------------------------------------------------------------------------------ */

static void choose_solo(struct nigh_fi_cq *cq)
{
    struct nigh_fi_ep *ep = cq && cq->waiter.ep_count == 1 ? *cq->waiter.eps : NULL;

    if (!cq)
        return;
    cq->solo = ep && (!ep->tx_cq || ep->tx_cq == cq) && (!ep->rx_cq || ep->rx_cq == cq) ? ep : NULL;
    /* What neither has a queue for is only counted, and must not be shown by the one there is. */
    if (cq->solo && (!ep->tx_cq || !ep->rx_cq))
        cq->solo = NULL;
    cq->lone = cq->solo && !cq->domain->locked;
    cq->takes = cq->solo && ep->takes && !ep->counts && cq->format == FI_CQ_FORMAT_TAGGED;
}

static int join(struct nigh_fi_ep *ep)
{
    int rc = ep->tx_cq ? nigh_fi_waiter_add(ep->domain, &ep->tx_cq->waiter, ep) : 0;

    if (!rc && ep->rx_cq)
        rc = nigh_fi_waiter_add(ep->domain, &ep->rx_cq->waiter, ep);
    for (int i = 0; i < NIGH_FI_COUNTED && !rc; i++)
        if (ep->cntr[i])
            rc = nigh_fi_waiter_add(ep->domain, &ep->cntr[i]->waiter, ep);
    choose_solo(ep->tx_cq);
    choose_solo(ep->rx_cq);
    return rc;
}

static void leave(struct nigh_fi_ep *ep)
{
    if (ep->tx_cq)
        nigh_fi_waiter_drop(&ep->tx_cq->waiter, ep);
    if (ep->rx_cq)
        nigh_fi_waiter_drop(&ep->rx_cq->waiter, ep);
    for (int i = 0; i < NIGH_FI_COUNTED; i++)
        if (ep->cntr[i])
            nigh_fi_waiter_drop(&ep->cntr[i]->waiter, ep);
    choose_solo(ep->tx_cq);
    choose_solo(ep->rx_cq);
}

/* ---- both ways ----------------------------------------------------------------------------------------- */

int nigh_fi_ep_enable(struct nigh_fi_ep *ep)
{
    int rc = check(ep);

    if (!rc)
        rc = open_context(ep);
    if (rc)
        return rc;
    settle(ep);
    nigh_fi_lock(ep->domain);
    ep->next = ep->domain->eps;
    ep->domain->eps = ep;
    ep->next_av = ep->av->eps;
    ep->av->eps = ep;
    rc = join(ep);
    if (!rc)
        rc = nigh_fi_mr_attach(ep);
    nigh_fi_unlock(ep->domain);
    if (rc)
        nigh_fi_ep_disable(ep);
    return rc;
}

void nigh_fi_ep_disable(struct nigh_fi_ep *ep)
{
    if (!ep->context)
        return;
    nigh_fi_lock(ep->domain);
    leave(ep);
    for (struct nigh_fi_ep **link = &ep->domain->eps; *link; link = &(*link)->next)
        if (*link == ep) {
            *link = ep->next;
            break;
        }
    for (struct nigh_fi_ep **link = &ep->av->eps; *link; link = &(*link)->next_av)
        if (*link == ep) {
            *link = ep->next_av;
            break;
        }
    nigh_fi_mr_detach(ep);
    nigh_fi_unlock(ep->domain);
    nigh_fi_claimed_free(ep);
    nigh_fi_account(ep);
    ep->nigh->close(ep->context);
    ep->context = NULL;
    ep->wait_fd = -1;
    nigh_fi_lock(ep->domain);
    nigh_fi_ops_leave(&ep->domain->ops, ep);
    nigh_fi_unlock(ep->domain);
    nigh_fi_peers_free(ep);
}
