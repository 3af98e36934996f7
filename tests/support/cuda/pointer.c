/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/pointer.c - what the fake driver says of a pointer. */
#include "tests/support/cuda/fake.h"

#include <string.h>

/* Memory that was mapped, or comes from a pool, belongs to no context; the host's neither, though its range goes with the
 * context that made it. */
static void *context_of(const struct range *range)
{
    return range && (range->kind == RANGE_LINEAR || range->kind == RANGE_MANAGED ||
                     range->kind == RANGE_OPENED)
               ? range->context
               : NULL;
}

/* -2: of none that this process sees, as for memory that is not the driver's. */
static int ordinal_of(const struct range *range)
{
    if (!range)
        return -2;
    if (range->context)
        return range->context->device;
    for (int i = 0; i < fake.shown; i++)
        if (fake.visible[i] == range->object->device)
            return i;
    return range->object->device < 0 ? 0 : fake_current() ? fake_current()->device : -2;
}

static unsigned type_of(const struct range *range, cu_address at)
{
    if (!range)
        return fake_is_pinned((void *)(uintptr_t)at, 1) ? CU_HOST_MEMORY : 0;
    return range->object->device < 0 ? CU_HOST_MEMORY : CU_DEVICE_MEMORY;
}

static int access_of(const struct range *range)
{
    unsigned bit = fake_current() ? 1u << fake_current()->device : 1;

    if (!range)
        return 0;
    if (range->kind != RANGE_MAPPED)
        return CU_READ_WRITE;
    return range->writable & bit ? CU_READ_WRITE : range->readable & bit ? CU_READ : 0;
}

static bool legacy_capable(const struct range *range)
{
    return range && range->kind == RANGE_LINEAR;
}

/* RANGE_START and RANGE_SIZE speak of what was reserved, MAPPING_BASE and MAPPING_SIZE of the one mapping. */
static int tell(void *value, int attribute, const struct range *range, cu_address at)
{
    const struct reservation *around = range ? range->reservation : NULL;
    number wide = 0;

    switch (attribute) {
    case POINTER_CONTEXT:
        *(void **)value = context_of(range);
        return CU_SUCCESS;
    case POINTER_POOL:
        *(void **)value = range ? range->pool : NULL;
        return CU_SUCCESS;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)value = type_of(range, at);
        return CU_SUCCESS;
    case POINTER_ORDINAL:
        *(int *)value = ordinal_of(range);
        return CU_SUCCESS;
    case POINTER_SYNC_MEMOPS:
        *(unsigned *)value = range && range->finishes;
        return CU_SUCCESS;
    case POINTER_IS_MANAGED:
        *(unsigned *)value = range && range->kind == RANGE_MANAGED;
        return CU_SUCCESS;
    case POINTER_LEGACY_CAPABLE:
        *(unsigned *)value = legacy_capable(range);
        return CU_SUCCESS;
    case POINTER_MAPPED:
        *(unsigned *)value = range != NULL;
        return CU_SUCCESS;
    case POINTER_RDMA:
        *(unsigned *)value = 0;
        return CU_SUCCESS;
    case POINTER_ACCESS:
        *(int *)value = access_of(range);
        return CU_SUCCESS;
    case POINTER_DEVICE_POINTER:
        wide = range || type_of(range, at) ? at : 0;
        break;
    case POINTER_HOST_POINTER:
        wide = type_of(range, at) == CU_HOST_MEMORY ? at : 0;
        break;
    case POINTER_BUFFER_ID:
        wide = range ? range->id : 0;
        break;
    case POINTER_BLOCK_ID:
        wide = range ? range->block : 0;
        break;
    case POINTER_HANDLE_TYPES:
        wide = range ? (number)range->object->handle_types : 0;
        break;
    case POINTER_RANGE_START:
        wide = around ? around->at : range ? range->at : 0;
        break;
    case POINTER_RANGE_SIZE:
        wide = around ? around->bytes : range ? range->bytes : 0;
        break;
    case POINTER_MAPPING_BASE:
        wide = range ? range->at : 0;
        break;
    case POINTER_MAPPING_SIZE:
        wide = range ? range->bytes : 0;
        break;
    default:
        return CU_INVALID_VALUE;
    }
    memcpy(value, &wide, sizeof(wide));
    return CU_SUCCESS;
}

/* Of memory that is not the driver's all is zero, and that is no error. */
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, cu_address at)
{
    int rc = CU_SUCCESS;

    FAKE_CALL;
    for (unsigned i = 0; !rc && i < count; i++)
        rc = tell(values[i], attributes[i], fake_range_at(at), at);
    return count ? rc : CU_INVALID_VALUE;
}

/* Here it is one. */
int cuPointerGetAttribute(void *value, int attribute, cu_address at)
{
    const struct range *range;

    FAKE_CALL;
    range = fake_range_at(at);
    if (!range && !type_of(range, at))
        return CU_INVALID_VALUE;
    return tell(value, attribute, range, at);
}

/* Memory that was mapped piece by piece cannot finish its copies. */
int cuPointerSetAttribute(const void *value, int attribute, cu_address at)
{
    struct range *range;

    FAKE_CALL;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    range = fake_range_at(at);
    if (!range || attribute != POINTER_SYNC_MEMOPS)
        return CU_INVALID_VALUE;
    if (range->kind == RANGE_MAPPED)
        return CU_NOT_SUPPORTED;
    range->finishes = *(const unsigned *)value;
    return CU_SUCCESS;
}
