/* SPDX-License-Identifier: BSD-3-Clause */
/* See cuda.h. */
#include "tools/perf/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* CALL(slot, symbol, parameters) */
#define CALLS(CALL)                                                                                          \
    CALL(init, cuInit, (unsigned flags))                                                                     \
    CALL(error_name, cuGetErrorName, (int error, const char **name))                                         \
    CALL(device_count, cuDeviceGetCount, (int *count))                                                       \
    CALL(device_get, cuDeviceGet, (int *device, int ordinal))                                                \
    CALL(can_access_peer, cuDeviceCanAccessPeer, (int *can, int device, int peer))                           \
    CALL(retain, cuDevicePrimaryCtxRetain, (void **context, int device))                                     \
    CALL(release, cuDevicePrimaryCtxRelease_v2, (int device))                                                \
    CALL(set_current, cuCtxSetCurrent, (void *context))                                                      \
    CALL(stream_create, cuStreamCreate, (void **stream, unsigned flags))                                     \
    CALL(stream_destroy, cuStreamDestroy_v2, (void *stream))                                                 \
    CALL(stream_query, cuStreamQuery, (void *stream))                                                        \
    CALL(event_create, cuEventCreate, (void **event, unsigned flags))                                        \
    CALL(event_destroy, cuEventDestroy_v2, (void *event))                                                    \
    CALL(event_record, cuEventRecord, (void *event, void *stream))                                           \
    CALL(event_query, cuEventQuery, (void *event))                                                           \
    CALL(to_host, cuMemcpyDtoHAsync_v2, (void *to, nigh_cuda_ptr from, size_t bytes, void *stream))          \
    CALL(to_device, cuMemcpyHtoDAsync_v2, (nigh_cuda_ptr to, const void *from, size_t bytes, void *stream))  \
    CALL(on_device, cuMemcpyDtoDAsync_v2,                                                                    \
         (nigh_cuda_ptr to, nigh_cuda_ptr from, size_t bytes, void *stream))                                 \
    CALL(to_peer, cuMemcpyPeerAsync,                                                                         \
         (nigh_cuda_ptr to, void *to_context, nigh_cuda_ptr from, void *from_context, size_t bytes,          \
          void *stream))                                                                                     \
    CALL(pin, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                            \
    CALL(unpin, cuMemHostUnregister, (void *memory))                                                         \
    CALL(alloc, cuMemAlloc_v2, (nigh_cuda_ptr * at, size_t bytes))                                           \
    CALL(alloc_managed, cuMemAllocManaged, (nigh_cuda_ptr * at, size_t bytes, unsigned flags))               \
    CALL(alloc_pool, cuMemAllocAsync, (nigh_cuda_ptr * at, size_t bytes, void *stream))                      \
    CALL(free, cuMemFree_v2, (nigh_cuda_ptr at))                                                             \
    CALL(granularity, cuMemGetAllocationGranularity,                                                         \
         (size_t * bytes, const struct nigh_cuda_properties *properties, int option))                        \
    CALL(create, cuMemCreate,                                                                                \
         (nigh_cuda_handle * handle, size_t bytes, const struct nigh_cuda_properties *properties,            \
          unsigned long long flags))                                                                         \
    CALL(release_handle, cuMemRelease, (nigh_cuda_handle handle))                                            \
    CALL(reserve, cuMemAddressReserve,                                                                       \
         (nigh_cuda_ptr * at, size_t bytes, size_t alignment, nigh_cuda_ptr wish, unsigned long long flags)) \
    CALL(unreserve, cuMemAddressFree, (nigh_cuda_ptr at, size_t bytes))                                      \
    CALL(map, cuMemMap,                                                                                      \
         (nigh_cuda_ptr at, size_t bytes, size_t offset, nigh_cuda_handle handle, unsigned long long flags)) \
    CALL(unmap, cuMemUnmap, (nigh_cuda_ptr at, size_t bytes))                                                \
    CALL(set_access, cuMemSetAccess,                                                                         \
         (nigh_cuda_ptr at, size_t bytes, const struct nigh_cuda_access *access, size_t count))

static struct {
#define SLOT(slot, symbol, parameters) int(*slot) parameters;
    CALLS(SLOT)
#undef SLOT
} driver;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
#define SYMBOL(slot, symbol, parameters) {#symbol, &driver.slot},
    CALLS(SYMBOL)
#undef SYMBOL
};

static const struct {
#define NAME(slot, symbol, parameters) const char *slot;
    CALLS(NAME)
#undef NAME
} names = {
#define NAME(slot, symbol, parameters) #symbol,
    CALLS(NAME)
#undef NAME
};

