/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/spread.c - to how many peers long messages are under way, and what that means for the next one. */
#include "plugin/spread.h"
#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/shuttle.h"
#include "plugin/swap.h"
#include "shm/copy.h"

/* 8 ranks on 2 CPUs, alltoalls in trips in parts of whole ones through the caches: 240 KiB 0.82, 192 KiB 0.99, 144 KiB
 * 1.4; of 256 KiB, whole ones past them, 0.86. */
#define SPREAD_FROM (192u * 1024)
/* Where the CPU is better off with one copy of such lengths: in place, alltoalls of 96 to 192 KiB take 0.66 to 0.84 of
 * two copies, of 384 KiB to 2 MiB 0.74 to 0.96 of trips. Peers that may not read us are sent trips of what would be
 * read. */
#define SPREAD_FROM_IN_PLACE NIGH_SWAP_FROM
#define SPREAD_FROM_UNREAD   (256u * 1024 + 1)
/* And where their receivers have mapped them, of Open MPI's alltoalls in parts of its own: 32 KiB 0.67 in place of 0.79, 64
 * KiB 0.67 in place of 0.94 (docs/rationale/program-memory.md). */
#define SPREAD_FROM_EARLY (32u * 1024)

/* 8 ranks on 2 CPUs, an alltoall of 1 MiB over Open MPI 4.1 with trips of 64, 128 and 256 KiB: 0.96, 0.90 and 0.88 of
 * its own, of 512 KiB 0.86, 0.80 and 0.83; and what a context has for its shuttles is enough for 16 peers. */
#define TRIP_BYTES (128u * 1024)
static_assert(TRIP_BYTES <= NIGH_SHUTTLE_BYTES && TRIP_BYTES < SPREAD_FROM && TRIP_BYTES % NIGH_PAGE == 0,
              "a trip has room, and there are two at least");

static bool may_lie(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_context *context = endpoint->context;

    return nigh_plan_prefers_once(context) && context->config.path < 0 &&
           op->bytes > context->config.eager_bytes && nigh_plan_peer_reads(endpoint);
}

static uint32_t spread_from(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    if (!nigh_plan_prefers_once(endpoint->context))
        return SPREAD_FROM;
    return may_lie(endpoint, op) ? SPREAD_FROM_IN_PLACE : SPREAD_FROM_UNREAD;
}

void nigh_spread_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_spread *spread = &endpoint->context->spread;

    if (!endpoint->context->crowd.full || op->bytes < spread_from(endpoint, op) || endpoint->self)
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
static bool is_one_of_several(const struct nigh_spread *spread, const struct nigh_send_op *op)
{
    return op->spread && (spread->peers > 1 || spread->before);
}

bool nigh_spread_past(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return is_one_of_several(&endpoint->context->spread, op) && !may_lie(endpoint, op) &&
           nigh_copy_select(NIGH_COPY_NT);
}

bool nigh_spread_in_place(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return may_lie(endpoint, op) &&
           (is_one_of_several(&endpoint->context->spread, op) || (op->spread && nigh_swap_begins(endpoint)));
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

/*
 * Not where another one waits to be sent: what holds for this one need not hold when it begins. Nor what the host has asked to
 * be done with before it is matched, nor silent ones: to hear of those a host need not poll. With plain copies an alltoall of
 * 1 MiB in trips takes 1.14 where one copy takes 1.0.
 */
uint32_t nigh_spread_trip(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_context *context = endpoint->context;

    if (op->silent || op->bytes <= context->config.eager_bytes || context->config.path >= 0 ||
        !endpoint->can_post || !nigh_spread_past(endpoint, op))
        return 0;
    return nigh_shuttle_takes(endpoint, TRIP_BYTES) ? TRIP_BYTES : 0;
}
