/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/comm.c - listen, connect, accept: none of them waits for the other side. */
#include "hosts/nccl/comm.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"
#include "hosts/nccl/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What listen() hands out and connect() gets: NCCL copies it to the other process, and keeps it there until connect() is
 * through, so the stage of that is in it. */
struct handle {
    uint64_t magic;
    uint64_t context, listener;
    struct nigh_address address;
    char name[NIGH_NCCL_NAME_BYTES - 16];
    uint64_t check; /* of all that stands above */
    uint64_t stage; /* number of the connection, or zero */
};
_Static_assert(sizeof(struct handle) == NCCL_HANDLE_BYTES, "NCCL copies 128 bytes");

#define MAGIC UINT64_C(0x3268636c6e67696e)

/* FNV-1a. A handle that was changed on its way could connect to another listener than it was made for. */
static uint64_t check_of(const struct handle *handle)
{
    const unsigned char *bytes = (const unsigned char *)handle;
    uint64_t check = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < offsetof(struct handle, check); i++)
        check = (check ^ bytes[i]) * UINT64_C(0x100000001b3);
    return check;
}

static enum nccl_result no_device(int device, const char *call)
{
    nigh_nccl_warn("%s: there is no device %d: 0 is the only one", call, device);
    return NCCL_INVALID_ARGUMENT;
}

/* With what nigh has said of it. */
static enum nccl_result failed(const char *call, int error)
{
    const char *heard = nigh_nccl_heard();

    nigh_nccl_warn("%s: %s%s%s", call, strerror(-error), *heard ? ": " : "", heard);
    return nigh_nccl_result(error);
}

enum nccl_result nigh_nccl_listen(struct nigh_nccl_context *context, int device, void *handle, void **out)
{
    struct nigh_nccl_listener *listener;
    struct handle made = {.magic = MAGIC, .context = context->id, .address = context->address};

    if (device != 0)
        return no_device(device, "listen");
    if (!handle || !out)
        return failed("listen", -EINVAL);
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return failed("listen", -ENOMEM);
    listener->context = context;
    listener->number = nigh_nccl_table_add(NIGH_NCCL_LISTENER, listener);
    if (!listener->number) {
        free(listener);
        return failed("listen", -ENOMEM);
    }
    nigh_nccl_name(made.name, sizeof(made.name));
    nigh_nccl_turn_wait(&context->turn);
    made.listener = listener->id = ++context->listeners_made;
    listener->next = context->listeners;
    context->listeners = listener;
    nigh_nccl_turn_give(&context->turn);
    made.check = check_of(&made);
    memcpy(handle, &made, sizeof(made));
    *out = listener->number;
    return NCCL_SUCCESS;
}

/* ---- connect -------------------------------------------------------------------------------------------------- */

static struct nigh_nccl_comm *comm_new(struct nigh_nccl_context *context, struct nigh_nccl_peer *peer,
                                       bool sends)
{
    struct nigh_nccl_comm *comm = calloc(1, sizeof(*comm));

    if (!comm)
        return NULL;
    comm->number = nigh_nccl_table_add(sends ? NIGH_NCCL_SENDER : NIGH_NCCL_RECEIVER, comm);
    if (!comm->number) {
        free(comm);
        return NULL;
    }
    comm->context = context;
    comm->peer = peer;
    comm->sends = sends;
    comm->limit = UINT64_MAX;
    for (int i = 0; i < NCCL_REQUESTS_MAX; i++)
        comm->requests[i].comm = comm;
    comm->next = context->comms;
    context->comms = comm;
    return comm;
}

/* A handle that cannot be connected to, as check_address() says. */
static enum nccl_result refuse(const struct handle *handle, int error)
{
    const char *why =
        error == -EHOSTUNREACH
            ? "it is of another machine, another boot of it, or another network namespace without "
              "NIGH_DIR: nigh connects processes of one machine"
        : error == -EACCES ? "it is of another user"
        : error == -EILSEQ ? "it was changed on its way, or is of a connection that has ended"
                           : "it is none of this plugin's, or of another release of it";

    nigh_nccl_warn("connect: the handle of %s cannot be used: %s",
                   error == -EBADMSG || error == -EILSEQ || !handle->name[0] ? "the peer" : handle->name,
                   why);
    return nigh_nccl_result(error);
}

static int dial(struct nigh_nccl_context *context, const struct handle *handle, struct nigh_nccl_comm **out)
{
    struct nigh_nccl_comm *comm;
    struct nigh_nccl_peer *peer;
    int rc = nigh_nccl_peer_get(context, &handle->address, handle->context, handle->name, &peer);

    if (rc)
        return rc;
    comm = comm_new(context, peer, true);
    if (!comm) {
        nigh_nccl_peer_put(context, peer);
        return -ENOMEM;
    }
    comm->id = ++context->connections;
    comm->listener = handle->listener;
    rc = nigh_nccl_control_send(context, peer->endpoint, NIGH_NCCL_HELLO, comm->listener, comm->id, 0);
    if (rc && rc != -ECONNRESET && rc != -EPROTO) { /* these show in the state */
        nigh_nccl_comm_end(comm);
        return rc;
    }
    *out = comm;
    return 0;
}

