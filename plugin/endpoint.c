/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/endpoint.c - the memory of an endpoint: its index, the pair's lines, the window of its ring. Before it
 * is connected, and after it has left. */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_peer.h"
#include "plugin/large.h"
#include "plugin/progress.h"
#include "plugin/shuttle.h"
#include "shm/cma.h"
#include "shm/liveness.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <stdlib.h>

/* ---- indices ------------------------------------------------------------------------------------------- */

static int take_index(struct nigh_context *context, uint32_t *index)
{
    if (!context->index_free_count && context->index_next == context->config.peers_max)
        nigh_progress_make_room(context);
    if (context->index_free_count) {
        *index = context->index_free[--context->index_free_count];
        return 0;
    }
    if (context->index_next == context->config.peers_max) {
        nigh_log(NIGH_LOG_ERROR,
                 "no endpoint left: all %u of peers_max (NIGH_PEERS_MAX) are in use: disconnect some, or set "
                 "it higher (65536 at most)",
                 context->config.peers_max);
        return -ENOSPC;
    }
    *index = context->index_next++;
    return 0;
}

void nigh_endpoint_give_index(struct nigh_context *context, uint32_t index)
{
    context->by_index[index] = NULL;
    context->index_free[context->index_free_count++] = index;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* The pair's lines may hold what the index' last peer left there. */
static void reset_pair(struct nigh_context *context, struct nigh_pair *pair, bool cold)
{
    /* Relaxed: nobody has been told of this index yet; the greeting is a system call. */
    nigh_store_relaxed(&pair->consumed, 0);
    nigh_store_relaxed(&pair->crammed, 0);
    for (unsigned i = 0; i < sizeof(pair->read_cost) / sizeof(pair->read_cost[0]); i++)
        nigh_store_relaxed(&pair->read_cost[i], 0);
    nigh_store_relaxed(&pair->ring, 0);
    nigh_store_relaxed(&pair->reading, 0);
    nigh_store_relaxed(&pair->maps, 0);
    nigh_store_relaxed(&pair->ended, 0);
    nigh_store_relaxed(&pair->asks, !(context->guard & NIGH_GUARD_THREADS));
    for (unsigned i = 0; i < NIGH_OFFERS; i++) {
        nigh_store_relaxed(&pair->offered[i], 0);
        nigh_store_relaxed(&pair->helped[i], 0);
    }
    nigh_store_relaxed(&pair->closed, (nigh_load_relaxed(&pair->closed) + 1) & ~1u);
    nigh_store_relaxed(&pair->cold, cold);
    if (cold)
        nigh_store_relaxed(&nigh_arena_state(&context->arena)->cold, 1);
}

int nigh_endpoint_create(struct nigh_context *context, const struct nigh_identity *who,
                         struct nigh_endpoint **out)
{
    struct nigh_endpoint *endpoint =
        aligned_alloc(NIGH_LINE, (sizeof(*endpoint) + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE);
    int rc = -ENOMEM;

    if (!endpoint)
        return rc;
    memset(endpoint, 0, sizeof(*endpoint));
    rc = take_index(context, &endpoint->index);
    if (rc)
        goto free_memory;
    endpoint->pair = nigh_arena_pair(&context->arena, endpoint->index);
    if (!endpoint->pair) {
        rc = -ENOMEM;
        goto free_index;
    }
    rc = nigh_window_create(context->config.ring_by_load ? NIGH_RING_CROWDED : context->config.ring_slots,
                            &endpoint->window);
    if (rc) {
        rc = rc == -EMFILE ? rc : -ENOMEM; /* memfd and seals were to be had when the context was opened */
        goto free_index;
    }
    reset_pair(context, endpoint->pair, context->hot_count == NIGH_HOT_MAX);
    nigh_life_hold(context->life, endpoint->index);
    endpoint->context = context;
    endpoint->state = NIGH_CONNECTING;
    endpoint->job = who->job;
    endpoint->rank = who->rank;
    endpoint->incarnation = who->incarnation;
    endpoint->source = who->job == context->config.meeting ? who->rank : NIGH_SOURCE_NONE;
    nigh_queue_clear(&endpoint->queue);
    nigh_queue_clear(&endpoint->flow);
    nigh_queue_clear(&endpoint->waiting);
    endpoint->rx.credit = &endpoint->pair->consumed;
    nigh_plan_open(endpoint);
    context->by_index[endpoint->index] = endpoint;
    endpoint->next_all = context->all;
    endpoint->link_all = &context->all;
    if (context->all)
        context->all->link_all = &endpoint->next_all;
    context->all = endpoint;
    nigh_peers_insert(&context->peers, endpoint);
    context->endpoint_count++;
    *out = endpoint;
    return 0;

free_index:
    nigh_endpoint_give_index(context, endpoint->index);
free_memory:
    free(endpoint);
    return rc;
}

int nigh_endpoint_hold(struct nigh_endpoint *endpoint)
{
    if (!endpoint->held)
        endpoint->held = calloc(NIGH_CHUNKS_HELD_MAX, sizeof(*endpoint->held));
    return endpoint->held ? 0 : -ENOMEM;
}

/* Where the program has closed our descriptors the process is asked for its nonce: its number may be another's by now. */
bool nigh_endpoint_lives(const struct nigh_endpoint *endpoint)
{
    const struct nigh_rendezvous *rendezvous = endpoint->context->rendezvous;
    uint64_t seen;
    int rc;

    if (!nigh_rendezvous_is_lost(rendezvous))
        return nigh_rendezvous_lives(rendezvous, endpoint);
    rc = nigh_cma_read(endpoint->pid, &seen, endpoint->view.layout.nonce_address, sizeof(seen));
    return rc ? rc == -EPERM || rc == -ENOSYS : seen == endpoint->incarnation;
}

/* A number that is another's by now is told by the nonce, if that could be read before. */
bool nigh_endpoint_ended(const struct nigh_endpoint *endpoint)
{
    bool reads = nigh_load_relaxed(&endpoint->pair->reading) == 1;
    uint64_t seen;
    int rc = nigh_cma_read(endpoint->pid, &seen, endpoint->view.layout.nonce_address, sizeof(seen));

    if (reads && (rc == -EFAULT || (!rc && seen != endpoint->incarnation)))
        return true;
    return nigh_liveness_gone(endpoint->pid);
}

void nigh_endpoint_release(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    nigh_rendezvous_forget(context->rendezvous, endpoint);
    nigh_progress_forget(endpoint);
    nigh_large_reclaim(endpoint, true);
    nigh_share_reclaim(endpoint);
    nigh_shuttle_close(endpoint);
    nigh_device_peer_close(endpoint);
    nigh_window_close(&endpoint->window, &context->arena); /* the peer may go on reading what it has mapped */
    nigh_count_tally(endpoint);
    free(endpoint->met);
    nigh_ids_destroy(&endpoint->out);
    nigh_ids_destroy(&endpoint->in);
    free(endpoint->held);
    if (!endpoint->attached || endpoint->self)
        return;
    nigh_lookouts_forget(context->lookouts, endpoint->peer_life);
    nigh_crowd_remove(&context->crowd);
    nigh_context_crowd(context);
    nigh_window_unmap(&endpoint->theirs);
    nigh_bell_close(&endpoint->bell);
    nigh_view_unmap(&endpoint->view);
    nigh_program_unmap(&endpoint->program);
}

static void free_bare(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    nigh_progress_forget(endpoint);
    free(endpoint->last_note);
    nigh_endpoint_give_numbers(endpoint);
    context->aside_count -= endpoint->aside;
}

void nigh_endpoint_free(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    if (endpoint->bare) {
        free_bare(endpoint);
    } else {
        nigh_endpoint_release(endpoint);
        nigh_endpoint_give_index(context, endpoint->index);
    }
    *endpoint->link_all = endpoint->next_all;
    if (endpoint->next_all)
        endpoint->next_all->link_all = endpoint->link_all;
    nigh_peers_remove(endpoint);
    context->endpoint_count--;
    free(endpoint);
}
