/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/crammed.h - a peer that runs ahead of us. What comes before its receive waits in private memory, and a sender
 * that is never held up fills it: of 8 ranks on 2 CPUs that reduce along a chain, in messages of 64 KiB that are complete
 * when they are posted, each took 2 GB. So from some bytes on the peer is told, and until half of them are received what
 * it sends is complete only when it is matched, and is read where it lies or asked for. Messages of at most a body go as
 * ever, and so do silent ones: their host may know that they were received before we do. Nobody runs ahead of itself.
 */
#ifndef NIGH_PLUGIN_CRAMMED_H
#define NIGH_PLUGIN_CRAMMED_H

#include "plugin/context.h"

/*
 * Of one peer: so many times NIGH_EAGER, by default 4 MiB, as much as a context keeps for others when it was received
 * (NIGH_EARLY_BYTES), so that the pages of one such peer's are not cleared again and again. Reductions of 1 MiB along
 * that chain took 1.9 to 2.9 ms, and with 2, 4 and 8 MiB 1.03, 1.16 and 1.2 ms; in messages of 32 KiB 1.4 to 1.8, and
 * 1.13, 1.15 and 1.34.
 */
#define NIGH_CRAMMED_MESSAGES 64u

/* What goes ahead of its GRANT to a peer that is crammed, in place of NIGH_EAGER, where it cannot read us. */
#define NIGH_CRAMMED_EAGER NIGH_LINE

/* ---- the receiver's ---- */

static inline uint64_t nigh_crammed_from(const struct nigh_endpoint *endpoint)
{
    return (uint64_t)NIGH_CRAMMED_MESSAGES * endpoint->context->config.eager_bytes;
}

static inline void nigh_crammed_add(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    endpoint->early += bytes;
    /* Relaxed, here and below: a peer that sees it late sends the other way. */
    if (__builtin_expect(endpoint->early > nigh_crammed_from(endpoint), 0))
        nigh_store_relaxed(&endpoint->pair->crammed, 1);
}

static inline void nigh_crammed_take_off(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    endpoint->early -= bytes;
    if (nigh_load_relaxed(&endpoint->pair->crammed) && endpoint->early <= nigh_crammed_from(endpoint) / 2)
        nigh_store_relaxed(&endpoint->pair->crammed, 0);
}

/* ---- the sender's ---- */

static inline bool nigh_crammed(const struct nigh_endpoint *endpoint, bool silent)
{
    return !silent && endpoint->attached && !endpoint->self && nigh_load_relaxed(endpoint->peer_crammed);
}

#endif
