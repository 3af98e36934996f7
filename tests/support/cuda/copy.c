/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/copy.c - the fake driver's copies and what else can be asked of a stream. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>
#include <string.h>

static bool accessible(const struct stream *stream, cu_address at, size_t bytes, bool write)
{
    cu_address end = at + bytes;

    while (at < end) {
        const struct range *range = fake_range_at(at);
        unsigned allowed = write ? range->writable : range->readable;

        if (range->kind == RANGE_MAPPED && range->object->device >= 0 &&
            !(allowed >> stream->context->device & 1))
            return false;
        if (range->kind == RANGE_POOL && !fake_pool_reaches(range->pool, stream->context->device))
            return false;
        at = range->at + range->bytes;
    }
    return true;
}

/* The side of a copy that the caller says is a device's, or that is one. */
static bool is_side(const struct stream *stream, cu_address at, size_t pitch, const struct work *copy,
                    bool device, bool write)
{
    size_t bytes = (copy->height - 1) * pitch + copy->width;

    if (!fake_range_at(at))
        return !device && at;
    return fake_is_device(at, bytes) && accessible(stream, at, bytes, write);
}

int fake_copy(struct stream *stream, const struct work *copy)
{
    if (!stream)
        return CU_INVALID_CONTEXT;
    if (!copy->width || !copy->height)
        return CU_SUCCESS;
    fake_come_in_time();
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    if (fake_current() != stream->context)
        return CU_INVALID_CONTEXT;
    if (!is_side(stream, copy->to, copy->to_pitch, copy, copy->to_device, true) ||
        !is_side(stream, copy->from, copy->from_pitch, copy, copy->from_device, false))
        return CU_INVALID_VALUE;
    return fake_submit(stream, copy);
}

static struct work line(cu_address to, bool to_device, cu_address from, bool from_device, size_t bytes)
{
    return (struct work){.kind = WORK_COPY,
                         .to = to,
                         .from = from,
                         .to_device = to_device,
                         .from_device = from_device,
                         .width = bytes,
                         .height = 1,
                         .to_pitch = bytes,
                         .from_pitch = bytes};
}

static int copy_line(void *stream, cu_address to, bool to_device, cu_address from, bool from_device,
                     size_t bytes)
{
    struct work work = line(to, to_device, from, from_device, bytes);

    return fake_copy(fake_stream(stream), &work);
}

/* ---- in the order of a stream ------------------------------------------------------------------------------------------ */

int cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, void *stream)
{
    FAKE_CALL;
    return copy_line(stream, (uintptr_t)to, false, from, true, bytes);
}

int cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, void *stream)
{
    FAKE_CALL;
    return copy_line(stream, to, true, (uintptr_t)from, false, bytes);
}

int cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, void *stream)
{
    FAKE_CALL;
    return copy_line(stream, to, true, from, true, bytes);
}

int cuMemcpyAsync(cu_address to, cu_address from, size_t bytes, void *stream)
{
    FAKE_CALL;
    return copy_line(stream, to, false, from, false, bytes);
}

int cuMemcpyPeerAsync(cu_address to, void *to_context, cu_address from, void *from_context, size_t bytes,
                      void *stream)
{
    FAKE_CALL;
    if (!to_context || !from_context)
        return CU_INVALID_CONTEXT;
    return copy_line(stream, to, true, from, true, bytes);
}

/* ---- planes --------------------------------------------------------------------------------------------------------------- */

static bool plane_of(const struct cu_plane *plane, struct work *out)
{
    bool from_host = plane->from_type == CU_HOST_MEMORY, to_host = plane->to_type == CU_HOST_MEMORY;

    if ((!from_host && plane->from_type != CU_DEVICE_MEMORY && plane->from_type != CU_ANY_MEMORY) ||
        (!to_host && plane->to_type != CU_DEVICE_MEMORY && plane->to_type != CU_ANY_MEMORY) ||
        plane->from_pitch < plane->width + plane->from_x || plane->to_pitch < plane->width + plane->to_x)
        return false;
    *out = (struct work){.kind = WORK_COPY,
                         .to_device = plane->to_type == CU_DEVICE_MEMORY,
                         .from_device = plane->from_type == CU_DEVICE_MEMORY,
                         .width = plane->width,
                         .height = plane->height,
                         .to_pitch = plane->to_pitch,
                         .from_pitch = plane->from_pitch};
    out->to = (to_host ? (uintptr_t)plane->to_host : plane->to_device) + plane->to_y * plane->to_pitch +
              plane->to_x;
    out->from = (from_host ? (uintptr_t)plane->from_host : plane->from_device) +
                plane->from_y * plane->from_pitch + plane->from_x;
    return true;
}

