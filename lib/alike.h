/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/alike.h - the last small send and the last receive, as they were called: a call like the last one of its kind,
 * which in a window is each, needs no other check, and what it would look up is here.
 */
#ifndef NIGH_LIB_ALIKE_H
#define NIGH_LIB_ALIKE_H

#include "lib/comm.h"

struct nigh_alike {
    const struct nigh_comm *comm; /* NULL: none is like it */
    uint64_t with;                /* NIGH_WITH(rank, tag) */
    uint64_t bytes;
    const char *site;
    struct nigh_endpoint *endpoint;
    uint64_t tag; /* as the plugin has it */
};

/* By whoever has checked everything. */
static inline void nigh_alike_set(struct nigh_alike *last, const struct nigh_comm *comm, uint64_t with,
                                  uint64_t bytes, const char *site)
{
    *last = (struct nigh_alike){
        comm, with, bytes, site, comm->endpoints[NIGH_RANK_OF(with)], nigh_comm_tag(comm, NIGH_TAG_OF(with)),
    };
}

static inline bool nigh_is_alike(const struct nigh_alike *last, const struct nigh_comm *comm, uint64_t with,
                                 uint64_t bytes, const char *site)
{
    return nigh_likely(last->comm == comm && last->with == with && last->bytes == bytes &&
                       last->site == site);
}

/* A communicator goes, or all do. */
static inline void nigh_alike_forget(struct nigh_alike *last)
{
    last->comm = NULL;
}

#endif
