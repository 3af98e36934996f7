/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fake_cuda.c - the driver of test_cuda.h for machines without a GPU. */
#include "hosts/libfabric/cuda.h"
#include "tests/support/cuda_calls.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned long long address;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    NOT_SUPPORTED = 801,
    DESTROYED = 709,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_IMPLICIT = 906,
    NOT_READY = 600,
    LATE_US = 1000,
    RELAXED = 2,
    FINISHES = 0x80,
    DEVICES = 4,
    DEPTH = 16,
    MANY = 256
};

/* Memory of a device: nothing at `at`, its bytes at `bytes_at`. */
static struct memory {
    char *at, *bytes_at;
    size_t bytes;
    enum cuda_memory kind;
    int device;
    bool finishes;
} memories[MANY];

static struct context {
    int retained;
    unsigned lives, flags;
    bool dead;
} contexts[DEVICES]; /* [i]: the primary one of device i, and that of MEMORY_PLAIN */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* What a test has put there and has not come yet: after the provider's next copies it does. */
static struct late {
    char *to, *bytes;
    size_t count;
    long at_us; /* when it was put there: it comes within LATE_US at most */
} late[MANY];

static struct stream {
    struct context *context; /* NULL: there is none here */
    struct copy copies[MANY];
    int count;
} streams[MANY];

static struct pin {
    void *at;
    size_t bytes;
    struct context *context;
} pins[MANY];

static struct context *current[DEPTH];
static int depth, devices = 2, streams_made, capture_mode;
static bool started, broken, held, capturing, spoilt;

#define BEGIN                      \
    if (cuda_call_fails(__func__)) \
    return TEST_CUDA_ERROR

static struct memory *find(const void *at, size_t bytes)
{
    for (int i = 0; i < MANY; i++)
        if (memories[i].at && (const char *)at >= memories[i].at &&
            (const char *)at + bytes <= memories[i].at + memories[i].bytes)
            return &memories[i];
    return NULL;
}

/* Where the bytes behind a device's address lie. */
static char *behind(const void *at, size_t bytes)
{
    const struct memory *memory = find(at, bytes);

    return memory ? memory->bytes_at + ((const char *)at - memory->at) : NULL;
}

/* What waits for the host's kernels. */
static void wait_for_host(const char *call)
{
    if (held) {
        fprintf(stderr, "%s waits for a kernel of the host's, which may wait for this very message\n", call);
        abort();
    }
}

/* What may not be asked for while a graph is captured, in the mode that threads have. */
static bool spoils(void)
{
    spoilt |= capturing && capture_mode != RELAXED;
    return capture_mode != RELAXED;
}

static long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool come_all(void)
{
    bool any = late[0].to != NULL;

    for (int i = 0; i < MANY && late[i].to; i++) {
        memcpy(late[i].to, late[i].bytes, late[i].count);
        free(late[i].bytes);
        late[i].to = NULL;
    }
    return any;
}

/* Time has passed. */
static void come_in_time(void)
{
    int last = -1;

    for (int i = 0; i < MANY && late[i].to; i++)
        last = i;
    if (last >= 0 && now_us() - late[last].at_us >= LATE_US)
        come_all();
}

/* ---- the driver's calls -------------------------------------------------------------------------------- */

EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuGetErrorName(int error, const char **name);
EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer);
EXPORT int cuPointerSetAttribute(const void *value, int attribute, address pointer);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxGetCurrent(void **context);
EXPORT int cuCtxGetDevice(int *device);
EXPORT int cuCtxGetFlags(unsigned *flags);
EXPORT int cuCtxSetFlags(unsigned flags);
EXPORT int cuCtxGetId(void *context, unsigned long long *id);
EXPORT int cuCtxPopCurrent_v2(void **context);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuStreamCreate(void **stream, unsigned flags);
EXPORT int cuStreamDestroy_v2(void *stream);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuStreamQuery(void *stream);
EXPORT int cuStreamIsCapturing(void *stream, int *status);
EXPORT int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream);
EXPORT int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream);
EXPORT int cuMemcpy2DAsync_v2(const struct nigh_cuda_plane *plane, void *stream);
EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
EXPORT int cuMemHostUnregister(void *memory);

