/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/pool.c - the fake driver's memory pools: one piece of memory each, from which allocations are cut. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES = 1 << 30, ALIGNED = 512, THRESHOLD = 4 };

#define MAGIC UINT64_C(0x6e69676847505050)

struct pool {
    struct pool *next;
    struct object *object;
    cu_address at;
    int device; /* its number in the machine */
    bool destroyed, of_device;
    number threshold;
    unsigned readable;
};

/* What an exported pointer is. */
struct shared {
    uint64_t magic, pool, offset, bytes, block;
};

static struct pool *pools, *defaults[DEVICES_MOST], *chosen[DEVICES_MOST];

static struct pool *known(void *pool)
{
    for (struct pool *one = pools; one; one = one->next)
        if (one == pool && !one->destroyed)
            return one;
    return NULL;
}

static struct pool *added(struct object *object)
{
    struct pool *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    made->object = object;
    made->device = object->device;
    made->at = fake_address_take(object->bytes, 0);
    if (!made->at)
        abort();
    made->next = pools;
    pools = made;
    return made;
}

static int create(int device, int handle_types, size_t most, struct pool **out)
{
    size_t bytes =
        most && most < POOL_BYTES ? (most + GRANULARITY - 1) / GRANULARITY * GRANULARITY : POOL_BYTES;
    struct object *object;
    int rc = fake_object_create(OBJECT_POOL, bytes < fake.memory ? bytes : fake.memory, device, &object);

    if (rc)
        return rc;
    object->handle_types = handle_types;
    object->location = (struct cu_location){CU_ON_DEVICE, 0};
    *out = added(object);
    return CU_SUCCESS;
}

static struct pool *default_of(int device)
{
    if (!defaults[device]) {
        if (create(fake.visible[device], 0, 0, &defaults[device]))
            abort();
        defaults[device]->of_device = true;
    }
    return defaults[device];
}

static bool has_ranges(const struct pool *pool)
{
    const struct range *range = fake_range_from(pool->at);

    return range && range->at < pool->at + pool->object->bytes;
}

void fake_pool_freed(void *of)
{
    struct pool *pool = of, **link = &pools;

    if (!pool->destroyed || has_ranges(pool))
        return;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    fake_address_give(pool->at, pool->object->bytes);
    fake_object_drop(pool->object);
    free(pool);
}

/* ---- allocations ---------------------------------------------------------------------------------------------------- */

static number used_of(const struct pool *pool)
{
    number used = 0;
    const struct range *range = fake_range_from(pool->at);

    for (; range && range->at < pool->at + pool->object->bytes;
         range = fake_range_from(range->at + range->bytes))
        used += range->bytes;
    return used;
}

size_t fake_pool_used(int device)
{
    size_t bytes = 0;

    for (const struct pool *pool = pools; pool; pool = pool->next)
        bytes += pool->device == device && !pool->object->imported ? used_of(pool) : 0;
    return bytes;
}

static struct range *cut(struct pool *pool, size_t offset, size_t bytes, number block)
{
    fake_object_use(pool->object);
    return fake_range_add(&(struct range){.at = pool->at + offset,
                                          .bytes = bytes,
                                          .offset = offset,
                                          .kind = RANGE_POOL,
                                          .object = pool->object,
                                          .pool = pool,
                                          .block = block});
}

/* The first gap. */
static int alloc(struct pool *pool, size_t bytes, cu_address *out)
{
    static number blocks;
    cu_address at = pool->at, end = pool->at + pool->object->bytes;
    const struct range *next = fake_range_from(at);

    if (!bytes)
        return CU_INVALID_VALUE;
    if (bytes > fake.memory || fake_object_used(pool->device) + bytes > fake.memory)
        return CU_OUT_OF_MEMORY;
    while (next && next->at < at + bytes && next->at < end) {
        at = (next->at + next->bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
        next = fake_range_from(at);
    }
    if (bytes > end - at)
        return CU_OUT_OF_MEMORY;
    cut(pool, at - pool->at, bytes, ++blocks);
    *out = at;
    return CU_SUCCESS;
}

int fake_pool_alloc(int device, size_t bytes, cu_address *at)
{
    return alloc(default_of(device), bytes, at);
}

int cuMemAllocFromPoolAsync(cu_address *at, size_t bytes, void *of, void *stream)
{
    struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!fake_stream(stream))
        return CU_INVALID_CONTEXT;
    if (!pool || pool->object->imported)
        return CU_INVALID_VALUE;
    return alloc(pool, bytes, at);
}

