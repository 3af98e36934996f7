/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/peer.c - see peer.h. */
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/complete.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fewer that have ended than that are not worth a look. */
#define LOOK_AT_LEAST 16u
/* Batches of completions that are taken before. */
#define LOOKS 64u

static bool resize(void **table, size_t count, size_t bytes)
{
    void *larger = realloc(*table, count * bytes);

    if (larger)
        *table = larger;
    return larger != NULL;
}

static int grow(struct nigh_fi_ep *ep, size_t count)
{
    size_t more = count - ep->peer_count;

    if (!resize((void **)(void *)&ep->peers, count, sizeof(*ep->peers)) ||
        !resize((void **)(void *)&ep->ended, count, sizeof(*ep->ended)) ||
        !resize((void **)(void *)&ep->connected, count, sizeof(*ep->connected)))
        return -FI_ENOMEM;
    memset(ep->peers + ep->peer_count, 0, more * sizeof(*ep->peers));
    memset(ep->ended + ep->peer_count, 0, more * sizeof(*ep->ended));
    ep->peer_count = count;
    return 0;
}

void nigh_fi_peers_free(struct nigh_fi_ep *ep)
{
    free(ep->peers);
    free(ep->ended);
    free(ep->connected);
    ep->peers = NULL;
    ep->ended = NULL;
    ep->connected = NULL;
    ep->peer_count = ep->connected_count = ep->look_at = 0;
}

/* ---- those that have ended --------------------------------------------------------------------------------- */

static uint8_t error_of(struct nigh_fi_ep *ep, struct nigh_endpoint *peer)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    if (ep->nigh->query(ep->context, peer, NIGH_QUERY_ENDPOINT, &facts, &bytes) ||
        facts.state < NIGH_PEER_CLOSED)
        return 0;
    return facts.state == NIGH_BROKEN ? EPROTO : ECONNRESET;
}

/* Its messages are received before it is forgotten. */
static bool is_unread(struct nigh_fi_ep *ep, struct nigh_endpoint *peer)
{
    struct nigh_query_message message;
    uint64_t bytes = sizeof(message);

    return ep->claimed || ep->nigh->query(ep->context, peer, NIGH_QUERY_UNEXPECTED, &message, &bytes) ||
           bytes;
}

/* What nigh still has to tell of them names them. False: it tells on and on. */
static bool take_all(struct nigh_fi_ep *ep)
{
    int taken = 1;

    for (unsigned i = 0; i < LOOKS && taken > 0; i++)
        taken = nigh_fi_ep_progress(ep);
    return taken == 0;
}

/* Hosts leave addresses in the vector for good. Twice as many as were left by the last look are looked at, so that it costs
 * each connection the same. */
static void forget_ended(struct nigh_fi_ep *ep)
{
    size_t left = 0;

    if (!take_all(ep))
        return;
    for (size_t i = 0; i < ep->connected_count; i++) {
        fi_addr_t address = ep->connected[i];
        struct nigh_endpoint *peer = ep->peers[address];
        uint8_t error = error_of(ep, peer);

        if (!error || is_unread(ep, peer)) {
            ep->connected[left++] = address;
            continue;
        }
        ep->nigh->disconnect(peer);
        ep->peers[address] = NULL;
        ep->ended[address] = error;
    }
    ep->connected_count = left;
    ep->look_at = 2 * left + LOOK_AT_LEAST;
}

/* ---- connecting ---------------------------------------------------------------------------------------------- */

static const char *reason(int rc)
{
    switch (rc) {
    case -EHOSTUNREACH:
        return "it is of another machine, boot or network namespace, and nigh reaches processes of this one "
               "only";
    case -EACCES:
        return "it is of another user";
    case -FI_EADDRNOTAVAIL:
        return "it is not an address of nigh";
    case -ENOSPC:
        return "too many peers: raise NIGH_PEERS_MAX";
    default:
        return strerror(-rc);
    }
}

/* libfabric's code for what is no address. */
static int no_address(int rc)
{
    return rc == -EBADMSG || rc == -EINVAL ? -FI_EADDRNOTAVAIL : rc;
}

static int connect_to(struct nigh_fi_ep *ep, const struct nigh_address *address, uint64_t source,
                      struct nigh_endpoint **out)
{
    struct nigh_connect to = {
        .size = sizeof(to), .rank = NIGH_RANK_NONE, .address = address, .source = source};
    uint64_t job;

    if (nigh_fi_name_read(address, &job)) {
        if (!job)
            return -FI_EADDRNOTAVAIL;
        to.rank = 0;
        to.address = NULL;
        to.job = job;
    }
    return no_address(ep->nigh->connect(ep->context, &to, out));
}

struct nigh_endpoint *nigh_fi_peer_connect(struct nigh_fi_ep *ep, fi_addr_t address, int *rc)
{
    struct nigh_fi_av *av = ep->av;

    *rc = 0;
    if (!ep->context)
        *rc = -FI_EOPBADSTATE;
    else if (!av || address >= av->count || !av->entries[address].used)
        *rc = -FI_EINVAL;
    if (*rc) {
        nigh_fi_log(NIGH_FI_INFO, "no peer %lld: %s", (long long)address,
                    ep->context ? "the vector has no such address" : "the endpoint is not enabled");
        return NULL;
    }
    if (ep->peer_count < av->count)
        *rc = grow(ep, av->room);
    if (!*rc && ep->ended[address]) {
        *rc = -ep->ended[address];
        return NULL;
    }
    if (!*rc)
        *rc = connect_to(ep, &av->entries[address].address, address, &ep->peers[address]);
    if (!*rc) {
        ep->connected[ep->connected_count++] = address;
        return ep->peers[address];
    }
    nigh_fi_log(NIGH_FI_WARN, "cannot talk to address %llu of the vector: %s", (unsigned long long)address,
                reason(*rc));
    return NULL;
}

struct nigh_endpoint *nigh_fi_peer_meet(struct nigh_fi_ep *ep, fi_addr_t address, int *rc)
{
    if (ep->context && ep->connected_count >= ep->look_at)
        forget_ended(ep);
    return nigh_fi_peer_connect(ep, address, rc);
}

void nigh_fi_peer_drop(struct nigh_fi_ep *ep, fi_addr_t address)
{
    size_t at = 0;

    if (address >= ep->peer_count)
        return;
    ep->ended[address] = 0;
    if (!ep->peers[address])
        return;
    ep->nigh->disconnect(ep->peers[address]);
    ep->peers[address] = NULL;
    while (ep->connected[at] != address)
        at++;
    ep->connected[at] = ep->connected[--ep->connected_count];
}

int nigh_fi_peer_check(struct nigh_fi_ep *ep, const struct nigh_address *address)
{
    uint64_t job;
    int rc;

    if (nigh_fi_name_read(address, &job))
        rc = job ? 0 : -FI_EADDRNOTAVAIL;
    else
        rc = no_address(ep->nigh->check_address(ep->context, address));
    if (rc)
        nigh_fi_log(NIGH_FI_WARN, "address refused: %s", reason(rc));
    return rc;
}