int cuInit(unsigned flags)
{
    BEGIN;
    started = !broken;
    return broken ? TEST_CUDA_ERROR : flags ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    BEGIN;
    *count = devices;
    return started ? SUCCESS : 3;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == TEST_CUDA_ERROR ? "CUDA_ERROR_FAKE" : NULL;
    return *name ? SUCCESS : INVALID_VALUE;
}

static bool is_of_context(const struct memory *memory)
{
    return memory->kind == MEMORY_PLAIN || memory->kind == MEMORY_MANAGED;
}

/* Of memory that is not the driver's all is zero, and that is no error. */
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer)
{
    const struct memory *memory = find((void *)(uintptr_t)pointer, 0);

    BEGIN;
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case 1:
            *(void **)values[i] = memory && is_of_context(memory) ? &contexts[memory->device] : NULL;
            break;
        case 2:
            *(unsigned *)values[i] = !memory ? 0 : memory->kind == MEMORY_HOST ? 1 : 2;
            break;
        case 6:
            *(unsigned *)values[i] = memory && memory->finishes;
            break;
        case 9:
            *(int *)values[i] = memory ? memory->device : -2;
            break;
        default:
            return INVALID_VALUE;
        }
    return SUCCESS;
}

int cuPointerSetAttribute(const void *value, int attribute, address pointer)
{
    struct memory *memory = find((void *)(uintptr_t)pointer, 0);

    BEGIN;
    if (spoils())
        return CAPTURE_UNSUPPORTED;
    if (!memory || attribute != 6 || *(const unsigned *)value != 1)
        return INVALID_VALUE;
    if (memory->kind == MEMORY_MAPPED || memory->kind == MEMORY_PIECES)
        return NOT_SUPPORTED;
    memory->finishes = true;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    BEGIN;
    contexts[device].retained++;
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    BEGIN;
    if (contexts[device].retained <= 0)
        return INVALID_CONTEXT;
    if (--contexts[device].retained == 0)
        contexts[device].flags = 0;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
    BEGIN;
    if (!context || depth == DEPTH)
        return INVALID_VALUE;
    if (((struct context *)context)->dead) /* a real driver takes it, and what comes then is undefined */
        abort();
    current[depth++] = context;
    return SUCCESS;
}

int cuCtxGetCurrent(void **context)
{
    BEGIN;
    *context = depth ? current[depth - 1] : NULL;
    return SUCCESS;
}

int cuCtxGetDevice(int *device)
{
    BEGIN;
    if (!depth)
        return INVALID_CONTEXT;
    *device = (int)(current[depth - 1] - contexts);
    return SUCCESS;
}

int cuCtxGetFlags(unsigned *flags)
{
    BEGIN;
    if (!depth)
        return INVALID_CONTEXT;
    *flags = current[depth - 1]->flags;
    return SUCCESS;
}

int cuCtxSetFlags(unsigned flags)
{
    BEGIN;
    if (!depth)
        return INVALID_CONTEXT;
    wait_for_host(__func__);
    current[depth - 1]->flags = flags;
    come_all();
    return SUCCESS;
}

int cuCtxGetId(void *context, unsigned long long *id)
{
    const struct context *of = context;

    BEGIN;
    *id = (unsigned long long)(of - contexts) + of->lives * DEVICES;
    return of->dead ? DESTROYED : SUCCESS;
}

/* Fails after the fact: what was pushed must not stay. */
int cuCtxPopCurrent_v2(void **context)
{
    if (!depth)
        return INVALID_CONTEXT;
    *context = current[--depth];
    BEGIN;
    return SUCCESS;
}

/* Putting it back fails after the fact, as popping does. */
int cuThreadExchangeStreamCaptureMode(int *mode)
{
    bool failing = cuda_call_fails(__func__);
    int before = capture_mode;

    if (*mode < 0 || *mode > RELAXED)
        return INVALID_VALUE;
    if (failing && *mode == RELAXED)
        return TEST_CUDA_ERROR;
    capture_mode = *mode;
    *mode = before;
    return failing ? TEST_CUDA_ERROR : SUCCESS;
}

