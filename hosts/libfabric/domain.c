/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/domain.c - the domain: what its objects share, above all the lock. */
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/eq.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/op.h"
#include "hosts/libfabric/plugin.h"
#include "hosts/libfabric/provider.h"
#include "hosts/libfabric/refuse.h"

#include <stdlib.h>

void nigh_fi_hold(struct nigh_fi_domain *domain)
{
    pthread_mutex_lock(&domain->fabric->lock);
    domain->refs++;
    pthread_mutex_unlock(&domain->fabric->lock);
}

void nigh_fi_let_go(struct nigh_fi_domain *domain)
{
    pthread_mutex_lock(&domain->fabric->lock);
    domain->refs--;
    pthread_mutex_unlock(&domain->fabric->lock);
}

bool nigh_fi_is_held(struct nigh_fi_domain *domain, const uint32_t *refs)
{
    bool held;

    nigh_fi_lock(domain);
    held = *refs != 0;
    nigh_fi_unlock(domain);
    return held;
}

static int close_domain(struct fid *fid)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    uint32_t refs;

    pthread_mutex_lock(&domain->fabric->lock);
    refs = domain->refs;
    pthread_mutex_unlock(&domain->fabric->lock);
    if (refs)
        return -FI_EBUSY;
    nigh_fi_ops_destroy(&domain->ops);
    pthread_mutex_destroy(&domain->lock);
    if (domain->eq)
        nigh_fi_eq_hold(domain->eq, -1);
    pthread_mutex_lock(&domain->fabric->lock);
    domain->fabric->refs--;
    pthread_mutex_unlock(&domain->fabric->lock);
    free(domain);
    return 0;
}

#define MR_EVENTS (UINT64_C(1) << 59) /* FI_REG_MR, whose macro warns in later headers */

/* An event queue: registrations that were asked to report when they are done do so there. */
static int bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;

    if (!bfid || bfid->fclass != FI_CLASS_EQ || domain->eq)
        return -FI_EINVAL;
    domain->mr_events = flags & MR_EVENTS;
    domain->eq = (struct nigh_fi_eq *)(void *)bfid;
    nigh_fi_eq_hold(domain->eq, 1);
    return 0;
}

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context)
{
    (void)domain, (void)info, (void)sep, (void)context;
    return -FI_ENOSYS;
}

static int no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
    (void)domain, (void)attr, (void)pollset;
    return -FI_ENOSYS;
}

static int no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
    (void)domain, (void)attr, (void)stx, (void)context;
    return -FI_ENOSYS;
}

static int no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
                      void *context)
{
    (void)domain, (void)attr, (void)rx_ep, (void)context;
    return -FI_ENOSYS;
}

static int no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                               struct fi_collective_attr *attr, uint64_t flags)
{
    (void)domain, (void)coll, (void)attr, (void)flags;
    return -FI_ENOSYS;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
                     void *context)
{
    return flags ? -FI_EBADFLAGS : nigh_fi_ep_open(domain, info, ep, context);
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_domain, bind, nigh_fi_no_control);

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = nigh_fi_av_open,
    .cq_open = nigh_fi_cq_open,
    .endpoint = nigh_fi_ep_open,
    .scalable_ep = no_scalable_ep,
    .cntr_open = nigh_fi_cntr_open,
    .poll_open = no_poll_open,
    .stx_ctx = no_stx_ctx,
    .srx_ctx = no_srx_ctx,
    .query_atomic = nigh_fi_query_atomic,
    .query_collective = no_query_collective,
    .endpoint2 = endpoint2,
};

/* An info of ours says FI_HMEM only where there is a driver; one that a host made up may not. */
static int open_devices(struct nigh_fi_domain *domain, const struct fi_info *info)
{
    const char *why;

    if (!(info->caps & FI_HMEM))
        return 0;
    domain->cuda = nigh_fi_cuda_open(&why);
    domain->detects = !info->domain_attr || !(info->domain_attr->mr_mode & FI_MR_HMEM);
    if (domain->cuda)
        return 0;
    nigh_fi_log(NIGH_FI_WARN, "a domain for device memory cannot be opened: %s", why);
    return -FI_ENODEV;
}

int nigh_fi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
    struct nigh_fi_fabric *fabric = (struct nigh_fi_fabric *)(void *)fid;
    struct nigh_fi_domain *domain = calloc(1, sizeof(*domain));
    int rc;

    if (!domain)
        return -FI_ENOMEM;
    domain->nigh = nigh_fi_plugin();
    if (!domain->nigh) {
        free(domain);
        return -FI_ENODEV;
    }
    rc = open_devices(domain, info);
    if (!rc)
        rc = nigh_fi_ops_create(&domain->ops);
    if (rc) {
        free(domain);
        return rc;
    }
    domain->fabric = fabric;
    domain->locked = !info->domain_attr || info->domain_attr->threading != FI_THREAD_DOMAIN;
    domain->pending = domain->locked;
    pthread_mutex_init(&domain->lock, NULL);
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &fid_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &nigh_fi_mr_ops;
    pthread_mutex_lock(&fabric->lock);
    fabric->refs++;
    pthread_mutex_unlock(&fabric->lock);
    *out = &domain->fid;
    return 0;
}