/* ---- the driver ---- */

/* 0, or -EIO: the driver's call has failed. */
static int judge(struct perf_cuda *cuda, const char *call, int result)
{
    const char *name = "unknown";

    if (result == 0)
        return 0;
    driver.error_name(result, &name);
    snprintf(cuda->why, sizeof(cuda->why), "%s fails: %s (%d)", call, name ? name : "unknown", result);
    return -EIO;
}

#define TRY(slot, ...) judge(cuda, names.slot, driver.slot(__VA_ARGS__))

static int load(struct perf_cuda *cuda)
{
    void *object = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *found;

    if (!object) {
        snprintf(cuda->why, sizeof(cuda->why), "no CUDA driver is installed: %.150s", dlerror());
        return -ENODEV;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        found = dlsym(object, symbols[i].name);
        if (!found) {
            snprintf(cuda->why, sizeof(cuda->why), "the CUDA driver has no %s: CUDA 11.2 brought the last",
                     symbols[i].name);
            return -ENODEV;
        }
        memcpy(symbols[i].slot, &found, sizeof(found));
    }
    return TRY(init, 0);
}

static int use(struct perf_cuda *cuda, const struct perf_cuda_device *device)
{
    return TRY(set_current, device->context);
}

static int open_device(struct perf_cuda *cuda, struct perf_cuda_device *device, int ordinal)
{
    int rc;

    *device = (struct perf_cuda_device){.ordinal = ordinal};
    rc = TRY(device_get, &device->device, ordinal);
    if (rc == 0)
        rc = TRY(retain, &device->context, device->device);
    device->retained = rc == 0;
    if (rc == 0)
        rc = use(cuda, device);
    if (rc == 0)
        rc = TRY(stream_create, &device->stream, NIGH_CUDA_STREAM_NON_BLOCKING);
    for (unsigned i = 0; rc == 0 && i < PERF_CUDA_MARKS; i++)
        rc = TRY(event_create, &device->mark[i], NIGH_CUDA_EVENT_DISABLE_TIMING);
    return rc;
}

static struct perf_cuda_device *device_of(struct perf_cuda *cuda, const struct perf_cuda_side *side)
{
    for (unsigned i = 0; i < cuda->devices; i++)
        if (cuda->device[i].ordinal == side->device)
            return &cuda->device[i];
    return NULL;
}

static int open_side(struct perf_cuda *cuda, const struct perf_cuda_side *side, int count)
{
    if (side->kind == PERF_CUDA_HOST || device_of(cuda, side))
        return 0;
    if (side->device >= count) {
        snprintf(cuda->why, sizeof(cuda->why), "there is no device %d: the CUDA driver shows %d",
                 side->device, count);
        return -ENODEV;
    }
    return open_device(cuda, &cuda->device[cuda->devices++], side->device);
}

/* In both directions. */
static int find_reach(struct perf_cuda *cuda)
{
    int there = 1, back = 1, rc = 0;

    if (cuda->devices == 2)
        rc = TRY(can_access_peer, &there, cuda->device[0].device, cuda->device[1].device);
    if (rc == 0 && cuda->devices == 2)
        rc = TRY(can_access_peer, &back, cuda->device[1].device, cuda->device[0].device);
    cuda->reach = there && back;
    return rc;
}

int perf_cuda_open(struct perf_cuda *cuda, const struct perf_cuda_sides *sides)
{
    int count = 0, rc;

    memset(cuda, 0, sizeof(*cuda));
    rc = load(cuda);
    if (rc == 0)
        rc = TRY(device_count, &count);
    if (rc == 0)
        rc = open_side(cuda, &sides->from, count);
    if (rc == 0)
        rc = open_side(cuda, &sides->to, count);
    if (rc == 0)
        rc = find_reach(cuda);
    if (rc != 0)
        perf_cuda_close(cuda);
    return rc;
}

static void close_device(struct perf_cuda_device *device)
{
    if (device->retained)
        driver.set_current(device->context);
    for (unsigned i = 0; i < PERF_CUDA_MARKS; i++)
        if (device->mark[i])
            driver.event_destroy(device->mark[i]);
    if (device->stream)
        driver.stream_destroy(device->stream);
    if (device->retained) {
        driver.set_current(NULL);
        driver.release(device->device);
    }
}

/* What went wrong stays to be read. */
void perf_cuda_close(struct perf_cuda *cuda)
{
    while (cuda->devices > 0)
        close_device(&cuda->device[--cuda->devices]);
}

static int wait_for(struct perf_cuda *cuda, const struct perf_cuda_device *device)
{
    int rc;

    while ((rc = perf_cuda_ended(cuda, device)) == -EAGAIN)
        ;
    return rc;
}

