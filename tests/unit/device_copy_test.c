/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that a progress pass moves on: every direction and size, many at once, behind the host's own copies, beside a kernel
 * that waits, under a capture; and what each failing call, a cancel and a context that goes leave behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = (3 << 20) + 7 };

static const size_t sizes[] = {0,
                               1,
                               2,
                               3,
                               7,
                               4096,
                               32767,
                               32768,
                               32769,
                               131072,
                               131073,
                               NIGH_STAGING_BYTES,
                               5 * NIGH_STAGING_BYTES + 1,
                               ROOM};

static char *near, *far;

static int begin(void **state)
{
    (void)state;
    lab_begin();
    near = malloc(ROOM);
    far = malloc(ROOM);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(near);
    free(far);
    lab_end();
    return 0;
}

static uint64_t of(const void *memory)
{
    return (uintptr_t)memory;
}

static char *alloc(enum cuda_memory kind, size_t bytes)
{
    return lab.test->alloc(kind, lab.test->device(), bytes);
}

static struct nigh_cuda_context *context_of(const void *at)
{
    struct nigh_cuda_memory *memory = lab_look(of(at), 1);
    struct nigh_cuda_context *context = memory->context;

    free(memory);
    return context;
}

static int run(struct nigh_cuda_context *context, enum nigh_cuda_copy_kind kind, const void *to,
               const void *from, size_t bytes, bool pinned)
{
    struct nigh_cuda_copy copy;

    nigh_cuda_copy_begin(&copy, context, context, kind, of(to), of(from), bytes, pinned);
    return lab_copy(&copy);
}

/* Nothing is left in use. */
static void at_rest(const struct nigh_cuda_context *context)
{
    assert_int_equal(context->lanes.idle, NIGH_LANE_EVENTS);
    assert_int_equal(context->cuda->staging.idles, NIGH_STAGING_BLOCKS);
}

static void every_direction_and_size(void **state)
{
    char *one = alloc(MEMORY_PLAIN, ROOM), *two = alloc(MEMORY_MAPPED, ROOM),
         *pinned = alloc(MEMORY_HOST, ROOM);
    struct nigh_cuda_context *context = context_of(one), *other = context_of(two);

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i];

        for (int pin = 0; pin < 2; pin++) {
            char *host = pin ? pinned : near;

            lab_fill(host, bytes, 3 * i + 1);
            assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, one, host, bytes, pin), 0);
            assert_true(lab_has(of(one), bytes, 3 * i + 1));
            assert_int_equal(run(other, NIGH_CUDA_COPY_ON_DEVICE, two, one, bytes, false), 0);
            assert_true(lab_has(of(two), bytes, 3 * i + 1));
            memset(host, 0, bytes);
            assert_int_equal(run(other, NIGH_CUDA_COPY_TO_HOST, host, two, bytes, pin), 0);
            assert_true(lab_filled(host, bytes, 3 * i + 1));
        }
    }
    at_rest(context);
    at_rest(other);
    lab.test->free(one);
    lab.test->free(two);
    lab.test->free(pinned);
}

/* Bytes beside the copied ones stay as they were. */
static void no_byte_too_many(void **state)
{
    char *one = alloc(MEMORY_PLAIN, 4096), *two = alloc(MEMORY_PLAIN, 4096);
    struct nigh_cuda_context *context = context_of(one);

    (void)state;
    context_of(two);
    for (size_t bytes = 0; bytes < 20; bytes++) {
        lab_put(of(one), 4096, 1);
        lab_put(of(two), 4096, 2);
        assert_int_equal(run(context, NIGH_CUDA_COPY_ON_DEVICE, two + 5, one + 9, bytes, false), 0);
        lab.test->get(near, two, 4096);
        lab_fill(far, 4096, 2);
        lab_fill(far + 4096, 4096, 1);
        memcpy(far + 5, far + 4096 + 9, bytes);
        assert_memory_equal(near, far, 4096);
    }
    lab.test->free(one);
    lab.test->free(two);
}

