/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/context.c - open and close: what a presence in a job is made of, put together and taken apart. */
#include "plugin/context.h"
#include "plugin/collective.h"
#include "plugin/fork.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "shm/heap.h"
#include "shm/notifier.h"
#include "shm/os.h"
#include "shm/rendezvous.h"
#include "shm/service.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static int open_incarnation(struct nigh_context *context)
{
    do {
        if (nigh_os.getrandom(&context->incarnation, sizeof(context->incarnation), 0) !=
            (ssize_t)sizeof(context->incarnation))
            return -ENOSYS;
    } while (!context->incarnation);
    return 0;
}

static int open_memory(struct nigh_context *context)
{
    struct nigh_arena_config arena = {
        .incarnation = context->incarnation,
        .peers_max = context->config.peers_max,
        .pool_bytes = context->config.pool_bytes,
        .heap_bytes = context->config.heap_bytes,
        .share_bytes = NIGH_SHARES_BYTES,
        .nonce_address = (uintptr_t)&context->incarnation,
        .job = context->config.job,
        .rank = context->config.rank,
        .ranks = context->config.ranks,
        .huge = context->config.huge,
        .log = &context->log,
    };
    int rc;

    nigh_program_ask(&arena.program);
    nigh_program_watch_open(&arena.program, &context->program_watch);
    rc = nigh_arena_create(&arena, &context->arena);
    if (rc)
        return rc;
    context->counters = nigh_arena_counters(&context->arena);
    rc = nigh_bell_create(context->config.peers_max, &context->bell);
    if (rc)
        return rc;
    rc = nigh_pool_create(&context->arena, context->config.span_bytes, &context->pool);
    if (rc)
        return rc;
    context->hint_summary = &context->bell.shared->summary;
    rc = nigh_heap_create(&context->arena, &context->heap);
    return rc ? rc : nigh_shares_open(context);
}

/*
 * Chunks are as good as their caches. Two ranks with a CPU each do best with a span that the reader's cache has let go
 * of when it is written again. Where four ranks share one cache that span times four lies in memory: 8 ranks on 2 CPUs,
 * allreduce of 32 KiB over Open MPI with 2 MiB 76 us, 512 and 256 KiB 62, 128 KiB 64; broadcast of 256 KiB with 256 and
 * 128 KiB a third slower than with 512.
 */
#define CROWDED_SPAN (512u * 1024)

void nigh_context_crowd(struct nigh_context *context)
{
    uint64_t span = context->config.span_bytes;

    if (context->config.span_by_load && context->crowd.full && span > CROWDED_SPAN)
        span = CROWDED_SPAN;
    nigh_pool_set_span(&context->pool, span);
    nigh_context_settle(context);
}

static int open_queues(struct nigh_context *context)
{
    int rc = nigh_cq_create(&context->cq, 256);

    if (rc)
        return rc;
    rc = nigh_slab_create(&context->send_ops, sizeof(struct nigh_send_op), 64);
    if (rc)
        return rc;
    rc = nigh_slab_create(&context->recv_ops, sizeof(struct nigh_recv_op), 64);
    if (rc)
        return rc;
    rc = nigh_slab_create(&context->messages, sizeof(struct nigh_message), 64);
    if (rc)
        return rc;
    context->by_index = calloc(context->config.peers_max, sizeof(struct nigh_endpoint *));
    context->index_free = calloc(context->config.peers_max, sizeof(uint32_t));
    if (!context->by_index || !context->index_free)
        return -ENOMEM;
    rc = nigh_peers_create(&context->peers, context->config.peers_max);
    if (rc)
        return rc;
    rc = nigh_match_init(&context->matcher);
    context->has_matcher = !rc;
    return rc;
}

static int open_peers(struct nigh_context *context)
{
    struct nigh_rendezvous_config config = {
        .self = {.job = context->config.meeting,
                 .incarnation = context->incarnation,
                 .rank = context->config.rank},
        .called = context->config.job,
        .peers_max = context->config.peers_max,
        .ranks = context->config.ranks,
        .arena_fd = context->arena.fd,
        .doorbell_fd = context->bell.fd,
        .directory = context->config.directory[0] ? context->config.directory : NULL,
        .events = &nigh_endpoint_events,
        .user = context,
    };
    int rc = nigh_rendezvous_open(&config, &context->rendezvous);

    if (rc)
        return rc;
    nigh_crowd_start(&context->crowd, context->config.ranks);
    nigh_context_crowd(context);
    rc = nigh_life_open((void *)(context->arena.base + context->arena.layout.pairs_off),
                        context->config.peers_max, &context->life);
    if (rc)
        return rc;
    rc = nigh_service_start(nigh_rendezvous_fd(context->rendezvous), &context->bell,
                            nigh_arena_state(&context->arena), context->life, &context->service);
    if (rc)
        return rc;
    context->service_flag = nigh_service_flag(context->service);
    return nigh_lookouts_open(context->service, &context->lookouts);
}

