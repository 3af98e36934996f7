/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/close.c - the ends of connections and listeners, also with requests in flight, and what the two sides of a
 * connection say to each other. */
#include "hosts/nccl/comm.h"
#include "hosts/nccl/entry.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"
#include "hosts/nccl/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void nigh_nccl_comm_tell(struct nigh_nccl_comm *comm, int error, uint64_t bytes, uint64_t room)
{
    const char *way = comm->sends ? "to" : "from", *name = comm->peer->name;
    char why[NIGH_END_BYTES];

    if (comm->told)
        return;
    comm->told = true;
    if (error == -EMSGSIZE) {
        nigh_nccl_warn(
            "a message of %llu bytes from %s has come for a receive of %llu: the ranks' calls differ "
            "in their sizes",
            (unsigned long long)bytes, name, (unsigned long long)room);
        return;
    }
    if (comm->peer->severed && error != -ECANCELED) {
        nigh_nccl_warn(
            "the connection %s %s has ended: another one of this communicator was closed with messages "
            "to it in flight",
            way, name);
        return;
    }
    if (comm->failure && comm->limit != UINT64_MAX) {
        nigh_nccl_warn("the connection %s %s has ended: %s", way, name,
                       comm->failure == -ECONNREFUSED ? "it does not listen any more"
                                                      : "it was closed there");
        return;
    }
    (void)nigh_nccl_peer_state(comm->context, comm->peer, why, sizeof(why));
    nigh_nccl_warn("the connection %s %s has ended: %s", way, name,
                   error == -ECANCELED ? "its requests were taken back here"
                   : why[0]            ? why
                                       : strerror(-error));
}

void nigh_nccl_comm_end(struct nigh_nccl_comm *comm)
{
    struct nigh_nccl_context *context = comm->context;
    struct nigh_nccl_comm **at = &context->comms;
    bool quiet;

    nigh_nccl_table_remove(comm->number);
    quiet = nigh_nccl_requests_cancel(comm, NULL); /* may let others have the lock */
    if (!comm->peer->severed && comm->ready)
        (void)nigh_nccl_control_send(context, comm->peer->endpoint,
                                     comm->sends ? NIGH_NCCL_SENDER_LEFT : NIGH_NCCL_RECEIVER_LEFT, 0,
                                     comm->id, comm->moved);
    nigh_nccl_peer_put(context, comm->peer);
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    if (quiet) /* else an operation of nigh's still names its requests */
        free(comm);
}

static void pending_end(struct nigh_nccl_context *context, struct nigh_nccl_pending *pending)
{
    if (!pending->peer->severed)
        (void)nigh_nccl_control_send(context, pending->peer->endpoint, NIGH_NCCL_REFUSED, 0,
                                     pending->connection, 0);
    nigh_nccl_peer_put(context, pending->peer);
    free(pending);
}

void nigh_nccl_listener_end(struct nigh_nccl_listener *listener)
{
    struct nigh_nccl_context *context = listener->context;
    struct nigh_nccl_listener **at = &context->listeners;
    struct nigh_nccl_pending *pending;

    nigh_nccl_table_remove(listener->number);
    while ((pending = listener->first) != NULL) {
        listener->first = pending->next;
        pending_end(context, pending);
    }
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    free(listener);
}

/* ---- NCCL's calls --------------------------------------------------------------------------------------------- */

static enum nccl_result close_comm(void *number, enum nigh_nccl_kind kind, const char *call)
{
    struct nigh_nccl_comm *comm = nigh_nccl_table_find(kind, number);
    struct nigh_nccl_context *context;

    if (!comm)
        return nigh_nccl_stale(call, number, "connection that is open", NCCL_INVALID_ARGUMENT);
    context = comm->context;
    nigh_nccl_shared_hold(context);
    nigh_nccl_turn_wait(&context->turn);
    nigh_nccl_context_poll(context);
    nigh_nccl_comm_end(comm);
    nigh_nccl_turn_give(&context->turn);
    nigh_nccl_shared_drop(context);
    return NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_close_send(void *comm)
{
    return close_comm(comm, NIGH_NCCL_SENDER, "closeSend");
}

enum nccl_result nigh_nccl_close_recv(void *comm)
{
    return close_comm(comm, NIGH_NCCL_RECEIVER, "closeRecv");
}

enum nccl_result nigh_nccl_close_listen(void *number)
{
    struct nigh_nccl_listener *listener = nigh_nccl_table_find(NIGH_NCCL_LISTENER, number);
    struct nigh_nccl_context *context;