int cuMemAllocAsync(cu_address *at, size_t bytes, void *handle)
{
    const struct stream *stream;
    int device;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_CONTEXT;
    device = stream->context->device;
    return alloc(chosen[device] ? chosen[device] : default_of(device), bytes, at);
}

int cuMemFreeAsync(cu_address at, void *handle)
{
    struct stream *stream;
    struct range *range;

    FAKE_CALL;
    stream = fake_stream(handle);
    range = fake_range_at(at);
    if (!stream)
        return CU_INVALID_CONTEXT;
    if (!range || range->at != at || range->releasing || range->kind != RANGE_POOL)
        return CU_INVALID_VALUE;
    range->releasing = true;
    return fake_submit(stream, &(struct work){.kind = WORK_FREE, .to = at});
}

/* ---- pools ------------------------------------------------------------------------------------------------------------ */

int cuDeviceGetDefaultMemPool(void **pool, int device)
{
    FAKE_CALL;
    if (device < 0 || device >= fake.shown)
        return CU_INVALID_DEVICE;
    *pool = default_of(device);
    return CU_SUCCESS;
}

int cuDeviceGetMemPool(void **pool, int device)
{
    FAKE_CALL;
    if (device < 0 || device >= fake.shown)
        return CU_INVALID_DEVICE;
    *pool = chosen[device] ? chosen[device] : default_of(device);
    return CU_SUCCESS;
}

int cuDeviceSetMemPool(int device, void *pool)
{
    FAKE_CALL;
    if (device < 0 || device >= fake.shown)
        return CU_INVALID_DEVICE;
    if (!known(pool) || known(pool)->object->imported)
        return CU_INVALID_VALUE;
    chosen[device] = pool;
    return CU_SUCCESS;
}

int cuMemPoolCreate(void **pool, const struct cu_pool_properties *properties)
{
    struct pool *made;
    int rc;

    FAKE_CALL;
    if (properties->type != CU_PINNED || properties->location.type != CU_ON_DEVICE ||
        properties->location.id < 0 || properties->location.id >= fake.shown)
        return CU_INVALID_VALUE;
    if (properties->handle_types & ~CU_POSIX_FD)
        return CU_NOT_SUPPORTED;
    rc = create(fake.visible[properties->location.id], properties->handle_types, properties->most, &made);
    if (!rc)
        *pool = made;
    return rc;
}

/* It goes when its last allocation goes. */
int cuMemPoolDestroy(void *of)
{
    struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!pool || pool->of_device)
        return CU_INVALID_VALUE;
    for (int i = 0; i < DEVICES_MOST; i++)
        if (chosen[i] == pool)
            chosen[i] = NULL;
    pool->destroyed = true;
    fake_pool_freed(pool);
    return CU_SUCCESS;
}

int cuMemPoolTrimTo(void *pool, size_t bytes)
{
    FAKE_CALL;
    (void)bytes;
    return known(pool) ? CU_SUCCESS : CU_INVALID_VALUE;
}

int cuMemPoolGetAttribute(void *of, int attribute, void *value)
{
    const struct pool *pool;
    number wide;

    FAKE_CALL;
    pool = known(of);
    if (!pool || attribute < 1 || attribute > 8)
        return CU_INVALID_VALUE;
    if (attribute < THRESHOLD) {
        *(int *)value = 1;
        return CU_SUCCESS;
    }
    wide = attribute == THRESHOLD ? pool->threshold : used_of(pool);
    memcpy(value, &wide, sizeof(wide));
    return CU_SUCCESS;
}

