/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/beside.c - see beside.h; the figures are those of an Emerald Rapids (docs/rationale/halves.md). */
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/shuttle.h"
#include "plugin/swap.h"
#include "shm/cpu.h"

/*
 * Chunks keep both at work, but each of them copies all. Half by each is one copy, and process_vm_readv is nearly as fast
 * as that on a Golden Cove: windows of 256 KiB to 4 MiB had 18 to 20 GB/s in place of 12. On a Zen 3 both at once had 0.5
 * to 0.7 of two copies, on a Zen 4 one alone 0.4.
 *
 * A message by itself is mostly used at once, and half of it lies in the sender's cache then, whose stores had to be
 * fetched from the receiver's: broadcasts of 128, 192, 224 and 256 KiB over Open MPI 11.1, 15.1, 13.2 and 13.8 us in place
 * of 10.7, 14.8, 17.1 and 19.1, reductions 17.7, 24.8, 22.7 and 25.0 in place of 14.3, 19.8, 22.4 and 25.6. One of a
 * window is not: of 80, 96 and 128 KiB 12.4, 13.4 and 14.2 GB/s in place of 11.8.
 */
#define ALONE_FROM  (224u * 1024)
#define IN_ROW_FROM (96u * 1024)

uint64_t nigh_beside_from(void)
{
    return nigh_cpu() == NIGH_CPU_GOLDEN_COVE ? ALONE_FROM : UINT64_MAX;
}

uint64_t nigh_beside_row_from(void)
{
    return nigh_cpu() == NIGH_CPU_GOLDEN_COVE ? IN_ROW_FROM : UINT64_MAX;
}

bool nigh_beside_is_on(const struct nigh_context *context)
{
    return !context->crowd.full && context->config.beside_from != UINT64_MAX &&
           !(context->guard & NIGH_GUARD_THREADS);
}

bool nigh_beside_both_copy(const struct nigh_endpoint *endpoint)
{
    const struct nigh_context *context = endpoint->context;

    /* Relaxed: words that say all. Who may read may write. */
    return nigh_beside_is_on(context) && !context->helps_not && !endpoint->self &&
           nigh_plan_peer_reads(endpoint) && nigh_load_relaxed(endpoint->peer_asks) &&
           nigh_load_relaxed(&endpoint->pair->reading) == 1;
}

static bool takes_from(const struct nigh_endpoint *endpoint, uint64_t bytes, uint64_t from)
{
    const struct nigh_config *config = &endpoint->context->config;

    return bytes >= from && bytes > config->eager_bytes && config->path < 0 &&
           nigh_beside_both_copy(endpoint);
}

bool nigh_beside_takes(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return takes_from(endpoint, bytes, endpoint->context->config.beside_from);
}

/*
 * One of two that the peers send each other: each of them copies all that comes, anyway, and what lies in a shuttle stays
 * in caches there. Open MPI's sendrecv of 128, 256, 384 and 512 KiB: 12, 23, 36 and 52 us, in place 14, 28, 41 and 54.
 */
static bool goes_and_comes(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return nigh_swap_begins(endpoint) && nigh_shuttle_takes(endpoint, bytes);
}

bool nigh_beside_takes_next(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    const struct nigh_config *config = &endpoint->context->config;
    uint64_t from = endpoint->in_a_row ? config->beside_row_from : config->beside_from;

    return takes_from(endpoint, bytes, from) && !goes_and_comes(endpoint, bytes);
}