static void destroy_queues(struct nigh_context *context)
{
    if (context->has_matcher)
        nigh_match_destroy(&context->matcher);
    nigh_cq_destroy(&context->cq);
    nigh_slab_destroy(&context->send_ops);
    nigh_slab_destroy(&context->recv_ops);
    nigh_slab_destroy(&context->messages);
    free(context->by_index);
    free(context->index_free);
    nigh_ids_destroy(&context->unread);
    nigh_peers_destroy(&context->peers);
}

/* In reverse order of opening, whatever of it there is. */
static void destroy(struct nigh_context *context)
{
    nigh_lookouts_close(context->lookouts);
    nigh_service_stop(context->service);
    nigh_life_close(context->life);
    if (context->rendezvous)
        nigh_rendezvous_close(context->rendezvous);
    nigh_lents_destroy(&context->lents);
    nigh_regions_destroy(&context->regions);
    destroy_queues(context);
    nigh_early_clear(&context->early);
    nigh_shares_close(context);
    if (context->heap)
        nigh_heap_destroy(context->heap);
    if (context->pool.arena)
        nigh_pool_destroy(&context->pool);
    nigh_bell_close(&context->bell);
    nigh_program_watch_close(&context->program_watch);
    if (context->arena.base)
        nigh_arena_destroy(&context->arena);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

static void open_log(struct nigh_context *context, const struct nigh_open *options)
{
    context->log.write = options->log;
    context->log.data = options->log_data;
    context->log.level = context->config.log_level;
}

/* Before the options were looked at: a struct that is too short to have a log has none. */
static struct nigh_log_sink early_log(const struct nigh_open *options)
{
    struct nigh_log_sink sink = {.level = NIGH_LOG_WARN};

    if (options->size < offsetof(struct nigh_open, log_data) + sizeof(options->log_data))
        return sink;
    sink.write = options->log;
    sink.data = options->log_data;
    return sink;
}

int nigh_context_open(const struct nigh_open *options, struct nigh_context **out)
{
    struct nigh_log_sink early = early_log(options);
    const struct nigh_log_sink *before = nigh_log_use(&early);
    struct nigh_context *context = aligned_alloc(64, (sizeof(*context) + 63) / 64 * 64);
    int rc = -ENOMEM;

    if (!context)
        goto restore;
    memset(context, 0, sizeof(*context));
    context->bell.fd = context->arena.fd = context->program_watch.maps = -1;
    context->vacant.closed = 1;
    pthread_mutex_init(&context->lock, NULL);
    nigh_log_look();
    rc = nigh_fork_handle();
    if (!rc)
        rc = nigh_config_read(options, NULL, &context->config);
    if (!rc) {
        open_log(context, options);
        nigh_log_use(&context->log);
        rc = open_incarnation(context);
    }
    if (!rc)
        rc = open_memory(context);
    if (!rc)
        rc = open_queues(context);
    if (!rc)
        rc = open_peers(context);
    if (!rc)
        nigh_collectives_open(context);
    if (rc) {
        destroy(context);
        goto restore;
    }
    context->guard = context->config.threads ? NIGH_GUARD_THREADS : 0;
    nigh_context_settle(context);
    nigh_fork_watch(context);
    *out = context;

restore:
    nigh_log_use(before);
    return rc;
}

static void leave(struct nigh_endpoint *endpoint)
{
    if (endpoint->gone)
        return;
    nigh_endpoint_abandon(endpoint);
    nigh_endpoint_farewell(endpoint);
}

/* What they have is messages in private memory. */
static void leave_aside(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->aside; endpoint; endpoint = endpoint->next_all)
        nigh_endpoint_abandon(endpoint);
}

int nigh_context_close(struct nigh_context *context)
{
    struct nigh_message *message, *next;

    nigh_log_use(&context->log);
    nigh_context_linger(context);
    nigh_fork_forget(context);
    nigh_lookouts_close(context->lookouts);
    context->lookouts = NULL;
    nigh_service_stop(context->service);
    nigh_notifier_stop(context->notifier);
    context->service = NULL;
    context->notifier = NULL;
    /* Before the goodbyes: who has heard one and finds nobody listening knows that we do not come back. */
    nigh_rendezvous_deafen(context->rendezvous);
    nigh_coll_close(&context->coll);
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        leave(endpoint);
    leave_aside(context);
    nigh_pull_drain(context);
    /* Only now: what is still arriving of them is known to their endpoints until these are left. */
    for (message = context->claimed; message; message = next) {
        next = message->next;
        nigh_message_free(message);
    }
    while (context->all)
        nigh_endpoint_free(context->all);
    while (context->aside)
        nigh_endpoint_free(context->aside);
    destroy(context);
    nigh_log_use(NULL);
    return 0;
}
