/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/peers.c - the table of endpoints by job and rank: a job of N connects N times, and is greeted
 * as often, in each of its processes. */
#include "plugin/peers.h"
#include <errno.h>
#include <stdlib.h>

#define BUCKETS_MOST 4096u /* with more peers than that a few are looked at */

int nigh_peers_create(struct nigh_peers *peers, uint32_t peers_max)
{
    uint32_t size = 16;

    while (size < peers_max && size < BUCKETS_MOST)
        size *= 2;
    peers->buckets = calloc(size, sizeof(struct nigh_endpoint *));
    peers->aside = calloc(size, sizeof(struct nigh_endpoint *));
    if (!peers->buckets || !peers->aside) {
        nigh_peers_destroy(peers);
        return -ENOMEM;
    }
    peers->mask = size - 1;
    return 0;
}

void nigh_peers_destroy(struct nigh_peers *peers)
{
    free(peers->buckets);
    free(peers->aside);
    peers->buckets = peers->aside = NULL;
}

/* Ranks are dense, so those of one job never meet but for the size of the table. */
static struct nigh_endpoint **bucket_of(const struct nigh_peers *peers, uint64_t job, uint32_t rank)
{
    return &peers->buckets[((uint32_t)(job * UINT64_C(0x9e3779b97f4a7c15) >> 32) + rank) & peers->mask];
}

/* Random, or 0. */
static struct nigh_endpoint **aside_of(const struct nigh_peers *peers, uint64_t incarnation)
{
    return &peers->aside[incarnation & peers->mask];
}

static void insert(struct nigh_endpoint **bucket, struct nigh_endpoint *endpoint)
{
    endpoint->next_alike = *bucket;
    endpoint->link_alike = bucket;
    if (*bucket)
        (*bucket)->link_alike = &endpoint->next_alike;
    *bucket = endpoint;
}

void nigh_peers_insert(struct nigh_peers *peers, struct nigh_endpoint *endpoint)
{
    insert(bucket_of(peers, endpoint->job, endpoint->rank), endpoint);
}

void nigh_peers_remove(struct nigh_endpoint *endpoint)
{
    *endpoint->link_alike = endpoint->next_alike;
    if (endpoint->next_alike)
        endpoint->next_alike->link_alike = endpoint->link_alike;
}

void nigh_peers_set_aside(struct nigh_peers *peers, struct nigh_endpoint *endpoint)
{
    nigh_peers_remove(endpoint);
    insert(aside_of(peers, endpoint->incarnation), endpoint);
}

static bool is(const struct nigh_endpoint *endpoint, const struct nigh_identity *who)
{
    if (endpoint->job != who->job || endpoint->rank != who->rank)
        return false;
    return !endpoint->incarnation || !who->incarnation || endpoint->incarnation == who->incarnation;
}

static bool lives(const struct nigh_endpoint *endpoint)
{
    return !endpoint->gone && endpoint->state < NIGH_PEER_CLOSED &&
           !(endpoint->attached && nigh_endpoint_left(endpoint));
}

struct nigh_endpoint *nigh_peers_find(const struct nigh_peers *peers, const struct nigh_identity *who)
{
    struct nigh_endpoint *endpoint = *bucket_of(peers, who->job, who->rank);

    while (endpoint && !(is(endpoint, who) && lives(endpoint)))
        endpoint = endpoint->next_alike;
    return endpoint;
}

static struct nigh_endpoint *find_left(struct nigh_endpoint *endpoint, const struct nigh_identity *who)
{
    while (endpoint && !(is(endpoint, who) && endpoint->incarnation == who->incarnation && !endpoint->gone &&
                         (endpoint->attached || endpoint->bare) && !lives(endpoint)))
        endpoint = endpoint->next_alike;
    return endpoint;
}

struct nigh_endpoint *nigh_peers_find_left(const struct nigh_peers *peers, const struct nigh_identity *who)
{
    struct nigh_endpoint *endpoint = find_left(*bucket_of(peers, who->job, who->rank), who);

    return endpoint ? endpoint : find_left(*aside_of(peers, who->incarnation), who);
}

static bool reads(const struct nigh_endpoint *endpoint, const struct nigh_identity *who, int window_fd)
{
    while (endpoint && !((endpoint->attached || endpoint->bare) && is(endpoint, who) &&
                         nigh_window_is(&endpoint->theirs, window_fd)))
        endpoint = endpoint->next_alike;
    return endpoint != NULL;
}

bool nigh_peers_reads(const struct nigh_peers *peers, const struct nigh_identity *who, int window_fd)
{
    return reads(*bucket_of(peers, who->job, who->rank), who, window_fd) ||
           reads(*aside_of(peers, who->incarnation), who, window_fd);
}
