/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fake_cuda.c - see fake_cuda.h. */
#include "tests/support/fake_cuda.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned long long address;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    DESTROYED = 709,
    DEVICES = 4,
    DEPTH = 16,
    MANY = 256
};

/* Memory of a device: nothing at `at`, its bytes at `bytes_at`. */
static struct memory {
    char *at, *bytes_at;
    size_t bytes;
    enum fake_memory kind;
    int device;
} memories[MANY];

static struct context {
    int device, retained;
    unsigned lives;
    bool dead;
} contexts[DEVICES]; /* [i]: the primary one of device i, and that of FAKE_PLAIN */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

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
static int depth, devices = 2, streams_made, failing_in = -1;
static const char *failing;
static bool started, broken;

static struct {
    char name[40];
    unsigned count;
} called[32];

/* Notes the call; true: it is to fail. */
static bool fails(const char *call)
{
    int i = 0;

    while (called[i].count && strcmp(called[i].name, call) != 0)
        i++;
    snprintf(called[i].name, sizeof(called[i].name), "%s", call);
    called[i].count++;
    return failing && strcmp(failing, call) == 0 && failing_in-- == 0;
}

#define BEGIN            \
    if (fails(__func__)) \
    return FAKE_CUDA_ERROR

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

/* ---- the driver's calls -------------------------------------------------------------------------------- */

EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuGetErrorName(int error, const char **name);
EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer);
EXPORT int cuPointerSetAttribute(const void *value, int attribute, address pointer);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxGetId(void *context, unsigned long long *id);
EXPORT int cuCtxPopCurrent_v2(void **context);
EXPORT int cuStreamCreate(void **stream, unsigned flags);
EXPORT int cuStreamDestroy_v2(void *stream);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream);
EXPORT int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream);
EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
EXPORT int cuMemHostUnregister(void *memory);

int cuInit(unsigned flags)
{
    BEGIN;
    started = !broken;
    return broken ? FAKE_CUDA_ERROR : flags ? INVALID_VALUE : SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    BEGIN;
    *count = devices;
    return started ? SUCCESS : 3;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == FAKE_CUDA_ERROR ? "CUDA_ERROR_FAKE" : NULL;
    return *name ? SUCCESS : INVALID_VALUE;
}

/* Of memory that is not the driver's all is zero, and that is no error. */
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer)
{
    const struct memory *memory = find((void *)(uintptr_t)pointer, 0);

    BEGIN;
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case 1:
            *(void **)values[i] = memory && memory->kind == FAKE_PLAIN ? &contexts[memory->device] : NULL;
            break;
        case 2:
            *(unsigned *)values[i] = !memory ? 0 : memory->kind == FAKE_HOST ? 1 : 2;
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
    const struct memory *memory = find((void *)(uintptr_t)pointer, 0);

    BEGIN;
    return memory && memory->kind == FAKE_PLAIN && attribute == 6 && *(const unsigned *)value == 1
               ? SUCCESS
               : INVALID_VALUE;
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
    return contexts[device].retained-- > 0 ? SUCCESS : INVALID_CONTEXT;
}

int cuCtxPushCurrent_v2(void *context)
{
    BEGIN;
    if (!context || depth == DEPTH)
        return INVALID_VALUE;
    if (((struct context *)context)->dead)
        return DESTROYED;
    current[depth++] = context;
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
    BEGIN;
    return SUCCESS;
}

static int add(struct stream *stream, void *to, const void *from, size_t bytes)
{
    if (!to || !from || !bytes || stream->count == MANY)
        return INVALID_VALUE;
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

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    int i = 0;

    BEGIN;
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

    while (i < MANY && pins[i].at != memory)
        i++;
    if (!depth || i == MANY)
        return INVALID_VALUE;
    pins[i].at = NULL;
    BEGIN;
    return SUCCESS;
}

/* ---- for tests ----------------------------------------------------------------------------------------- */

static void *fake_alloc(enum fake_memory kind, int device, size_t bytes)
{
    int i = 0, fd = memfd_create("fake device", MFD_CLOEXEC);
    struct memory *memory;

    while (memories[i].at)
        i++;
    memory = &memories[i];
    if (i == MANY - 1 || fd < 0 || ftruncate(fd, (off_t)bytes))
        abort();
    *memory = (struct memory){.bytes = bytes, .kind = kind, .device = device};
    memory->bytes_at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memory->at = mmap(NULL, bytes, kind == FAKE_HOST ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
    if (memory->at == MAP_FAILED || memory->bytes_at == MAP_FAILED)
        abort();
    close(fd);
    return memory->at;
}

static void fake_free(void *at)
{
    struct memory *memory = find(at, 0);

    munmap(memory->bytes_at, memory->bytes);
    munmap(memory->at, memory->bytes);
    memory->at = NULL;
}

static void fake_put(void *device, const void *from, size_t bytes)
{
    memcpy(behind(device, bytes), from, bytes);
}

static void fake_get(void *to, const void *device, size_t bytes)
{
    memcpy(to, behind(device, bytes), bytes);
}

static void fake_fail(const char *call, unsigned after)
{
    failing = call;
    failing_in = (int)after;
}

static void fake_set_broken(bool is)
{
    broken = is;
}

static unsigned fake_calls(const char *call)
{
    unsigned sum = 0;

    for (int i = 0; called[i].count; i++)
        if (!call || strcmp(called[i].name, call) == 0)
            sum += called[i].count;
    return sum;
}

static void fake_set_devices(int count)
{
    devices = count;
}

static void fake_destroy_context(int device)
{
    contexts[device].dead = true;
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

EXPORT extern const struct fake_cuda fake_cuda;

const struct fake_cuda fake_cuda = {
    .alloc = fake_alloc,
    .free = fake_free,
    .put = fake_put,
    .get = fake_get,
    .fail_once = fake_fail,
    .set_broken = fake_set_broken,
    .calls = fake_calls,
    .set_devices = fake_set_devices,
    .destroy_context = fake_destroy_context,
    .create_context = fake_create_context,
    .pinned = fake_pinned,
    .leaks = fake_leaks,
};
