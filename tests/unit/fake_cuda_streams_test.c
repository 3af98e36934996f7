/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver in one process: in which order streams work, and their copies. */
#include "tests/support/cuda/roles.h"

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

enum { ASKED = 24 };

/* How often the stream says that it is not ready, for each of several copies. */
static void counts_answers(void)
{
    unsigned char answers[ASKED] = {0};
    char host[64] = "a";
    cu_address at;
    void *stream;

    if (me)
        setenv("NIGH_FAKE_CUDA_SEED", me == 1 ? "1" : "2", 1);
    start(0);
    OK(cuMemAlloc_v2(&at, 64));
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < ASKED; i++) {
        host[0] = (char)i;
        OK(cuMemcpyHtoDAsync_v2(at, host, 64, stream));
        while (cuStreamQuery(stream) == CU_NOT_READY)
            answers[i]++;
    }
    if (me) {
        say(0, answers, sizeof(answers));
    } else {
        unsigned char same[ASKED], other[ASKED];
        int sum = 0;

        hear(1, same, sizeof(same));
        hear(2, other, sizeof(other));
        OK(memcmp(same, answers, sizeof(answers)));
        HOLDS(memcmp(other, answers, sizeof(answers)) != 0);
        for (int i = 0; i < ASKED; i++)
            sum += answers[i];
        HOLDS(sum > 0 && sum < 10 * ASKED);
    }
}

static void late_by_the_seed(void **state)
{
    (void)state;
    play(counts_answers, counts_answers, counts_answers);
}

/* Each in its order; between streams in none, but for events. */
static void orders_streams(void)
{
    void *streams[2], *event, *none, *timed[2];
    cu_address at;
    char host[16];
    float ms;

    start(0);
    OK(cuMemAlloc_v2(&at, 16));
    OK(cuEventCreate(&event, CU_NO_TIMING));
    OK(cuEventCreate(&none, CU_NO_TIMING));
    OK(cuEventCreate(&timed[0], 0));
    OK(cuEventCreate(&timed[1], 0));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    for (unsigned turn = 1; turn < 100; turn++) {
        OK(cuStreamWaitEvent(streams[0], none, 0)); /* never recorded: for nothing */
        OK(cuMemsetD8Async(at, (unsigned char)turn, 16, streams[0]));
        OK(cuEventRecord(event, streams[0]));
        GIVES(cuMemcpyDtoHAsync_v2(host, at, 17, streams[1]), CU_INVALID_VALUE);
        OK(cuStreamWaitEvent(streams[1], event, 0));
        OK(cuMemcpyDtoHAsync_v2(host, at, 16, streams[1]));
        OK(cuMemsetD8Async(at, 0, 16, streams[1]));
        if (turn % 2)
            OK(cuStreamSynchronize(streams[1]));
        else
            while (cuStreamQuery(streams[1]) == CU_NOT_READY)
                ;
        OK(cuEventQuery(event));
        GIVES(host[15], turn);
    }
    OK(cuEventQuery(none));
    OK(cuEventSynchronize(none));
    GIVES(cuEventElapsedTime(&ms, event, timed[0]), CU_INVALID_HANDLE);
    OK(cuEventRecord(timed[0], streams[0]));
    OK(cuEventRecord(timed[1], streams[1]));
    OK(cuEventSynchronize(timed[0]));
    OK(cuEventSynchronize(timed[1]));
    OK(cuEventElapsedTime(&ms, timed[0], timed[1]));
    OK(cuEventDestroy_v2(event));
    GIVES(cuEventQuery(event), CU_INVALID_HANDLE);
    OK(cuStreamDestroy_v2(streams[0]));
    GIVES(cuStreamQuery(streams[0]), CU_INVALID_HANDLE);
}

static void order_within_and_between(void **state)
{
    (void)state;
    play(orders_streams, NULL, NULL);
}

/* What the context's legacy stream has been given comes between what other streams have; but not those that do not wait. */
static void orders_legacy(void)
{
    void *blocking, *other;
    cu_address at;
    char host[3][8];

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&other, 1));
    for (unsigned char turn = 1; turn < 50; turn++) {
        OK(cuMemsetD8Async(at, turn, 8, blocking));
        OK(cuMemcpyDtoHAsync_v2(host[0], at, 8, NULL));
        OK(cuMemsetD8Async(at, 0, 8, blocking));
        OK(cuStreamSynchronize(blocking));
        GIVES(host[0][7], turn);
    }
    fake_cuda.delay(20000);
    OK(cuMemsetD8Async(at, 9, 8, blocking));
    OK(cuMemcpyDtoHAsync_v2(host[2], at, 8, other));
    GIVES(cuStreamQuery(NULL), CU_SUCCESS); /* itself it has nothing to do */
    GIVES(cuStreamQuery(blocking), CU_NOT_READY);
    OK(cuCtxSynchronize());
    OK(cuStreamQuery(blocking));
    OK(cuStreamQuery(other));
}

static void legacy_stream(void **state)
{
    (void)state;
    play(orders_legacy, NULL, NULL);
}

