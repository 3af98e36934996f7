/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/swap.h - two ranks that send each other long messages, as in a step of doubling: each has posted a receive from
 * the other and sends before it hears of anything. Where they run in turns, on a CPU that is better off with one copy, such
 * messages are read where they lie, also those of lengths that a gather or a reduction sends as two copies: there the
 * sender would wait for its root (docs/rationale/crowd-large.md). Where each has a CPU it is the other way round: beside.c.
 */
#ifndef NIGH_PLUGIN_SWAP_H
#define NIGH_PLUGIN_SWAP_H

#include "plugin/context.h"

#define NIGH_SWAP_FROM (64u * 1024 + 1)

/* A receive of up to `bytes` from it is posted. */
static inline void nigh_swap_expect(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    if (__builtin_expect(bytes >= NIGH_SWAP_FROM, 0))
        endpoint->swaps = endpoint->context->cq.told + 1;
}

/* Was the last one posted since the host heard of anything but sends that were over when they were posted? All that is
 * sent to it until then counts. */
static inline bool nigh_swap_begins(const struct nigh_endpoint *endpoint)
{
    return endpoint->swaps == endpoint->context->cq.told + 1;
}

#endif