static bool side_is_pinned(cu_address at, size_t pitch, const struct work *work)
{
    return fake_is_pinned((void *)(uintptr_t)at, (work->height - 1) * pitch + work->width);
}

/* The driver takes host memory that is not pinned as well, but slowly: nigh has no use for that. */
int cuMemcpy2DAsync_v2(const struct cu_plane *plane, void *stream)
{
    struct work work;

    FAKE_CALL;
    if (!plane_of(plane, &work))
        return CU_INVALID_VALUE;
    if (work.width && work.height &&
        ((plane->from_type == CU_HOST_MEMORY && !side_is_pinned(work.from, work.from_pitch, &work)) ||
         (plane->to_type == CU_HOST_MEMORY && !side_is_pinned(work.to, work.to_pitch, &work))))
        return CU_INVALID_VALUE;
    return fake_copy(fake_stream(stream), &work);
}

/* ---- batches ---------------------------------------------------------------------------------------------------------------- */

/* The source is read before the call returns. */
static void take_source(struct work *work)
{
    struct work now = *work;

    work->owned = malloc(work->width);
    if (!work->owned)
        abort();
    now.to = (uintptr_t)work->owned;
    now.to_device = false;
    fake_copy_now(&now);
    work->from = now.to;
    work->from_device = false;
}

static int batch(cu_address *to, cu_address *from, const size_t *bytes, size_t count,
                 const struct cu_copy_attributes *attributes, const size_t *firsts, size_t kinds,
                 void *handle)
{
    struct stream *stream = handle ? fake_stream(handle) : NULL;
    size_t kind = 0;
    int rc = CU_SUCCESS;

    if (!stream || stream->legacy || !count || !kinds || kinds > count || firsts[0])
        return CU_INVALID_VALUE;
    for (size_t i = 0; !rc && i < count; i++) {
        struct work work = line(to[i], false, from[i], false, bytes[i]);

        while (kind + 1 < kinds && firsts[kind + 1] <= i)
            kind++;
        if (!bytes[i] || attributes[kind].order < 1 || attributes[kind].order > 3 ||
            attributes[kind].flags > 1)
            return CU_INVALID_VALUE;
        if (attributes[kind].order == 2)
            take_source(&work);
        rc = fake_copy(stream, &work);
        if (rc)
            free(work.owned);
    }
    return rc;
}

int cuMemcpyBatchAsync(cu_address *to, cu_address *from, size_t *bytes, size_t count,
                       struct cu_copy_attributes *attributes, size_t *firsts, size_t kinds, size_t *failed,
                       void *stream)
{
    int rc;

    FAKE_CALL;
    rc = batch(to, from, bytes, count, attributes, firsts, kinds, stream);
    if (rc && failed)
        *failed = (size_t)-1;
    return rc;
}

int cuMemcpyBatchAsync_v2(cu_address *to, cu_address *from, size_t *bytes, size_t count,
                          struct cu_copy_attributes *attributes, size_t *firsts, size_t kinds, void *stream)
{
    FAKE_CALL;
    return batch(to, from, bytes, count, attributes, firsts, kinds, stream);
}

/* ---- in the call ---------------------------------------------------------------------------------------------------------------- */

static int synchronous(const char *call, const struct work *work)
{
    struct stream *stream = fake_stream(NULL);
    int rc;

    if (!stream)
        return CU_INVALID_CONTEXT;
    fake_waits_for_host(call);
    rc = fake_copy(stream, work);
    if (!rc)
        fake_finish(stream, call);
    return rc;
}

int cuMemcpy(cu_address to, cu_address from, size_t bytes)
{
    struct work work = line(to, false, from, false, bytes);

    FAKE_CALL;
    fake_come_all();
    return synchronous(__func__, &work);
}

/* From memory that is not pinned it may return before the bytes are there. */
int cuMemcpyHtoD_v2(cu_address to, const void *from, size_t bytes)
{
    struct work work = line(to, true, (uintptr_t)from, false, bytes);

    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    if (bytes && !fake_is_device(to, bytes))
        return CU_INVALID_VALUE;
    if (fake_is_pinned(from, bytes)) {
        fake_come_all();
        return synchronous(__func__, &work);
    }
    fake_waits_for_host(__func__);
    fake_finish_context(fake_current(), __func__);
    fake_put(to, from, bytes);
    return CU_SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes)
{
    struct work work = line((uintptr_t)to, false, from, true, bytes);

    FAKE_CALL;
    fake_come_all();
    return synchronous(__func__, &work);
}