/* ---- memory ---- */

/* Both devices may use it, where they can. */
static int give_access(struct perf_cuda *cuda, const struct perf_cuda_buffer *buffer)
{
    struct nigh_cuda_access access[2];
    size_t count = 0;

    for (unsigned i = 0; i < cuda->devices; i++)
        if (cuda->reach || &cuda->device[i] == buffer->device)
            access[count++] =
                (struct nigh_cuda_access){.location = {NIGH_CUDA_LOCATION_DEVICE, cuda->device[i].device},
                                          .flags = NIGH_CUDA_ACCESS_READ_WRITE};
    return TRY(set_access, buffer->at, buffer->mapped, access, count);
}

/* Of a kind that other processes can import, as frameworks' is, where the device has handles. */
static int map_memory(struct perf_cuda *cuda, struct perf_cuda_buffer *buffer)
{
    struct nigh_cuda_properties like = {.type = NIGH_CUDA_ALLOCATION_PINNED,
                                        .handle_types = NIGH_CUDA_HANDLE_POSIX_FD,
                                        .location = {NIGH_CUDA_LOCATION_DEVICE, buffer->device->device}};
    size_t step = 0;
    nigh_cuda_handle handle = 0;
    int rc = TRY(granularity, &step, &like, NIGH_CUDA_GRANULARITY_MINIMUM);

    if (rc != 0)
        return rc;
    buffer->mapped = (buffer->bytes + step - 1) / step * step;
    rc = TRY(create, &handle, buffer->mapped, &like, 0);
    if (rc != 0) {
        like.handle_types = 0;
        rc = TRY(create, &handle, buffer->mapped, &like, 0);
    }
    if (rc != 0)
        return rc;
    rc = TRY(reserve, &buffer->at, buffer->mapped, 0, 0, 0);
    if (rc == 0) {
        rc = TRY(map, buffer->at, buffer->mapped, 0, handle, 0);
        if (rc != 0)
            driver.unreserve(buffer->at, buffer->mapped);
    }
    driver.release_handle(handle); /* the mapping keeps the memory */
    if (rc != 0)
        return rc;
    rc = give_access(cuda, buffer);
    if (rc != 0) {
        driver.unmap(buffer->at, buffer->mapped);
        driver.unreserve(buffer->at, buffer->mapped);
    }
    return rc;
}

static int alloc_from_pool(struct perf_cuda *cuda, struct perf_cuda_buffer *buffer)
{
    int rc = TRY(alloc_pool, &buffer->at, buffer->bytes, buffer->device->stream);

    if (rc != 0)
        return rc;
    rc = wait_for(cuda, buffer->device);
    if (rc != 0)
        driver.free(buffer->at);
    return rc;
}

int perf_cuda_alloc(struct perf_cuda *cuda, const struct perf_cuda_side *side, size_t bytes,
                    struct perf_cuda_buffer *out)
{
    struct perf_cuda_buffer buffer = {.kind = side->kind, .device = device_of(cuda, side), .bytes = bytes};
    int rc = use(cuda, buffer.device);

    if (rc != 0)
        return rc;
    switch (side->kind) {
    case PERF_CUDA_PLAIN:
        rc = TRY(alloc, &buffer.at, bytes);
        break;
    case PERF_CUDA_VMM:
        rc = map_memory(cuda, &buffer);
        break;
    case PERF_CUDA_POOL:
        rc = alloc_from_pool(cuda, &buffer);
        break;
    case PERF_CUDA_MANAGED:
        rc = TRY(alloc_managed, &buffer.at, bytes, NIGH_CUDA_ATTACH_GLOBAL);
        break;
    default:
        return -EINVAL;
    }
    if (rc == 0)
        *out = buffer;
    return rc;
}

int perf_cuda_free(struct perf_cuda *cuda, struct perf_cuda_buffer *buffer)
{
    int rc;

    if (!buffer->device)
        return 0;
    rc = use(cuda, buffer->device);
    if (rc == 0 && buffer->kind == PERF_CUDA_VMM) {
        rc = TRY(unmap, buffer->at, buffer->mapped);
        if (rc == 0)
            rc = TRY(unreserve, buffer->at, buffer->mapped);
    } else if (rc == 0) {
        rc = TRY(free, buffer->at);
    }
    buffer->device = NULL;
    return rc;
}

int perf_cuda_pin(struct perf_cuda *cuda, void *memory, size_t bytes)
{
    int rc = use(cuda, &cuda->device[0]);

    return rc ? rc : TRY(pin, memory, bytes, NIGH_CUDA_PIN_PORTABLE);
}

