/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/bind.c - what an endpoint is tied to: queues, counters, an address vector. */
#include "hosts/libfabric/endpoint.h"
#include "hosts/libfabric/eq.h"
#include "hosts/libfabric/log.h"

#include <stddef.h>

static int bind_cq(struct nigh_fi_ep *ep, struct nigh_fi_cq *cq, uint64_t flags)
{
    if (!(flags & (FI_TRANSMIT | FI_RECV)) || flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
        return -FI_EBADFLAGS;
    if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
        return -FI_EINVAL;
    if (flags & FI_TRANSMIT) {
        ep->tx_cq = cq;
        ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
        cq->refs++;
    }
    if (flags & FI_RECV) {
        ep->rx_cq = cq;
        ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
        cq->refs++;
    }
    return 0;
}

static const uint64_t counted[NIGH_FI_COUNTED] = {
    [NIGH_FI_SENDS] = FI_SEND,
    [NIGH_FI_RECVS] = FI_RECV,
    [NIGH_FI_READS] = FI_READ,
    [NIGH_FI_WRITES] = FI_WRITE,
    [NIGH_FI_REMOTE_READS] = FI_REMOTE_READ,
    [NIGH_FI_REMOTE_WRITES] = FI_REMOTE_WRITE,
};

static int bind_cntr(struct nigh_fi_ep *ep, struct nigh_fi_cntr *cntr, uint64_t flags)
{
    uint64_t known = 0;

    for (int i = 0; i < NIGH_FI_COUNTED; i++) {
        known |= counted[i];
        if (flags & counted[i] && ep->cntr[i])
            return -FI_EINVAL;
    }
    if (!flags || flags & ~known)
        return -FI_EBADFLAGS;
    /* What others do to this process' memory counts with FI_RMA_EVENT alone: but hosts bind these for whatever they may
     * need. */
    if (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) && !(ep->caps & FI_RMA_EVENT))
        nigh_fi_log(
            NIGH_FI_INFO,
            "without FI_RMA_EVENT a counter of what others read and write here counts writes with data only");
    for (int i = 0; i < NIGH_FI_COUNTED; i++) {
        if (!(flags & counted[i]))
            continue;
        ep->cntr[i] = cntr;
        cntr->refs++;
    }
    ep->counts = true;
    ep->tx_counted = ep->cntr[NIGH_FI_SENDS] != NULL;
    return 0;
}

static int bind_av(struct nigh_fi_ep *ep, struct nigh_fi_av *av)
{
    if (ep->av)
        return -FI_EINVAL;
    ep->av = av;
    av->refs++;
    return 0;
}

static int bind_eq(struct nigh_fi_ep *ep, struct nigh_fi_eq *eq)
{
    if (ep->eq)
        return -FI_EINVAL;
    ep->eq = eq;
    nigh_fi_eq_hold(eq, 1);
    return 0;
}

static int bind_any(struct nigh_fi_ep *ep, struct fid *bfid, uint64_t flags)
{
    switch (bfid->fclass) {
    case FI_CLASS_CQ:
        return bind_cq(ep, (struct nigh_fi_cq *)(void *)bfid, flags);
    case FI_CLASS_CNTR:
        return bind_cntr(ep, (struct nigh_fi_cntr *)(void *)bfid, flags);
    case FI_CLASS_AV:
        return bind_av(ep, (struct nigh_fi_av *)(void *)bfid);
    case FI_CLASS_EQ:
        return bind_eq(ep, (struct nigh_fi_eq *)(void *)bfid);
    case FI_CLASS_MR:
        return 0; /* registrations hold for every endpoint */
    default:
        return -FI_EINVAL;
    }
}

int nigh_fi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;
    int rc;

    if (!bfid)
        return -FI_EINVAL;
    if (ep->context)
        return -FI_EOPBADSTATE;
    nigh_fi_lock(ep->domain);
    rc = bind_any(ep, bfid, flags);
    nigh_fi_unlock(ep->domain);
    return rc;
}

void nigh_fi_ep_unbind(struct nigh_fi_ep *ep)
{
    if (ep->tx_cq)
        ep->tx_cq->refs--;
    if (ep->rx_cq)
        ep->rx_cq->refs--;
    for (int i = 0; i < NIGH_FI_COUNTED; i++)
        if (ep->cntr[i])
            ep->cntr[i]->refs--;
    if (ep->av)
        ep->av->refs--;
    if (ep->eq)
        nigh_fi_eq_hold(ep->eq, -1);
}
