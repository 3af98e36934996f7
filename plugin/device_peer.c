/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_peer.c - see device_peer.h. */
#include "plugin/device_peer.h"
#include "cuda_ipc/import.h"
#include "plugin/context.h"
#include "plugin/progress.h"
#include "shm/clock.h"
#include "shm/os.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* What has come and no copy has asked for: of more the oldest are closed, and asked for again. */
#define PARCELS_MOST     64u
#define PARCELS_FDS_MOST 512u
static_assert(NIGH_PARCEL_FDS <= PARCELS_FDS_MOST, "one has room alone");
/* Drops whose mappings are being closed; those beyond are closed, too, but not answered, and their owner waits for a second. */
#define DROPS_MOST   64u
#define REFUSED_MOST 64u
#define DROP_NS      UINT64_C(1000000000)

struct parcel {
    struct parcel *next;
    uint64_t number;
    size_t bytes;
    uint32_t count;
    int *fds;
    uint8_t record[];
};

struct refused {
    uint64_t number; /* 0: none */
    int ordinal;
};

struct nigh_device_peer {
    uint64_t *given; /* numbers that the peer has been brought */
    uint32_t given_count, given_room;
    bool deaf; /* it cannot be brought anything */
    bool deaf_logged;
    uint64_t awaited; /* DROPPED of this number; 0: none */
    struct nigh_cuda_peer *imports;
    struct parcel *parcels; /* the newest first */
    uint32_t parcels_count, fds;
    uint64_t drops[DROPS_MOST];
    uint32_t drops_count;
    struct refused refused[REFUSED_MOST]; /* a circular list */
    uint32_t refused_next;
};

static struct nigh_device_peer *peer_of(struct nigh_endpoint *endpoint)
{
    if (!endpoint->device_peer)
        endpoint->device_peer = calloc(1, sizeof(*endpoint->device_peer));
    return endpoint->device_peer;
}

static void free_parcel(struct parcel *parcel)
{
    for (uint32_t i = 0; i < parcel->count; i++)
        nigh_os_close(parcel->fds[i]);
    free(parcel->fds);
    free(parcel);
}

void nigh_device_peer_close(struct nigh_endpoint *endpoint)
{
    struct nigh_device_peer *peer = endpoint->device_peer;

    if (!peer)
        return;
    endpoint->device_peer = NULL;
    while (peer->parcels) {
        struct parcel *parcel = peer->parcels;

        peer->parcels = parcel->next;
        free_parcel(parcel);
    }
    if (peer->imports)
        nigh_cuda_peer_close(peer->imports);
    free(peer->given);
    free(peer);
}

/* ---- the owner ---- */

static uint32_t given_at(const struct nigh_device_peer *peer, uint64_t number)
{
    uint32_t at = 0;

    while (at < peer->given_count && peer->given[at] != number)
        at++;
    return at;
}

bool nigh_device_peer_has(const struct nigh_endpoint *endpoint, uint64_t number)
{
    const struct nigh_device_peer *peer = endpoint->device_peer;

    return peer && given_at(peer, number) < peer->given_count;
}

static int reserve_given(struct nigh_device_peer *peer)
{
    uint32_t room = peer->given_room ? peer->given_room * 2 : 16;
    uint64_t *given;

    if (peer->given_count < peer->given_room)
        return 0;
    given = realloc(peer->given, room * sizeof(*given));
    if (!given)
        return -ENOMEM;
    peer->given = given;
    peer->given_room = room;
    return 0;
}

int nigh_device_peer_bring(struct nigh_endpoint *endpoint, const struct nigh_parcel *parcel)
{
    const struct nigh_identity to = {
        .job = endpoint->job, .incarnation = endpoint->incarnation, .rank = endpoint->rank};
    struct nigh_context *context = endpoint->context;
    struct nigh_device_peer *peer = peer_of(endpoint);
    int rc = peer ? reserve_given(peer) : -ENOMEM;

    if (rc)
        return rc;
    if (peer->deaf)
        return -ECONNREFUSED;
    rc = nigh_rendezvous_bring(context->rendezvous, &to, parcel);
    if (!rc) {
        peer->given[peer->given_count++] = parcel->number;
    } else if (rc != -EAGAIN) {
        peer->deaf = rc != -EMFILE; /* which may pass */
        if (!peer->deaf_logged)
            nigh_log(rc == -ECONNREFUSED ? NIGH_LOG_INFO : NIGH_LOG_WARN, /* it has left, mostly */
                     "rank %u: device memory cannot be handed to rank %d, and is staged through the host: %s",
                     context->config.rank, (int)endpoint->rank, strerror(-rc));
        peer->deaf_logged = true;
    }
    return rc;
}

