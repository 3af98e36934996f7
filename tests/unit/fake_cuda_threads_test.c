/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver from several threads: contexts of their own, one memory, events between them, the worker beside. */
#include "tests/support/cuda/roles.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, TURNS = 60, BYTES = 70000 };

static pthread_t threads[THREADS];

static void run_all(void *(*run)(void *))
{
    for (intptr_t i = 0; i < THREADS; i++)
        OK(pthread_create(&threads[i], NULL, run, (void *)i));
    for (int i = 0; i < THREADS; i++)
        OK(pthread_join(threads[i], NULL));
}

/* ---- each for itself --------------------------------------------------------------------------------------------------- */

static void copy_turn(cu_address at, char *host, unsigned turn)
{
    void *stream, *event;

    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, CU_NO_TIMING));
    fill(host, BYTES, turn);
    OK(cuMemcpyHtoDAsync_v2(at, host, BYTES, stream));
    OK(cuMemcpyDtoDAsync_v2(at + BYTES, at, BYTES, stream));
    OK(cuMemcpyDtoHAsync_v2(host + BYTES, at + BYTES, BYTES, stream));
    OK(cuEventRecord(event, stream));
    while (cuEventQuery(event) == CU_NOT_READY)
        sched_yield();
    OK(memcmp(host, host + BYTES, BYTES));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
}

static void *works(void *number)
{
    int device = (int)(intptr_t)number % 2;
    char *host = malloc(2 * BYTES);
    void *context, *current;

    OK(cuDevicePrimaryCtxRetain(&context, device));
    for (unsigned turn = 0; turn < TURNS; turn++) {
        cu_address at = reserve(PIECE);
        unsigned long long handle = create(PIECE, device);

        OK(cuCtxPushCurrent_v2(context));
        map(at, PIECE, handle, device);
        OK(cuMemRelease(handle));
        copy_turn(at, host, turn);
        OK(cuMemUnmap(at, PIECE));
        OK(cuMemAddressFree(at, PIECE));
        OK(cuCtxPopCurrent_v2(&current));
        HOLDS(current == context);
    }
    OK(cuDevicePrimaryCtxRelease_v2(device));
    free(host);
    return NULL;
}

static void works_in_threads(void)
{
    OK(cuInit(0));
    fake_cuda.start_worker();
    run_all(works);
    OK(fake_cuda.used(0));
    OK(fake_cuda.used(1));
    OK(fake_cuda.reserved());
    HOLDS(!test_cuda.leaks());
}

static void each_for_itself(void **state)
{
    (void)state;
    play(works_in_threads, NULL, NULL);
}

/* ---- one after the other ------------------------------------------------------------------------------------------------ */

/* Each thread's stream waits for that of the thread before it. */
static void *events[THREADS];
static cu_address shared;
static atomic_int turn_of;

static void *passes_on(void *number)
{
    int me_of = (int)(intptr_t)number;
    void *context, *stream;

    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    for (int turn = 0; turn < TURNS; turn++) {
        while (atomic_load(&turn_of) != turn * THREADS + me_of)
            usleep(10);
        OK(cuStreamWaitEvent(stream, events[(me_of + THREADS - 1) % THREADS], 0));
        OK(cuMemcpyDtoDAsync_v2(shared + (cu_address)me_of + 1, shared + (cu_address)me_of, 1, stream));
        if (me_of == THREADS - 1)
            OK(cuMemsetD8Async(shared, (unsigned char)(turn + 1), 1, stream));
        OK(cuEventRecord(events[me_of], stream));
        atomic_fetch_add(&turn_of, 1);
    }
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
    return NULL;
}

static void pass_in_threads(void)
{
    unsigned char got[THREADS + 1];

    start(0);
    OK(cuMemAlloc_v2(&shared, THREADS + 1));
    OK(cuMemsetD8_v2(shared, 0, THREADS + 1));
    OK(cuStreamSynchronize(NULL));
    for (int i = 0; i < THREADS; i++)
        OK(cuEventCreate(&events[i], CU_NO_TIMING));
    run_all(passes_on);
    OK(cuMemcpyDtoH_v2(got, shared, sizeof(got)));
    GIVES(got[0], TURNS);
    for (int i = 1; i <= THREADS; i++)
        GIVES(got[i], TURNS - 1);
}

static void one_after_the_other(void **state)
{
    (void)state;
    play(pass_in_threads, NULL, NULL);
}

/* ---- the same memory ------------------------------------------------------------------------------------------------------ */

static struct cu_ipc handle;
static _Atomic(cu_address) opened;

static void *opens(void *number)
{
    cu_address at, other = 0;
    void *context;

    (void)number;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuIpcOpenMemHandle_v2(&at, handle, 1));
    HOLDS(atomic_compare_exchange_strong(&opened, &other, at) || other == at);
    has(at, BYTES, 6);
    return NULL;
}

static void gives_to_threads(void)
{
    cu_address at;

    start(1);
    OK(cuMemAlloc_v2(&at, BYTES));
    put(at, BYTES, 6);
    OK(cuIpcGetMemHandle(&handle, at));
    say(1, &handle, sizeof(handle));
    await(1);
}

static void opens_in_threads(void)
{
    start(0);
    hear(0, &handle, sizeof(handle));
    run_all(opens);
    for (int i = 0; i < THREADS; i++)
        OK(cuIpcCloseMemHandle(opened));
    GIVES(cuIpcCloseMemHandle(opened), CU_INVALID_VALUE);
    tell(0);
}

static void one_open_for_all(void **state)
{
    (void)state;
    play(gives_to_threads, opens_in_threads, NULL);
}

/* ---- a kernel of the host's ------------------------------------------------------------------------------------------------ */

static atomic_int closed;

static void *closes(void *at)
{
    OK(cuIpcCloseMemHandle((cu_address)(uintptr_t)at));
    atomic_store(&closed, 1);
    return NULL;
}

/* Another thread than the kernel's waits for it, and this one goes on. */
static void closes_beside(void)
{
    struct cu_ipc given;
    pthread_t thread;
    cu_address at;
    void *stream;

    start(0);
    hear(0, &given, sizeof(given));
    OK(cuIpcOpenMemHandle_v2(&at, given, 1));
    OK(cuStreamCreate(&stream, 1));
    test_cuda.hold(0, true);
    OK(pthread_create(&thread, NULL, closes, (void *)(uintptr_t)at));
    for (int i = 0; i < 20; i++) {
        OK(cuMemsetD8Async(at, 1, BYTES, stream));
        OK(cuStreamSynchronize(stream));
        usleep(200);
    }
    OK(atomic_load(&closed));
    test_cuda.hold(0, false);
    OK(pthread_join(thread, NULL));
    GIVES(cuMemsetD8Async(at, 1, BYTES, stream), CU_INVALID_VALUE);
    tell(0);
}

static void close_waits_for_kernel(void **state)
{
    (void)state;
    play(gives_to_threads, closes_beside, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_for_itself),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(one_open_for_all),
        cmocka_unit_test(close_waits_for_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