struct nigh_nccl_context *nigh_nccl_connecting(const void *bytes)
{
    const struct nigh_nccl_comm *comm = NULL;
    struct handle handle;

    if (bytes) {
        memcpy(&handle, bytes, sizeof(handle));
        comm = nigh_nccl_table_find(NIGH_NCCL_SENDER, (const void *)(uintptr_t)handle.stage);
    }
    return comm ? comm->context : NULL;
}

static enum nccl_result connect_first(struct nigh_nccl_context *context, struct handle *handle,
                                      struct nigh_nccl_comm **out)
{
    bool sound = handle->check == check_of(handle);
    int rc;

    if (handle->magic != MAGIC)
        return refuse(handle, -EBADMSG);
    handle->name[sizeof(handle->name) - 1] = '\0';
    rc = nigh_nccl_nigh()->check_address(context->nigh, &handle->address);
    if (!sound)
        handle->name[0] = '\0';
    if (!rc && !sound)
        rc = -EILSEQ;
    if (rc)
        return refuse(handle, rc);
    rc = dial(context, handle, out);
    return rc ? failed("connect", rc) : NCCL_SUCCESS;
}

/* Looks whether the peer has answered. A connection that has failed is over. */
static enum nccl_result connect_on(struct nigh_nccl_context *context, struct nigh_nccl_comm *comm, void **out)
{
    char why[NIGH_END_BYTES];
    int state;

    nigh_nccl_context_poll(context);
    state = nigh_nccl_peer_state(context, comm->peer, why, sizeof(why));
    if (state > NIGH_READY || comm->failure) {
        nigh_nccl_warn("connect: %s cannot be reached: %s", comm->peer->name,
                       comm->failure == -ECONNREFUSED ? "it does not listen any more" : why);
        nigh_nccl_comm_end(comm);
        return NCCL_REMOTE_ERROR;
    }
    if (state == NIGH_READY) {
        comm->ready = true;
        *out = comm->number;
    }
    return NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_connect(struct nigh_nccl_context *context, int device, void *bytes, void **out)
{
    struct nigh_nccl_comm *comm = NULL;
    enum nccl_result result = NCCL_SUCCESS;
    struct handle handle;

    if (device != 0)
        return no_device(device, "connect");
    if (!bytes || !out)
        return failed("connect", -EINVAL);
    *out = NULL;
    memcpy(&handle, bytes, sizeof(handle));
    nigh_nccl_hear();
    nigh_nccl_turn_wait(&context->turn);
    if (!handle.stage) {
        result = connect_first(context, &handle, &comm);
    } else {
        comm = nigh_nccl_table_find(NIGH_NCCL_SENDER, (const void *)(uintptr_t)handle.stage);
        if (!comm || comm->context != context || comm->ready || comm->listener != handle.listener)
            result = refuse(&handle, handle.magic == MAGIC ? -EILSEQ : -EBADMSG);
    }
    if (!result) {
        handle.stage = (uint64_t)(uintptr_t)comm->number;
        result = connect_on(context, comm, out);
    }
    if (result || *out)
        handle.stage = 0;
    nigh_nccl_turn_give(&context->turn);
    if (result)
        (void)nigh_nccl_heard(); /* it was said */
    else
        nigh_nccl_unheard();
    memcpy((char *)bytes + offsetof(struct handle, stage), &handle.stage, sizeof(handle.stage));
    return result;
}

/* ---- accept --------------------------------------------------------------------------------------------------- */

static enum nccl_result accept_one(struct nigh_nccl_listener *listener, void **out)
{
    struct nigh_nccl_pending *pending = listener->first;
    struct nigh_nccl_comm *comm;
    int error = listener->error;

    listener->error = 0;
    if (error)
        return failed("accept", error);
    if (!pending)
        return NCCL_SUCCESS;
    comm = comm_new(listener->context, pending->peer, false);
    if (!comm)
        return failed("accept", -ENOMEM);
    comm->id = pending->connection;
    comm->ready = true;
    comm->limit = pending->limit;
    if (comm->limit != UINT64_MAX)
        comm->failure = -ECONNRESET;
    listener->first = pending->next;
    free(pending);
    *out = comm->number;
    return NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_accept(void *number, void **out, void **device)
{
    struct nigh_nccl_listener *listener = nigh_nccl_table_find(NIGH_NCCL_LISTENER, number);
    struct nigh_nccl_context *context;
    enum nccl_result result;

    (void)device; /* of offloads to a device, which are not offered */
    if (!listener)
        return nigh_nccl_stale("accept", number, "listener that is open", NCCL_INVALID_ARGUMENT);
    if (!out)
        return failed("accept", -EINVAL);
    *out = NULL;
    context = listener->context;
    nigh_nccl_hear();
    nigh_nccl_turn_wait(&context->turn);
    nigh_nccl_context_poll(context);
    result = accept_one(listener, out);
    nigh_nccl_turn_give(&context->turn);
    nigh_nccl_unheard(); /* none if it failed */
    return result;
}
