/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/endpoint.c - the endpoint: opening, options, cancelling, names, closing. */
#include "hosts/libfabric/endpoint.h"
#include "hosts/libfabric/info.h"
#include "hosts/libfabric/name.h"
#include "hosts/libfabric/op.h"
#include "hosts/libfabric/refuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------------------- */

static int close_ep(struct fid *fid)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;

    nigh_fi_ep_disable(ep);
    nigh_fi_lock(ep->domain);
    nigh_fi_ep_unbind(ep);
    nigh_fi_unlock(ep->domain);
    nigh_fi_let_go(ep->domain);
    free(ep);
    return 0;
}

static int control(struct fid *fid, int command, void *arg)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;
    uint64_t *flags = arg;

    switch (command) {
    case FI_ENABLE:
        return nigh_fi_ep_enable(ep);
    case FI_GETOPSFLAG:
        if (!flags || !(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
            return -FI_EINVAL;
        *flags = *flags & FI_TRANSMIT ? ep->tx_op_flags : ep->rx_op_flags;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

/* ---- options ------------------------------------------------------------------------------------------- */

static int get_option(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    const struct nigh_fi_ep *ep = (const struct nigh_fi_ep *)(void *)fid;

    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
        if (*bytes < sizeof(size_t))
            return -FI_ETOOSMALL;
        *(size_t *)value = ep->min_multi;
        *bytes = sizeof(size_t);
        return 0;
    case FI_OPT_CM_DATA_SIZE:
        if (*bytes < sizeof(size_t))
            return -FI_ETOOSMALL;
        *(size_t *)value = 0;
        *bytes = sizeof(size_t);
        return 0;
    case FI_OPT_FI_HMEM_P2P:
        if (!ep->hmem)
            return -FI_ENOPROTOOPT;
        if (*bytes < sizeof(int))
            return -FI_ETOOSMALL;
        *(int *)value = ep->p2p;
        *bytes = sizeof(int);
        return 0;
    default:
        return -FI_ENOPROTOOPT;
    }
}

#define CUDA_API_PERMITTED 10 /* FI_OPT_CUDA_API_PERMITTED, since 1.18 */

/* Device memory is copied by the driver and goes through memory of the host: no device reads another's, and without the
 * driver there is no way. */
static int setopt_device(struct nigh_fi_ep *ep, int name, const void *value, size_t bytes)
{
    if (!ep->hmem)
        return -FI_ENOPROTOOPT;
    if (name == CUDA_API_PERMITTED)
        return bytes != sizeof(bool) ? -FI_EINVAL : *(const bool *)value ? 0 : -FI_EOPNOTSUPP;
    if (bytes != sizeof(int) || *(const int *)value < 0 || *(const int *)value > FI_HMEM_P2P_DISABLED)
        return -FI_EINVAL;
    if (*(const int *)value == FI_HMEM_P2P_REQUIRED)
        return -FI_EOPNOTSUPP;
    ep->p2p = *(const int *)value;
    return 0;
}

static int set_option(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;

    if (level == FI_OPT_ENDPOINT && (name == CUDA_API_PERMITTED || name == FI_OPT_FI_HMEM_P2P))
        return setopt_device(ep, name, value, bytes);
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (bytes != sizeof(size_t) || !*(const size_t *)value || *(const size_t *)value > UINT32_MAX)
        return -FI_EINVAL;
    ep->min_multi = *(const size_t *)value;
    return 0;
}

/* A context may be a record's: the host knows its own only. A receive that has met its message completes with it: MPIs count
 * on that either the receive fails or the message is there. */
static ssize_t cancel(fid_t fid, void *context)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;
    struct nigh_fi_op *op = NULL;
    int rc;

    if (!ep->context)
        return -FI_EOPBADSTATE;
    nigh_fi_lock(ep->domain);
    rc = ep->nigh->cancel_unmatched(ep->context, (uintptr_t)context);
    while (rc == -ENOENT && (op = nigh_fi_op_find(&ep->domain->ops, context, op)))
        rc = ep->nigh->cancel_unmatched(ep->context, (uintptr_t)op);
    nigh_fi_unlock(ep->domain);
    return rc;
}

static int no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)tx_ep, (void)context;
    return -FI_ENOSYS;
}

