/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/fabric.c - the fabric: the root of all objects. */
#include "hosts/libfabric/provider.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/wait.h"

#include <stdlib.h>
#include <string.h>

static int close_fabric(struct fid *fid)
{
    struct nigh_fi_fabric *fabric = (struct nigh_fi_fabric *)(void *)fid;
    uint32_t refs;

    pthread_mutex_lock(&fabric->lock);
    refs = fabric->refs;
    pthread_mutex_unlock(&fabric->lock);
    if (refs)
        return -FI_EBUSY;
    pthread_mutex_destroy(&fabric->lock);
    free(fabric);
    return 0;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
    (void)fabric, (void)attr, (void)waitset;
    return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                   uint64_t flags, void *context)
{
    return flags ? -FI_EBADFLAGS : nigh_fi_domain_open(fabric, info, domain, context);
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_fabric, nigh_fi_no_bind, nigh_fi_no_control);

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = nigh_fi_domain_open,
    .passive_ep = no_passive_ep,
    .eq_open = nigh_fi_eq_open,
    .wait_open = no_wait_open,
    .trywait = nigh_fi_trywait,
    .domain2 = domain2,
};

int nigh_fi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    struct nigh_fi_fabric *fabric;

    if (attr->name && strcmp(attr->name, NIGH_FI_NAME) != 0)
        return -FI_ENODATA;
    fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return -FI_ENOMEM;
    pthread_mutex_init(&fabric->lock, NULL);
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fid_ops;
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = attr->api_version;
    *out = &fabric->fid;
    return 0;
}
