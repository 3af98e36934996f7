/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/mr.c - see mr.h. A domain's registration is one of nigh's in each of its
 * endpoints' contexts, under the same key. */
#include "hosts/libfabric/mr.h"
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/cuda.h"
#include "hosts/libfabric/endpoint.h"
#include "hosts/libfabric/eq.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/stage.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define BUSY_TRIES 10000 /* an operation of a peer that is under way ends in far fewer polls */

/* Is anybody to hear of what peers do to it through `ep`? */
static bool tells(const struct nigh_fi_mr *mr, const struct nigh_fi_ep *ep)
{
    return mr->flags && ep->caps & FI_RMA_EVENT &&
           (ep->cntr[NIGH_FI_REMOTE_READS] || ep->cntr[NIGH_FI_REMOTE_WRITES] || mr->cntr[NIGH_FI_MR_READS] ||
            mr->cntr[NIGH_FI_MR_WRITES]);
}

static int make_record(struct nigh_fi_mr *mr)
{
    if (!mr->told)
        mr->told = nigh_fi_op_take(&mr->domain->ops, NULL, NULL);
    if (!mr->told)
        return -FI_ENOMEM;
    mr->told->event = true;
    mr->told->mr = mr;
    return 0;
}

static int attach(struct nigh_fi_mr *mr, struct nigh_fi_ep *ep)
{
    struct nigh_register memory = {
        .size = sizeof(memory),
        .flags = mr->flags | (mr->flags ? NIGH_REGISTER_KEY : 0) | (mr->device ? NIGH_REGISTER_DEVICE : 0),
        .buffer = mr->base,
        .bytes = mr->bytes,
    };
    uint64_t key = mr->fid.key | NIGH_KEY_CHOSEN;
    struct nigh_fi_mr_part *part;
    int rc = tells(mr, ep) ? make_record(mr) : 0;

    if (rc)
        return rc;
    part = calloc(1, sizeof(*part));
    if (!part)
        return -FI_ENOMEM;
    if (tells(mr, ep)) {
        memory.flags |= NIGH_REGISTER_EVENTS;
        memory.context = (uintptr_t)mr->told;
    }
    rc = ep->nigh->register_memory(ep->context, &memory, &key, &part->region);
    if (rc) {
        free(part);
        return rc == -EEXIST ? -FI_ENOKEY : nigh_fi_refusal(rc);
    }
    part->ep = ep;
    part->next = mr->parts;
    mr->parts = part;
    return 0;
}

static bool is_told(const struct nigh_fi_mr *mr)
{
    return (mr->flags || mr->device) && mr->bytes;
}

/* -FI_EBUSY: a peer's operation on it does not end. */
static int detach(struct nigh_fi_mr_part *part)
{
    struct nigh_fi_ep *ep = part->ep;
    int rc = ep->nigh->deregister(ep->context, part->region);

    for (int i = 0; rc == -EBUSY && i < BUSY_TRIES; i++) {
        nigh_fi_ep_progress(ep);
        sched_yield();
        rc = ep->nigh->deregister(ep->context, part->region);
    }
    return rc;
}

static int detach_all(struct nigh_fi_mr *mr)
{
    while (mr->parts) {
        struct nigh_fi_mr_part *part = mr->parts;
        int rc = detach(part);

        if (rc)
            return rc;
        mr->parts = part->next;
        free(part);
    }
    return 0;
}

/* Events that nigh has already told of, and nobody has read, have the record. Where there is no memory to take them it
 * stays behind for them, until the domain is closed. */
static void free_record(struct nigh_fi_mr *mr)
{
    bool all = true;
    int n;

    if (!mr->told)
        return;
    for (struct nigh_fi_ep *ep = mr->domain->eps; ep; ep = ep->next) {
        while ((n = nigh_fi_ep_progress(ep)) == NIGH_FI_BATCH)
            ;
        all &= n >= 0;
    }
    mr->told->mr = NULL;
    if (all)
        nigh_fi_op_give(&mr->domain->ops, mr->told);
    mr->told = NULL;
}

static int attach_all(struct nigh_fi_mr *mr)
{
    int rc = 0;

    for (struct nigh_fi_ep *ep = mr->domain->eps; ep && !rc && is_told(mr); ep = ep->next)
        rc = attach(mr, ep);
    return rc;
}

int nigh_fi_mr_attach(struct nigh_fi_ep *ep)
{
    int rc = 0;

    for (struct nigh_fi_mr *mr = ep->domain->mrs; mr && !rc; mr = mr->next)
        if (is_told(mr))
            rc = attach(mr, ep);
    return rc;
}

/* The context is about to be closed, and its registrations with it. */
void nigh_fi_mr_detach(struct nigh_fi_ep *ep)
{
    for (struct nigh_fi_mr *mr = ep->domain->mrs; mr; mr = mr->next)
        for (struct nigh_fi_mr_part **link = &mr->parts, *part; (part = *link);) {
            if (part->ep != ep) {
                link = &part->next;
                continue;
            }
            *link = part->next;
            free(part);
        }
}

/* ---- the object ---------------------------------------------------------------------------------------- */

