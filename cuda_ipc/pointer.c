/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/pointer.c - see pointer.h. */
#include "cuda_ipc/pointer.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the driver says of one address. */
struct facts {
    void *context;
    unsigned type, sync, managed;
    int ordinal;
    unsigned long long buffer_id;
};

static int ask(const struct nigh_driver *driver, uint64_t at, struct facts *out)
{
    int attributes[] = {NIGH_CUDA_POINTER_CONTEXT,        NIGH_CUDA_POINTER_MEMORY_TYPE,
                        NIGH_CUDA_POINTER_SYNC_MEMOPS,    NIGH_CUDA_POINTER_IS_MANAGED,
                        NIGH_CUDA_POINTER_DEVICE_ORDINAL, NIGH_CUDA_POINTER_BUFFER_ID};
    struct facts facts = {.ordinal = -1};
    void *values[] = {&facts.context, &facts.type,    &facts.sync,
                      &facts.managed, &facts.ordinal, &facts.buffer_id};
    int result = driver->pointer_attributes(6, attributes, values, at);

    if (result)
        return nigh_driver_check(driver, "cuPointerGetAttributes", result);
    facts.managed &= 0xffu; /* the driver writes a byte or a word */
    facts.sync &= 0xffu;
    *out = facts;
    return 0;
}

static bool is_device(const struct facts *facts)
{
    return facts->managed || facts->type == NIGH_CUDA_MEMORY_DEVICE;
}

/* *host: it was mapped by cuMemMap() and is memory of the host, which the driver may call the device's. */
static bool is_mapped(const struct nigh_driver *driver, uint64_t at, bool *host)
{
    struct nigh_cuda_properties properties = {.type = 0};
    nigh_cuda_handle handle;

    *host = false;
    if (!driver->retain || driver->retain(&handle, (void *)(uintptr_t)at))
        return false;
    if (driver->properties(&properties, handle) == 0)
        *host = properties.location.type == NIGH_CUDA_LOCATION_HOST ||
                properties.location.type == NIGH_CUDA_LOCATION_HOST_NUMA ||
                properties.location.type == NIGH_CUDA_LOCATION_HOST_NUMA_CURRENT;
    driver->release(handle);
    return true;
}

static enum nigh_cuda_kind kind_of(const struct nigh_driver *driver, const struct facts *facts, uint64_t at,
                                   bool *host, void **pool)
{
    *pool = NULL;
    if (is_mapped(driver, at, host))
        return NIGH_CUDA_KIND_MAPPED;
    if (facts->managed)
        return NIGH_CUDA_KIND_MANAGED;
    if (driver->pointer_attribute(pool, NIGH_CUDA_POINTER_MEMPOOL_HANDLE, at) == 0 && *pool)
        return NIGH_CUDA_KIND_POOL;
    return NIGH_CUDA_KIND_PLAIN;
}

/* ---- the walk over segments ---------------------------------------------------------------------------- */

static int refuse(const struct nigh_cuda_memory *memory, uint64_t at, int error, const char *why)
{
    nigh_log(NIGH_LOG_WARN,
             "the device buffer of %" PRIu64 " bytes at 0x%" PRIx64 " cannot be used: at 0x%" PRIx64 " %s",
             memory->bytes, memory->at, at, why);
    return error;
}

/* The segment that `at` lies in. The driver's word for its end is the one mapping's: RANGE_START_ADDR would be that of the
 * reserved addresses, which may have holes. */
static int find_segment(const struct nigh_driver *driver, const struct nigh_cuda_memory *memory, uint64_t at,
                        struct nigh_cuda_segment *out)
{
    struct facts facts;
    nigh_cuda_ptr base = 0;
    size_t bytes = 0;
    bool host;
    int rc = ask(driver, at, &facts);

    if (rc)
        return rc;
    if (!is_device(&facts))
        return facts.type ? refuse(memory, at, -EXDEV, "memory of the host begins")
                          : refuse(memory, at, -EFAULT, "no device memory is mapped");
    if (facts.ordinal != memory->ordinal)
        return refuse(memory, at, -EXDEV, "memory of another device begins");
    if (memory->kind == NIGH_CUDA_KIND_MAPPED && !is_mapped(driver, at, &host))
        return refuse(memory, at, -EFAULT, "another allocation begins, which was not mapped by cuMemMap");
    if (memory->kind == NIGH_CUDA_KIND_MAPPED && host)
        return refuse(memory, at, -EXDEV, "memory of the host begins");
    if (driver->address_range(&base, &bytes, at) || !bytes || base > at || at - base >= bytes)
        return refuse(memory, at, -EFAULT, "the CUDA driver knows of no allocation");
    *out = (struct nigh_cuda_segment){.base = base, .bytes = bytes, .buffer_id = facts.buffer_id};
    return 0;
}