void nigh_device_peer_lacks(struct nigh_endpoint *endpoint, uint64_t number)
{
    struct nigh_device_peer *peer = endpoint->device_peer;
    uint32_t at = peer ? given_at(peer, number) : 0;

    if (peer && at < peer->given_count)
        peer->given[at] = peer->given[--peer->given_count];
}

void nigh_device_peer_dropped(struct nigh_endpoint *endpoint, uint64_t number)
{
    if (endpoint->device_peer && endpoint->device_peer->awaited == number)
        endpoint->device_peer->awaited = 0;
}

static bool is_awaited(const struct nigh_context *context)
{
    for (const struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (endpoint->state == NIGH_READY && endpoint->device_peer && endpoint->device_peer->awaited)
            return true;
    return false;
}

static void give_up(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all) {
        if (!endpoint->device_peer || !endpoint->device_peer->awaited)
            continue;
        endpoint->device_peer->awaited = 0;
        if (endpoint->state == NIGH_READY)
            nigh_log(
                NIGH_LOG_WARN,
                "rank %u: rank %d (process %d) has not closed device memory of ours that is deregistered, "
                "for %u s: it makes no progress, or holds what it was lent of it; its CUDA driver may still "
                "map "
                "that memory",
                context->config.rank, (int)endpoint->rank, endpoint->pid, (unsigned)(DROP_NS / 1000000000));
    }
}

void nigh_device_peer_take_back(struct nigh_endpoint *endpoint, uint64_t number, bool wait)
{
    if (!nigh_device_peer_has(endpoint, number))
        return;
    nigh_device_peer_lacks(endpoint, number);
    if (endpoint->state != NIGH_READY || endpoint->gone)
        return;
    if (wait)
        endpoint->device_peer->awaited = number;
    nigh_link_answer(endpoint, NIGH_K_DROP, 0, number, 0, NULL, 0);
}

void nigh_device_peers_drop(struct nigh_context *context, uint64_t number, bool wait)
{
    uint64_t until = nigh_clock_ns() + DROP_NS;

    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        nigh_device_peer_take_back(endpoint, number, wait);
    if (!wait)
        return;
    while (is_awaited(context) && nigh_clock_ns() < until)
        if (!nigh_progress_all(context))
            sched_yield();
    give_up(context);
}

/* ---- the peer ---- */

static struct nigh_endpoint *sender_of(struct nigh_context *context, const struct nigh_identity *from,
                                       int pid)
{
    struct nigh_endpoint *endpoint = nigh_peers_find(&context->peers, from);

    if (!endpoint || !endpoint->attached || endpoint->state != NIGH_READY ||
        endpoint->incarnation != from->incarnation || endpoint->pid != pid)
        return NULL;
    return endpoint;
}

static struct parcel *copy_of(const struct nigh_parcel *parcel)
{
    struct parcel *copy = malloc(sizeof(*copy) + parcel->bytes);

    if (!copy)
        return NULL;
    *copy = (struct parcel){.number = parcel->number, .bytes = parcel->bytes, .count = parcel->count};
    if (parcel->count) {
        copy->fds = malloc(parcel->count * sizeof(*copy->fds));
        if (!copy->fds) {
            free(copy);
            return NULL;
        }
        memcpy(copy->fds, parcel->fds, parcel->count * sizeof(*copy->fds));
    }
    memcpy(copy->record, parcel->record, parcel->bytes);
    return copy;
}

static bool has_room(const struct nigh_device_peer *peer, uint32_t fds)
{
    return peer->parcels_count < PARCELS_MOST && fds <= PARCELS_FDS_MOST - peer->fds;
}

static struct parcel *take(struct nigh_device_peer *peer, uint64_t number)
{
    struct parcel **link = &peer->parcels, *parcel;

    while ((parcel = *link) && parcel->number != number)
        link = &parcel->next;
    if (!parcel)
        return NULL;
    *link = parcel->next;
    peer->parcels_count--;
    peer->fds -= parcel->count;
    return parcel;
}

static void drop_parcels(struct nigh_device_peer *peer, uint64_t number)
{
    struct parcel *parcel;

    while ((parcel = take(peer, number)) != NULL)
        free_parcel(parcel);
}

/* The oldest go: the newest may be what was asked for again. */
static void make_room(struct nigh_device_peer *peer, uint32_t fds)
{
    while (!has_room(peer, fds)) {
        const struct parcel *oldest = peer->parcels;

        while (oldest->next)
            oldest = oldest->next;
        drop_parcels(peer, oldest->number);
    }
}