static int no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)rx_ep, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_size_left(struct fid_ep *ep)
{
    (void)ep;
    return -FI_ENOSYS;
}

/* ---- names --------------------------------------------------------------------------------------------- */

static int getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;
    struct nigh_address address;
    size_t room = *addrlen;
    int rc;

    *addrlen = NIGH_ADDRESS_BYTES;
    if (room < NIGH_ADDRESS_BYTES || !addr)
        return -FI_ETOOSMALL;
    if (!ep->context)
        return -FI_EOPBADSTATE;
    nigh_fi_lock(ep->domain);
    rc = ep->nigh->address(ep->context, &address);
    nigh_fi_unlock(ep->domain);
    if (!rc)
        memcpy(addr, &address, sizeof(address));
    return rc;
}

static int setname(fid_t fid, void *addr, size_t addrlen)
{
    struct nigh_fi_ep *ep = (struct nigh_fi_ep *)(void *)fid;

    if (ep->context)
        return -FI_EOPBADSTATE;
    if (addrlen != NIGH_ADDRESS_BYTES || !nigh_fi_name_read(addr, &ep->named))
        return -FI_EINVAL;
    return 0;
}

static int no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    (void)ep, (void)addr, (void)addrlen;
    return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    (void)ep, (void)addr, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    (void)ep, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    (void)pep, (void)handle, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep, (void)flags;
    return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
    (void)ep, (void)addr, (void)flags, (void)mc, (void)context;
    return -FI_ENOSYS;
}

struct fi_ops_cm nigh_fi_cm = {
    .size = sizeof(struct fi_ops_cm),
    .setname = setname,
    .getname = getname,
    .getpeer = no_getpeer,
    .connect = no_connect,
    .listen = no_listen,
    .accept = no_accept,
    .reject = no_reject,
    .shutdown = no_shutdown,
    .join = no_join,
};

/* ---- opening ------------------------------------------------------------------------------------------- */

static struct fi_ops fid_ops = NIGH_FI_OPS(close_ep, nigh_fi_ep_bind, control);

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = cancel,
    .getopt = get_option,
    .setopt = set_option,
    .tx_ctx = no_tx_ctx,
    .rx_ctx = no_rx_ctx,
    .rx_size_left = no_size_left,
    .tx_size_left = no_size_left,
};

int nigh_fi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    struct nigh_fi_ep *ep;

    if (info && info->caps & FI_HMEM && !domain->cuda)
        return -FI_EINVAL; /* the domain was opened without */
    if (!info || (info->ep_attr && info->ep_attr->type != FI_EP_UNSPEC && info->ep_attr->type != FI_EP_RDM))
        return -FI_EINVAL;
    ep = calloc(1, sizeof(*ep));
    if (!ep)
        return -FI_ENOMEM;
    ep->domain = domain;
    ep->nigh = domain->nigh;
    ep->wait_fd = -1;
    ep->caps = info->caps;
    ep->hmem = info->caps & FI_HMEM;
    ep->directed = info->caps & FI_DIRECTED_RECV;
    ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
    ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
    ep->min_multi = 64;
    if (info->src_addr && info->src_addrlen == NIGH_ADDRESS_BYTES)
        nigh_fi_name_read(info->src_addr, &ep->named);
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &nigh_fi_cm;
    ep->fid.msg = &nigh_fi_message;
    ep->fid.rma = &nigh_fi_rma;
    ep->fid.tagged = &nigh_fi_tagged;
    ep->fid.atomic = &nigh_fi_atomic;
    ep->fid.collective = &nigh_fi_no_collective;
    nigh_fi_hold(domain);
    *out = &ep->fid;
    return 0;
}
