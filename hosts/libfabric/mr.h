/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/mr.h - registered memory. Keys are the host's (or counted up), places in it are offsets. */
#ifndef NIGH_LIBFABRIC_MR_H
#define NIGH_LIBFABRIC_MR_H

#include "hosts/libfabric/provider.h"

enum { NIGH_FI_MR_READS, NIGH_FI_MR_WRITES };

/* The registration in one endpoint's context. */
struct nigh_fi_mr_part {
    struct nigh_fi_mr_part *next;
    struct nigh_fi_ep *ep;
    struct nigh_region *region;
};

struct nigh_fi_mr {
    struct fid_mr fid;
    struct nigh_fi_domain *domain;
    struct nigh_fi_mr *next;
    void *base;
    size_t bytes;
    uint32_t flags; /* NIGH_REMOTE_*; 0: for this process only, and nigh is told of device memory alone */
    struct nigh_fi_mr_part *parts;
    bool device; /* may be memory of one: nigh knows */
    /* What peers do is counted here, FI_REMOTE_READ and FI_REMOTE_WRITE, as in the endpoints. */
    struct nigh_fi_cntr *cntr[2];
    struct nigh_fi_op *told; /* the context of its events; NULL: there are none */
};

/* NULL: it is not registered there. */
static inline struct nigh_region *nigh_fi_mr_region(const struct nigh_fi_mr *mr, const struct nigh_fi_ep *ep)
{
    const struct nigh_fi_mr_part *part = mr->parts;

    while (part && part->ep != ep)
        part = part->next;
    return part ? part->region : NULL;
}

#endif
