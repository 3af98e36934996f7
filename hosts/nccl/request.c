/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/request.c - isend, irecv, test. Nothing here waits: while the other thread of NCCL's is at work a call says "not
 * now", and NCCL calls again. */
#include "hosts/nccl/request.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/table.h"

#include <errno.h>
#include <limits.h>

/* Of so many messages one completes only when it was matched: so a sender is at most 32 times as many ahead of its receiver,
 * whatever NCCL does. */
#define MATCHED_EVERY 16u

/* ---- requests ------------------------------------------------------------------------------------------------- */

/* NULL: *result, which was said. */
static struct nigh_nccl_comm *comm_of(const void *number, enum nigh_nccl_kind kind, const char *call,
                                      enum nccl_result *result)
{
    struct nigh_nccl_comm *comm = nigh_nccl_table_find(kind, number);

    if (!comm)
        *result = nigh_nccl_stale(call, number, "connection for it that is open", NCCL_INVALID_ARGUMENT);
    return comm;
}

/* A place for a request, in turn; NULL: all are in use. */
static struct nigh_nccl_request *place(struct nigh_nccl_comm *comm)
{
    for (uint32_t i = 0; i < NCCL_REQUESTS_MAX; i++) {
        comm->place = (comm->place + 1) % NCCL_REQUESTS_MAX;
        if (comm->requests[comm->place].state == NIGH_NCCL_FREE)
            return &comm->requests[comm->place];
    }
    return NULL;
}

static enum nccl_result too_many(const struct nigh_nccl_comm *comm, const char *call)
{
    nigh_nccl_warn(
        "%s: %d requests of the connection with %s are in flight, and more there may not be: test them", call,
        NCCL_REQUESTS_MAX, comm->peer->name);
    return NCCL_INTERNAL_ERROR;
}

void nigh_nccl_request_ended(struct nigh_nccl_request *request, int status, uint64_t bytes)
{
    struct nigh_nccl_comm *comm = request->comm;

    request->state = NIGH_NCCL_DONE;
    request->status = status;
    request->bytes = bytes;
    comm->pending--;
    comm->moved += status == 0;
}

static enum nccl_result ended(struct nigh_nccl_comm *comm, int error)
{
    nigh_nccl_comm_tell(comm, error, 0, 0);
    return nigh_nccl_result(error);
}

/* The operation was posted, or not. */
static enum nccl_result posted(struct nigh_nccl_comm *comm, struct nigh_nccl_request *request, void *memory,
                               uint64_t room, int rc, void **out)
{
    if (rc == -EAGAIN) {
        nigh_nccl_context_poll(comm->context);
        return NCCL_SUCCESS;
    }
    if (rc)
        return ended(comm, rc);
    request->state = NIGH_NCCL_PENDING;
    request->memory = memory;
    request->room = room;
    request->number = comm->posted++;
    request->serial++;
    comm->pending++;
    *out = nigh_nccl_request_number(comm->number, comm->place, request->serial);
    return NCCL_SUCCESS;
}

static int send_one(const struct nigh_nccl_comm *comm, const void *data, size_t bytes,
                    struct nigh_region *region, uint64_t context)
{
    const struct nigh_ops *nigh = nigh_nccl_nigh();
    struct nigh_send send = {
        .size = sizeof(send), .buffer = data, .bytes = bytes, .tag = comm->id, .region = region};

    if (!region && bytes <= NIGH_INJECT_BYTES && (comm->posted + 1) % MATCHED_EVERY)
        return nigh->send_imm(comm->peer->endpoint, data, NIGH_SHAPE(bytes, NIGH_NCCL_DATA), comm->id, 0,
                              context);
    /* NCCL's receivers do not wait for their senders, so any message may wait for its receive. */
    send.flags = (comm->posted + 1) % MATCHED_EVERY ? NIGH_MAY_WAIT : NIGH_SYNC;
    send.flags |= region ? NIGH_DEVICE : 0;
    send.context = context;
    send.tclass = NIGH_NCCL_DATA;
    return nigh->post_send(comm->peer->endpoint, &send);
}

static enum nccl_result take_place(struct nigh_nccl_comm *comm, const char *call,
                                   struct nigh_nccl_request **out)
{
    if (comm->peer->severed || (comm->failure && comm->posted >= comm->limit))
        return ended(comm, comm->failure ? comm->failure : -ECONNRESET);
    *out = place(comm);
    return *out ? NCCL_SUCCESS : too_many(comm, call);
}

/* Under the lock, as deregMr ends regions under it. NULL is a buffer that was not registered, which is as good. */
static enum nccl_result region_of(const void *memory, const char *call, struct nigh_region **region)
{
    if (nigh_nccl_memory_find(memory, region))
        return NCCL_SUCCESS;
    nigh_nccl_warn("%s: %p is no memory that is registered", call, memory);
    return NCCL_INVALID_ARGUMENT;
}

static enum nccl_result send_locked(struct nigh_nccl_comm *comm, void *data, size_t bytes, void *memory,
                                    void **out)
{
    struct nigh_nccl_request *request = NULL;
    struct nigh_region *region;
    enum nccl_result result = region_of(memory, "isend", &region);

    if (!result)
        result = take_place(comm, "isend", &request);

    if (result)
        return result;
    return posted(comm, request, memory, bytes, send_one(comm, data, bytes, region, (uintptr_t)request), out);
}

