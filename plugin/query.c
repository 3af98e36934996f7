/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/query.c - facts about a context, a peer, the paths to it and the machine. Changes nothing. */
#include "plugin/query.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/machine.h"
#include "plugin/refuse.h"
#include "shm/heap.h"
#include "shm/note.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <stdio.h>

int nigh_query_answer(const void *from, uint64_t known, void *out, uint64_t *bytes)
{
    uint64_t copied = known < *bytes ? known : *bytes;

    if (*bytes < sizeof(uint32_t))
        return -ENOSPC;
    memset(out, 0, *bytes);
    memcpy(out, from, copied);
    *bytes = copied;
    return 0;
}

static int query_context(struct nigh_context *context, void *out, uint64_t *bytes)
{
    struct nigh_query_context facts = {
        .size = sizeof(facts),
        .rank = context->config.rank,
        .ranks = context->config.ranks,
        .peers = context->endpoint_count - context->aside_count,
        .job = context->config.job,
        .incarnation = context->incarnation,
        .shared_reserved = context->arena.bytes,
        .shared_committed = nigh_arena_committed(&context->arena) + context->bell.bytes,
        .heap_bytes = context->config.heap_bytes,
        .heap_used = nigh_heap_used(context->heap),
        .inject_bytes = NIGH_INJECT_BYTES,
        .eager_bytes = context->config.eager_bytes,
        .atomic_bytes = NIGH_ATOMIC_BYTES,
        .posted = nigh_match_posted(&context->matcher),
        .unexpected = context->matcher.arrived_count,
        .crowded = context->crowd.full,
    };

    return nigh_query_answer(&facts, sizeof(facts), out, bytes);
}

static int query_endpoint(const struct nigh_endpoint *endpoint, void *out, uint64_t *bytes)
{
    struct nigh_query_endpoint facts = {
        .size = sizeof(facts),
        .state = endpoint->state,
        .rank = endpoint->job == endpoint->context->config.meeting ? endpoint->rank : NIGH_RANK_NONE,
        .pid = endpoint->state == NIGH_CONNECTING && !endpoint->pid
                   ? nigh_rendezvous_reached(endpoint->context->rendezvous, endpoint)
                   : endpoint->pid,
        .source = endpoint->source,
        .queued = endpoint->queue.count,
        .ring_slots = endpoint->tx.slots ? endpoint->tx.mask + 1 : 0,
        .handoff_ns = (uint64_t)endpoint->pace.handoff,
    };

    return nigh_query_answer(&facts, sizeof(facts), out, bytes);
}

static int query_end(const struct nigh_endpoint *endpoint, void *out, uint64_t *bytes)
{
    struct nigh_query_end facts;

    nigh_end_query(endpoint, &facts);
    return nigh_query_answer(&facts, sizeof(facts), out, bytes);
}

static int query_stats(const struct nigh_context *context, void *out, uint64_t *bytes)
{
    const struct nigh_arena_counters *counters = context->counters;
    struct nigh_query_stats facts = {
        .size = sizeof(facts),
        .received = nigh_load_relaxed(&counters->received) + context->received,
        .received_bytes = nigh_load_relaxed(&counters->received_bytes) + context->received_bytes,
        .inline_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_INLINE]),
        .eager_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_EAGER]),
        .chunked_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_CHUNKED]),
        .heap_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_HEAP]),
        .cma_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_CMA]),
        .lend_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_LEND]),
        .put = nigh_load_relaxed(&counters->put),
        .get = nigh_load_relaxed(&counters->get),
        .atomic = nigh_load_relaxed(&counters->atomic),
        .unexpected = nigh_load_relaxed(&counters->unexpected),
        .truncated = nigh_load_relaxed(&counters->truncated),
        .peers_lost = nigh_load_relaxed(&counters->lost),
        .peers_broken = nigh_load_relaxed(&counters->broken),
        .sleeps = nigh_load_relaxed(&counters->sleeps),
        .wakes = nigh_load_relaxed(&counters->wakes),
        .rescues = nigh_load_relaxed(&counters->rescues),
        .ring_full = nigh_load_relaxed(&counters->ring_full),
        .ring_grown = nigh_load_relaxed(&counters->ring_grown),
        .path_changes = nigh_load_relaxed(&counters->path_changes),
        .device_sent = nigh_load_relaxed(&counters->sent[NIGH_PATH_DEVICE]),
    };

    for (unsigned path = 0; path < NIGH_PATHS; path++) {
        facts.sent += nigh_load_relaxed(&counters->sent[path]);
        facts.sent_bytes += nigh_load_relaxed(&counters->sent_bytes[path]);
    }
    for (const struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all) {
        facts.sent += nigh_ring_ones(&endpoint->tx);
        facts.inline_sent += nigh_ring_ones(&endpoint->tx);
        facts.sent_bytes += endpoint->tx.bytes;
    }
    return nigh_query_answer(&facts, sizeof(facts), out, bytes);
}

