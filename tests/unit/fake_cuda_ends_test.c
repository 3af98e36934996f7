/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake CUDA driver in one process: what ends the program as the real one would hang or fault, and injected errors. */
#include "tests/support/cuda/roles.h"

#include <time.h>

/* ---- what ends the program -------------------------------------------------------------------------------------------------------- */

static void touches(void)
{
    cu_address at;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)(uintptr_t)at = 1;
}

static void touch_faults(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        touches();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static cu_address mapped;
static void *used_stream;

static void begins_copy(void)
{
    static char host[64];

    start(0);
    mapped = reserve(PIECE);
    map(mapped, PIECE, create(PIECE, 0), 0);
    OK(cuStreamCreate(&used_stream, 1));
    OK(cuMemcpyDtoHAsync_v2(host, mapped + 64, 64, used_stream));
}

static void unmaps_under_a_copy(void)
{
    begins_copy();
    cuMemUnmap(mapped, PIECE);
}

static void waits_then_unmaps(void)
{
    begins_copy();
    OK(cuStreamSynchronize(used_stream));
    OK(cuMemUnmap(mapped, PIECE));
}

static void unmap_does_not_wait(void **state)
{
    (void)state;
    faults(unmaps_under_a_copy, "cuMemUnmap of memory that a copy under way reads or writes");
    play(waits_then_unmaps, NULL, NULL);
}

static void pushes_destroyed(void)
{
    void *context;

    start(0);
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuCtxDestroy_v2(context));
    cuCtxPushCurrent_v2(context);
}

static void destroyed_contexts(void **state)
{
    (void)state;
    faults(pushes_destroyed, "cuCtxPushCurrent_v2 of a context that was destroyed");
}

/* Calls that wait for the host's kernels: number `waiting` is tried. */
static int waiting;

static void waits_for_kernel(void)
{
    static char host[4096];
    void *event = NULL, *pinned = NULL;
    cu_address at, made;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuEventCreate(&event, CU_INTERPROCESS | CU_NO_TIMING));
    OK(cuMemAllocHost_v2(&pinned, 8));
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    test_cuda.hold(0, true);
    switch (waiting) {
    case 0:
        cuMemFree_v2(at);
        break;
    case 1:
        cuMemAlloc_v2(&made, 8);
        break;
    case 2:
        cuMemFreeHost(pinned);
        break;
    case 3:
        cuMemHostUnregister(host);
        break;
    case 4:
        cuEventDestroy_v2(event);
        break;
    case 5:
        cuEventCreate(&event, CU_INTERPROCESS | CU_NO_TIMING);
        break;
    case 6:
        cuCtxSynchronize();
        break;
    case 7:
        cuCtxSetFlags(0);
        break;
    case 8:
        cuStreamSynchronize(NULL);
        break;
    case 9:
        cuMemcpyDtoH_v2(host, at, 8);
        break;
    default:
        cuMemcpyHtoD_v2(at, host, 8);
        break;
    }
}

/* And those that do not. */
static void works_beside_kernel(void)
{
    static char host[4096];
    void *stream, *event, *blocking;
    cu_address at;
    char got[8];

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&blocking, 0));
    test_cuda.hold(0, true);
    OK(cuMemHostRegister_v2(host, sizeof(host), 1));
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, CU_NO_TIMING));
    OK(cuMemsetD8Async(at, 4, 8, stream));
    OK(cuMemsetD8Async(at, 5, 8, blocking));
    OK(cuMemcpyDtoHAsync_v2(got, at, 8, stream));
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    GIVES(got[0], 4);
    GIVES(cuStreamQuery(NULL), CU_NOT_READY);
    GIVES(cuStreamQuery(blocking), CU_NOT_READY);
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    map(reserve(PIECE), PIECE, create(PIECE, 0), 0);
    test_cuda.hold(0, false);
    OK(cuStreamSynchronize(blocking));
    OK(cuMemHostUnregister(host));
}

static void kernels_of_the_host(void **state)
{
    (void)state;
    for (waiting = 0; waiting <= 10; waiting++)
        faults(waits_for_kernel, "waits for a kernel of the host's");
    play(works_beside_kernel, NULL, NULL);
}

/* A graph that is captured is void for what is asked of the driver meanwhile, but in the relaxed mode. */
static void captures(void)
{
    int mode = CU_CAPTURE_RELAXED;
    cu_address at, made;
    char host[8];
    void *stream;

    start(0);
    OK(cuMemAlloc_v2(&at, 8));
    OK(cuStreamCreate(&stream, 1));
    test_cuda.capture(0, true);
    GIVES(cuMemcpyDtoHAsync_v2(host, at, 8, stream), CU_CAPTURE_UNSUPPORTED);
    GIVES(cuMemAlloc_v2(&made, 8), CU_CAPTURE_UNSUPPORTED);
    HOLDS(!test_cuda.capture(0, false));
    test_cuda.capture(0, true);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemcpyDtoHAsync_v2(host, at, 8, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(test_cuda.capture(0, false));
    test_cuda.capture(0, true);
    GIVES(cuStreamQuery(NULL), CU_CAPTURE_IMPLICIT);
    HOLDS(!test_cuda.capture(0, false));
}

static void graphs(void **state)
{
    (void)state;
    play(captures, NULL, NULL);
}

/* ---- injected errors ------------------------------------------------------------------------------------------------------------------ */

static void is_injected(void)
{
    unsigned long long handle = 0;
    struct cu_allocation properties = on_device(0);
    struct timespec begin, end;
    size_t bytes;

    setenv("NIGH_FAKE_CUDA_FAIL", "cuMemCreate=2@1,cuMemRelease=999", 1);
    setenv("NIGH_FAKE_CUDA_DELAY", "cuMemGetAllocationGranularity=20000", 1);
    start(0);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_OUT_OF_MEMORY);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemRelease(handle), 999);
    GIVES(cuMemRelease(handle), 999);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    OK(cuMemGetAllocationGranularity(&bytes, &properties, 0));
    clock_gettime(CLOCK_MONOTONIC, &end);
    HOLDS((end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000 >= 20000);
    fake_cuda.refuse("cuMemCreate", CU_NOT_PERMITTED);
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_NOT_PERMITTED);
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), CU_NOT_PERMITTED);
    fake_cuda.refuse("cuMemCreate", 0);
    test_cuda.fail_once("cuMemCreate", 1);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(cuMemCreate(&handle, PIECE, &properties, 0), TEST_CUDA_ERROR);
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    GIVES(test_cuda.calls("cuMemCreate"), 8);
}

static void injected_errors(void **state)
{
    (void)state;
    play(is_injected, NULL, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(touch_faults),
        cmocka_unit_test(unmap_does_not_wait),
        cmocka_unit_test(destroyed_contexts),
        cmocka_unit_test(kernels_of_the_host),
        cmocka_unit_test(graphs),
        cmocka_unit_test(injected_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