/* One that waits for the host's work would be a mistake. None lies where another has just gone. */
int cuStreamCreate(void **stream, unsigned flags)
{
    struct stream *made;

    BEGIN;
    if (!depth || flags != 1)
        return INVALID_VALUE;
    made = &streams[streams_made++ % MANY];
    made->context = current[depth - 1];
    *stream = made;
    return SUCCESS;
}

int cuStreamDestroy_v2(void *stream)
{
    ((struct stream *)stream)->context = NULL;
    BEGIN;
    return SUCCESS;
}

int cuStreamSynchronize(void *of)
{
    struct stream *stream = of;

    for (int i = 0; i < stream->count; i++)
        memcpy(stream->copies[i].to, stream->copies[i].from, stream->copies[i].bytes);
    stream->count = 0;
    come_all();
    BEGIN;
    return SUCCESS;
}

/* Of the host's stream alone: busy while something comes late. To ask is enough to spoil a graph. */
int cuStreamQuery(void *stream)
{
    BEGIN;
    if (stream)
        return INVALID_VALUE;
    spoilt |= capturing;
    if (capturing)
        return CAPTURE_IMPLICIT;
    return come_all() || held ? NOT_READY : SUCCESS;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    BEGIN;
    *status = 0;
    return stream ? INVALID_VALUE : capturing ? CAPTURE_IMPLICIT : SUCCESS;
}

static bool is_pinned(const char *at, size_t bytes)
{
    for (int i = 0; i < MANY; i++)
        if (pins[i].at && at >= (char *)pins[i].at && at + bytes <= (char *)pins[i].at + pins[i].bytes)
            return true;
    return false;
}

static int add(struct stream *stream, void *to, const void *from, size_t bytes)
{
    if (!to || !from || !bytes || stream->count == MANY)
        return INVALID_VALUE;
    come_in_time();
    if (spoils())
        return CAPTURE_UNSUPPORTED;
    if (!depth || current[depth - 1] != stream->context)
        return INVALID_CONTEXT;
    stream->copies[stream->count++] = (struct copy){to, from, bytes};
    return SUCCESS;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream)
{
    BEGIN;
    return add(stream, to, behind((void *)(uintptr_t)from, bytes), bytes);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream)
{
    BEGIN;
    return add(stream, behind((void *)(uintptr_t)to, bytes), from, bytes);
}

/* Rows one behind the other, to a device from memory that is pinned. */
int cuMemcpy2DAsync_v2(const struct nigh_cuda_plane *plane, void *stream)
{
    const char *from = plane->from_host;
    size_t bytes = plane->width * plane->height;

    BEGIN;
    if (plane->from_type != 1 || plane->to_type != 2 || plane->from_x || plane->from_y || plane->to_x ||
        plane->to_y || plane->from_pitch != plane->width || plane->to_pitch != plane->width ||
        !is_pinned(from, bytes))
        return INVALID_VALUE;
    return add(stream, behind((void *)(uintptr_t)plane->to_device, bytes), from, bytes);
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    int i = 0;

    BEGIN;
    if (spoils())
        return CAPTURE_UNSUPPORTED;
    while (i < MANY && pins[i].at)
        i++;
    if (!depth || flags != 1 || i == MANY)
        return INVALID_VALUE;
    pins[i] = (struct pin){memory, bytes, current[depth - 1]};
    return SUCCESS;
}

int cuMemHostUnregister(void *memory)
{
    int i = 0;

    wait_for_host(__func__);
    if (spoils())
        return CAPTURE_UNSUPPORTED;
    while (i < MANY && pins[i].at != memory)
        i++;
    if (!depth || i == MANY)
        return INVALID_VALUE;
    pins[i].at = NULL;
    BEGIN;
    return SUCCESS;
}

/* ---- for tests ----------------------------------------------------------------------------------------- */

