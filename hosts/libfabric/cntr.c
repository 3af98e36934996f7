/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/cntr.c - counters of completed operations. */
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/look.h"
#include "hosts/libfabric/refuse.h"
#include "hosts/libfabric/wait.h"

#include <sched.h>
#include <stdlib.h>

static struct nigh_fi_cntr *cntr_of(struct fid_cntr *fid)
{
    return (struct nigh_fi_cntr *)(void *)fid;
}

struct look {
    uint64_t value, errors, stamp;
    bool of_memory;
};

static struct look progress(struct nigh_fi_cntr *cntr)
{
    struct look look;

    nigh_fi_lock(cntr->domain);
    for (uint32_t i = 0; i < cntr->waiter.ep_count; i++)
        nigh_fi_ep_progress(cntr->waiter.eps[i]);
    for (struct nigh_fi_ep *ep = cntr->of_memory ? cntr->domain->eps : NULL; ep; ep = ep->next)
        nigh_fi_ep_progress(ep);
    look = (struct look){cntr->value, cntr->errors, cntr->waiter.stamp, cntr->of_memory};
    nigh_fi_look(&cntr->waiter);
    nigh_fi_unlock(cntr->domain);
    return look;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    return progress(cntr_of(fid)).value;
}

static uint64_t readerr(struct fid_cntr *fid)
{
    return progress(cntr_of(fid)).errors;
}

/* Under the lock, and those who wait for it wake. */
static int change(struct fid_cntr *fid, uint64_t *field, uint64_t value, bool replace)
{
    struct nigh_fi_domain *domain = cntr_of(fid)->domain;

    nigh_fi_lock(domain);
    *field = replace ? value : *field + value;
    nigh_fi_news(domain, &cntr_of(fid)->waiter);
    nigh_fi_unlock(domain);
    return 0;
}

static int add(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, &cntr_of(fid)->value, value, false);
}

static int set(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, &cntr_of(fid)->value, value, true);
}

static int adderr(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, &cntr_of(fid)->errors, value, false);
}

static int seterr(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, &cntr_of(fid)->errors, value, true);
}

/* Endpoints that were opened before memory was bound have nothing that wakes a sleeper. */
static int pass(uint64_t deadline)
{
    sched_yield();
    return nigh_fi_now() >= deadline ? -FI_EAGAIN : 0;
}

/* Errors from before the call are known to the host. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct nigh_fi_cntr *cntr = cntr_of(fid);
    uint64_t deadline = nigh_fi_deadline(timeout), before;
    struct look look;

    if (cntr->waiter.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    nigh_fi_lock(cntr->domain);
    before = cntr->errors;
    nigh_fi_unlock(cntr->domain);
    for (;;) {
        int slept;

        look = progress(cntr);
        if (look.value >= threshold)
            return 0;
        if (look.errors != before)
            return -FI_EAVAIL;
        slept = look.of_memory ? pass(deadline)
                               : nigh_fi_sleep(cntr->domain, &cntr->waiter, look.stamp, deadline);
        if (slept && slept != -FI_EAGAIN)
            return slept;
        if (slept)
            return progress(cntr).value >= threshold ? 0 : -FI_ETIMEDOUT;
    }
}

static int close_cntr(struct fid *fid)
{
    struct nigh_fi_cntr *cntr = (struct nigh_fi_cntr *)(void *)fid;

    if (nigh_fi_is_held(cntr->domain, &cntr->refs))
        return -FI_EBUSY;
    nigh_fi_waiter_close(cntr->domain, &cntr->waiter);
    nigh_fi_let_go(cntr->domain);
    free(cntr);
    return 0;
}

static int control(struct fid *fid, int command, void *arg)
{
    struct nigh_fi_cntr *cntr = (struct nigh_fi_cntr *)(void *)fid;

    return nigh_fi_waiter_control(cntr->domain, &cntr->waiter, command, arg);
}

static struct fi_ops fid_ops = NIGH_FI_OPS(close_cntr, nigh_fi_no_bind, control);

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = cntr_read,
    .readerr = readerr,
    .add = add,
    .set = set,
    .wait = cntr_wait,
    .adderr = adderr,
    .seterr = seterr,
};

int nigh_fi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
    struct nigh_fi_domain *domain = (struct nigh_fi_domain *)(void *)fid;
    struct nigh_fi_cntr *cntr;
    int rc;

    if (!attr || attr->flags || attr->events != FI_CNTR_EVENTS_COMP)
        return -FI_EINVAL;
    cntr = calloc(1, sizeof(*cntr));
    if (!cntr)
        return -FI_ENOMEM;
    rc = nigh_fi_waiter_open(domain, attr->wait_obj, &cntr->waiter);
    if (rc) {
        free(cntr);
        return rc;
    }
    cntr->domain = domain;
    cntr->fid.fid.fclass = FI_CLASS_CNTR;
    cntr->fid.fid.context = context;
    cntr->fid.fid.ops = &fid_ops;
    cntr->fid.ops = &cntr_ops;
    nigh_fi_hold(domain);
    *out = &cntr->fid;
    return 0;
}
