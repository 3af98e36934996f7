/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/lend.c - shared heap memory, and messages that nobody copies. */
#include "lib/error.h"
#include "lib/held.h"
#include "lib/plugin.h"
#include "lib/post.h"
#include "lib/wait.h"

#include <errno.h>
#include <string.h>

NIGH_PUBLIC int nigh_alloc_mem(uint64_t bytes, void **memory)
{
    struct nigh_call call = NIGH_CALL("nigh_alloc_mem");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    if (!memory || bytes == 0)
        rc = nigh_fail(call, -EINVAL, memory ? "0 bytes cannot be allocated" : "memory is NULL");
    else
        rc = nigh_core.ops->heap_alloc(nigh_core.context, bytes, memory);
    if (rc == -ENOMEM)
        nigh_fail(call, rc,
                  "no %llu bytes of shared heap: NIGH_HEAP (or nigh_config.heap_bytes) sets its size, the "
                  "machine's "
                  "memory or this cgroup's limit may be full",
                  (unsigned long long)bytes);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_free_mem(void *memory)
{
    struct nigh_call call = NIGH_CALL("nigh_free_mem");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = memory ? NIGH_EXPLAINED(heap_free, nigh_core.context, memory) : -EINVAL;
    if (rc == -EBUSY)
        nigh_fail(call, rc, "%p is lent or being sent: wait for these requests first", memory);
    else if (rc)
        nigh_fail(call, rc, "%p is not memory from nigh_alloc_mem, or was freed before", memory);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_ilend(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                           nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_ilend");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = nigh_start_general(call, NIGH_KIND_LEND, buffer, bytes, dest, tag, comm, request);
    nigh_leave();
    return rc;
}

/* Posts a receive without a buffer. */
static int post(struct nigh_call call, uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                struct nigh_operation **out)
{
    struct nigh_operation *operation = NULL;
    int rc = nigh_check_recv(call, comm, source, tag, "", 0);

    if (rc)
        return rc;
    operation = nigh_operation_new(call, NIGH_KIND_RECV_IN_PLACE, comm, source, tag, NULL, bytes, 0);
    if (!operation)
        return -ENOMEM;
    rc = nigh_operation_post(call, operation);
    if (rc)
        nigh_operation_give(operation);
    else
        *out = operation;
    return rc;
}

static int receive(struct nigh_call call, const void **data, uint64_t bytes, int source, int tag,
                   struct nigh_comm *comm, struct nigh_status *status)
{
    struct nigh_operation *operation = NULL;
    struct nigh_status found = {.error = 1}; /* not written where nothing has ended */
    int rc =
        data ? post(call, bytes, source, tag, comm, &operation) : nigh_fail(call, -EINVAL, "data is NULL");

    if (rc == -ECONNRESET || rc == -EPROTO)
        nigh_status_set(status, source, tag, rc, 0, NULL);
    if (rc)
        return rc;
    rc = nigh_operation_finish(call, operation, nigh_wait_one(call, operation, comm->timeout_ns), &found,
                               true);
    if (!rc)
        *data = found.data;
    if (status && found.error <= 0)
        *status = found;
    return rc;
}

NIGH_PUBLIC int nigh_recv_in_place(const void **data, uint64_t bytes, int source, int tag,
                                   struct nigh_comm *comm, struct nigh_status *status)
{
    struct nigh_call call = NIGH_CALL("nigh_recv_in_place");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = receive(call, data, bytes, source, tag, comm, status);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_irecv_in_place(uint64_t bytes, int source, int tag, struct nigh_comm *comm,
                                    nigh_request *request)
{
    struct nigh_call call = NIGH_CALL("nigh_irecv_in_place");
    struct nigh_operation *operation = NULL;
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = request ? post(call, bytes, source, tag, comm, &operation)
                 : nigh_fail(call, -EINVAL, "the request is NULL");
    if (!rc)
        request->id = nigh_operation_handle(operation);
    nigh_leave();
    return rc;
}

NIGH_PUBLIC int nigh_release(const void *data)
{
    struct nigh_call call = NIGH_CALL("nigh_release");
    int rc = nigh_enter(call);

    if (rc)
        return rc;
    rc = data ? NIGH_EXPLAINED(release, nigh_core.context, (void *)(uintptr_t)data) : -EINVAL;
    if (rc)
        nigh_fail(call, rc,
                  "no message received in place lies at %p: it was released before, or never was one", data);
    else
        nigh_held_remove(data);
    nigh_leave();
    return rc;
}
