/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/driver.c - a libcuda.so.1 that passes all calls on to the machine's, keeps account of what they open, and makes
 * those fail that tests want to fail. */
#include "tests/gpu/driver.h"
#include "tests/support/cuda/names.h"
#include "tests/support/cuda_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 16, DEPTH = 16, MANY = 1024 };

struct real real;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *object;
static bool broken;
static int told_devices = -1;
static _Atomic(const char *) calling;

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
    void *found = given && *given == '/' ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : NULL;

    for (size_t i = 0; !found && i < sizeof(names) / sizeof(names[0]); i++)
        found = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return found;
}

static void take_all(void)
{
    void *symbol;

#define TAKE(name, parameters, arguments) \
    symbol = dlsym(object, #name);        \
    memcpy(&real.name, &symbol, sizeof(symbol));
    CUDA_CALLS(TAKE)
#undef TAKE
}

bool real_loaded(void)
{
    bool loaded;

    pthread_mutex_lock(&lock);
    if (!object) {
        object = open_real();
        if (object)
            take_all();
    }
    loaded = object != NULL;
    pthread_mutex_unlock(&lock);
    return loaded;
}

void real_call(const char *call)
{
    atomic_store(&calling, call);
}

const char *real_calling(void)
{
    return atomic_load(&calling);
}

void real_must(const char *call, int result)
{
    const char *name = "unknown";

    if (!result)
        return;
    real.cuGetErrorName(result, &name);
    fprintf(stderr, "%s fails: %s (%d)\n", call, name, result);
    abort();
}

/* ---- accounts ------------------------------------------------------------------------------------------ */

static struct opened {
    void *what, *context;
    size_t bytes;
} streams[MANY], pins[MANY];

static int retained[DEVICES];
static _Thread_local void *current[DEPTH]; /* of those that were pushed */
static _Thread_local int depth, capture_mode;

enum kept { EVENTS, HANDLES, RESERVED, LEGACY, POOLS, KEPT };

/* Of what only the number is kept: of each context, which takes along what it has. What belongs to none counts for the first place. */
static struct {
    const void *context;
    int of[KEPT];
} balances[MANY];

static const struct {
    const char *call;
    enum kept kept;
    int change;
} counted[] = {
    {"cuEventCreate", EVENTS, 1},
    {"cuIpcOpenEventHandle", EVENTS, 1},
    {"cuEventDestroy_v2", EVENTS, -1},
    {"cuMemCreate", HANDLES, 1},
    {"cuMemImportFromShareableHandle", HANDLES, 1},
    {"cuMemRetainAllocationHandle", HANDLES, 1},
    {"cuMemRelease", HANDLES, -1},
    {"cuMemAddressReserve", RESERVED, 1},
    {"cuMemAddressFree", RESERVED, -1},
    {"cuIpcOpenMemHandle_v2", LEGACY, 1},
    {"cuIpcCloseMemHandle", LEGACY, -1},
    {"cuMemPoolCreate", POOLS, 1},
    {"cuMemPoolImportFromShareableHandle", POOLS, 1},
    {"cuMemPoolDestroy", POOLS, -1},
};

/* The lock is held. */
static int *balance_of(enum kept kept)
{
    const void *context = kept == EVENTS && depth ? current[depth - 1] : NULL;
    int i = 0;

    while (i < MANY && balances[i].context != context && (!i || balances[i].context))
        i++;
    if (i == MANY)
        abort();
    balances[i].context = context;
    return &balances[i].of[kept];
}

static void keep_count(const char *call)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        if (strcmp(counted[i].call, call) == 0) {
            pthread_mutex_lock(&lock);
            *balance_of(counted[i].kept) += counted[i].change;
            pthread_mutex_unlock(&lock);
        }
}

static void note(struct opened *list, void *what, size_t bytes)
{
    int i = 0;

    pthread_mutex_lock(&lock);
    while (i < MANY && list[i].what)
        i++;
    if (i == MANY)
        abort();
    list[i] = (struct opened){what, depth ? current[depth - 1] : NULL, bytes};
    pthread_mutex_unlock(&lock);
}

static void forget(struct opened *list, const void *what)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MANY; i++)
        if (list[i].what == what)
            list[i].what = NULL;
    pthread_mutex_unlock(&lock);
}

void real_forget_context(const void *context)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MANY; i++) {
        if (streams[i].context == context)
            streams[i].what = NULL;
        if (pins[i].context == context)
            pins[i].what = NULL;
        if (context && balances[i].context == context)
            balances[i].of[EVENTS] = 0;
    }
    pthread_mutex_unlock(&lock);
}

size_t real_pinned(void)
{
    size_t bytes = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MANY; i++)
        bytes += pins[i].what ? pins[i].bytes : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

static const char *kept_leaks(void)
{
    static const char *const texts[KEPT] = {
        "an event was not destroyed", "a handle of memory was not released",
        "reserved addresses were not freed", "memory of another process was not closed",
        "a pool was not destroyed"};

    for (int i = 0; i < MANY; i++)
        for (int kept = 0; kept < KEPT; kept++)
            if (balances[i].of[kept] > 0)
                return texts[kept];
    return NULL;
}

