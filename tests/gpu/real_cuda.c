/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/gpu/real_cuda.c - the driver of test_cuda.h on a machine with a GPU: passes the provider's calls on to the
 * libcuda.so.1 of the machine, keeps account of what they open, and makes those fail that tests want to fail. What it
 * needs of CUDA it declares itself, as the provider does.
 */
#include "hosts/libfabric/cuda.h"
#include "tests/support/cuda_calls.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT extern __attribute__((visibility("default")))

typedef unsigned long long address;

/* CUmemLocation, CUmemAllocationProp, CUmemAccessDesc: binary interface of CUDA 10.2 and later. */
struct location {
    int type, id;
};

struct allocation {
    int type, handle_types;
    struct location location;
    void *win32;
    unsigned char flags[8];
};

struct access {
    struct location location;
    int flags;
};

enum {
    PINNED = 1,
    DEVICE = 1,
    READ_WRITE = 3,
    GLOBAL = 0,
    ATTACH_GLOBAL = 1,
    NO_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_READY = 600
};
enum { DEVICES = 16, DEPTH = 16, MANY = 256, PIECES = 16 };

#define CALLS(X)                                                                                             \
    X(cuInit, (unsigned))                                                                                    \
    X(cuDeviceGetCount, (int *))                                                                             \
    X(cuGetErrorName, (int, const char **))                                                                  \
    X(cuPointerGetAttributes, (unsigned, int *, void **, address))                                           \
    X(cuPointerSetAttribute, (const void *, int, address))                                                   \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                              \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                   \
    X(cuCtxPushCurrent_v2, (void *))                                                                         \
    X(cuCtxPopCurrent_v2, (void **))                                                                         \
    X(cuCtxGetCurrent, (void **))                                                                            \
    X(cuCtxGetDevice, (int *))                                                                               \
    X(cuCtxGetFlags, (unsigned *))                                                                           \
    X(cuCtxSetFlags, (unsigned))                                                                             \
    X(cuCtxGetId, (void *, unsigned long long *))                                                            \
    X(cuCtxSetCurrent, (void *))                                                                             \
    X(cuCtxCreate_v2, (void **, unsigned, int))                                                              \
    X(cuCtxDestroy_v2, (void *))                                                                             \
    X(cuThreadExchangeStreamCaptureMode, (int *))                                                            \
    X(cuStreamCreate, (void **, unsigned))                                                                   \
    X(cuStreamDestroy_v2, (void *))                                                                          \
    X(cuStreamQuery, (void *))                                                                               \
    X(cuStreamIsCapturing, (void *, int *))                                                                  \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                \
    X(cuStreamEndCapture, (void *, void **))                                                                 \
    X(cuGraphDestroy, (void *))                                                                              \
    X(cuModuleLoadData, (void **, const void *))                                                             \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                  \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
                       void **, void **))                                                                    \
    X(cuStreamSynchronize, (void *))                                                                         \
    X(cuMemcpyDtoHAsync_v2, (void *, address, size_t, void *))                                               \
    X(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, void *))                                         \
    X(cuMemcpy2DAsync_v2, (const struct nigh_cuda_plane *, void *))                                          \
    X(cuMemcpyDtoH_v2, (void *, address, size_t))                                                            \
    X(cuMemcpyHtoD_v2, (address, const void *, size_t))                                                      \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                      \
    X(cuMemHostUnregister, (void *))                                                                         \
    X(cuMemAlloc_v2, (address *, size_t))                                                                    \
    X(cuMemFree_v2, (address))                                                                               \
    X(cuMemAllocHost_v2, (void **, size_t))                                                                  \
    X(cuMemFreeHost, (void *))                                                                               \
    X(cuMemAllocManaged, (address *, size_t, unsigned))                                                      \
    X(cuMemAllocAsync, (address *, size_t, void *))                                                          \
    X(cuMemGetAllocationGranularity, (size_t *, struct allocation *, int))                                   \
    X(cuMemAddressReserve, (address *, size_t, size_t, address, address))                                    \
    X(cuMemAddressFree, (address, size_t))                                                                   \
    X(cuMemCreate, (address *, size_t, struct allocation *, address))                                        \
    X(cuMemRelease, (address))                                                                               \
    X(cuMemMap, (address, size_t, size_t, address, address))                                                 \
    X(cuMemUnmap, (address, size_t))                                                                         \
    X(cuMemSetAccess, (address, size_t, struct access *, size_t))

