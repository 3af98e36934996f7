/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/count.h - counters: words in the arena that observers read, each by itself, so relaxed. */
#ifndef NIGH_PLUGIN_COUNT_H
#define NIGH_PLUGIN_COUNT_H

#include "plugin/context.h"

static inline void nigh_count(uint64_t *word, uint64_t more)
{
    nigh_store_relaxed(word, nigh_load_relaxed(word) + more);
}

static inline void nigh_count_sent(struct nigh_context *context, enum nigh_path path, uint64_t messages,
                                   uint64_t bytes)
{
    nigh_count(&context->counters->sent[path], messages);
    nigh_count(&context->counters->sent_bytes[path], bytes);
}

/* A message has gone another way than the one it was counted for. In this order nobody sees one less in all. */
static inline void nigh_count_redirected(struct nigh_context *context, enum nigh_path from, enum nigh_path to,
                                         uint64_t bytes)
{
    nigh_count_sent(context, to, 1, bytes);
    nigh_count_sent(context, from, -UINT64_C(1), -bytes);
}

/* Takes over what the short way has counted in the ring's own line. */
static inline void nigh_count_tally(struct nigh_endpoint *endpoint)
{
    nigh_count_sent(endpoint->context, NIGH_PATH_INLINE, nigh_ring_ones(&endpoint->tx), endpoint->tx.bytes);
    nigh_ring_tallied(&endpoint->tx);
}

/* The same of what was received. */
static inline void nigh_count_taken(struct nigh_context *context)
{
    nigh_count(&context->counters->received, context->received);
    nigh_count(&context->counters->received_bytes, context->received_bytes);
    context->received = context->received_bytes = 0;
}

#endif