static void engines(void **state)
{
    char *one = alloc(MEMORY_PLAIN, 1 << 20), *two = alloc(MEMORY_PLAIN, 1 << 20);
    struct nigh_cuda_context *context = context_of(one);
    unsigned planes = lab.test->calls("cuMemcpy2DAsync_v2"), lines = lab.test->calls("cuMemcpyDtoDAsync_v2");

    (void)state;
    context_of(two);
    run(context, NIGH_CUDA_COPY_ON_DEVICE, two, one, 131072, false);
    assert_int_equal(lab.test->calls("cuMemcpy2DAsync_v2"), planes + 1);
    assert_int_equal(lab.test->calls("cuMemcpyDtoDAsync_v2"), lines);
    run(context, NIGH_CUDA_COPY_ON_DEVICE, two, one, 131074, false);
    assert_int_equal(lab.test->calls("cuMemcpy2DAsync_v2"), planes + 1);
    assert_int_equal(lab.test->calls("cuMemcpyDtoDAsync_v2"), lines + 1);
    assert_int_equal(nigh_cuda_copy_engine_for(NIGH_CUDA_COPY_TO_DEVICE, 32768), NIGH_CUDA_COPY_PLANE);
    assert_int_equal(nigh_cuda_copy_engine_for(NIGH_CUDA_COPY_TO_DEVICE, 32769), NIGH_CUDA_COPY_LINEAR);
    assert_int_equal(nigh_cuda_copy_engine_for(NIGH_CUDA_COPY_TO_HOST, 8), NIGH_CUDA_COPY_LINEAR);
    assert_int_equal(nigh_cuda_copy_engine_for(NIGH_CUDA_COPY_ON_DEVICE, 1), NIGH_CUDA_COPY_LINEAR);
    lab.test->free(one);
    lab.test->free(two);
}

/* Nothing waits: with work that begins late the first steps say so. */
static void events_are_asked(void **state)
{
    char *one = alloc(MEMORY_PLAIN, 4096), *two = alloc(MEMORY_PLAIN, 4096);
    struct nigh_cuda_context *context = context_of(one);
    struct nigh_cuda_copy copy;

    (void)state;
    context_of(two);
    lab_put(of(one), 4096, 9);
    run(context, NIGH_CUDA_COPY_ON_DEVICE, two, one, 1, false); /* it is settled now */
    lab.fake->delay(20000);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_ON_DEVICE, of(two), of(one), 4096, false);
    for (int i = 0; i < 20; i++)
        assert_int_equal(nigh_cuda_copy_step(&copy), -EAGAIN);
    lab.fake->delay(0);
    assert_int_equal(lab_copy(&copy), 0);
    assert_true(lab_has(of(two), 4096, 9));
    lab.test->free(one);
    lab.test->free(two);
}

static void many_at_once(void **state)
{
    enum { COPIES = 150, BYTES = 700000 };
    char *one = alloc(MEMORY_PLAIN, BYTES);
    struct nigh_cuda_context *context = context_of(one);
    struct nigh_cuda_copy *copies = calloc(COPIES, sizeof(*copies));
    char *hosts = malloc((size_t)COPIES * BYTES);
    int left = COPIES;

    (void)state;
    lab_put(of(one), BYTES, 4);
    for (int i = 0; i < COPIES; i++)
        nigh_cuda_copy_begin(&copies[i], context, context, NIGH_CUDA_COPY_TO_HOST,
                             of(hosts + (size_t)i * BYTES), of(one), BYTES, false);
    for (int round = 0; left && round < LAB_STEPS; round++)
        for (int i = 0; i < COPIES; i++) {
            int rc = copies[i].context ? nigh_cuda_copy_step(&copies[i]) : -EAGAIN;

            assert_true(!rc || rc == -EAGAIN);
            if (rc)
                continue;
            assert_true(lab_filled(hosts + (size_t)i * BYTES, BYTES, 4));
            copies[i].context = NULL;
            left--;
        }
    assert_int_equal(left, 0);
    at_rest(context);
    free(copies);
    free(hosts);
    lab.test->free(one);
}