static enum nccl_result check(const void *data, size_t bytes, const char *call)
{
    if (bytes > NCCL_BYTES_MAX || (!data && bytes)) {
        nigh_nccl_warn("%s of %zu bytes at %p: at most 2^40 bytes, of memory that there is", call, bytes,
                       data);
        return NCCL_INVALID_ARGUMENT;
    }
    return NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_isend(void *number, void *data, size_t bytes, int tag, void *memory, void *parent,
                                 void **request)
{
    enum nccl_result result = NCCL_INVALID_ARGUMENT;
    struct nigh_nccl_comm *comm = comm_of(number, NIGH_NCCL_SENDER, "isend", &result);

    (void)tag, (void)parent; /* tags tell the parts of a grouped receive, of which there is one */
    if (!comm || !request)
        return result;
    *request = NULL;
    result = check(data, bytes, "isend");
    if (result || pthread_mutex_trylock(&comm->context->lock))
        return result;
    result = send_locked(comm, data, bytes, memory, request);
    pthread_mutex_unlock(&comm->context->lock);
    return result;
}

static int recv_one(const struct nigh_nccl_comm *comm, void *data, size_t bytes, struct nigh_region *region,
                    uint64_t context)
{
    const struct nigh_ops *nigh = nigh_nccl_nigh();
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = data,
        .bytes = bytes,
        .tag = comm->id,
        .context = context,
        .tclass = NIGH_NCCL_DATA,
        .flags = region ? NIGH_DEVICE : 0,
        .region = region,
    };

    if (!region && bytes <= UINT32_MAX)
        return nigh->recv_imm(comm->peer->endpoint, data, NIGH_SHAPE(bytes, NIGH_NCCL_DATA), comm->id, 0,
                              context);
    return nigh->post_recv(comm->context->nigh, comm->peer->endpoint, &recv);
}

static enum nccl_result recv_locked(struct nigh_nccl_comm *comm, void *data, size_t bytes, void *memory,
                                    void **out)
{
    struct nigh_nccl_request *request = NULL;
    struct nigh_region *region;
    enum nccl_result result = region_of(memory, "irecv", &region);

    if (!result)
        result = take_place(comm, "irecv", &request);

    if (result)
        return result;
    return posted(comm, request, memory, bytes, recv_one(comm, data, bytes, region, (uintptr_t)request), out);
}

enum nccl_result nigh_nccl_irecv(void *number, int count, void **data, size_t *bytes, int *tags,
                                 void **memories, void **parents, void **request)
{
    enum nccl_result result = NCCL_INVALID_ARGUMENT;
    struct nigh_nccl_comm *comm = comm_of(number, NIGH_NCCL_RECEIVER, "irecv", &result);
    void *memory = memories ? memories[0] : NULL;

    (void)tags, (void)parents;
    if (!comm || !request)
        return result;
    *request = NULL;
    if (count != 1 || !data || !bytes) {
        nigh_nccl_warn("irecv of %d buffers: maxRecvs is 1", count);
        return NCCL_INVALID_ARGUMENT;
    }
    result = check(data[0], bytes[0], "irecv");
    if (result || pthread_mutex_trylock(&comm->context->lock))
        return result;
    result = recv_locked(comm, data[0], bytes[0], memory, request);
    pthread_mutex_unlock(&comm->context->lock);
    return result;
}

/* None is needed: what a receive has completed with is there, on a device, too. */
enum nccl_result nigh_nccl_iflush(void *number, int count, void **data, int *bytes, void **memories,
                                  void **request)
{
    enum nccl_result result = NCCL_INVALID_ARGUMENT;

    (void)count, (void)data, (void)bytes, (void)memories;
    if (!comm_of(number, NIGH_NCCL_RECEIVER, "iflush", &result) || !request)
        return result;
    *request = NULL;
    return NCCL_SUCCESS;
}

/* ---- test ----------------------------------------------------------------------------------------------------- */

static enum nccl_result no_request(const void *number)
{
    return nigh_nccl_stale(
        "test", number, "request in flight: one that was found done, or whose connection is closed, is over",
        NCCL_INVALID_USAGE);
}

static enum nccl_result take(struct nigh_nccl_comm *comm, struct nigh_nccl_request *request, int *done,
                             int *bytes)
{
    if (request->status) {
        nigh_nccl_comm_tell(comm, request->status, request->bytes, request->room);
        return nigh_nccl_result(request->status);
    }
    request->state = NIGH_NCCL_FREE;
    if (bytes)
        *bytes = (int)request->bytes;
    *done = 1;
    return NCCL_SUCCESS;
}

static enum nccl_result test_locked(struct nigh_nccl_comm *comm, const void *number, int *done, int *bytes)
{
    unsigned at = nigh_nccl_request_place(number);
    struct nigh_nccl_request *request = &comm->requests[at % NCCL_REQUESTS_MAX];

    if (at >= NCCL_REQUESTS_MAX || request->state == NIGH_NCCL_FREE ||
        nigh_nccl_request_number(comm->number, at, request->serial) != number)
        return no_request(number);
    if (request->state == NIGH_NCCL_PENDING)
        nigh_nccl_context_poll(comm->context);
    if (request->state == NIGH_NCCL_DONE)
        return take(comm, request, done, bytes);
    return comm->failure && request->number >= comm->limit ? ended(comm, comm->failure) : NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_test(void *number, int *done, int *bytes)
{
    struct nigh_nccl_comm *comm = nigh_nccl_request_find(number);
    enum nccl_result result;

    if (!comm)
        return no_request(number);
    if (!done)
        return NCCL_INVALID_ARGUMENT;
    *done = 0;
    if (pthread_mutex_trylock(&comm->context->lock))
        return NCCL_SUCCESS;
    result = test_locked(comm, number, done, bytes);
    pthread_mutex_unlock(&comm->context->lock);
    return result;
}