static void path_row(struct nigh_query_path *row, uint64_t from, const char *path)
{
    memset(row, 0, sizeof(*row));
    row->size = sizeof(*row);
    row->bytes_from = from;
    snprintf(row->path, sizeof(row->path), "%s", path);
}

/* Of one by itself. */
static bool is_in_place(const struct nigh_endpoint *endpoint, uint64_t bytes)
{
    return nigh_plan_in_place(endpoint, bytes) || nigh_beside_takes(endpoint, bytes);
}

static uint64_t in_place_from(const struct nigh_endpoint *endpoint)
{
    const struct nigh_config *config = &endpoint->context->config;
    uint64_t from = config->beside_from, least = (uint64_t)config->eager_bytes + 1;

    if (!nigh_beside_takes(endpoint, UINT64_MAX))
        return nigh_plan_place_from(endpoint->context);
    return from < least ? least : from;
}

static const char *why_not_cma(const struct nigh_endpoint *endpoint)
{
    const struct nigh_context *context = endpoint->context;

    if (context->crowd.full || context->config.path >= 0 || context->config.beside_from == UINT64_MAX)
        return "allowed, not used: the chunk pipeline is faster on this machine";
    if (context->guard & NIGH_GUARD_THREADS || !nigh_load_relaxed(endpoint->peer_asks))
        return "allowed, not used: with threads the chunk pipeline is faster, on either side";
    return "allowed, not used: this process may not write the peer's memory, and copying alone is slower";
}

static const char *why_cma(const struct nigh_endpoint *endpoint)
{
    if (nigh_beside_takes(endpoint, UINT64_MAX))
        return "allowed, used for long messages, also shorter ones in a row: each side has a CPU, and copies "
               "half";
    return nigh_plan_prefers_once(endpoint->context)
               ? "allowed, used for long messages, and shorter ones to several peers or both ways: more "
                 "ranks than "
                 "CPUs"
               : "allowed, used for long messages: there are more ranks than CPUs";
}

static void cma_row(const struct nigh_endpoint *endpoint, struct nigh_query_path *row)
{
    /* Relaxed: one word that says all. */
    uint32_t reading = endpoint->attached ? nigh_load_relaxed(endpoint->peer_reading) : 0;

    path_row(row, in_place_from(endpoint), "cma");
    if (!reading)
        snprintf(row->reason, sizeof(row->reason), "not used: %s",
                 endpoint->state < NIGH_PEER_CLOSED ? "not connected yet" : "no longer connected");
    else if (reading > 1)
        snprintf(row->reason, sizeof(row->reason),
                 "refused: the peer cannot read this process's memory (%.50s)", strerror((int)(reading - 1)));
    else if (endpoint->context->config.path == NIGH_PATH_CMA)
        snprintf(row->reason, sizeof(row->reason), "forced by NIGH_PATH");
    else if (is_in_place(endpoint, UINT64_MAX))
        snprintf(row->reason, sizeof(row->reason), "%s", why_cma(endpoint));
    else
        snprintf(row->reason, sizeof(row->reason), "%s", why_not_cma(endpoint));
}

/* Private memory that does not fit the ring. */
static void private_row(const struct nigh_endpoint *endpoint, struct nigh_query_path *row, uint64_t from)
{
    bool in_place = is_in_place(endpoint, from);
    char text[NIGH_PACE_REASON];

    path_row(row, from, in_place ? "cma" : "chunked");
    snprintf(row->reason, sizeof(row->reason), "%.110s",
             !in_place ? nigh_pace_reason(&endpoint->pace, from, text)
             : nigh_beside_takes(endpoint, from)
                 ? "each side copies half, straight from one process to the other"
                 : "the receiver reads it where it lies");
}

/* Powers of two, and where the way changes in between. */
static uint64_t class_after(const struct nigh_endpoint *endpoint, uint64_t from)
{
    uint64_t place_from = in_place_from(endpoint), next = 8192;

    while (next <= from)
        next *= 2;
    return from < place_from && place_from < next && is_in_place(endpoint, place_from) ? place_from : next;
}

/* What private memory of these lengths takes where several peers get it at a time, and in place of chunks. */
static unsigned share_row(const struct nigh_endpoint *endpoint, struct nigh_query_path *row)
{
    uint64_t from = nigh_share_from(endpoint);

    if (!from)
        return 0;
    path_row(row, from, "heap");
    snprintf(
        row->reason, sizeof(row->reason),
        "sent to several peers at a time, or with no shuttle at hand, up to 16 MiB: one copy, which they "
        "read");
    return 1;
}

/* What a program's allocator keeps in a file: nigh/memory.h. */
static unsigned program_row(const struct nigh_endpoint *endpoint, struct nigh_query_path *row)
{
    const struct nigh_arena_header *own = &endpoint->context->arena.layout;
    const void *first = (const void *)(uintptr_t)(own->memory_address + NIGH_PAGE);
    const char *reason =
        "the program's large blocks: the peer has not mapped them, and reads them by the kernel";

    if (!own->memory_fd || !endpoint->attached || endpoint->self)
        return 0;
    if (!nigh_program_holds(own, first, 1))
        reason = "the program's large blocks: its own since it forked, so the peer reads them by the kernel";
    else if (nigh_load_relaxed(endpoint->peer_maps))
        reason = "the program's large blocks: the peer has mapped them, and copies them without the kernel";
    path_row(row, in_place_from(endpoint), "cma");
    snprintf(row->reason, sizeof(row->reason), "%s", reason);
    return 1;
}