/* Fault 22: a copy of the host's that has returned is not overtaken, into memory of any kind that is seen for the first time. */
static void the_hosts_copies_come_first(void **state)
{
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_MAPPED, MEMORY_PIECES, MEMORY_POOL,
                                             MEMORY_MANAGED};

    (void)state;
    for (unsigned i = 0; i < 5 * 20; i++) {
        char *at = alloc(kinds[i % 5], 65536);
        struct nigh_cuda_context *context;

        lab_put(of(at), 65536, i);
        context = context_of(at);
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 65536, false), 0);
        assert_true(lab_filled(near, 65536, i));
        lab_put(of(at), 65536, i + 1); /* known memory */
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 65536, false), 0);
        assert_true(lab_filled(near, 65536, i + 1));
        lab_put(of(at), 65536, i + 2);
        lab_fill(near, 65536, i + 3); /* and is not written over a newer message */
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, near, 65536, false), 0);
        assert_true(lab_has(of(at), 65536, i + 3));
        lab.test->free(at);
    }
}

/* Nor by one of another domain of this process, to which the memory is new no longer. */
static void the_hosts_copies_come_first_in_all_domains(void **state)
{
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_PIECES, MEMORY_POOL};
    const struct nigh_cuda_options options = {0};

    (void)state;
    for (unsigned i = 0; i < 3 * 20; i++) {
        char *at = alloc(kinds[i % 3], 65536);
        struct nigh_cuda_memory *memory;
        struct nigh_cuda *second;
        const char *why;

        assert_int_equal(nigh_cuda_open(&options, &second, &why), 0);
        lab_put(of(at), 65536, i);
        (void)context_of(at);
        assert_int_equal(nigh_cuda_look(second, at, 65536, &memory), 0);
        assert_int_equal(run(memory->context, NIGH_CUDA_COPY_TO_HOST, near, at, 65536, false), 0);
        assert_true(lab_filled(near, 65536, i));
        free(memory);
        nigh_cuda_close(second);
        lab.test->free(at);
    }
}

/* Where the blocks cannot be pinned copies are slower, not wrong: the driver makes no planes of them. */
static void blocks_are_not_pinned(void **state)
{
    struct nigh_cuda_context *context;
    char *at = alloc(MEMORY_PLAIN, ROOM);

    (void)state;
    lab.test->fail_once("cuMemHostRegister_v2", 0);
    context = context_of(at);
    assert_false(nigh_staging_is_pinned(&context->cuda->staging));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *block = nigh_staging_take(&context->cuda->staging);

        lab_fill(near, sizes[i], i + 1);
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, near, sizes[i], false), 0);
        assert_true(lab_has(of(at), sizes[i], i + 1));
        lab_fill(block, 1000, i + 2); /* the caller's own block, too */
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, block, 1000, true), 0);
        assert_true(lab_has(of(at), 1000, i + 2));
        nigh_staging_give(&context->cuda->staging, block);
    }
    at_rest(context);
    lab.test->free(at);
}

/* Calls that may wait for a kernel, allocate or load; none is made while bytes move. */
static unsigned forbidden(void)
{
    static const char *const calls[] = {
        "cuCtxSynchronize",    "cuStreamSynchronize", "cuEventSynchronize",
        "cuMemAlloc_v2",       "cuMemFree_v2",        "cuMemHostRegister_v2",
        "cuMemHostUnregister", "cuStreamCreate",      "cuStreamDestroy_v2",
        "cuEventCreate",       "cuEventDestroy_v2",   "cuIpcOpenMemHandle_v2",
        "cuIpcCloseMemHandle", "cuModuleLoadData",    "cuMemcpy",
        "cuMemcpyHtoD_v2",     "cuMemcpyDtoH_v2",     "cuDevicePrimaryCtxRetain"};
    unsigned sum = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        sum += lab.test->calls(calls[i]);
    return sum;
}

/* Fault 20: the host's kernel waits for the very message. The fake ends the test if a call waits for it. */
static void beside_a_kernel_that_waits(void **state)
{
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_MAPPED, MEMORY_POOL};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char *at = alloc(kinds[i], ROOM);
        struct nigh_cuda_context *context = context_of(at);
        unsigned before = forbidden();

        lab.test->hold(lab.test->device(), true);
        lab_fill(near, ROOM, 5);
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, near, ROOM, false), 0);
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, far, at, ROOM, false), 0);
        assert_true(lab_filled(far, ROOM, 5));
        lab.test->hold(lab.test->device(), false);
        assert_int_equal(forbidden(), before);
        lab.test->free(at);
    }
}

