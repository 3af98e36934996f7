/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/import.c - see import.h. */
#include "cuda_ipc/import.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct nigh_cuda_peer {
    struct nigh_cuda *cuda;
    pthread_mutex_t importing; /* before `lock`: one thread opens, others that want the same find it then */
    pthread_mutex_t lock;
    struct nigh_cuda_mapping *first; /* most recently used first; those being closed, too */
    uint32_t mappings, idle, idle_max;
    bool self, closed;
};

/* ---- giving up ----------------------------------------------------------------------------------------- */

static void free_peer(struct nigh_cuda_peer *peer)
{
    pthread_mutex_destroy(&peer->importing);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

/* The lock is held. */
static void unlink_mapping(struct nigh_cuda_peer *peer, struct nigh_cuda_mapping *mapping)
{
    struct nigh_cuda_mapping **link = &peer->first;

    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    peer->mappings--;
}

static void free_mapping(struct nigh_cuda_mapping *mapping)
{
    free(mapping->wire);
    free(mapping);
}

/* The lock is held. Closes one that does not wait for the device, or has been waited for. */
static void finish(struct nigh_cuda_peer *peer, struct nigh_cuda_mapping *mapping)
{
    unlink_mapping(peer, mapping);
    free_mapping(mapping);
    nigh_cuda_count(peer->cuda, &peer->cuda->counts.closed);
}

/* On the closer's thread. */
static void close_late(struct nigh_cuda_job *job)
{
    struct nigh_cuda_mapping *mapping = (struct nigh_cuda_mapping *)job; /* its first member */
    struct nigh_cuda_peer *peer = mapping->peer;
    bool last;

    nigh_mapping_close(mapping);
    pthread_mutex_lock(&peer->lock);
    finish(peer, mapping);
    last = peer->closed && !peer->mappings;
    pthread_mutex_unlock(&peer->lock);
    if (last)
        free_peer(peer);
}

/* The lock is held, and nobody uses it. */
static void give_up(struct nigh_cuda_peer *peer, struct nigh_cuda_mapping *mapping)
{
    if (mapping->closing)
        return;
    peer->idle -= !mapping->stale;
    mapping->stale = true;
    if (nigh_mapping_waits(mapping)) {
        mapping->closing = true;
        mapping->job.run = close_late;
        nigh_cuda_closer_add(&peer->cuda->closer, &mapping->job);
        return;
    }
    nigh_mapping_close(mapping);
    finish(peer, mapping);
}

/* The lock is held. Not found any more; given up at once or when its last user puts it. */
static void make_stale(struct nigh_cuda_peer *peer, struct nigh_cuda_mapping *mapping)
{
    if (!mapping->uses)
        give_up(peer, mapping);
    else
        mapping->stale = true;
}

/* The lock is held. */
static void evict(struct nigh_cuda_peer *peer)
{
    while (peer->idle > peer->idle_max) {
        struct nigh_cuda_mapping *oldest = NULL;

        for (struct nigh_cuda_mapping *mapping = peer->first; mapping; mapping = mapping->next)
            if (!mapping->uses && !mapping->stale)
                oldest = mapping;
        nigh_cuda_count(peer->cuda, &peer->cuda->counts.evicted);
        give_up(peer, oldest);
    }
}

void nigh_cuda_import_put(struct nigh_cuda_mapping *mapping)
{
    struct nigh_cuda_peer *peer = mapping->peer;
    bool last;

    pthread_mutex_lock(&peer->lock);
    if (--mapping->uses == 0) {
        if (mapping->stale) {
            give_up(peer, mapping);
        } else {
            peer->idle++;
            evict(peer);
        }
    }
    last = peer->closed && !peer->mappings;
    pthread_mutex_unlock(&peer->lock);
    if (last)
        free_peer(peer);
}

int nigh_cuda_import_drop(struct nigh_cuda_peer *peer, uint64_t number)
{
    struct nigh_cuda_mapping *mapping, *next;

    pthread_mutex_lock(&peer->lock);
    for (mapping = peer->first; mapping; mapping = next) {
        next = mapping->next;
        if (mapping->number == number)
            make_stale(peer, mapping);
    }
    pthread_mutex_unlock(&peer->lock);
    return nigh_cuda_import_dropped(peer, number);
}

int nigh_cuda_import_dropped(struct nigh_cuda_peer *peer, uint64_t number)
{
    int rc = 0;

    pthread_mutex_lock(&peer->lock);
    for (const struct nigh_cuda_mapping *mapping = peer->first; mapping; mapping = mapping->next)
        if (mapping->number == number && mapping->stale)
            rc = -EBUSY;
    pthread_mutex_unlock(&peer->lock);
    return rc;
}

bool nigh_cuda_import_is_used(struct nigh_cuda_peer *peer, uint64_t number)
{
    bool used = false;

    pthread_mutex_lock(&peer->lock);
    for (const struct nigh_cuda_mapping *mapping = peer->first; mapping; mapping = mapping->next)
        used |= mapping->number == number && mapping->uses;
    pthread_mutex_unlock(&peer->lock);
    return used;
}

/* ---- finding ------------------------------------------------------------------------------------------- */

/* One context of a device may open a handle, and what it has opened serves all contexts of the device. */
static bool serves(const struct nigh_cuda_mapping *mapping, const struct nigh_cuda_context *context,
                   uint64_t number)
{
    return mapping->number == number && !mapping->stale && mapping->context->ordinal == context->ordinal &&
           (mapping->context == context || !nigh_cuda_context_is_gone(mapping->context));
}

/* The lock is held. */
static struct nigh_cuda_mapping *find(struct nigh_cuda_peer *peer, const struct nigh_cuda_context *context,
                                      uint64_t number)
{
    struct nigh_cuda_mapping **link = &peer->first, *mapping;

    while ((mapping = *link) && !serves(mapping, context, number))
        link = &mapping->next;
    if (!mapping)
        return NULL;
    *link = mapping->next; /* to the front */
    mapping->next = peer->first;
    peer->first = mapping;
    peer->idle -= !mapping->uses;
    mapping->uses++;
    return mapping;
}

int nigh_cuda_import_find(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                          struct nigh_cuda_mapping **out)
{
    struct nigh_cuda_mapping *mapping;

    pthread_mutex_lock(&peer->lock);
    mapping = find(peer, context, number);
    pthread_mutex_unlock(&peer->lock);
    if (!mapping)
        return -ENOENT;
    *out = mapping;
    return 0;
}

int nigh_cuda_import_at(const struct nigh_cuda_mapping *mapping, uint64_t offset, uint64_t bytes,
                        nigh_cuda_ptr *out)
{
    if (offset > mapping->bytes || bytes > mapping->bytes - offset)
        return -EPROTO;
    *out = mapping->at + offset;
    return 0;
}

/* ---- importing ----------------------------------------------------------------------------------------- */

/* Both describe some of the same addresses, with different memory behind them. */
static bool contradict(const struct nigh_cuda_wire *one, const struct nigh_cuda_wire *other)
{
    for (uint32_t i = 0; i < one->segments; i++)
        for (uint32_t j = 0; j < other->segments; j++) {
            const struct nigh_cuda_wire_segment *a = &one->segment[i], *b = &other->segment[j];

            if (a->base < b->base + b->bytes && b->base < a->base + a->bytes && a->buffer_id != b->buffer_id)
                return true;
        }
    return false;
}

/* What the exporter has freed, whether it said so or not. */
static void forget_older(struct nigh_cuda_peer *peer, const struct nigh_cuda_wire *wire)
{
    struct nigh_cuda_mapping *mapping, *next;

    pthread_mutex_lock(&peer->lock);
    for (mapping = peer->first; mapping; mapping = next) {
        next = mapping->next;
        if (contradict(mapping->wire, wire))
            make_stale(peer, mapping);
    }
    pthread_mutex_unlock(&peer->lock);
}

/* Whether one of ours that is on its way out may be what the driver means. */
static bool any_stale(struct nigh_cuda_peer *peer)
{
    const struct nigh_cuda_mapping *mapping;
    bool any = false;

    pthread_mutex_lock(&peer->lock);
    for (mapping = peer->first; mapping; mapping = mapping->next)
        any |= mapping->stale;
    pthread_mutex_unlock(&peer->lock);
    return any;
}

static int check(const struct nigh_cuda_peer *peer, const struct nigh_cuda_wire *wire, uint32_t count,
                 enum nigh_cuda_reason *why)
{
    const struct nigh_cuda *cuda = peer->cuda;

    if (peer->self)
        return 0;
    if (count != nigh_cuda_record_fds(wire)) {
        nigh_log(NIGH_LOG_WARN, "a peer sent %u descriptors with device memory of %u", count,
                 nigh_cuda_record_fds(wire));
        return -EPROTO;
    }
    *why = wire->reason;
    if (wire->way == NIGH_CUDA_STAGED)
        return -ENOTSUP;
    *why = NIGH_CUDA_WHY_PID_NAMESPACE;
    if (wire->way == NIGH_CUDA_LEGACY && wire->pid_space && cuda->pid_space &&
        wire->pid_space != cuda->pid_space)
        return -ENOTSUP;
    return 0;
}

static int open_mapping(struct nigh_cuda_peer *peer, struct nigh_cuda_mapping *mapping, const int *fds,
                        enum nigh_cuda_reason *why)
{
    /* Asked before, too: the closer may end with one just behind the driver's refusal. */
    bool stale = any_stale(peer);
    int rc = nigh_mapping_open(mapping, fds, why);

    if (rc == -EPROTO)
        nigh_log(NIGH_LOG_WARN, "a peer's device memory of %" PRIu64 " bytes (%s) is none, or was freed",
                 mapping->bytes, nigh_cuda_way_name(mapping->wire->way));
    if (rc != -EALREADY)
        return rc;
    nigh_cuda_count(peer->cuda, &peer->cuda->counts.remapped);
    *why = NIGH_CUDA_WHY_CLASH;
    return stale || any_stale(peer) ? -EAGAIN : -ENOTSUP;
}

static int make(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                struct nigh_cuda_wire *wire, const int *fds, struct nigh_cuda_mapping **out,
                enum nigh_cuda_reason *why)
{
    struct nigh_cuda_mapping *mapping = nigh_os.calloc(1, sizeof(*mapping));
    int rc;

    if (!mapping)
        return -ENOMEM;
    mapping->peer = peer;
    mapping->context = context;
    mapping->wire = wire;
    mapping->number = number;
    mapping->self = peer->self;
    mapping->uses = 1;
    rc = open_mapping(peer, mapping, fds, why);
    if (rc) {
        free(mapping);
        return rc;
    }
    pthread_mutex_lock(&peer->lock);
    mapping->next = peer->first;
    peer->first = mapping;
    peer->mappings++;
    pthread_mutex_unlock(&peer->lock);
    nigh_cuda_count(peer->cuda, &peer->cuda->counts.imported);
    *out = mapping;
    return 0;
}

static int read_and_make(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                         const void *record, size_t bytes, const int *fds, uint32_t count,
                         struct nigh_cuda_mapping **out, enum nigh_cuda_reason *why)
{
    struct nigh_cuda_wire *wire;
    const char *wrong;
    int rc = nigh_cuda_record_read(record, bytes, &wire, &wrong);

    if (rc == -EPROTO)
        nigh_log(NIGH_LOG_WARN, "a peer's record of device memory, %zu bytes, is wrong: %s", bytes, wrong);
    if (rc)
        return rc;
    forget_older(peer, wire);
    rc = check(peer, wire, count, why);
    if (!rc)
        rc = make(peer, context, number, wire, fds, out, why);
    if (rc)
        free(wire);
    return rc;
}

int nigh_cuda_import(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                     const void *record, size_t bytes, int *fds, uint32_t count,
                     struct nigh_cuda_mapping **out, enum nigh_cuda_reason *why)
{
    int rc;

    *why = NIGH_CUDA_WHY_NONE;
    pthread_mutex_lock(&peer->importing);
    rc = nigh_cuda_import_find(peer, context, number, out);
    if (rc)
        rc = read_and_make(peer, context, number, record, bytes, fds, count, out, why);
    pthread_mutex_unlock(&peer->importing);
    if (!rc)
        *why = NIGH_CUDA_WHY_NONE;
    for (uint32_t i = 0; i < count; i++)
        nigh_os_close(fds[i]);
    return rc;
}

/* ---- peers --------------------------------------------------------------------------------------------- */

int nigh_cuda_peer_open(struct nigh_cuda *cuda, bool self, uint32_t idle_max, struct nigh_cuda_peer **out)
{
    struct nigh_cuda_peer *peer = nigh_os.calloc(1, sizeof(*peer));

    if (!peer)
        return -ENOMEM;
    peer->cuda = cuda;
    peer->self = self;
    peer->idle_max = idle_max;
    pthread_mutex_init(&peer->importing, NULL);
    pthread_mutex_init(&peer->lock, NULL);
    *out = peer;
    return 0;
}

void nigh_cuda_peer_close(struct nigh_cuda_peer *peer)
{
    struct nigh_cuda_mapping *mapping, *next;
    bool last;

    pthread_mutex_lock(&peer->lock);
    for (mapping = peer->first; mapping; mapping = next) {
        next = mapping->next;
        make_stale(peer, mapping);
    }
    peer->closed = true;
    last = !peer->mappings;
    pthread_mutex_unlock(&peer->lock);
    if (last)
        free_peer(peer);
}