static void *fake_alloc(enum cuda_memory kind, int device, size_t bytes)
{
    int i = 0, fd = memfd_create("fake device", MFD_CLOEXEC);
    struct memory *memory;

    while (memories[i].at)
        i++;
    memory = &memories[i];
    if (i == MANY - 1 || fd < 0 || ftruncate(fd, (off_t)bytes))
        abort();
    *memory =
        (struct memory){.bytes = bytes, .kind = kind, .device = device, .finishes = kind == MEMORY_MANAGED};
    memory->bytes_at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memory->at =
        mmap(NULL, bytes, kind == MEMORY_HOST ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
    if (memory->at == MAP_FAILED || memory->bytes_at == MAP_FAILED)
        abort();
    close(fd);
    return memory->at;
}

static void drop(struct memory *memory)
{
    come_all();
    munmap(memory->bytes_at, memory->bytes);
    munmap(memory->at, memory->bytes);
    memory->at = NULL;
}

static void fake_free(void *at)
{
    struct memory *memory = find(at, 0);

    if (memory)
        drop(memory);
}

/* As a copy from memory that is not pinned: it may return before the bytes are there. */
static void fake_put(void *device, const void *from, size_t bytes)
{
    const struct memory *memory = find(device, bytes);
    int i = 0;

    wait_for_host("the test's own cuMemcpyHtoD");
    if (memory->finishes || memory->kind == MEMORY_HOST || contexts[memory->device].flags & FINISHES) {
        come_all();
        memcpy(behind(device, bytes), from, bytes);
        return;
    }
    while (i < MANY && late[i].to)
        i++;
    if (i == MANY)
        come_all();
    late[i % MANY] = (struct late){behind(device, bytes), malloc(bytes + 1), bytes, now_us()};
    memcpy(late[i % MANY].bytes, from, bytes);
}

static void fake_get(void *to, const void *device, size_t bytes)
{
    wait_for_host("the test's own cuMemcpyDtoH");
    come_all();
    memcpy(to, behind(device, bytes), bytes);
}

static void fake_set_broken(bool is)
{
    broken = is;
}

static void fake_set_devices(int count)
{
    devices = count < 0 ? 2 : count;
}

static void fake_destroy_context(int device)
{
    contexts[device].dead = true;
    for (int i = 0; i < MANY; i++)
        if (memories[i].at && is_of_context(&memories[i]) && memories[i].device == device)
            drop(&memories[i]);
    for (int i = 0; i < MANY; i++)
        if (streams[i].context == &contexts[device])
            streams[i].context = NULL;
    for (int i = 0; i < MANY; i++)
        if (pins[i].context == &contexts[device])
            pins[i].at = NULL;
}

static void fake_create_context(int device)
{
    contexts[device].dead = false;
    contexts[device].flags = 0;
    contexts[device].lives++;
}

static size_t fake_pinned(void)
{
    size_t bytes = 0;

    for (int i = 0; i < MANY; i++)
        bytes += pins[i].at ? pins[i].bytes : 0;
    return bytes;
}

static const char *fake_leaks(void)
{
    if (depth)
        return "a context is still pushed";
    if (capture_mode)
        return "the thread's capture mode was not put back";
    for (int i = 0; i < MANY; i++)
        if (streams[i].context)
            return "a stream was not destroyed";
    if (fake_pinned())
        return "memory is still pinned";
    for (int i = 0; i < DEVICES; i++)
        if (contexts[i].retained)
            return "a primary context was not released";
    return NULL;
}

static int fake_device(void)
{
    return 1;
}

static void fake_hold(int device, bool hold)
{
    (void)device;
    held = hold;
}

static bool fake_capture(int device, bool capture)
{
    bool whole = !spoilt;

    (void)device;
    capturing = capture;
    spoilt = false;
    return whole;
}

EXPORT extern const struct test_cuda test_cuda;

const struct test_cuda test_cuda = {
    .alloc = fake_alloc,
    .free = fake_free,
    .put = fake_put,
    .get = fake_get,
    .fail_once = cuda_fail_once,
    .set_broken = fake_set_broken,
    .calls = cuda_calls,
    .set_devices = fake_set_devices,
    .destroy_context = fake_destroy_context,
    .create_context = fake_create_context,
    .pinned = fake_pinned,
    .leaks = fake_leaks,
    .hold = fake_hold,
    .capture = fake_capture,
    .device = fake_device,
};