    if (!listener)
        return nigh_nccl_stale("closeListen", number, "listener that is open", NCCL_INVALID_ARGUMENT);
    context = listener->context;
    nigh_nccl_shared_hold(context);
    nigh_nccl_turn_wait(&context->turn);
    nigh_nccl_listener_end(listener);
    nigh_nccl_turn_give(&context->turn);
    nigh_nccl_shared_drop(context);
    return NCCL_SUCCESS;
}

/* ---- what the other side says ---------------------------------------------------------------------------------- */

/* A connection to or from the context that has said it. */
static struct nigh_nccl_comm *comm_of(struct nigh_nccl_context *context, const struct nigh_nccl_control *said,
                                      bool sends)
{
    struct nigh_nccl_comm *comm = context->comms;

    while (comm && (comm->sends != sends || comm->id != said->connection || comm->peer->id != said->from))
        comm = comm->next;
    return comm;
}

static struct nigh_nccl_pending *pending_of(struct nigh_nccl_context *context,
                                            const struct nigh_nccl_control *said)
{
    for (struct nigh_nccl_listener *at = context->listeners; at; at = at->next)
        for (struct nigh_nccl_pending *pending = at->first; pending; pending = pending->next)
            if (pending->connection == said->connection && pending->peer->id == said->from)
                return pending;
    return NULL;
}

static int enqueue(struct nigh_nccl_listener *listener, const struct nigh_nccl_control *said)
{
    struct nigh_nccl_pending *pending = calloc(1, sizeof(*pending)), **end = &listener->first;
    int rc = pending ? nigh_nccl_peer_get(listener->context, &said->address, said->from, said->name,
                                          &pending->peer)
                     : -ENOMEM;

    if (rc) {
        free(pending);
        return rc;
    }
    pending->connection = said->connection;
    pending->limit = UINT64_MAX;
    while (*end)
        end = &(*end)->next;
    *end = pending;
    return 0;
}

static void greeted(struct nigh_nccl_context *context, const struct nigh_nccl_control *said,
                    struct nigh_endpoint *endpoint)
{
    struct nigh_nccl_listener *listener = context->listeners;

    while (listener && listener->id != said->listener)
        listener = listener->next;
    if (listener) {
        int rc = enqueue(listener, said);

        listener->error = rc ? rc : listener->error;
    } else if (endpoint) {
        (void)nigh_nccl_control_send(context, endpoint, NIGH_NCCL_REFUSED, 0, said->connection, 0);
    }
}

static void left(struct nigh_nccl_context *context, const struct nigh_nccl_control *said, bool sends,
                 int error)
{
    struct nigh_nccl_comm *comm = comm_of(context, said, sends);
    struct nigh_nccl_pending *pending;

    if (comm) {
        comm->failure = error;
        comm->limit = said->count;
    } else if (!sends && (pending = pending_of(context, said)) != NULL) {
        pending->limit = said->count;
    }
}

/* Takes messages off their sender's hands that nobody will receive. */
static void discard(struct nigh_nccl_context *context, struct nigh_endpoint *endpoint, uint64_t connection)
{
    struct nigh_recv nowhere = {.size = sizeof(nowhere), .tclass = NIGH_NCCL_DATA};
    const struct nigh_ops *nigh = nigh_nccl_nigh();
    struct nigh_message *message;
    struct nigh_completion found;

    while (nigh->probe(context->nigh, endpoint, connection, 0, NIGH_NCCL_DATA, &found, &message) == 0)
        if (nigh->claim(context->nigh, message, &nowhere))
            return;
}

void nigh_nccl_aborts_take(struct nigh_nccl_context *context)
{
    while (context->abort_count) {
        uint32_t last = --context->abort_count;
        const struct nigh_nccl_peer *peer = context->peers;

        /* Without a connection to that context here, none ends when it disconnects. */
        while (peer && (peer->severed || peer->id != context->aborts[last].from))
            peer = peer->next;
        if (peer)
            discard(context, peer->endpoint, context->aborts[last].connection);
    }
}

static void aborted(struct nigh_nccl_context *context, const struct nigh_nccl_control *said)
{
    struct nigh_nccl_comm *comm = comm_of(context, said, false);
    struct nigh_nccl_pending *pending = pending_of(context, said);

    if (comm && !comm->failure) {
        comm->failure = -ECONNRESET;
        comm->limit = comm->moved;
    }
    if (pending)
        pending->limit = 0;
    if (context->abort_count < NIGH_NCCL_CONTROLS) {
        context->aborts[context->abort_count].from = said->from;
        context->aborts[context->abort_count++].connection = said->connection;
    }
}

void nigh_nccl_control_take(struct nigh_nccl_context *context, const struct nigh_nccl_control *said,
                            struct nigh_endpoint *endpoint)
{
    switch (said->word) {
    case NIGH_NCCL_HELLO:
        greeted(context, said, endpoint);
        break;
    case NIGH_NCCL_REFUSED:
        left(context, said, true, -ECONNREFUSED);
        break;
    case NIGH_NCCL_SENDER_LEFT:
        left(context, said, false, -ECONNRESET);
        break;
    case NIGH_NCCL_SENDER_ABORTS:
        aborted(context, said);
        break;
    case NIGH_NCCL_RECEIVER_LEFT:
        left(context, said, true, -ECONNRESET);
        break;
    default:
        nigh_nccl_warn("%s has said %u, which this release of the plugin does not know", said->name,
                       said->word);
    }
}
