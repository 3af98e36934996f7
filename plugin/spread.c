/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/spread.c - to how many peers long messages are under way, and what that means for the next one. */
#include "plugin/spread.h"
#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/swap.h"

/* Where their receivers have mapped them (docs/rationale/program-memory.md). */
#define SPREAD_FROM_EARLY (32u * 1024)

static bool may_lie(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_context *context = endpoint->context;

    return nigh_plan_prefers_once(context) && context->config.path < 0 &&
           op->bytes > context->config.eager_bytes && nigh_plan_peer_reads(endpoint);
}

void nigh_spread_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_spread *spread = &endpoint->context->spread;

    if (!endpoint->context->crowd.full || op->bytes < NIGH_SWAP_FROM || !may_lie(endpoint, op) ||
        endpoint->self)
        return;
    op->spread = true;
    if (endpoint->spread++ == 0 && ++spread->peers > 1)
        spread->several = true;
}

void nigh_spread_end(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_spread *spread = &endpoint->context->spread;

    if (!op->spread || --endpoint->spread || --spread->peers)
        return;
    spread->before = spread->several;
    spread->several = false;
}

/* That others will follow the first one is not known when it is sent, but hosts that have done so do it again. */
bool nigh_spread_in_place(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_spread *spread = &endpoint->context->spread;

    return op->spread && (spread->peers > 1 || spread->before || nigh_swap_begins(endpoint));
}

/* All that is sent between two looks of the host's; the first of them goes as those before did. */
static bool is_in_burst(struct nigh_endpoint *endpoint)
{
    struct nigh_spread *spread = &endpoint->context->spread;
    uint64_t now = endpoint->context->cq.told + 1;

    if (spread->burst != now) {
        spread->burst_peers_before = spread->burst_peers;
        spread->burst_peers = 0;
        spread->burst_last = NULL;
        spread->burst = now;
    }
    spread->burst_peers += spread->burst_last != endpoint;
    spread->burst_last = endpoint;
    return spread->burst_peers > 1 || spread->burst_peers_before > 1;
}

bool nigh_spread_early(struct nigh_endpoint *endpoint, const void *buffer, uint64_t bytes)
{
    const struct nigh_context *context = endpoint->context;

    if (!context->crowd.full || bytes < SPREAD_FROM_EARLY || bytes > context->config.eager_bytes ||
        bytes > NIGH_FETCH_MAX || !nigh_plan_prefers_once(context) || context->config.path >= 0)
        return false;
    return is_in_burst(endpoint) && !endpoint->self && nigh_plan_peer_reads(endpoint) &&
           nigh_load_relaxed(endpoint->peer_maps) &&
           nigh_program_holds(&context->arena.layout, buffer, bytes);
}