static struct {
#define SLOT(name, arguments) int(*name) arguments;
    CALLS(SLOT)
#undef SLOT
} real;

static struct memory {
    char *at; /* NULL: free */
    size_t bytes;
    enum cuda_memory kind;
    int device;
    address range; /* of what is mapped: where it begins, and pieces of `step` bytes */
    size_t step;
    int pieces;
} memories[MANY];

static struct opened {
    void *what, *context;
    size_t bytes;
} streams[MANY], pins[MANY];

static void *contexts[DEVICES]; /* those of MEMORY_PLAIN */
static int retained[DEVICES];
static void *current[DEPTH]; /* of those that the provider has pushed */
static int depth, capture_mode, told_devices = -1;
static bool broken;

/* ---- the machine's driver ------------------------------------------------------------------------------ */

/* By a name or a path: this object is libcuda.so.1 already. */
static void *open_real(void)
{
    static const char *const names[] = {"libcuda.so",
                                        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                                        "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
                                        "/usr/lib64/libcuda.so.1",
                                        "/usr/local/nvidia/lib64/libcuda.so.1",
                                        "/usr/local/nvidia/lib/libcuda.so.1",
                                        "/usr/lib/wsl/lib/libcuda.so.1"};
    const char *given = getenv("NIGH_TEST_GPU");
    void *object = given && *given == '/' ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : NULL;

    for (size_t i = 0; !object && i < sizeof(names) / sizeof(names[0]); i++)
        object = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return object;
}

static void *object;

