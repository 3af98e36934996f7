/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/test.c - the fake driver as test_cuda.h and control.h offer it to tests. */
#include "tests/support/cuda/control.h"
#include "tests/support/cuda/driver.h"
#include "tests/support/cuda/fake.h"
#include "tests/support/cuda_calls.h"

#include <stdlib.h>

#define LOCKED __attribute__((cleanup(fake_leave), unused)) const int locked = (fake_lock(), 0)

static const char test[] = "the test's own copy";

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static void piece(cu_address at, size_t bytes, const struct cu_allocation *properties)
{
    struct object *object;

    if (fake_create(bytes, properties, &object) || fake_map(at, bytes, object))
        abort();
    fake_object_drop(object);
}

/* MEMORY_PIECES begin a little before the end of a piece. */
static cu_address map(enum cuda_memory kind, int device, size_t bytes)
{
    struct cu_allocation properties = {
        .type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, device}};
    size_t skip = kind == MEMORY_PIECES ? GRANULARITY - 4096 : 0,
           whole = (skip + bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY,
           step = kind == MEMORY_PIECES ? GRANULARITY : whole;
    struct reservation *made = fake_reserve(whole, 0, 0);

    if (!made)
        abort();
    made->of_test = true;
    for (size_t done = 0; done < whole; done += step)
        piece(made->at + done, step, &properties);
    if (fake_set_access(made->at, whole,
                        &(struct cu_access){.location = properties.location, .flags = CU_READ_WRITE}))
        abort();
    return made->at + skip;
}

static void *test_alloc(enum cuda_memory kind, int device, size_t bytes)
{
    cu_address at = 0;
    int rc = 0;

    LOCKED;
    if (kind == MEMORY_MAPPED || kind == MEMORY_PIECES)
        at = map(kind, device, bytes);
    else if (kind == MEMORY_POOL)
        rc = fake_pool_alloc(device, bytes, &at);
    else if (kind == MEMORY_HOST)
        rc = fake_linear_alloc(RANGE_HOST, NULL, bytes, &at);
    else
        rc = fake_linear_alloc(kind == MEMORY_PLAIN ? RANGE_LINEAR : RANGE_MANAGED, fake_primary(device),
                               bytes, &at);
    if (rc)
        abort();
    return (void *)(uintptr_t)at;
}

static void test_free(void *memory)
{
    struct range *range;

    LOCKED;
    range = fake_range_at((uintptr_t)memory);
    if (!range)
        return;
    fake_finish_context(NULL, test);
    fake_come_all();
    if (range->kind == RANGE_MAPPED) {
        const struct reservation of = *range->reservation;

        if (fake_unmap(of.at, of.bytes) || fake_unreserve(of.at, of.bytes))
            abort();
    } else {
        fake_range_remove(range);
    }
}

/* As a copy from memory that is not pinned: it may return before the bytes are there. */
static void test_put(void *device, const void *from, size_t bytes)
{
    LOCKED;
    fake_waits_for_host(test);
    fake_put((uintptr_t)device, from, bytes);
}

static void test_get(void *to, const void *device, size_t bytes)
{
    LOCKED;
    fake_waits_for_host(test);
    fake_come_all();
    fake_copy_now(&(struct work){
        .to = (uintptr_t)to, .from = (uintptr_t)device, .from_device = true, .width = bytes, .height = 1});
}

/* ---- the host ---------------------------------------------------------------------------------------------------------- */

static void test_set_broken(bool is)
{
    LOCKED;
    fake_set_broken(is);
}

static void test_set_devices(int count)
{
    LOCKED;
    fake_set_devices(count);
}

static void test_destroy_context(int device)
{
    LOCKED;
    fake_come_all();
    fake_destroy_context(fake_primary(device));
}

static void test_create_context(int device)
{
    LOCKED;
    fake_create_context(fake_primary(device));
}

static size_t test_pinned(void)
{
    LOCKED;
    return fake_pinned();
}

static const char *test_leaks(void)
{
    static const char *(*const looks[])(void) = {fake_context_leaks, fake_stream_leaks,  fake_event_leaks,
                                                 fake_range_leaks,   fake_virtual_leaks, fake_pool_leaks};
    const char *leaks = NULL;

    LOCKED;
    for (size_t i = 0; !leaks && i < sizeof(looks) / sizeof(looks[0]); i++)
        leaks = looks[i]();
    return leaks ? leaks : fake_pinned() ? "memory is still pinned" : NULL;
}

static int test_device(void)
{
    LOCKED;
    return fake.shown - 1;
}

static void test_hold(int device, bool hold)
{
    LOCKED;
    (void)device;
    fake_hold(hold);
}

static bool test_capture(int device, bool capture)
{
    LOCKED;
    (void)device;
    return fake_capture(capture);
}

CUDA_EXPORT extern const struct test_cuda test_cuda;

const struct test_cuda test_cuda = {
    .alloc = test_alloc,
    .free = test_free,
    .put = test_put,
    .get = test_get,
    .fail_once = cuda_fail_once,
    .set_broken = test_set_broken,
    .calls = cuda_calls,
    .set_devices = test_set_devices,
    .destroy_context = test_destroy_context,
    .create_context = test_create_context,
    .pinned = test_pinned,
    .leaks = test_leaks,
    .hold = test_hold,
    .capture = test_capture,
    .device = test_device,
};

/* ---- the fake's own ------------------------------------------------------------------------------------------------------ */

static void refuse(const char *call, int result)
{
    LOCKED;
    fake_refuse(call, result);
}

static void seed(uint64_t value)
{
    LOCKED;
    fake.random = value * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void delay(long us)
{
    LOCKED;
    fake.delay_us = us;
}

static bool run(void)
{
    bool any = false;

    LOCKED;
    while (fake_step(0))
        any = true;
    return any;
}

static void start_worker(void)
{
    LOCKED;
    fake_need_worker();
}

static size_t used(int device)
{
    LOCKED;
    return fake_object_used(fake.visible[device]);
}

static size_t reserved(void)
{
    LOCKED;
    return fake_reserved();
}

static void set_peers(int a, int b, bool reach)
{
    LOCKED;
    fake.peers[a][b] = fake.peers[b][a] = reach;
}

static void set_memory(size_t bytes)
{
    LOCKED;
    fake.memory = bytes;
}

CUDA_EXPORT extern const struct fake_cuda fake_cuda;

const struct fake_cuda fake_cuda = {
    .refuse = refuse,
    .seed = seed,
    .delay = delay,
    .run = run,
    .start_worker = start_worker,
    .used = used,
    .reserved = reserved,
    .set_peers = set_peers,
    .set_memory = set_memory,
};