static int query_paths(const struct nigh_endpoint *endpoint, void *out, uint64_t *bytes)
{
    const struct nigh_config *config = &endpoint->context->config;
    struct nigh_query_path rows[24];
    unsigned count = 0;

    path_row(&rows[count], 0, "inline");
    snprintf(rows[count++].reason, NIGH_REASON_BYTES, "up to %u bytes fit the message's one cache line",
             NIGH_SLOT_PAYLOAD);
    path_row(&rows[count], NIGH_SLOT_PAYLOAD + 1, "eager");
    snprintf(rows[count++].reason, NIGH_REASON_BYTES, "up to %u bytes follow their header in the ring",
             config->body_bytes);
    for (uint64_t from = config->body_bytes + 1; from <= 16 << 20; from = class_after(endpoint, from))
        private_row(endpoint, &rows[count++], from);
    path_row(&rows[count], config->heap_from, "heap");
    snprintf(rows[count++].reason, NIGH_REASON_BYTES,
             "memory from heap_alloc is read in place by the receiver");
    count += share_row(endpoint, &rows[count]);
    path_row(&rows[count], 0, "lend");
    snprintf(rows[count++].reason, NIGH_REASON_BYTES,
             "post_lend of memory from heap_alloc: nothing is copied");
    cma_row(endpoint, &rows[count++]);
    count += program_row(endpoint, &rows[count]);
    return nigh_query_answer(rows, count * sizeof(rows[0]), out, bytes);
}

static int query_machine(void *out, uint64_t *bytes)
{
    struct nigh_query_machine facts = {.size = sizeof(facts)};

    nigh_machine_query(&facts);
    return nigh_query_answer(&facts, sizeof(facts), out, bytes);
}

/* What the peer's line says stays readable after the peer has ended. */
static int query_note(const struct nigh_context *context, const struct nigh_endpoint *endpoint, void *out,
                      uint64_t *bytes)
{
    const uint8_t *arena = endpoint ? endpoint->view.base : context->arena.base;
    struct nigh_note note;
    int rc;

    if (endpoint && endpoint->bare && endpoint->knew) {
        rc = nigh_endpoint_last_note(endpoint, &note);
        return rc ? rc : nigh_query_answer(&note, sizeof(note), out, bytes);
    }
    if (endpoint && !endpoint->attached)
        return endpoint->state == NIGH_CONNECTING ? -EAGAIN : nigh_endpoint_check(endpoint);
    rc = nigh_note_read((const void *)(arena + NIGH_PAGE + NIGH_NOTE_OFFSET), &note);
    return rc ? rc : nigh_query_answer(&note, sizeof(note), out, bytes);
}

static int refuse(struct nigh_context *context, uint32_t what)
{
    return nigh_refuse(context, -EINVAL,
                       "query: kind %u: 1 to %u are there, and %u, %u, %u and %u need an endpoint", what,
                       NIGH_QUERY_DEVICE_PATHS, NIGH_QUERY_ENDPOINT, NIGH_QUERY_PATHS, NIGH_QUERY_END,
                       NIGH_QUERY_DEVICE_PATHS);
}

int nigh_query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
               uint64_t *bytes)
{
    if (what == NIGH_QUERY_MACHINE)
        return query_machine(out, bytes);
    if (!context)
        return nigh_refuse_missing("query");
    switch (what) {
    case NIGH_QUERY_CONTEXT:
        return query_context(context, out, bytes);
    case NIGH_QUERY_STATS:
        return query_stats(context, out, bytes);
    case NIGH_QUERY_ENDPOINT:
        return endpoint ? query_endpoint(endpoint, out, bytes) : refuse(context, what);
    case NIGH_QUERY_PATHS:
        return endpoint ? query_paths(endpoint, out, bytes) : refuse(context, what);
    case NIGH_QUERY_END:
        return endpoint ? query_end(endpoint, out, bytes) : refuse(context, what);
    case NIGH_QUERY_NOTE:
        return query_note(context, endpoint, out, bytes);
    case NIGH_QUERY_UNEXPECTED:
        return nigh_query_unexpected(context, endpoint, out, bytes);
    case NIGH_QUERY_POSTED:
        return nigh_query_posted(context, endpoint, out, bytes);
    case NIGH_QUERY_DEVICES:
        return nigh_query_devices(context, out, bytes);
    case NIGH_QUERY_DEVICE_PATHS:
        return endpoint ? nigh_query_device_paths(endpoint, out, bytes) : refuse(context, what);
    default:
        return refuse(context, what);
    }
}
