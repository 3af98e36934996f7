/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/virtual.c - the fake driver's virtual memory: allocations, addresses, mappings, descriptors. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A number of a handle is never used again, so what uses one that was released is found out. */
static struct {
    struct object *object;
    unsigned uses;
} * handles;
static size_t handles_made, handles_room;

enum { FIRST_HANDLE = 0x1000 };

static number handle_of(struct object *object)
{
    for (size_t i = 0; i < handles_made; i++)
        if (handles[i].object == object)
            return FIRST_HANDLE + i;
    return 0;
}

static number new_handle(struct object *object)
{
    if (handles_made == handles_room) {
        handles_room = handles_room ? 2 * handles_room : 64;
        handles = realloc(handles, handles_room * sizeof(*handles));
        if (!handles)
            abort();
    }
    handles[handles_made].object = object;
    handles[handles_made].uses = 1;
    return FIRST_HANDLE + handles_made++;
}

static struct object *object_of(number handle)
{
    return handle >= FIRST_HANDLE && handle - FIRST_HANDLE < handles_made
               ? handles[handle - FIRST_HANDLE].object
               : NULL;
}

/* ---- allocations ------------------------------------------------------------------------------------------------ */

static bool is_location(const struct cu_location *location)
{
    return location->type == CU_ON_DEVICE ? location->id >= 0 && location->id < fake.shown
                                          : location->type >= CU_ON_HOST && location->type <= CU_ON_THIS_NODE;
}

int fake_create(size_t bytes, const struct cu_allocation *properties, struct object **out)
{
    const struct cu_location *location = &properties->location;
    int rc;

    if (properties->type != CU_PINNED || !bytes || bytes % GRANULARITY)
        return CU_INVALID_VALUE;
    if (!is_location(location))
        return location->type == CU_ON_DEVICE ? CU_INVALID_DEVICE : CU_INVALID_VALUE;
    if (properties->handle_types & ~CU_POSIX_FD)
        return CU_NOT_SUPPORTED;
    rc = fake_object_create(OBJECT_VIRTUAL, bytes,
                            location->type == CU_ON_DEVICE ? fake.visible[location->id] : -1, out);
    if (rc)
        return rc;
    (*out)->handle_types = properties->handle_types;
    (*out)->location = *location;
    return CU_SUCCESS;
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct cu_allocation *properties, int option)
{
    FAKE_CALL;
    if (properties->type != CU_PINNED || !is_location(&properties->location) || option < 0 || option > 1)
        return CU_INVALID_VALUE;
    *bytes = GRANULARITY;
    return CU_SUCCESS;
}

int cuMemCreate(unsigned long long *handle, size_t bytes, const struct cu_allocation *properties,
                unsigned long long flags)
{
    struct object *object;
    int rc;

    FAKE_CALL;
    rc = flags ? CU_INVALID_VALUE : fake_create(bytes, properties, &object);
    if (!rc)
        *handle = new_handle(object);
    return rc;
}

int cuMemRelease(unsigned long long handle)
{
    struct object *object;

    FAKE_CALL;
    object = object_of(handle);
    if (!object)
        return CU_INVALID_VALUE;
    if (--handles[handle - FIRST_HANDLE].uses == 0)
        handles[handle - FIRST_HANDLE].object = NULL;
    fake_object_drop(object);
    return CU_SUCCESS;
}

int cuMemGetAllocationPropertiesFromHandle(struct cu_allocation *properties, unsigned long long handle)
{
    const struct object *object;

    FAKE_CALL;
    object = object_of(handle);
    if (!object)
        return CU_INVALID_VALUE;
    *properties = (struct cu_allocation){
        .type = CU_PINNED, .handle_types = object->handle_types, .location = object->location};
    return CU_SUCCESS;
}