static bool loaded(void)
{
    if (object)
        return true;
    object = open_real();
    if (!object)
        return false;
#define TAKE(name, arguments)                                                 \
    {                                                                         \
        void *symbol = dlsym(object, #name);                                  \
        if (!symbol) {                                                        \
            fprintf(stderr, "the machine's libcuda.so.1 has no " #name "\n"); \
            abort();                                                          \
        }                                                                     \
        memcpy(&real.name, &symbol, sizeof(symbol));                          \
    }
    CALLS(TAKE)
#undef TAKE
    return true;
}

static const char *volatile calling; /* the driver, now or last */

static void must(const char *call, int result)
{
    const char *name = "unknown";

    if (!result)
        return;
    real.cuGetErrorName(result, &name);
    fprintf(stderr, "%s fails: %s (%d)\n", call, name, result);
    abort();
}

#define MUST(call, ...) (calling = #call ", of the test's own", must(#call, real.call(__VA_ARGS__)))

/* ---- the provider's calls ------------------------------------------------------------------------------ */

#define BEGIN                      \
    if (cuda_call_fails(__func__)) \
        return TEST_CUDA_ERROR;    \
    if (!loaded())                 \
        return NOT_FOUND;          \
    calling = __func__;

static void note(struct opened *list, void *what, size_t bytes)
{
    int i = 0;

    while (i < MANY && list[i].what)
        i++;
    if (i == MANY)
        abort();
    list[i] = (struct opened){what, depth ? current[depth - 1] : NULL, bytes};
}

static void forget(struct opened *list, const void *what)
{
    for (int i = 0; i < MANY; i++)
        if (list[i].what == what)
            list[i].what = NULL;
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuGetErrorName(int error, const char **name);
EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer);
EXPORT int cuPointerSetAttribute(const void *value, int attribute, address pointer);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxPopCurrent_v2(void **context);
EXPORT int cuCtxGetCurrent(void **context);
EXPORT int cuCtxGetDevice(int *device);
EXPORT int cuCtxGetFlags(unsigned *flags);
EXPORT int cuCtxSetFlags(unsigned flags);
EXPORT int cuCtxGetId(void *context, unsigned long long *id);
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
    return broken ? TEST_CUDA_ERROR : real.cuInit(flags);
}

int cuDeviceGetCount(int *count)
{
    int result;

    BEGIN;
    result = real.cuDeviceGetCount(count);
    if (!result && told_devices >= 0)
        *count = told_devices;
    return result;
}

int cuGetErrorName(int error, const char **name)
{
    BEGIN;
    return real.cuGetErrorName(error, name);
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, address pointer)
{
    BEGIN;
    return real.cuPointerGetAttributes(count, attributes, values, pointer);
}

int cuPointerSetAttribute(const void *value, int attribute, address pointer)
{
    BEGIN;
    return real.cuPointerSetAttribute(value, attribute, pointer);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int result;

    BEGIN;
    result = real.cuDevicePrimaryCtxRetain(context, device);
    retained[device] += !result;
    return result;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    int result;

    BEGIN;
    result = real.cuDevicePrimaryCtxRelease_v2(device);
    retained[device] -= !result;
    return result;
}

int cuCtxPushCurrent_v2(void *context)
{
    int result;

    BEGIN;
    result = depth < DEPTH ? real.cuCtxPushCurrent_v2(context) : NO_CONTEXT;
    if (!result)
        current[depth++] = context;
    return result;
}

/* This and what follows that lets go of something fails after the fact: it must not stay. */
int cuCtxPopCurrent_v2(void **context)
{
    int result = loaded() && depth ? real.cuCtxPopCurrent_v2(context) : NO_CONTEXT;

    depth -= !result;
    BEGIN;
    return result;
}

int cuCtxGetCurrent(void **context)
{
    BEGIN;
    return real.cuCtxGetCurrent(context);
}

int cuCtxGetDevice(int *device)
{
    BEGIN;
    return real.cuCtxGetDevice(device);
}

int cuCtxGetFlags(unsigned *flags)
{
    BEGIN;
    return real.cuCtxGetFlags(flags);
}

int cuCtxSetFlags(unsigned flags)
{
    BEGIN;
    return real.cuCtxSetFlags(flags);
}

int cuCtxGetId(void *context, unsigned long long *id)
{
    BEGIN;
    return real.cuCtxGetId(context, id);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int to = *mode, result = to && cuda_call_fails(__func__) ? TEST_CUDA_ERROR : 0;

    if (!result)
        result = loaded() ? real.cuThreadExchangeStreamCaptureMode(mode) : NOT_FOUND;
    if (!result)
        capture_mode = to;
    return !to && cuda_call_fails(__func__) ? TEST_CUDA_ERROR : result;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    int result;

    BEGIN;
    result = real.cuStreamCreate(stream, flags);
    if (!result)
        note(streams, *stream, 0);
    return result;
}

int cuStreamDestroy_v2(void *stream)
{
    int result = loaded() ? real.cuStreamDestroy_v2(stream) : NOT_FOUND;

    forget(streams, stream);
    BEGIN;
    return result;
}

int cuStreamSynchronize(void *stream)
{
    int result = loaded() ? real.cuStreamSynchronize(stream) : NOT_FOUND;

    BEGIN;
    return result;
}

int cuStreamQuery(void *stream)
{
    BEGIN;
    return real.cuStreamQuery(stream);
}

int cuStreamIsCapturing(void *stream, int *status)
{
    BEGIN;
    return real.cuStreamIsCapturing(stream, status);
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream)
{
    BEGIN;
    return real.cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream)
{
    BEGIN;
    return real.cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
}

int cuMemcpy2DAsync_v2(const struct nigh_cuda_plane *plane, void *stream)
{
    BEGIN;
    return real.cuMemcpy2DAsync_v2(plane, stream);
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    int result;

    BEGIN;
    result = real.cuMemHostRegister_v2(memory, bytes, flags);
    if (!result)
        note(pins, memory, bytes);
    return result;
}

int cuMemHostUnregister(void *memory)
{
    int result = loaded() ? real.cuMemHostUnregister(memory) : NOT_FOUND;

    forget(pins, memory);
    BEGIN;
    return result;
}

/* ---- memory for tests ---------------------------------------------------------------------------------- */

/* The thread's context stays this one, as a host's does. */
static void work_on(int device)
{
    if (contexts[device])
        MUST(cuCtxSetCurrent, contexts[device]);
    else
        MUST(cuCtxCreate_v2, &contexts[device], 0, device);
}

/* MEMORY_PIECES begin a little before the end of a piece. */
static void map(struct memory *memory)
{
    struct allocation kind = {.type = PINNED, .location = {DEVICE, memory->device}};
    struct access access = {.location = {DEVICE, memory->device}, .flags = READ_WRITE};
    size_t skip, step;
    address handle;

    MUST(cuMemGetAllocationGranularity, &step, &kind, 0);
    skip = memory->kind == MEMORY_PIECES ? step - 4096 : 0;
    memory->step = memory->kind == MEMORY_PIECES ? step : (memory->bytes + step - 1) / step * step;
    memory->pieces = (int)((skip + memory->bytes + memory->step - 1) / memory->step);
    MUST(cuMemAddressReserve, &memory->range, memory->step * (size_t)memory->pieces, 0, 0, 0);
    for (int i = 0; i < memory->pieces; i++) {
        MUST(cuMemCreate, &handle, memory->step, &kind, 0);
        MUST(cuMemMap, memory->range + memory->step * (size_t)i, memory->step, 0, handle, 0);
        MUST(cuMemRelease, handle);
    }
    MUST(cuMemSetAccess, memory->range, memory->step * (size_t)memory->pieces, &access, 1);
    memory->at = (char *)(uintptr_t)(memory->range + skip);
}

static void unmap(const struct memory *memory)
{
    for (int i = 0; i < memory->pieces; i++)
        MUST(cuMemUnmap, memory->range + memory->step * (size_t)i, memory->step);
    MUST(cuMemAddressFree, memory->range, memory->step * (size_t)memory->pieces);
}

static void *real_alloc(enum cuda_memory kind, int device, size_t bytes)
{
    struct memory *memory = memories;
    address at = 0;
    void *host = NULL;

    while (memory->at)
        if (++memory == memories + MANY)
            abort();
    *memory = (struct memory){.bytes = bytes, .kind = kind, .device = device};
    work_on(device);
    if (kind == MEMORY_PLAIN)
        MUST(cuMemAlloc_v2, &at, bytes);
    else if (kind == MEMORY_POOL)
        MUST(cuMemAllocAsync, &at, bytes, NULL);
    else if (kind == MEMORY_MANAGED)
        MUST(cuMemAllocManaged, &at, bytes, ATTACH_GLOBAL);
    else if (kind == MEMORY_HOST)
        MUST(cuMemAllocHost_v2, &host, bytes);
    else
        map(memory);
    if (kind == MEMORY_POOL)
        MUST(cuStreamSynchronize, NULL);
    if (!memory->at)
        memory->at = at ? (char *)(uintptr_t)at : host;
    return memory->at;
}

static struct memory *find(const void *at)
{
    for (struct memory *memory = memories; memory < memories + MANY; memory++)
        if (memory->at && (const char *)at >= memory->at && (const char *)at < memory->at + memory->bytes)
            return memory;
    return NULL;
}

static void real_free(void *at)
{
    struct memory *memory = find(at);

    if (!memory)
        return;
    work_on(memory->device);
    if (memory->pieces)
        unmap(memory);
    else if (memory->kind == MEMORY_HOST)
        MUST(cuMemFreeHost, at);
    else
        MUST(cuMemFree_v2, (uintptr_t)at);
    memory->at = NULL;
}

static void real_put(void *device, const void *from, size_t bytes)
{
    if (!bytes)
        return;
    work_on(find(device)->device);
    MUST(cuMemcpyHtoD_v2, (uintptr_t)device, from, bytes);
}

static void real_get(void *to, const void *device, size_t bytes)
{
    if (!bytes)
        return;
    work_on(find(device)->device);
    MUST(cuMemcpyDtoH_v2, to, (uintptr_t)device, bytes);
}

static void forget_context(struct opened *list, const void *context)
{
    for (int i = 0; i < MANY; i++)
        if (list[i].context == context)
            list[i].what = NULL;
}

static void real_destroy_context(int device)
{
    for (int i = 0; i < MANY; i++)
        if ((memories[i].kind == MEMORY_PLAIN || memories[i].kind == MEMORY_MANAGED) &&
            memories[i].device == device)
            memories[i].at = NULL;
    forget_context(streams, contexts[device]);
    forget_context(pins, contexts[device]);
    MUST(cuCtxDestroy_v2, contexts[device]);
    contexts[device] = NULL;
}

static void real_create_context(int device)
{
    work_on(device);
}

/* Until the word that it was given is not zero any more. */
static const char waiting_kernel[] = ".version 6.0\n"
                                     ".target sm_50\n"
                                     ".address_size 64\n"
                                     ".visible .entry wait_for(.param .u64 word)\n"
                                     "{\n"
                                     "    .reg .pred %none;\n"
                                     "    .reg .u32 %value;\n"
                                     "    .reg .u64 %at;\n"
                                     "    ld.param.u64 %at, [word];\n"
                                     "again:\n"
                                     "    ld.volatile.global.u32 %value, [%at];\n"
                                     "    setp.eq.u32 %none, %value, 0;\n"
                                     "    @%none bra again;\n"
                                     "    ret;\n"
                                     "}\n";

/* Nothing else ends a call of the driver that waits for the kernel. */
static void on_alarm(int signal)
{
    static const char text[] = " waits for a kernel of the host's, or a message beside it did not come\n";

    (void)signal;
    if (write(STDERR_FILENO, calling, strlen(calling)) < 0 || write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(2);
    abort();
}

static void real_hold(int device, bool hold)
{
    static volatile unsigned *word;
    void *module, *function, *memory, *arguments[] = {&word};

    work_on(device);
    if (!hold) {
        *word = 1;
        MUST(cuStreamSynchronize, NULL);
        MUST(cuMemFreeHost, (void *)(uintptr_t)word);
        alarm(0);
        signal(SIGALRM, SIG_DFL);
        return;
    }
    MUST(cuMemAllocHost_v2, &memory, sizeof(*word));
    word = memory;
    *word = 0;
    MUST(cuModuleLoadData, &module, waiting_kernel);
    MUST(cuModuleGetFunction, &function, module, "wait_for");
    signal(SIGALRM, on_alarm);
    alarm(60);
    MUST(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    if (real.cuStreamQuery(NULL) != NOT_READY)
        must("the kernel does not wait", NOT_READY);
}

/* In the mode that refuses most. */
static bool real_capture(int device, bool capture)
{
    static void *stream;
    void *graph = NULL;
    int result;

    work_on(device);
    if (capture) {
        MUST(cuStreamCreate, &stream, 0);
        MUST(cuStreamBeginCapture_v2, stream, GLOBAL);
        return true;
    }
    result = real.cuStreamEndCapture(stream, &graph);
    if (graph)
        MUST(cuGraphDestroy, graph);
    MUST(cuStreamDestroy_v2, stream);
    return !result;
}

/* ---- what tests ask ------------------------------------------------------------------------------------ */

static void real_set_broken(bool is)
{
    broken = is;
}

static void real_set_devices(int count)
{
    told_devices = count;
}

static size_t real_pinned(void)
{
    size_t bytes = 0;

    for (int i = 0; i < MANY; i++)
        bytes += pins[i].what ? pins[i].bytes : 0;
    return bytes;
}

static const char *real_leaks(void)
{
    if (depth)
        return "a context is still pushed";
    if (capture_mode)
        return "the thread's capture mode was not put back";
    for (int i = 0; i < MANY; i++)
        if (streams[i].what)
            return "a stream was not destroyed";
    if (real_pinned())
        return "memory is still pinned";
    for (int i = 0; i < DEVICES; i++)
        if (retained[i])
            return "a primary context was not released";
    return NULL;
}

static int real_device(void)
{
    int count = 0;

    if (!loaded() || real.cuInit(0) || real.cuDeviceGetCount(&count))
        return -1;
    return (count > DEVICES ? DEVICES : count) - 1;
}

EXPORT const struct test_cuda test_cuda;

const struct test_cuda test_cuda = {
    .alloc = real_alloc,
    .free = real_free,
    .put = real_put,
    .get = real_get,
    .fail_once = cuda_fail_once,
    .set_broken = real_set_broken,
    .calls = cuda_calls,
    .set_devices = real_set_devices,
    .destroy_context = real_destroy_context,
    .create_context = real_create_context,
    .pinned = real_pinned,
    .leaks = real_leaks,
    .hold = real_hold,
    .capture = real_capture,
    .device = real_device,
};