static void a_graph_stays_whole(void **state)
{
    char *at = alloc(MEMORY_MAPPED, 4096);
    struct nigh_cuda_context *context = context_of(at);

    (void)state;
    lab.test->capture(lab.test->device(), true);
    lab_fill(near, 4096, 6);
    assert_int_equal(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, near, 4096, false), 0);
    assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, far, at, 4096, false), 0);
    assert_true(lab.test->capture(lab.test->device(), false));
    assert_true(lab_filled(far, 4096, 6));
    lab.test->free(at);
}

/* The stream that they run in may not be asked then: they have their time. */
static void the_hosts_copies_come_first_under_a_capture(void **state)
{
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_MAPPED, MEMORY_POOL};

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        char *at = alloc(kinds[i % 3], 4096);
        struct nigh_cuda_context *context;

        lab_put(of(at), 4096, i);
        context = context_of(at);
        lab.test->capture(lab.test->device(), true);
        assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 4096, false), 0);
        assert_true(lab.test->capture(lab.test->device(), false));
        assert_true(lab_filled(near, 4096, i));
        lab.test->free(at);
    }
}

static void each_call_fails(void **state)
{
    static const char *const calls[] = {"cuMemcpy2DAsync_v2",   "cuMemcpyDtoHAsync_v2",
                                        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2",
                                        "cuEventRecord",        "cuEventQuery",
                                        "cuCtxPushCurrent_v2",  "cuCtxPopCurrent_v2",
                                        "cuCtxGetId",           "cuThreadExchangeStreamCaptureMode"};
    char *one = alloc(MEMORY_PLAIN, ROOM), *two = alloc(MEMORY_PLAIN, ROOM);
    struct nigh_cuda_context *context = context_of(one);
    int failures = 0;

    (void)state;
    context_of(two);
    lab_put(of(one), ROOM, 1);
    logged_begin();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (unsigned after = 0; after < 8; after++)
            for (enum nigh_cuda_copy_kind kind = NIGH_CUDA_COPY_ON_DEVICE; kind <= NIGH_CUDA_COPY_TO_HOST;
                 kind++) {
                const void *to = kind == NIGH_CUDA_COPY_TO_HOST ? near : two;
                const void *from = kind == NIGH_CUDA_COPY_TO_DEVICE ? far : one;
                int rc;

                lab.test->fail_once(calls[i], after);
                rc = run(context, kind, to, from, after % 2 ? ROOM : 4097, false);
                lab.test->fail_once(NULL, 0);
                assert_true(rc == 0 || rc == -EIO);
                failures += rc != 0;
                at_rest(context);
            }
    logged_end();
    assert_true(failures > 60);
    assert_int_equal(run(context, NIGH_CUDA_COPY_ON_DEVICE, two, one, ROOM, false), 0);
    assert_true(lab_has(of(two), ROOM, 1));
    lab.test->free(one);
    lab.test->free(two);
}

static void cancelled(void **state)
{
    char *at = alloc(MEMORY_PLAIN, ROOM);
    struct nigh_cuda_context *context = context_of(at);
    struct nigh_cuda_copy copy;

    (void)state;
    run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 1, false);
    lab.fake->delay(3000);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_TO_HOST, of(near), of(at), ROOM, false);
    assert_int_equal(nigh_cuda_copy_step(&copy), -EAGAIN);
    assert_true(copy.count);
    nigh_cuda_copy_cancel(&copy);
    assert_int_equal(nigh_cuda_copy_step(&copy), -EAGAIN); /* what is under way still writes */
    lab.fake->delay(0);
    assert_int_equal(lab_copy(&copy), -ECANCELED);
    assert_true(copy.asked < ROOM);
    at_rest(context);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_TO_HOST, of(near), of(at), ROOM, false);
    nigh_cuda_copy_cancel(&copy);
    assert_int_equal(nigh_cuda_copy_step(&copy), -ECANCELED);
    lab.test->free(at);
}