void nigh_device_peer_brought(struct nigh_context *context, const struct nigh_identity *from, int pid,
                              const struct nigh_parcel *parcel)
{
    struct nigh_endpoint *endpoint = sender_of(context, from, pid);
    struct nigh_device_peer *peer = endpoint && parcel->number ? peer_of(endpoint) : NULL;
    struct parcel *copy = NULL;

    if (peer) {
        drop_parcels(peer, parcel->number);
        make_room(peer, parcel->count);
        copy = copy_of(parcel);
    }
    if (!copy) {
        for (uint32_t i = 0; i < parcel->count; i++)
            nigh_os_close(parcel->fds[i]);
        return;
    }
    copy->next = peer->parcels;
    peer->parcels = copy;
    peer->parcels_count++;
    peer->fds += copy->count;
}

static bool is_refused(const struct nigh_device_peer *peer, uint64_t number, int ordinal)
{
    for (uint32_t i = 0; i < REFUSED_MOST; i++)
        if (peer->refused[i].number == number && peer->refused[i].ordinal == ordinal)
            return true;
    return false;
}

static void refuse(struct nigh_endpoint *endpoint, uint64_t number, int ordinal, enum nigh_cuda_reason why)
{
    struct nigh_device_peer *peer = endpoint->device_peer;

    peer->refused[peer->refused_next] = (struct refused){.number = number, .ordinal = ordinal};
    peer->refused_next = (peer->refused_next + 1) % REFUSED_MOST;
    nigh_log(NIGH_LOG_INFO, "rank %u: device memory of rank %d is staged through the host: %s",
             endpoint->context->config.rank, (int)endpoint->rank, nigh_cuda_reason_text(why));
}

static int import(struct nigh_endpoint *endpoint, struct nigh_cuda_context *cuda, struct parcel *parcel,
                  struct nigh_cuda_mapping **out)
{
    enum nigh_cuda_reason why;
    int rc = nigh_cuda_import(endpoint->device_peer->imports, cuda, parcel->number, parcel->record,
                              parcel->bytes, parcel->fds, parcel->count, out, &why);

    if (rc == -ENOTSUP)
        refuse(endpoint, parcel->number, cuda->ordinal, why);
    parcel->count = 0; /* they are closed */
    free_parcel(parcel);
    return rc == -EAGAIN ? -ESTALE : rc;
}

int nigh_device_peer_find(struct nigh_endpoint *endpoint, struct nigh_cuda_context *cuda, uint64_t number,
                          struct nigh_cuda_mapping **out)
{
    struct nigh_device_peer *peer = peer_of(endpoint);
    struct parcel *parcel;
    int rc = 0;

    if (peer && !peer->imports)
        rc = nigh_cuda_peer_open(cuda->cuda, false, NIGH_CUDA_IDLE_MAX, &peer->imports);
    if (!peer || rc)
        return -ENOMEM;
    rc = nigh_cuda_import_find(peer->imports, cuda, number, out);
    if (rc != -ENOENT)
        return rc;
    if (is_refused(peer, number, cuda->ordinal))
        return -ENOTSUP;
    parcel = take(peer, number);
    return parcel ? import(endpoint, cuda, parcel, out) : -EAGAIN;
}

static void tell_dropped(struct nigh_endpoint *endpoint, uint64_t number)
{
    nigh_link_answer(endpoint, NIGH_K_DROPPED, 0, number, 0, NULL, 0);
}

void nigh_device_peer_drop(struct nigh_endpoint *endpoint, uint64_t number)
{
    struct nigh_device_peer *peer = endpoint->device_peer;

    if (peer)
        drop_parcels(peer, number);
    if (!peer || !peer->imports || !nigh_cuda_import_drop(peer->imports, number)) {
        tell_dropped(endpoint, number);
    } else if (peer->drops_count < DROPS_MOST) {
        peer->drops[peer->drops_count++] = number;
        endpoint->context->devices.scarce = true;
        nigh_progress_busy(endpoint);
    }
}

/* Who sleeps would not see that a mapping is closed. What is used is not: the host may hold it for as long as it likes. */
bool nigh_device_peer_progress(struct nigh_endpoint *endpoint)
{
    struct nigh_device_peer *peer = endpoint->device_peer;
    uint32_t left = 0;

    for (uint32_t i = 0; i < peer->drops_count; i++) {
        uint64_t number = peer->drops[i];

        if (!nigh_cuda_import_dropped(peer->imports, number)) {
            tell_dropped(endpoint, number);
            continue;
        }
        peer->drops[left++] = number;
        endpoint->context->devices.scarce |= !nigh_cuda_import_is_used(peer->imports, number);
    }
    peer->drops_count = left;
    return left != 0;
}

void nigh_device_peer_released(struct nigh_endpoint *endpoint)
{
    if (!endpoint->device_peer || !endpoint->device_peer->drops_count)
        return;
    endpoint->context->devices.scarce = true;
    nigh_progress_busy(endpoint);
}
