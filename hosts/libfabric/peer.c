/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/peer.c - see peer.h. */
#include "hosts/libfabric/peer.h"
#include "hosts/libfabric/log.h"
#include "hosts/libfabric/name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct nigh_fi_ep *ep, size_t count)
{
    struct nigh_endpoint **peers = realloc(ep->peers, count * sizeof(struct nigh_endpoint *));

    if (!peers)
        return -FI_ENOMEM;
    memset(peers + ep->peer_count, 0, (count - ep->peer_count) * sizeof(struct nigh_endpoint *));
    ep->peers = peers;
    ep->peer_count = count;
    return 0;
}

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
        *rc = grow(ep, av->count);
    if (!*rc)
        *rc = connect_to(ep, &av->entries[address].address, address, &ep->peers[address]);
    if (!*rc)
        return ep->peers[address];
    nigh_fi_log(NIGH_FI_WARN, "cannot talk to address %llu of the vector: %s", (unsigned long long)address,
                reason(*rc));
    return NULL;
}

void nigh_fi_peer_drop(struct nigh_fi_ep *ep, fi_addr_t address)
{
    if (address >= ep->peer_count || !ep->peers[address])
        return;
    ep->nigh->disconnect(ep->peers[address]);
    ep->peers[address] = NULL;
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