static void a_context_goes(void **state)
{
    char *at = alloc(MEMORY_PLAIN, ROOM);
    struct nigh_cuda_context *context = context_of(at);
    struct nigh_cuda_copy copy;

    (void)state;
    lab.fake->delay(3000);
    run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 1, false);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_TO_HOST, of(near), of(at), ROOM, false);
    assert_int_equal(nigh_cuda_copy_step(&copy), -EAGAIN);
    lab.fake->delay(0);
    lab.test->destroy_context(lab.test->device());
    logged_begin();
    assert_int_equal(lab_copy(&copy), -EIO);
    logged_end();
    assert_int_equal(lab.cuda->staging.idles, NIGH_STAGING_BLOCKS);
    lab.test->create_context(lab.test->device());
    at = alloc(MEMORY_PLAIN, ROOM);
    lab_put(of(at), ROOM, 8);
    context = context_of(at);
    assert_int_equal(run(context, NIGH_CUDA_COPY_TO_HOST, near, at, ROOM, false), 0);
    assert_true(lab_filled(near, ROOM, 8));
    assert_true(lab.test->pinned()); /* the blocks are pinned anew */
    lab.test->free(at);
}

static void *copy_back_and_forth(void *argument)
{
    char *at = argument, *host = malloc(300000);

    for (unsigned i = 0; i < 20; i++) {
        struct nigh_cuda_context *context = context_of(at);

        lab_fill(host, 300000, i);
        IS(run(context, NIGH_CUDA_COPY_TO_DEVICE, at, host, 300000, false), 0);
        memset(host, 0, 300000);
        IS(run(context, NIGH_CUDA_COPY_TO_HOST, host, at, 300000, false), 0);
        MUST(lab_filled(host, 300000, i));
    }
    free(host);
    return NULL;
}

static void threads(void **state)
{
    pthread_t thread[4];
    char *at[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        at[i] = alloc(i % 2 ? MEMORY_PLAIN : MEMORY_MAPPED, 300000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, copy_back_and_forth, at[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++)
        lab.test->free(at[i]);
}

/* Between two devices of one process. */
static void two_devices(void **state)
{
    uint64_t one = lab_alloc(0, ROOM), two = lab_alloc(1, ROOM);
    struct nigh_cuda_context *context = context_of((void *)(uintptr_t)two);

    (void)state;
    lab_put(one, ROOM, 11);
    context_of((void *)(uintptr_t)one);
    assert_int_equal(lab_copy_on_device(context, two, one, ROOM), 0);
    assert_true(lab_has(two, ROOM, 11));
    assert_int_equal(lab_copy_on_device(context, two, one + 1, 100), 0);
    lab_free(one);
    lab_free(two);
}

static void forked_children(void **state)
{
    char *at = alloc(MEMORY_PLAIN, 4096);
    struct nigh_cuda_context *context = context_of(at);
    struct nigh_cuda_copy copy;
    int status;
    pid_t child;

    (void)state;
    run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 1, false);
    lab.fake->delay(2000);
    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_TO_HOST, of(near), of(at), 4096, false);
    assert_int_equal(nigh_cuda_copy_step(&copy), -EAGAIN);
    lab.fake->delay(0);
    child = fork();
    if (!child) {
        unsigned calls = lab.test->calls(NULL);

        IS(nigh_cuda_copy_step(&copy), -ECHILD); /* it is the parent's */
        IS(run(context, NIGH_CUDA_COPY_TO_HOST, near, at, 4096, false), -ECHILD);
        IS(lab.test->calls(NULL), calls);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(lab_copy(&copy), 0);
    lab.test->free(at);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_direction_and_size),
        CASE(no_byte_too_many),
        CASE(engines),
        CASE(events_are_asked),
        CASE(many_at_once),
        CASE(the_hosts_copies_come_first),
        CASE(the_hosts_copies_come_first_in_all_domains),
        CASE(blocks_are_not_pinned),
        CASE(beside_a_kernel_that_waits),
        CASE(a_graph_stays_whole),
        CASE(the_hosts_copies_come_first_under_a_capture),
        CASE(each_call_fails),
        CASE(cancelled),
        CASE(a_context_goes),
        CASE(threads),
        CASE(two_devices),
        CASE(forked_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
