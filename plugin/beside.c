/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/beside.c - see beside.h; the figures are those of an Emerald Rapids (docs/rationale/halves.md). */
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/shuttle.h"
#include "plugin/swap.h"
#include "shm/clock.h"
#include "shm/cpu.h"

/*
 * Chunks keep both at work, but each of them copies all. Half by each is one copy, and process_vm_readv is nearly as fast
 * as that on a Golden Cove: windows of 256 KiB to 4 MiB had 18 to 20 GB/s in place of 12. On a Zen 3 both at once had 0.5
 * to 0.7 of two copies, on a Zen 4 one alone 0.4.
 *
 * A message by itself is mostly used at once, and half of it lies in the sender's cache then, whose stores had to be
 * fetched from the receiver's: broadcasts of 128, 192, 224 and 256 KiB over Open MPI 11.1, 15.1, 13.2 and 13.8 us in place
 * of 10.7, 14.8, 17.1 and 19.1, reductions 17.7, 24.8, 22.7 and 25.0 in place of 14.3, 19.8, 22.4 and 25.6. One of a
 * window is not: of 32, 48, 64, 96 and 128 KiB 10.9, 12.5, 12.0, 13.3 and 14.0 GB/s in place of 9.9, 9.8, 9.2 and about 10;
 * of 28 8.4 in place of 9.3.
 */
#define ALONE_FROM  (224u * 1024)
#define IN_ROW_FROM (32u * 1024)

/* So many go on in chunks, as if they stood alone, where the receiver was not there. */
#define AWAY_MESSAGES 16u
/* Behind a row of so many the next one begins another, too. */
#define ROW_MESSAGES 4u
/* Passes without news. */
#define LOOKS 8u

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

    return bytes >= from && config->path < 0 && nigh_beside_both_copy(endpoint);
}

bool nigh_beside_takes(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    const struct nigh_config *config = &endpoint->context->config;

    return bytes > config->eager_bytes && takes_from(endpoint, bytes, config->beside_from);
}

/*
 * One of two that the peers send each other: each of them copies all that comes, anyway, and what lies in a shuttle stays
 * in caches there. Open MPI's sendrecv of 128, 256, 384 and 512 KiB: 12, 23, 36 and 52 us, in place 14, 28, 41 and 54.
 */
static bool goes_and_comes(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return nigh_swap_begins(endpoint) && nigh_shuttle_takes(endpoint, bytes);
}

/*
 * Has the peer sent nothing but answers since the last one? So a row is also what is sent one behind the other by a host
 * that waits for each: streams of 40 to 192 KiB by MPI_Send over Open MPI had 4.7 to 7.4 GB/s in chunks, and 5.8 to 10.7
 * so, its own 6.0 to 7.3. (in_a_row ends with any answer.)
 */
static bool is_in_row(const struct nigh_endpoint *endpoint)
{
    return endpoint->one_way == endpoint->rx.next - endpoint->answered_us + 1;
}

/* The first of a row, if the last one had some: in chunks each side copied all of it before it came to the others. Of 64
 * messages of 32 and 64 KiB over Open MPI that took 11 and 20 of 190 and 370 us. */
static bool begins_row(const struct nigh_endpoint *endpoint)
{
    return endpoint->row_messages >= ROW_MESSAGES;
}

/* One that is to be over at once, as its host counts on that, the peer was not there, or would not fetch it. */
static bool is_over_at_once(const struct nigh_endpoint *endpoint, uint64_t bytes, bool may_wait)
{
    return bytes <= endpoint->context->config.eager_bytes &&
           (!may_wait || endpoint->away || bytes > NIGH_FETCH_MAX);
}

bool nigh_beside_takes_next(struct nigh_endpoint *endpoint, uint64_t bytes, bool may_wait)
{
    const struct nigh_config *config = &endpoint->context->config;
    bool row = is_in_row(endpoint) || begins_row(endpoint);
    uint64_t from = row ? config->beside_row_from : config->beside_from;

    return takes_from(endpoint, bytes, from) && !is_over_at_once(endpoint, bytes, may_wait) &&
           !goes_and_comes(endpoint, bytes);
}

void nigh_beside_begun(struct nigh_endpoint *endpoint, uint64_t bytes)
{
    if (bytes < endpoint->context->config.beside_row_from)
        return;
    endpoint->row_messages = is_in_row(endpoint) ? endpoint->row_messages + 1 : 1;
    endpoint->one_way = endpoint->rx.next - endpoint->answered_us + 1;
    endpoint->away -= endpoint->away != 0;
}

/* Where we have looked for its end in vain it is not that we were away. */
void nigh_beside_early_over(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    const struct nigh_context *context = endpoint->context;
    uint64_t now = nigh_clock_ns();
    uint64_t since = op->begun > endpoint->early_ns ? op->begun : endpoint->early_ns;

    if (now - since > context->config.away_ns && context->idle_passes >= LOOKS)
        endpoint->away = AWAY_MESSAGES;
    endpoint->early_ns = now;
}

/* Behind other news it is no sign of anything. */
void nigh_beside_early_asked(struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    if (endpoint->context->idle_passes >= LOOKS)
        nigh_beside_early_over(endpoint, op);
}