int cuMemcpyDtoD_v2(cu_address to, cu_address from, size_t bytes)
{
    struct work work = line(to, true, from, true, bytes);

    FAKE_CALL;
    fake_come_all();
    return synchronous(__func__, &work);
}

static int plane_now(const char *call, const struct cu_plane *plane)
{
    struct work work;

    if (!plane_of(plane, &work))
        return CU_INVALID_VALUE;
    fake_come_all();
    return synchronous(call, &work);
}

int cuMemcpy2D_v2(const struct cu_plane *plane)
{
    FAKE_CALL;
    return plane_now(__func__, plane);
}

int cuMemcpy2DUnaligned_v2(const struct cu_plane *plane)
{
    FAKE_CALL;
    return plane_now(__func__, plane);
}

/* ---- no copies --------------------------------------------------------------------------------------------------------------------- */

static int device_work(void *handle, struct work *work)
{
    struct stream *stream = fake_stream(handle);

    if (!stream)
        return CU_INVALID_CONTEXT;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    if (!work->width)
        return CU_SUCCESS;
    work->to_device = true;
    work->height = 1;
    if (!fake_is_device(work->to, work->width) || !accessible(stream, work->to, work->width, true))
        return CU_INVALID_VALUE;
    return fake_submit(stream, work);
}

static struct work filling(cu_address to, unsigned value, unsigned bytes, size_t count)
{
    return (struct work){
        .kind = WORK_FILL, .to = to, .width = bytes * count, .fill = value, .fill_bytes = bytes};
}

int cuMemsetD8Async(cu_address to, unsigned char value, size_t count, void *stream)
{
    struct work work = filling(to, value, 1, count);

    FAKE_CALL;
    return device_work(stream, &work);
}

int cuMemsetD32Async(cu_address to, unsigned value, size_t count, void *stream)
{
    struct work work = filling(to, value, 4, count);

    FAKE_CALL;
    return to % 4 ? CU_INVALID_VALUE : device_work(stream, &work);
}

/* Neither waits for what it has asked for. */
int cuMemsetD8_v2(cu_address to, unsigned char value, size_t count)
{
    struct work work = filling(to, value, 1, count);

    FAKE_CALL;
    return device_work(NULL, &work);
}

int cuMemsetD32_v2(cu_address to, unsigned value, size_t count)
{
    struct work work = filling(to, value, 4, count);

    FAKE_CALL;
    return to % 4 ? CU_INVALID_VALUE : device_work(NULL, &work);
}

static int word(void *stream, enum work_kind kind, cu_address at, number value, size_t bytes, unsigned flags)
{
    struct work work = {.kind = kind, .to = at, .width = bytes, .value = value, .flags = flags};

    if (at % bytes)
        return CU_INVALID_VALUE;
    fake_need_worker();
    return device_work(stream, &work);
}

/* Not to the memory of another process. */
static int write_value(void *stream, cu_address at, number value, size_t bytes, unsigned flags)
{
    const struct range *range = fake_range_at(at);

    if (range && range->object->imported)
        return CU_NOT_SUPPORTED;
    return word(stream, WORK_WRITE, at, value, bytes, flags);
}

int cuStreamWriteValue32_v2(void *stream, cu_address at, unsigned value, unsigned flags)
{
    FAKE_CALL;
    return write_value(stream, at, value, 4, flags);
}

int cuStreamWriteValue64_v2(void *stream, cu_address at, unsigned long long value, unsigned flags)
{
    FAKE_CALL;
    return write_value(stream, at, value, 8, flags);
}

int cuStreamWaitValue32_v2(void *stream, cu_address at, unsigned value, unsigned flags)
{
    FAKE_CALL;
    return word(stream, WORK_WATCH, at, value, 4, flags);
}

int cuStreamWaitValue64_v2(void *stream, cu_address at, unsigned long long value, unsigned flags)
{
    FAKE_CALL;
    return word(stream, WORK_WATCH, at, value, 8, flags);
}

/* The function may call nothing of the driver's. */
int cuLaunchHostFunc(void *handle, void (*function)(void *), void *argument)
{
    struct stream *stream;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_CONTEXT;
    if (!function)
        return CU_INVALID_VALUE;
    if (fake_spoils())
        return CU_CAPTURE_UNSUPPORTED;
    fake_need_worker();
    return fake_submit(stream, &(struct work){.kind = WORK_HOST, .function = function, .argument = argument});
}
