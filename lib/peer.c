/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/peer.c - endpoints by rank of the world, and what the death of one means for receives from anyone. */
#include "lib/peer.h"
#include "lib/comm.h"
#include "lib/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool *dead; /* by rank: its communicators have been told */

int nigh_peers_open(void)
{
    nigh_core.endpoints = calloc((size_t)nigh_core.ranks, sizeof(struct nigh_endpoint *));
    dead = calloc((size_t)nigh_core.ranks, sizeof(*dead));
    return nigh_core.endpoints && dead ? 0 : -ENOMEM;
}

void nigh_peers_close(void)
{
    free(nigh_core.endpoints);
    free(dead);
    nigh_core.endpoints = NULL;
    dead = NULL;
}

/* Of what the plugin has told with its values. */
static const char *advice(int rc)
{
    switch (rc) {
    case -EMFILE:
        return ": no file descriptor is left in this process, and a peer takes two: raise the limit (ulimit "
               "-n)";
    case -ENOSPC:
        return ": this rank has as many peers as it may: set NIGH_PEERS_MAX higher";
    case -ENOMEM:
        return ": no memory or address space is left in this process (ulimit -v, the cgroup's limit)";
    default:
        return "";
    }
}

int nigh_peer_connect(struct nigh_call call, int world_rank, struct nigh_endpoint **out)
{
    struct nigh_connect to = {
        .size = sizeof(to), .rank = (uint32_t)world_rank, .source = (uint64_t)world_rank};
    int rc = 0;

    if (!nigh_core.endpoints[world_rank])
        rc = nigh_core.ops->connect(nigh_core.context, &to, &nigh_core.endpoints[world_rank]);
    if (rc)
        return nigh_fail(call, rc, "cannot connect to rank %d of the world: %s%s", world_rank, strerror(-rc),
                         advice(rc));
    *out = nigh_core.endpoints[world_rank];
    return 0;
}

static void query(int world_rank, struct nigh_query_endpoint *answer)
{
    uint64_t bytes = sizeof(*answer);

    memset(answer, 0, sizeof(*answer));
    if (nigh_core.endpoints[world_rank])
        (void)nigh_core.ops->query(nigh_core.context, nigh_core.endpoints[world_rank], NIGH_QUERY_ENDPOINT,
                                   answer, &bytes);
}

uint32_t nigh_peer_state(int world_rank)
{
    struct nigh_query_endpoint answer;

    query(world_rank, &answer);
    return answer.state;
}

int32_t nigh_peer_pid(int world_rank)
{
    struct nigh_query_endpoint answer;

    query(world_rank, &answer);
    return answer.pid;
}

uint32_t nigh_peer_end(int world_rank, struct nigh_query_end *out)
{
    uint64_t bytes = sizeof(*out);

    memset(out, 0, sizeof(*out));
    if (nigh_core.endpoints[world_rank])
        (void)nigh_core.ops->query(nigh_core.context, nigh_core.endpoints[world_rank], NIGH_QUERY_END, out,
                                   &bytes);
    return out->reason;
}

bool nigh_peer_refused(int world_rank, struct nigh_query_end *out)
{
    return nigh_peer_end(world_rank, out) > NIGH_REASON_GONE;
}

static void tell_comm(struct nigh_comm *comm, void *data)
{
    int world_rank = *(const int *)data;

    if (nigh_comm_rank_of(comm, (uint64_t)world_rank) >= 0)
        comm->deaths_untold++;
}

static void tell(int world_rank)
{
    if (dead[world_rank] || world_rank == nigh_core.rank)
        return;
    dead[world_rank] = true;
    nigh_comms_each(tell_comm, &world_rank);
}

void nigh_peer_died(uint64_t source)
{
    struct nigh_endpoint *endpoint;

    if (source < (uint64_t)nigh_core.ranks) {
        tell((int)source);
        return;
    }
    /* The plugin does not say who: it had nobody to tell when it happened. */
    for (int rank = 0; rank < nigh_core.ranks; rank++)
        if (!dead[rank] && nigh_peer_connect((struct nigh_call){"nigh", NULL}, rank, &endpoint) == 0 &&
            nigh_peer_state(rank) == NIGH_PEER_DEAD)
            tell(rank);
}