static void adds_one(void *argument)
{
    __atomic_add_fetch((int *)argument, 1, __ATOMIC_RELEASE);
}

/* Without anybody who asks or waits, too. */
static void calls_back(void)
{
    int called = 0;
    void *stream;
    cu_address word;

    start(0);
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&word, 4));
    OK(cuMemsetD8Async(word, 0, 4, stream));
    OK(cuStreamWaitValue32_v2(stream, word, 7, 0));
    OK(cuLaunchHostFunc(stream, adds_one, &called));
    usleep(5000);
    OK(__atomic_load_n(&called, __ATOMIC_ACQUIRE));
    OK(cuStreamWriteValue32_v2(NULL, word, 8, 0));
    while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
        usleep(100);
    OK(cuStreamSynchronize(stream));
}

static void host_functions(void **state)
{
    (void)state;
    play(calls_back, NULL, NULL);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------------- */

static void copies_planes(void)
{
    static _Alignas(4096) char host[8192];
    struct cu_plane plane = {.from_type = CU_HOST_MEMORY,
                             .from_host = host,
                             .from_pitch = 100,
                             .from_x = 10,
                             .to_type = CU_DEVICE_MEMORY,
                             .to_pitch = 64,
                             .to_y = 1,
                             .width = 50,
                             .height = 20};
    cu_address at;
    void *stream;
    char got[64 * 21];

    start(0);
    OK(cuMemAlloc_v2(&at, sizeof(got)));
    OK(cuStreamCreate(&stream, 1));
    plane.to_device = at;
    fill(host, sizeof(host), 1);
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE); /* not pinned */
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    GIVES(cuMemHostRegister_v2(host + 4000, 8, 1), CU_ALREADY_REGISTERED);
    OK(cuMemcpy2DAsync_v2(&plane, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(got, at, sizeof(got)));
    for (int row = 0; row < 20; row++)
        OK(memcmp(got + (row + 1) * 64, host + row * 100 + 10, 50));
    plane.from_pitch = 59;
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE);
    plane.from_pitch = 100;
    plane.height = 21; /* beyond the end */
    GIVES(cuMemcpy2DAsync_v2(&plane, stream), CU_INVALID_VALUE);
    OK(cuMemHostUnregister(host));
    GIVES(cuMemHostUnregister(host), CU_NOT_REGISTERED);
}

static void planes(void **state)
{
    (void)state;
    play(copies_planes, NULL, NULL);
}

static void copies_batches(void)
{
    struct cu_copy_attributes attributes[2] = {{.order = 2}, {.order = 1}};
    char host[2][32];
    cu_address at, to[3], from[3];
    size_t bytes[3] = {32, 32, 32}, firsts[2] = {0, 1};
    void *stream;
    char got[32];

    start(0);
    OK(cuMemAlloc_v2(&at, 96));
    OK(cuStreamCreate(&stream, 1));
    for (unsigned i = 0; i < 2; i++) {
        fill(host[i], 32, i);
        from[i] = (uintptr_t)host[i];
    }
    from[2] = at;
    for (unsigned i = 0; i < 3; i++)
        to[i] = at + (cu_address)i * 32;
    GIVES(cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2, NULL), CU_INVALID_VALUE);
    OK(cuMemcpyBatchAsync_v2(to, from, bytes, 3, attributes, firsts, 2, stream));
    memset(host[0], 0, 32); /* the first was read in the call */
    fill(host[1], 32, 7);   /* the second is read late */
    OK(cuStreamSynchronize(stream));
    has(at, 32, 0);
    has(at + 32, 32, 7);
    has(at + 64, 32, 0);
    OK(cuMemcpy((uintptr_t)got, at + 32, 32));
    fill(host[0], 32, 7);
    OK(memcmp(got, host[0], 32));
}

static void batches(void **state)
{
    (void)state;
    play(copies_batches, NULL, NULL);
}

/* A copy from pageable memory returns early, unless memory or context finish theirs. */
static void copies_early(void)
{
    cu_address at;
    char host[8], got[8];
    unsigned one = 1;
    void *stream;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&stream, 1));
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 1)
            OK(cuPointerSetAttribute(&one, POINTER_SYNC_MEMOPS, at));
        if (turn == 2) {
            one = 0;
            OK(cuPointerSetAttribute(&one, POINTER_SYNC_MEMOPS, at));
            OK(cuCtxSetFlags(CU_CONTEXT_SYNC_MEMOPS));
        }
        memset(host, 3 + turn, 8);
        OK(cuMemcpyHtoD_v2(at, host, 8));
        OK(cuMemcpyDtoHAsync_v2(got, at, 8, stream));
        OK(cuStreamSynchronize(stream));
        GIVES(got[0] == 3 + turn, turn > 0);
    }
}

static void pageable_copies_are_late(void **state)
{
    (void)state;
    play(copies_early, NULL, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_by_the_seed),
        cmocka_unit_test(order_within_and_between),
        cmocka_unit_test(legacy_stream),
        cmocka_unit_test(host_functions),
        cmocka_unit_test(planes),
        cmocka_unit_test(batches),
        cmocka_unit_test(pageable_copies_are_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