static int add(struct nigh_cuda_memory **memory, const struct nigh_cuda_segment *segment)
{
    struct nigh_cuda_memory *grown;
    uint32_t count = (*memory)->segments;

    if (!(count & (count - 1))) { /* room for the next power of two */
        grown = realloc(*memory, sizeof(*grown) + 2 * (count ? count : 1) * sizeof(*segment));
        if (!grown)
            return -ENOMEM;
        *memory = grown;
    }
    (*memory)->segment[(*memory)->segments++] = *segment;
    return 0;
}

static int walk(const struct nigh_driver *driver, struct nigh_cuda_memory **memory)
{
    uint64_t at = (*memory)->at, end = at + ((*memory)->bytes ? (*memory)->bytes : 1);
    int rc = 0;

    while (at < end && !rc) {
        struct nigh_cuda_segment segment;

        if ((*memory)->segments && (*memory)->kind != NIGH_CUDA_KIND_MAPPED)
            return refuse(*memory, at, -EFAULT, "its allocation ends");
        rc = find_segment(driver, *memory, at, &segment);
        if (!rc && (*memory)->segments && segment.base != at)
            rc = refuse(*memory, at, -EFAULT, "a mapping begins elsewhere");
        if (!rc)
            rc = add(memory, &segment);
        if (!rc)
            at = segment.base + segment.bytes;
    }
    return rc;
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static int walk_in_context(struct nigh_cuda_memory **memory, const struct facts *facts)
{
    struct nigh_cuda_context *context = (*memory)->context;
    int mode, left, rc = nigh_cuda_enter(context, &mode);

    if (rc)
        return rc;
    rc = walk(context->driver, memory);
    if (!rc && !facts->sync)
        nigh_settle_memory(context, (void *)(uintptr_t)(*memory)->at);
    left = nigh_cuda_leave(context, mode);
    return rc ? rc : left;
}

static int look(struct nigh_cuda *cuda, const struct facts *facts, enum nigh_cuda_kind kind, void *pool,
                uint64_t at, uint64_t bytes, struct nigh_cuda_memory **out)
{
    struct nigh_cuda_memory *memory = nigh_os.calloc(1, sizeof(*memory) + sizeof(memory->segment[0]));
    int rc;

    if (!memory)
        return -ENOMEM;
    memory->kind = kind;
    memory->pool = pool;
    memory->ordinal = facts->ordinal;
    memory->at = at;
    memory->bytes = bytes;
    if (bytes > UINT64_MAX - at)
        rc = refuse(memory, at, -EFAULT, "more bytes are meant than there are addresses");
    else
        rc = nigh_cuda_context_find(cuda, facts->context, facts->ordinal, &memory->context);
    if (!rc)
        rc = walk_in_context(&memory, facts);
    if (rc)
        free(memory);
    else
        *out = memory;
    return rc;
}

/* Memory that begins as the host's ends as it, too. */
static int check_end(const struct nigh_driver *driver, uint64_t at, uint64_t bytes)
{
    uint64_t last = bytes > UINT64_MAX - at ? UINT64_MAX : at + (bytes ? bytes - 1 : 0);
    struct facts facts;
    bool host = false;
    int rc = ask(driver, last, &facts);

    if (rc || !is_device(&facts) || (is_mapped(driver, last, &host) && host))
        return rc;
    nigh_log(NIGH_LOG_WARN,
             "the buffer of %" PRIu64 " bytes at 0x%" PRIx64
             " cannot be used: it begins in memory of the host and ends in that of device %d",
             bytes, at, facts.ordinal);
    return -EXDEV;
}

int nigh_cuda_look(struct nigh_cuda *cuda, const void *at, uint64_t bytes, struct nigh_cuda_memory **out)
{
    const struct nigh_driver *driver = cuda->driver;
    struct nigh_cuda_memory *memory = NULL;
    enum nigh_cuda_kind kind = NIGH_CUDA_KIND_PLAIN;
    struct facts facts;
    void *pool = NULL;
    bool host = false;
    int mode, left, rc = nigh_cuda_relax(driver, &mode);

    if (rc)
        return rc;
    rc = ask(driver, (uintptr_t)at, &facts);
    if (!rc && is_device(&facts))
        kind = kind_of(driver, &facts, (uintptr_t)at, &host, &pool);
    if (!rc && is_device(&facts) && !host)
        rc = look(cuda, &facts, kind, pool, (uintptr_t)at, bytes, &memory);
    else if (!rc)
        rc = check_end(driver, (uintptr_t)at, bytes);
    left = nigh_cuda_put_back(driver, mode);
    rc = rc ? rc : left;
    if (rc)
        free(memory);
    else
        *out = memory;
    return rc;
}
