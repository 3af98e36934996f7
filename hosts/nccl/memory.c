/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/memory.c - regMr and deregMr. Host memory needs nothing of nigh: a registration says which requests to take back
 * before its memory is freed. */
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"
#include "hosts/nccl/table.h"

#include <stdlib.h>

enum { CONNECTIONS = NIGH_NCCL_SENDER | NIGH_NCCL_RECEIVER };

struct memory {
    void *number, *comm;
};

/* Device memory is a property of regions that nigh's table does not have: none of its slots registers any. */
int nigh_nccl_pointers(void)
{
    return NCCL_PTR_HOST;
}

static enum nccl_result refuse(const char *why)
{
    nigh_nccl_warn("regMr: %s", why);
    return NCCL_INVALID_ARGUMENT;
}

enum nccl_result nigh_nccl_register(void *comm, void *data, size_t bytes, int type, void **out)
{
    struct memory *memory;

    if (!nigh_nccl_table_find(CONNECTIONS, comm))
        return nigh_nccl_stale("regMr", comm, "connection that is open", NCCL_INVALID_ARGUMENT);
    if (!out || (!data && bytes))
        return refuse("there is no memory at NULL");
    if (type == NCCL_PTR_CUDA || type == NCCL_PTR_DMABUF)
        return refuse("it is device memory, and this plugin moves host memory alone, as ptrSupport says");
    if (!(type & nigh_nccl_pointers()) || type & ~nigh_nccl_pointers())
        return refuse("the type of the memory is unknown");
    memory = malloc(sizeof(*memory));
    if (!memory)
        return NCCL_SYSTEM_ERROR;
    memory->comm = comm;
    memory->number = nigh_nccl_table_add(NIGH_NCCL_MEMORY, memory);
    if (!memory->number) {
        free(memory);
        return NCCL_SYSTEM_ERROR;
    }
    *out = memory->number;
    return NCCL_SUCCESS;
}

enum nccl_result nigh_nccl_deregister(void *number, void *registered)
{
    struct nigh_nccl_comm *comm = nigh_nccl_table_find(CONNECTIONS, number);
    struct memory *memory = nigh_nccl_table_find(NIGH_NCCL_MEMORY, registered);

    if (!comm)
        return nigh_nccl_stale("deregMr", number, "connection that is open", NCCL_INVALID_ARGUMENT);
    if (!memory || memory->comm != number) {
        nigh_nccl_warn("deregMr: %p is no memory that is registered with the connection %p", registered,
                       number);
        return NCCL_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&comm->context->lock);
    (void)nigh_nccl_requests_cancel(comm, registered);
    pthread_mutex_unlock(&comm->context->lock);
    nigh_nccl_table_remove(registered);
    free(memory);
    return NCCL_SUCCESS;
}