static int close_mr(struct fid *fid)
{
    struct nigh_fi_mr *mr = (struct nigh_fi_mr *)(void *)fid;
    struct nigh_fi_domain *domain = mr->domain;
    struct nigh_fi_mr **link = &domain->mrs;
    int rc;

    nigh_fi_lock(domain);
    rc = detach_all(mr);
    if (!rc)
        free_record(mr);
    while (!rc && *link != mr)
        link = &(*link)->next;
    if (!rc)
        *link = mr->next;
    for (int i = 0; i < 2 && !rc; i++)
        if (mr->cntr[i])
            mr->cntr[i]->refs--;
    nigh_fi_unlock(domain);
    if (rc)
        return rc;
    nigh_fi_let_go(domain);
    free(mr);
    return 0;
}

/* From here on what peers do is told of, which nigh wants to know when it registers. */
static int bind_cntr(struct nigh_fi_mr *mr, struct nigh_fi_cntr *cntr, uint64_t flags)
{
    static const uint64_t kinds[] = {FI_REMOTE_READ, FI_REMOTE_WRITE};
    int rc;

    if (!flags || flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
        return -FI_EBADFLAGS;
    for (int i = 0; i < 2; i++)
        if (flags & kinds[i] && mr->cntr[i])
            return -FI_EINVAL;
    rc = detach_all(mr);
    if (rc)
        return rc;
    for (int i = 0; i < 2; i++)
        if (flags & kinds[i]) {
            mr->cntr[i] = cntr;
            cntr->refs++;
        }
    cntr->of_memory = true;
    return attach_all(mr);
}

/* Registrations hold for all endpoints, so being bound to one changes nothing. */
static int bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct nigh_fi_mr *mr = (struct nigh_fi_mr *)(void *)fid;
    int rc;

    if (bfid && bfid->fclass == FI_CLASS_EP)
        return 0;
    if (!bfid || bfid->fclass != FI_CLASS_CNTR)
        return -FI_EINVAL;
    nigh_fi_lock(mr->domain);
    rc = bind_cntr(mr, (struct nigh_fi_cntr *)(void *)bfid, flags);
    nigh_fi_unlock(mr->domain);
    return rc;
}

static int control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)arg;
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_mr, bind, control);

/* Of memory that peers may use: what is registered for this process alone has no key, and MPIs ask for the same for all
 * of it. */
static bool key_taken(const struct nigh_fi_domain *domain, uint64_t key)
{
    const struct nigh_fi_mr *mr = domain->mrs;

    while (mr && (!mr->flags || mr->fid.key != key))
        mr = mr->next;
    return mr != NULL;
}

static int insert(struct nigh_fi_mr *mr)
{
    struct nigh_fi_domain *domain = mr->domain;
    int rc;

    if (mr->flags && key_taken(domain, mr->fid.key))
        return -FI_ENOKEY;
    rc = attach_all(mr);
    if (rc) {
        detach_all(mr);
        free_record(mr);
        return rc;
    }
    mr->next = domain->mrs;
    domain->mrs = mr;
    return 0;
}

/* Device memory, as the host says; where it need not, nigh finds out. */
static int find_device(struct nigh_fi_mr *mr, const struct fi_mr_attr *attr)
{
    bool told = attr->iface == FI_HMEM_CUDA;
    int ordinal = -1, rc = told ? nigh_fi_cuda_find(mr->domain->cuda, mr->base, &ordinal) : 0;

    mr->device = told || (mr->domain->detects && mr->base); /* NULL: all of memory, which is the host's */
    if (rc || ordinal < 0 || ordinal == attr->device.cuda)
        return rc;
    nigh_fi_log(NIGH_FI_INFO, "memory at %p was registered as of CUDA device %d and is of device %d",
                mr->base, attr->device.cuda, ordinal);
    return -FI_EINVAL;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    struct nigh_fi_mr *mr;
    int rc;

    if (fid->fclass != FI_CLASS_DOMAIN || !attr || attr->iov_count != 1 || !attr->mr_iov || attr->offset)
        return -FI_EINVAL;
    if (flags & ~(uint64_t)(FI_RMA_EVENT | FI_HMEM_HOST_ALLOC | FI_HMEM_DEVICE_ONLY))
        return -FI_EBADFLAGS;
    if (attr->iface != FI_HMEM_SYSTEM && (attr->iface != FI_HMEM_CUDA || !domain->cuda))
        return -FI_ENOSYS;
    if (attr->requested_key & NIGH_KEY_CHOSEN)
        return -FI_EKEYREJECTED;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return -FI_ENOMEM;
    mr->domain = domain;
    mr->base = attr->mr_iov->iov_base;
    mr->bytes = attr->mr_iov->iov_len;
    mr->flags = (attr->access & FI_REMOTE_READ ? NIGH_REMOTE_READ : 0) |
                (attr->access & FI_REMOTE_WRITE ? NIGH_REMOTE_WRITE : 0);
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attr->context;
    mr->fid.fid.ops = &fid_ops;
    mr->fid.mem_desc = mr;
    mr->fid.key = attr->requested_key;
    nigh_fi_lock(domain);
    rc = find_device(mr, attr);
    if (!rc)
        rc = insert(mr);
    nigh_fi_unlock(domain);
    if (rc) {
        free(mr);
        return rc;
    }
    nigh_fi_hold(domain);
    *out = &mr->fid;
    if (domain->eq && domain->mr_events)
        nigh_fi_eq_event(domain->eq, FI_MR_COMPLETE, &mr->fid.fid, attr->context, 0);
    return 0;
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
                uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = count,
        .access = access,
        .offset = offset,
        .requested_key = requested_key,
        .context = context,
    };

    return regattr(fid, &attr, flags, mr);
}

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
               uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr nigh_fi_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = reg,
    .regv = regv,
    .regattr = regattr,
};
