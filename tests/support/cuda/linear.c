/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/linear.c - memory as of cuMemAlloc(), cuMemAllocHost() and cuMemAllocManaged(). */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Managed memory faults as well: nigh has the driver copy it. */
int fake_linear_alloc(enum range_kind kind, struct context *context, size_t bytes, cu_address *at)
{
    struct range range = {.kind = kind, .bytes = bytes, .finishes = kind == RANGE_MANAGED};
    int device = kind == RANGE_HOST ? -1 : fake.visible[context->device],
        rc = fake_object_create(OBJECT_LINEAR, bytes, device, &range.object);

    if (rc)
        return rc;
    range.block = range.object->id;
    range.context = context;
    range.at = fake_address_take(bytes, 0);
    if (!range.at) {
        fake_object_drop(range.object);
        return CU_OUT_OF_MEMORY;
    }
    if (kind == RANGE_HOST && mmap((void *)(uintptr_t)range.at, bytes, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_FIXED, range.object->fd, 0) == MAP_FAILED)
        abort();
    fake_range_add(&range);
    *at = range.at;
    return CU_SUCCESS;
}

static int alloc(const char *call, enum range_kind kind, size_t bytes, cu_address *at)
{
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    fake_waits_for_host(call);
    return fake_linear_alloc(kind, fake_current(), bytes, at);
}

int cuMemAlloc_v2(cu_address *at, size_t bytes)
{
    FAKE_CALL;
    return alloc(__func__, RANGE_LINEAR, bytes, at);
}

int cuMemAllocPitch_v2(cu_address *at, size_t *pitch, size_t width, size_t height, unsigned element)
{
    int rc;

    FAKE_CALL;
    if (element != 4 && element != 8 && element != 16)
        return CU_INVALID_VALUE;
    rc = alloc(__func__, RANGE_LINEAR, (width + 511) / 512 * 512 * height, at);
    if (!rc)
        *pitch = (width + 511) / 512 * 512;
    return rc;
}

int cuMemAllocManaged(cu_address *at, size_t bytes, unsigned flags)
{
    FAKE_CALL;
    if (flags != 1 && flags != 2)
        return CU_INVALID_VALUE;
    return alloc(__func__, RANGE_MANAGED, bytes, at);
}

static int host_alloc(const char *call, void **at, size_t bytes)
{
    cu_address made;
    int rc = alloc(call, RANGE_HOST, bytes, &made);

    if (!rc)
        *at = (void *)(uintptr_t)made;
    return rc;
}

int cuMemAllocHost_v2(void **at, size_t bytes)
{
    FAKE_CALL;
    return host_alloc(__func__, at, bytes);
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    FAKE_CALL;
    if (flags > 7)
        return CU_INVALID_VALUE;
    return host_alloc(__func__, at, bytes);
}

/* All work of the process first, as the driver does. */
static void release(struct range *range, const char *call)
{
    fake_finish_context(NULL, call);
    fake_come_all();
    fake_range_remove(range);
}

int cuMemFree_v2(cu_address at)
{
    struct range *range;

    FAKE_CALL;
    fake_waits_for_host(__func__);
    range = fake_range_at(at);
    if (!range || range->at != at || range->releasing ||
        (range->kind != RANGE_LINEAR && range->kind != RANGE_MANAGED && range->kind != RANGE_POOL))
        return CU_INVALID_VALUE;
    release(range, __func__);
    return CU_SUCCESS;
}

int cuMemFreeHost(void *at)
{
    struct range *range;

    FAKE_CALL;
    fake_waits_for_host(__func__);
    range = fake_range_at((uintptr_t)at);
    if (!range || range->at != (uintptr_t)at || range->kind != RANGE_HOST)
        return CU_INVALID_VALUE;
    release(range, __func__);
    return CU_SUCCESS;
}

int cuMemHostGetDevicePointer_v2(cu_address *at, void *host, unsigned flags)
{
    const struct range *range = NULL;

    FAKE_CALL;
    range = fake_range_at((uintptr_t)host);
    if (flags || (!(range && range->kind == RANGE_HOST) && !fake_is_pinned(host, 1)))
        return CU_INVALID_VALUE;
    *at = (uintptr_t)host;
    return CU_SUCCESS;
}

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    *total = fake.memory;
    *free = fake.memory - fake_object_used(fake.visible[fake_current()->device]);
    return CU_SUCCESS;
}

/* Of memory that was mapped: the one mapping that holds `at`, not what was reserved around it. */
int cuMemGetAddressRange_v2(cu_address *base, size_t *bytes, cu_address at)
{
    const struct range *range;

    FAKE_CALL;
    range = fake_range_at(at);
    if (!range)
        return CU_NOT_FOUND;
    if (base)
        *base = range->at;
    if (bytes)
        *bytes = range->bytes;
    return CU_SUCCESS;
}