int cuMemRetainAllocationHandle(unsigned long long *handle, void *at)
{
    const struct range *range;
    number found;

    FAKE_CALL;
    range = fake_range_at((uintptr_t)at);
    if (!range || range->kind != RANGE_MAPPED)
        return CU_INVALID_VALUE;
    fake_object_use(range->object);
    found = handle_of(range->object);
    if (found)
        handles[found - FIRST_HANDLE].uses++;
    *handle = found ? found : new_handle(range->object);
    return CU_SUCCESS;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

int cuMemExportToShareableHandle(void *out, unsigned long long handle, int type, unsigned long long flags)
{
    struct object *object;

    FAKE_CALL;
    object = object_of(handle);
    if (!object || flags || !(object->handle_types & type))
        return CU_INVALID_VALUE;
    return fake_object_export(object, out);
}

/* Instances of one card reach each other's memory as little as devices without a link do. */
static bool reaches(const struct object *object)
{
    if (object->device < 0 || !fake.mig)
        return true;
    for (int i = 0; i < fake.shown; i++)
        if (fake.visible[i] == object->device)
            return true;
    return false;
}

int cuMemImportFromShareableHandle(unsigned long long *handle, void *from, int type)
{
    struct object *object;
    int rc;

    FAKE_CALL;
    if (type != CU_POSIX_FD)
        return type == CU_FABRIC ? CU_NOT_SUPPORTED : CU_INVALID_VALUE;
    rc = fake_object_import(OBJECT_VIRTUAL, (int)(intptr_t)from, &object);
    if (rc)
        return rc;
    if (!reaches(object)) {
        fake_object_drop(object);
        return CU_NOT_SUPPORTED;
    }
    *handle = new_handle(object);
    return CU_SUCCESS;
}

/* For the CPU, where the driver can: of one whole allocation. */
int cuMemGetHandleForAddressRange(void *out, cu_address at, size_t bytes, int type, unsigned long long flags)
{
    const struct range *range;

    FAKE_CALL;
    range = fake_range_at(at);
    if (type != 1 || flags || !range || at % 4096 || bytes % 4096 || !bytes)
        return CU_INVALID_VALUE;
    if (!fake.mmap || range->at != at || range->bytes < bytes || range->offset ||
        (range->kind != RANGE_LINEAR && range->kind != RANGE_MAPPED))
        return CU_NOT_SUPPORTED;
    return fake_object_export(range->object, out);
}

/* ---- addresses and mappings ---------------------------------------------------------------------------------------- */

int cuMemAddressReserve(cu_address *at, size_t bytes, size_t alignment, cu_address wish,
                        unsigned long long flags)
{
    const struct reservation *made;

    FAKE_CALL;
    if (flags || !bytes || bytes % GRANULARITY || alignment & (alignment - 1) || alignment > GRANULARITY)
        return CU_INVALID_VALUE;
    made = fake_reserve(bytes, alignment, wish);
    if (!made)
        return CU_OUT_OF_MEMORY;
    *at = made->at;
    return CU_SUCCESS;
}

int cuMemAddressFree(cu_address at, size_t bytes)
{
    FAKE_CALL;
    return fake_unreserve(at, bytes);
}

int fake_map(cu_address at, size_t bytes, struct object *object)
{
    struct reservation *reservation = fake_reservation_of(at, bytes);
    const struct range *next = fake_range_from(at);

    if (!reservation || !bytes || at % GRANULARITY || bytes % GRANULARITY || bytes > object->bytes ||
        (next && next->at < at + bytes))
        return CU_INVALID_VALUE;
    fake_object_use(object);
    fake_range_add(&(struct range){.at = at,
                                   .bytes = bytes,
                                   .kind = RANGE_MAPPED,
                                   .object = object,
                                   .reservation = reservation,
                                   .block = object->id});
    return CU_SUCCESS;
}

int cuMemMap(cu_address at, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags)
{
    struct object *object;

    FAKE_CALL;
    object = object_of(handle);
    if (!object || offset || flags)
        return CU_INVALID_VALUE;
    return fake_map(at, bytes, object);
}

/* True: these addresses are whole mappings, one behind the other. */
static bool are_mappings(cu_address at, size_t bytes, bool whole)
{
    const struct range *range = fake_range_at(at);
    cu_address end = at + bytes;

    if (!bytes || !range || (whole && range->at != at))
        return false;
    for (; at < end; at = range->at + range->bytes) {
        range = fake_range_at(at);
        if (!range || range->kind != RANGE_MAPPED)
            return false;
    }
    return !whole || at == end;
}

/* It does not wait for copies: those under way fault. */
int fake_unmap(cu_address at, size_t bytes)
{
    cu_address end = at + bytes;

    if (!are_mappings(at, bytes, true))
        return CU_INVALID_VALUE;
    if (fake_in_use(at, bytes))
        fake_wrong("cuMemUnmap", "of memory that a copy under way reads or writes: it faults");
    while (at < end) {
        struct range *range = fake_range_at(at);

        at += range->bytes;
        fake_range_remove(range);
    }
    return CU_SUCCESS;
}

int cuMemUnmap(cu_address at, size_t bytes)
{
    FAKE_CALL;
    return fake_unmap(at, bytes);
}

/* Memory of the host's that the host may touch. */
static void open_to_cpu(const struct range *range)
{
    if (range->object->device >= 0 || range->object->fd < 0)
        return;
    if (mmap((void *)(uintptr_t)range->at, range->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             range->object->fd, 0) == MAP_FAILED)
        abort();
}

static void set_access(struct range *range, const struct cu_access *access)
{
    unsigned bit = access->location.type == CU_ON_DEVICE ? 1u << access->location.id : 1u << DEVICES_MOST;

    range->readable = access->flags & CU_READ ? range->readable | bit : range->readable & ~bit;
    range->writable = access->flags == CU_READ_WRITE ? range->writable | bit : range->writable & ~bit;
    if (access->location.type != CU_ON_DEVICE)
        open_to_cpu(range);
}

/* A device may be given what it can reach. */
static int may_reach(const struct range *range, const struct cu_location *location)
{
    int device = range->object->device;

    if (!is_location(location))
        return CU_INVALID_DEVICE;
    if (location->type != CU_ON_DEVICE)
        return device < 0 ? CU_SUCCESS : CU_INVALID_DEVICE;
    if (device < 0 || fake.visible[location->id] == device || fake.peers[fake.visible[location->id]][device])
        return CU_SUCCESS;
    return CU_NO_PEER_ACCESS;
}

int fake_set_access(cu_address at, size_t bytes, const struct cu_access *access)
{
    cu_address end = at + bytes;
    struct range *range;

    if (!are_mappings(at, bytes, true) ||
        (access->flags && access->flags != CU_READ && access->flags != CU_READ_WRITE))
        return CU_INVALID_VALUE;
    for (cu_address next = at; next < end; next = range->at + range->bytes) {
        int rc;

        range = fake_range_at(next);
        rc = may_reach(range, &access->location);
        if (rc)
            return rc;
    }
    for (; at < end; at = range->at + range->bytes) {
        range = fake_range_at(at);
        set_access(range, access);
    }
    return CU_SUCCESS;
}

int cuMemSetAccess(cu_address at, size_t bytes, const struct cu_access *access, size_t count)
{
    int rc = CU_SUCCESS;

    FAKE_CALL;
    for (size_t i = 0; !rc && i < count; i++)
        rc = fake_set_access(at, bytes, &access[i]);
    return count ? rc : CU_INVALID_VALUE;
}

int cuMemGetAccess(unsigned long long *flags, const struct cu_location *location, cu_address at)
{
    const struct range *range;
    unsigned bit;

    FAKE_CALL;
    range = fake_range_at(at);
    if (!range || !is_location(location))
        return CU_INVALID_VALUE;
    bit = location->type == CU_ON_DEVICE ? 1u << location->id : 1u << DEVICES_MOST;
    *flags = range->writable & bit ? CU_READ_WRITE : range->readable & bit ? CU_READ : 0;
    return CU_SUCCESS;
}

const char *fake_virtual_leaks(void)
{
    for (size_t i = 0; i < handles_made; i++)
        if (handles[i].object)
            return "a handle of memory was not released";
    return NULL;
}
