/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/memory.c - regMr and deregMr. A registration says which requests to take back before its memory is freed; that of device
 * memory is a region of nigh's, too. */
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"
#include "hosts/nccl/table.h"
#include "include/common/descriptor.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = NIGH_NCCL_SENDER | NIGH_NCCL_RECEIVER };

struct memory {
    void *number, *comm;
    struct nigh_region *region; /* NULL: the host's */
};

/* NCCL has loaded its driver before its plugins, and passes device memory only where NCCL_NET_GDR_LEVEL asks for it. */
int nigh_nccl_pointers(void)
{
    void *driver = NIGH_FD_DURING(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD));

    if (driver)
        dlclose(driver);
    return driver ? NCCL_PTR_HOST | NCCL_PTR_CUDA : NCCL_PTR_HOST;
}

static enum nccl_result refuse(const char *why)
{
    nigh_nccl_warn("regMr: %s", why);
    return NCCL_INVALID_ARGUMENT;
}

/* Whose memory it is is found out here, once. */
static enum nccl_result make_region(struct nigh_nccl_comm *comm, void *data, size_t bytes,
                                    struct nigh_region **out)
{
    const struct nigh_register what = {
        .size = sizeof(what), .flags = NIGH_REGISTER_DEVICE, .buffer = data, .bytes = bytes};
    const char *heard;
    uint64_t key = 0;
    int rc;

    nigh_nccl_turn_wait(&comm->context->turn);
    nigh_nccl_hear();
    rc = nigh_nccl_nigh()->register_memory(comm->context->nigh, &what, &key, out);
    heard = nigh_nccl_heard();
    nigh_nccl_turn_give(&comm->context->turn);
    if (!rc)
        return NCCL_SUCCESS;
    nigh_nccl_warn("regMr: %zu bytes of device memory at %p: %s%s%s", bytes, data, strerror(-rc),
                   *heard ? ": " : "", heard);
    return nigh_nccl_result(rc);
}

static void end_region(struct nigh_nccl_comm *comm, struct nigh_region *region)
{
    if (region)
        (void)nigh_nccl_nigh()->deregister(comm->context->nigh, region);
}

bool nigh_nccl_memory_find(const void *registered, struct nigh_region **region)
{
    const struct memory *memory = registered ? nigh_nccl_table_find(NIGH_NCCL_MEMORY, registered) : NULL;

    *region = memory ? memory->region : NULL;
    return memory || !registered;
}

enum nccl_result nigh_nccl_register(void *number, void *data, size_t bytes, int type, void **out)
{
    struct nigh_nccl_comm *comm = nigh_nccl_table_find(CONNECTIONS, number);
    struct nigh_region *region = NULL;
    struct memory *memory;
    enum nccl_result result = NCCL_SUCCESS;

    if (!comm)
        return nigh_nccl_stale("regMr", number, "connection that is open", NCCL_INVALID_ARGUMENT);
    if (!out || (!data && bytes))
        return refuse("there is no memory at NULL");
    if ((type == NCCL_PTR_CUDA || type == NCCL_PTR_DMABUF) && !(type & nigh_nccl_pointers()))
        return refuse("it is device memory of a kind that ptrSupport does not say");
    if (type != NCCL_PTR_HOST && type != NCCL_PTR_CUDA)
        return refuse("the type of the memory is unknown");
    if (type == NCCL_PTR_CUDA && bytes)
        result = make_region(comm, data, bytes, &region);
    if (result)
        return result;
    memory = malloc(sizeof(*memory));
    if (!memory)
        goto no_memory;
    *memory = (struct memory){.comm = number, .region = region};
    memory->number = nigh_nccl_table_add(NIGH_NCCL_MEMORY, memory);
    if (!memory->number)
        goto no_number;
    *out = memory->number;
    return NCCL_SUCCESS;
no_number:
    free(memory);
no_memory:
    nigh_nccl_turn_wait(&comm->context->turn);
    end_region(comm, region);
    nigh_nccl_turn_give(&comm->context->turn);
    return NCCL_SYSTEM_ERROR;
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
    nigh_nccl_turn_wait(&comm->context->turn);
    (void)nigh_nccl_requests_cancel(comm, registered);
    end_region(comm, memory->region);
    nigh_nccl_turn_give(&comm->context->turn);
    nigh_nccl_table_remove(registered);
    free(memory);
    return NCCL_SUCCESS;
}
