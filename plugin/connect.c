/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/connect.c - connect and disconnect. */
#include "plugin/context.h"
#include "plugin/progress.h"
#include "plugin/refuse.h"
#include "shm/rendezvous.h"
#include <errno.h>

int nigh_endpoint_check(const struct nigh_endpoint *endpoint)
{
    switch (endpoint->state) {
    case NIGH_CONNECTING:
    case NIGH_READY:
        return 0;
    case NIGH_BROKEN:
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
}

static int refuse_address(struct nigh_context *context, int rc)
{
    const char *why =
        rc == -EBADMSG ? "these are no address of nigh's, or one of another version: all processes "
                         "load the same nigh.so and hand on what address() gives, all of it"
        : rc == -EACCES
            ? "it is of another user's process: a job has one user"
            : "it is of another machine or another boot of it, or (without NIGH_DIR) another network "
              "namespace: nigh connects the processes of one machine";

    return nigh_refuse(context, rc, "connect: the %u bytes of the address: %s", NIGH_ADDRESS_BYTES, why);
}

static int target_of(struct nigh_context *context, const struct nigh_connect *to, struct nigh_identity *who)
{
    int rc = nigh_check_struct(context, "connect", to, to->size, sizeof(*to));

    if (rc)
        return rc;
    if (to->reserved)
        return nigh_refuse_reserved(context, "connect");
    if ((to->rank == NIGH_RANK_NONE) == (to->address == NULL) || (to->address && to->job))
        return nigh_refuse(
            context, -EINVAL,
            "connect: rank %d, job %llx and an address %s: name the peer by its rank (and job), or "
            "by its address with rank NIGH_RANK_NONE and job 0",
            (int)to->rank, (unsigned long long)to->job, to->address ? "given" : "of NULL");
    if (to->address) {
        rc = nigh_rendezvous_parse(context->rendezvous, to->address, who);
        return rc ? refuse_address(context, rc) : 0;
    }
    *who = (struct nigh_identity){.job = to->job, .rank = to->rank};
    if (to->job == 0 || to->job == context->config.job)
        who->job = context->config.meeting;
    /* How many ranks another job has is not known here. */
    if (who->job == context->config.meeting && who->rank >= context->config.ranks)
        return nigh_refuse(context, -ERANGE, "connect: rank %u: this job has ranks 0 to %u", to->rank,
                           context->config.ranks - 1);
    return 0;
}

static int begin(struct nigh_context *context, const struct nigh_identity *who, struct nigh_endpoint **out)
{
    struct nigh_identity self = {.job = context->config.meeting, .rank = context->config.rank};
    struct nigh_endpoint *endpoint;
    int rc = nigh_endpoint_create(context, who, &endpoint);

    if (rc)
        return rc;
    self.incarnation = context->incarnation;
    endpoint->incarnation = who->incarnation;
    if (who->incarnation ? who->incarnation == self.incarnation
                         : who->job == self.job && who->rank == self.rank) {
        endpoint->incarnation = self.incarnation;
        nigh_endpoint_attach_self(endpoint);
    } else {
        rc = nigh_rendezvous_dial(context->rendezvous, who, endpoint->index, endpoint->window.fd, endpoint);
        if (rc) {
            nigh_endpoint_free(endpoint);
            return rc != -EBADF
                       ? rc
                       : nigh_refuse(
                             context, rc,
                             "connect: the program has closed descriptors of nigh's, or opened others under "
                             "their numbers (closefrom closes all): it can be connected with nobody else");
        }
    }
    *out = endpoint;
    return 0;
}

/* Its context is closed, so it will never be met again, but it has sent something that nobody has received yet: a receive
 * that names it gets that. One that has only disconnected is dialled. */
static struct nigh_endpoint *unread(struct nigh_context *context, const struct nigh_identity *who)
{
    struct nigh_endpoint *endpoint = nigh_peers_find_left(&context->peers, who);

    if (!endpoint || endpoint->state == NIGH_BROKEN || !nigh_progress_is_unread(endpoint))
        return NULL;
    return nigh_rendezvous_listens(context->rendezvous, who) ? NULL : endpoint;
}

int nigh_endpoint_connect(struct nigh_context *context, const struct nigh_connect *to,
                          struct nigh_endpoint **out)
{
    struct nigh_identity who;
    struct nigh_endpoint *endpoint;
    int rc;

    nigh_log_use(&context->log);
    rc = target_of(context, to, &who);
    if (rc)
        return rc;
    endpoint = nigh_peers_find(&context->peers, &who);
    if (!endpoint && who.incarnation)
        endpoint = unread(context, &who);
    if (!endpoint) {
        rc = begin(context, &who, &endpoint);
        if (rc)
            return rc;
    }
    if (endpoint->refs++ == 0 && to->source != NIGH_SOURCE_NONE)
        endpoint->source = to->source;
    *out = endpoint;
    return 0;
}

/* The peer learns of it by the flag; the hint makes it look, the bell wakes it. */
void nigh_endpoint_farewell(struct nigh_endpoint *endpoint)
{
    nigh_store_release(&endpoint->pair->closed, nigh_load_relaxed(&endpoint->pair->closed) | 1, GOODBYE_SAY);
    nigh_fence_full(LEAVE_SAY);
    if (!endpoint->attached || endpoint->self || endpoint->dead)
        return;
    nigh_fence_full(SLEEP_CHECK);
    nigh_bell_hint(&endpoint->bell, endpoint->their_index);
    nigh_bell_ring(&endpoint->bell, nigh_load_relaxed(endpoint->peer_asleep));
}

void nigh_endpoint_retire(struct nigh_endpoint *endpoint)
{
    nigh_endpoint_abandon(endpoint);
    endpoint->gone = true;
    endpoint->refs = 0;
    if (endpoint->bare) {
        nigh_endpoint_take_back(endpoint);
        return;
    }
    nigh_endpoint_farewell(endpoint);
    if (!endpoint->attached)
        nigh_rendezvous_forget(endpoint->context->rendezvous, endpoint);
}

int nigh_endpoint_disconnect(struct nigh_endpoint *endpoint)
{
    nigh_log_use(&endpoint->context->log);
    if (endpoint->gone || !endpoint->refs)
        return nigh_refuse(endpoint->context, -EINVAL,
                           "disconnect: rank %d is not connected by this host, or no longer",
                           (int)endpoint->rank);
    if (--endpoint->refs == 0)
        nigh_endpoint_retire(endpoint);
    return 0;
}