int perf_cuda_unpin(struct perf_cuda *cuda, void *memory)
{
    int rc = use(cuda, &cuda->device[0]);

    return rc ? rc : TRY(unpin, memory);
}

/* ---- copies ---- */

static int mark_end(struct perf_cuda *cuda, const struct perf_cuda_device *device, unsigned mark)
{
    return mark < PERF_CUDA_MARKS ? TRY(event_record, device->mark[mark], device->stream) : 0;
}

int perf_cuda_start_put(struct perf_cuda *cuda, const struct perf_cuda_buffer *to, size_t offset,
                        const void *from, size_t bytes, unsigned mark)
{
    int rc = use(cuda, to->device);

    if (rc == 0)
        rc = TRY(to_device, to->at + offset, from, bytes, to->device->stream);
    return rc ? rc : mark_end(cuda, to->device, mark);
}

int perf_cuda_start_get(struct perf_cuda *cuda, void *to, const struct perf_cuda_buffer *from, size_t offset,
                        size_t bytes, unsigned mark)
{
    int rc = use(cuda, from->device);

    if (rc == 0)
        rc = TRY(to_host, to, from->at + offset, bytes, from->device->stream);
    return rc ? rc : mark_end(cuda, from->device, mark);
}

int perf_cuda_start_copy(struct perf_cuda *cuda, const struct perf_cuda_buffer *to,
                         const struct perf_cuda_buffer *from, size_t offset, size_t bytes)
{
    int rc = use(cuda, to->device);

    if (rc != 0)
        return rc;
    if (to->device == from->device)
        return TRY(on_device, to->at + offset, from->at + offset, bytes, to->device->stream);
    return TRY(to_peer, to->at + offset, to->device->context, from->at + offset, from->device->context, bytes,
               to->device->stream);
}

int perf_cuda_reached(struct perf_cuda *cuda, const struct perf_cuda_device *device, unsigned mark)
{
    int result = driver.event_query(device->mark[mark]);

    return result == NIGH_CUDA_NOT_READY ? -EAGAIN : judge(cuda, "a copy on the device", result);
}

int perf_cuda_ended(struct perf_cuda *cuda, const struct perf_cuda_device *device)
{
    int result = driver.stream_query(device->stream);

    return result == NIGH_CUDA_NOT_READY ? -EAGAIN : judge(cuda, "a copy on the device", result);
}

int perf_cuda_put(struct perf_cuda *cuda, const struct perf_cuda_buffer *to, const void *from, size_t bytes)
{
    int rc = perf_cuda_start_put(cuda, to, 0, from, bytes, PERF_CUDA_MARKS);

    return rc ? rc : wait_for(cuda, to->device);
}

int perf_cuda_get(struct perf_cuda *cuda, void *to, const struct perf_cuda_buffer *from, size_t bytes)
{
    int rc = perf_cuda_start_get(cuda, to, from, 0, bytes, PERF_CUDA_MARKS);

    return rc ? rc : wait_for(cuda, from->device);
}

/* ---- before the ranks ---- */

static int try_side(struct perf_cuda *cuda, const struct perf_cuda_side *side)
{
    struct perf_cuda_buffer buffer = {0};
    char why[PERF_CUDA_WHY_BYTES];
    int rc = side->kind == PERF_CUDA_HOST ? 0 : perf_cuda_alloc(cuda, side, 4096, &buffer);

    if (rc != 0) {
        snprintf(why, sizeof(why), "no %s memory of device %d: %.120s", perf_cuda_kind_name(side->kind),
                 side->device, cuda->why);
        memcpy(cuda->why, why, sizeof(why));
        return rc;
    }
    return perf_cuda_free(cuda, &buffer);
}

static int try_all(const struct perf_cuda_sides *sides)
{
    struct perf_cuda cuda;
    int rc = perf_cuda_open(&cuda, sides);

    if (rc == 0)
        rc = try_side(&cuda, &sides->from);
    if (rc == 0)
        rc = try_side(&cuda, &sides->to);
    if (rc != 0)
        fprintf(stderr, "nigh-perf: --cuda: %s\n", cuda.why);
    perf_cuda_close(&cuda);
    return rc;
}

int perf_cuda_probe(const struct perf_cuda_sides *sides)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(try_all(sides) == 0 ? 0 : 1);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        fprintf(stderr, "nigh-perf: --cuda: the process that tries the CUDA driver did not end well (%s)\n",
                pid < 0               ? strerror(errno)
                : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                      : "it was not found");
        return -ENODEV;
    }
    return WEXITSTATUS(status) == 0 ? 0 : -ENODEV;
}