const char *real_leaks(void)
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
    return kept_leaks();
}

void real_set_broken(bool is)
{
    broken = is;
}

void real_set_devices(int devices)
{
    told_devices = devices;
}

/* ---- calls that are passed on as they are ---------------------------------------------------------------- */

#define BEGIN                      \
    if (cuda_call_fails(__func__)) \
        return TEST_CUDA_ERROR;    \
    if (!real_loaded())            \
        return CU_NOT_FOUND;       \
    real_call(__func__);

/* One that lets go of something fails after the fact: it must not stay. */
static bool lets_go(const char *call)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        if (counted[i].change < 0 && strcmp(counted[i].call, call) == 0)
            return true;
    return false;
}

#define PASSED(name, parameters, arguments)                                  \
    int name parameters                                                      \
    {                                                                        \
        bool fails = cuda_call_fails(#name), late = fails && lets_go(#name); \
        int result;                                                          \
                                                                             \
        if (fails && !late)                                                  \
            return TEST_CUDA_ERROR;                                          \
        if (!real_loaded() || !real.name)                                    \
            return CU_NOT_FOUND;                                             \
        real_call(#name);                                                    \
        result = real.name arguments;                                        \
        if (!result)                                                         \
            keep_count(#name);                                               \
        return late ? TEST_CUDA_ERROR : result;                              \
    }
CUDA_CALLS_PASSED(PASSED)
#undef PASSED

/* ---- the others ------------------------------------------------------------------------------------------ */

int cuInit(unsigned flags)
{
    BEGIN;
    return broken ? TEST_CUDA_ERROR : real.cuInit(flags);
}

int cuDeviceGetCount(int *devices)
{
    int result;

    BEGIN;
    result = real.cuDeviceGetCount(devices);
    if (!result && told_devices >= 0)
        *devices = told_devices;
    return result;
}

int cuGetErrorName(int error, const char **name)
{
    BEGIN;
    return real.cuGetErrorName(error, name);
}

/* This layer's own functions, where the driver has them. */
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status)
{
    int result;

    BEGIN;
    result = real.cuGetProcAddress_v2 ? real.cuGetProcAddress_v2(name, function, version, flags, status)
                                      : CU_NOT_FOUND;
    if (!result && *function)
        *function = cuda_function(name, version);
    return result;
}

int cuMemcpyBatchAsync(cu_address *to, cu_address *from, size_t *bytes, size_t copies,
                       struct cu_copy_attributes *attributes, size_t *firsts, size_t kinds, size_t *failed,
                       void *stream)
{
    BEGIN;
    return real.cuMemcpyBatchAsync
               ? real.cuMemcpyBatchAsync(to, from, bytes, copies, attributes, firsts, kinds, failed, stream)
               : CU_NOT_FOUND;
}

int cuMemcpyBatchAsync_v2(cu_address *to, cu_address *from, size_t *bytes, size_t copies,
                          struct cu_copy_attributes *attributes, size_t *firsts, size_t kinds, void *stream)
{
    BEGIN;
    return real.cuMemcpyBatchAsync_v2
               ? real.cuMemcpyBatchAsync_v2(to, from, bytes, copies, attributes, firsts, kinds, stream)
               : CU_NOT_FOUND;
}

static void retain(int device, int change)
{
    pthread_mutex_lock(&lock);
    if (device >= 0 && device < DEVICES)
        retained[device] += change;
    pthread_mutex_unlock(&lock);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int result;

    BEGIN;
    result = real.cuDevicePrimaryCtxRetain(context, device);
    retain(device, !result);
    return result;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    int result;

    BEGIN;
    result = real.cuDevicePrimaryCtxRelease_v2(device);
    retain(device, -!result);
    return result;
}

int cuCtxPushCurrent_v2(void *context)
{
    int result;

    BEGIN;
    result = depth < DEPTH ? real.cuCtxPushCurrent_v2(context) : CU_INVALID_CONTEXT;
    if (!result)
        current[depth++] = context;
    return result;
}

/* This and what follows that lets go of something fails after the fact, too. */
int cuCtxPopCurrent_v2(void **context)
{
    int result = real_loaded() && depth ? real.cuCtxPopCurrent_v2(context) : CU_INVALID_CONTEXT;

    depth -= !result;
    BEGIN;
    return result;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int to = *mode, result = to && cuda_call_fails(__func__) ? TEST_CUDA_ERROR : 0;

    if (!result)
        result = real_loaded() ? real.cuThreadExchangeStreamCaptureMode(mode) : CU_NOT_FOUND;
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
    int result = real_loaded() ? real.cuStreamDestroy_v2(stream) : CU_NOT_FOUND;

    forget(streams, stream);
    BEGIN;
    return result;
}

int cuStreamSynchronize(void *stream)
{
    int result = real_loaded() ? real.cuStreamSynchronize(stream) : CU_NOT_FOUND;

    BEGIN;
    return result;
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
    int result = real_loaded() ? real.cuMemHostUnregister(memory) : CU_NOT_FOUND;

    forget(pins, memory);
    BEGIN;
    return result;
}