int cuMemPoolSetAttribute(void *of, int attribute, void *value)
{
    struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!pool || attribute < 1 || attribute > THRESHOLD)
        return CU_INVALID_VALUE;
    if (attribute == THRESHOLD)
        memcpy(&pool->threshold, value, sizeof(pool->threshold));
    return CU_SUCCESS;
}

bool fake_pool_reaches(const void *of, int ordinal)
{
    const struct pool *pool = of;

    return fake.visible[ordinal] == pool->device || pool->readable >> ordinal & 1;
}

int cuMemPoolSetAccess(void *of, const struct cu_access *access, size_t count)
{
    struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!pool)
        return CU_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        int device = access[i].location.id;

        if (access[i].location.type != CU_ON_DEVICE || device < 0 || device >= fake.shown)
            return CU_INVALID_VALUE;
        if (fake.visible[device] != pool->device && !fake.peers[fake.visible[device]][pool->device])
            return CU_INVALID_DEVICE;
        pool->readable = access[i].flags ? pool->readable | 1u << device : pool->readable & ~(1u << device);
    }
    return CU_SUCCESS;
}

int cuMemPoolGetAccess(int *flags, void *of, struct cu_location *location)
{
    const struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!pool || location->type != CU_ON_DEVICE || location->id < 0 || location->id >= fake.shown)
        return CU_INVALID_VALUE;
    *flags = fake_pool_reaches(pool, location->id) ? CU_READ_WRITE : 0;
    return CU_SUCCESS;
}

/* ---- between processes -------------------------------------------------------------------------------------------------- */

int cuMemPoolExportToShareableHandle(void *out, void *of, int type, unsigned long long flags)
{
    struct pool *pool;

    FAKE_CALL;
    pool = known(of);
    if (!pool || flags || pool->object->imported || !(pool->object->handle_types & type))
        return CU_INVALID_VALUE;
    return fake_object_export(pool->object, out);
}

int cuMemPoolImportFromShareableHandle(void **pool, void *from, int type, unsigned long long flags)
{
    struct object *object;
    int rc;

    FAKE_CALL;
    if (type != CU_POSIX_FD || flags)
        return CU_INVALID_VALUE;
    rc = fake_object_import(OBJECT_POOL, (int)(intptr_t)from, &object);
    if (!rc)
        *pool = added(object);
    return rc;
}

int cuMemPoolExportPointer(struct cu_pool_pointer *out, cu_address at)
{
    const struct range *range;
    struct shared shared;

    FAKE_CALL;
    range = fake_range_at(at);
    if (!range || range->kind != RANGE_POOL || range->at != at || range->releasing ||
        !range->object->handle_types || range->object->imported)
        return CU_INVALID_VALUE;
    memset(out, 0, sizeof(*out));
    shared = (struct shared){MAGIC, range->object->id, range->offset, range->bytes, range->block};
    memcpy(out, &shared, sizeof(shared));
    return CU_SUCCESS;
}

int cuMemPoolImportPointer(cu_address *at, void *of, struct cu_pool_pointer *from)
{
    struct shared shared;
    struct pool *pool;
    const struct range *there;

    FAKE_CALL;
    pool = known(of);
    memcpy(&shared, from, sizeof(shared));
    if (!pool || !pool->object->imported || shared.magic != MAGIC || shared.pool != pool->object->id ||
        shared.offset > pool->object->bytes || shared.bytes > pool->object->bytes - shared.offset)
        return CU_INVALID_VALUE;
    there = fake_range_from(pool->at + shared.offset);
    if (there && there->at < pool->at + shared.offset + shared.bytes)
        return CU_ALREADY_MAPPED;
    *at = cut(pool, shared.offset, shared.bytes, shared.block)->at;
    return CU_SUCCESS;
}

const char *fake_pool_leaks(void)
{
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->object->imported)
            return "a pool of another process was not destroyed";
    return NULL;
}
