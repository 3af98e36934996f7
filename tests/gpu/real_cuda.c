/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/real_cuda.c - the driver of test_cuda.h on a machine with a GPU: memory, kernels and graphs for tests, beside the
 * calls of tests/gpu/driver.c. */
#include "tests/gpu/driver.h"
#include "tests/support/cuda_calls.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;

enum { DEVICES = 16, MANY = 256, CAPTURE_GLOBAL = 0, ATTACH_GLOBAL = 1 };

static struct memory {
    char *at; /* NULL: free */
    size_t bytes;
    enum cuda_memory kind;
    int device;
    address range; /* of what is mapped: where it begins, and pieces of `step` bytes */
    size_t step;
    int pieces;
} memories[MANY];

static void *contexts[DEVICES]; /* those of MEMORY_PLAIN */

/* ---- memory for tests ---------------------------------------------------------------------------------- */

/* The thread's context stays this one, as a host's does. */
static void work_on(int device)
{
    if (contexts[device])
        MUST(cuCtxSetCurrent, contexts[device]);
    else
        MUST(cuCtxCreate_v2, &contexts[device], 0, device);
}

/* For other processes too, where the driver can. */
static void create(size_t bytes, const struct cu_allocation *kind, address *handle)
{
    struct cu_allocation private = *kind;

    private.handle_types = 0;
    if (real.cuMemCreate(handle, bytes, kind, 0))
        MUST(cuMemCreate, handle, bytes, &private, 0);
}

/* MEMORY_PIECES begin a little before the end of a piece. */
static void map(struct memory *memory)
{
    struct cu_allocation kind = {
        .type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, memory->device}};
    struct cu_access access = {.location = {CU_ON_DEVICE, memory->device}, .flags = CU_READ_WRITE};
    size_t skip, step;
    address handle;

    MUST(cuMemGetAllocationGranularity, &step, &kind, 0);
    skip = memory->kind == MEMORY_PIECES ? step - 4096 : 0;
    memory->step = memory->kind == MEMORY_PIECES ? step : (memory->bytes + step - 1) / step * step;
    memory->pieces = (int)((skip + memory->bytes + memory->step - 1) / memory->step);
    MUST(cuMemAddressReserve, &memory->range, memory->step * (size_t)memory->pieces, 0, 0, 0);
    for (int i = 0; i < memory->pieces; i++) {
        create(memory->step, &kind, &handle);
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

static void real_destroy_context(int device)
{
    for (int i = 0; i < MANY; i++)
        if ((memories[i].kind == MEMORY_PLAIN || memories[i].kind == MEMORY_MANAGED) &&
            memories[i].device == device)
            memories[i].at = NULL;
    real_forget_context(contexts[device]);
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
    if (write(STDERR_FILENO, real_calling(), strlen(real_calling())) < 0 ||
        write(STDERR_FILENO, text, strlen(text)) < 0)
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
    if (real.cuStreamQuery(NULL) != CU_NOT_READY)
        real_must("the kernel does not wait", CU_NOT_READY);
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
        MUST(cuStreamBeginCapture_v2, stream, CAPTURE_GLOBAL);
        return true;
    }
    result = real.cuStreamEndCapture(stream, &graph);
    if (graph)
        MUST(cuGraphDestroy, graph);
    MUST(cuStreamDestroy_v2, stream);
    return !result;
}

/* ---- what tests ask ------------------------------------------------------------------------------------ */

static int real_device(void)
{
    int count = 0;

    if (!real_loaded() || real.cuInit(0) || real.cuDeviceGetCount(&count))
        return -1;
    return (count > DEVICES ? DEVICES : count) - 1;
}

CUDA_EXPORT extern const struct test_cuda test_cuda;

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
