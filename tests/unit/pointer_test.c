/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose memory a buffer is: every kind, several segments, holes and mixtures, and what each failing call leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLE = -1, HOST = -2, SMALL = 8192 };

static int begin(void **state)
{
    (void)state;
    lab_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    lab_end();
    return 0;
}

static int look_rc(uint64_t at, uint64_t bytes)
{
    struct nigh_cuda_memory *memory = NULL;
    int rc = nigh_cuda_look(lab.cuda, (void *)(uintptr_t)at, bytes, &memory);

    assert_true(rc ? !memory : true);
    free(memory);
    return rc;
}

static void kinds(void **state)
{
    static const struct {
        enum cuda_memory memory;
        enum nigh_cuda_kind kind;
    } cases[] = {{MEMORY_PLAIN, NIGH_CUDA_KIND_PLAIN},
                 {MEMORY_MAPPED, NIGH_CUDA_KIND_MAPPED},
                 {MEMORY_POOL, NIGH_CUDA_KIND_POOL},
                 {MEMORY_MANAGED, NIGH_CUDA_KIND_MANAGED}};
    int device = lab.test->device();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *at = lab.test->alloc(cases[i].memory, device, SMALL);
        struct nigh_cuda_memory *memory = lab_look((uintptr_t)at + 100, SMALL - 100);

        assert_int_equal(memory->kind, cases[i].kind);
        assert_int_equal(memory->ordinal, device);
        assert_int_equal(memory->context->ordinal, device);
        assert_int_equal(memory->segments, 1);
        assert_int_equal(memory->at, (uintptr_t)at + 100);
        assert_int_equal(memory->segment[0].base, (uintptr_t)at);
        assert_true(memory->segment[0].bytes >= SMALL);
        assert_true(memory->segment[0].buffer_id);
        free(memory);
        lab.test->free(at);
    }
}

static void memory_of_the_host(void **state)
{
    struct nigh_cuda_memory *memory = (void *)1;
    char *pinned = lab.test->alloc(MEMORY_HOST, 0, SMALL), stack[16];
    uint64_t numa = lab_map((int[]){HOST, HOST}, 2, 0);
    const void *all[] = {pinned, stack, state, NULL, (void *)(uintptr_t)numa, (void *)1};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        memory = (void *)1;
        assert_int_equal(nigh_cuda_look(lab.cuda, all[i], 16, &memory), 0);
        assert_null(memory);
    }
    lab.test->free(pinned);
    lab_unmap(numa, (int[]){HOST, HOST}, 2);
}

static void three_segments(void **state)
{
    static const int devices[] = {0, 0, 0};
    uint64_t at = lab_map(devices, 3, NIGH_CUDA_HANDLE_POSIX_FD);
    struct nigh_cuda_memory *memory = lab_look(at + LAB_PIECE - 1, LAB_PIECE + 2);

    (void)state;
    assert_int_equal(memory->kind, NIGH_CUDA_KIND_MAPPED);
    assert_int_equal(memory->segments, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(memory->segment[i].base, at + (uint64_t)i * LAB_PIECE);
        assert_int_equal(memory->segment[i].bytes, LAB_PIECE);
        assert_true(!i || memory->segment[i].buffer_id != memory->segment[i - 1].buffer_id);
    }
    free(memory);
    memory = lab_look(at + LAB_PIECE, LAB_PIECE);
    assert_int_equal(memory->segments, 1);
    assert_int_equal(memory->segment[0].base, at + LAB_PIECE);
    free(memory);
    memory = lab_look(at, 0);
    assert_int_equal(memory->segments, 1);
    free(memory);
    lab_unmap(at, devices, 3);
}

static void many_segments(void **state)
{
    int devices[70] = {0};
    uint64_t at = lab_map(devices, 70, NIGH_CUDA_HANDLE_POSIX_FD);
    struct nigh_cuda_memory *memory = lab_look(at, (uint64_t)70 * LAB_PIECE);

    (void)state;
    assert_int_equal(memory->segments, 70);
    assert_int_equal(memory->segment[69].base, at + (uint64_t)69 * LAB_PIECE);
    free(memory);
    lab_unmap(at, devices, 70);
}

static void refused(const int *devices, uint64_t offset, uint64_t bytes, int error, const char *text)
{
    uint64_t at = lab_map(devices, 3, NIGH_CUDA_HANDLE_POSIX_FD);

    logged_begin();
    assert_int_equal(look_rc(at + offset, bytes), error);
    logged_assert_has(text);
    logged_end();
    lab_unmap(at, devices, 3);
}

/* RANGE_START_ADDR and RANGE_SIZE would say that all of a reservation is memory. */
static void holes_and_mixtures(void **state)
{
    (void)state;
    refused((int[]){0, HOLE, 0}, 0, 3 * LAB_PIECE, -EFAULT, "no device memory is mapped");
    refused((int[]){0, 0, HOLE}, LAB_PIECE, LAB_PIECE + 1, -EFAULT, "no device memory is mapped");
    refused((int[]){0, 1, 0}, 0, 3 * LAB_PIECE, -EXDEV, "another device");
    refused((int[]){0, HOST, 0}, 0, 3 * LAB_PIECE, -EXDEV, "memory of the host");
    refused((int[]){HOST, 0, 0}, 0, 3 * LAB_PIECE, -EXDEV, "ends in that of device");
    refused((int[]){0, 0, 0}, 0, UINT64_MAX - 1, -EFAULT, "more bytes are meant");
}

static void past_the_end(void **state)
{
    uint64_t at = lab_alloc(0, SMALL);
    char *pool = lab.test->alloc(MEMORY_POOL, 0, SMALL);

    (void)state;
    logged_begin();
    assert_int_equal(look_rc(at, (uint64_t)2 * LAB_PIECE), -EFAULT);
    logged_assert_has("its allocation ends");
    assert_int_equal(look_rc((uintptr_t)pool, (uint64_t)2 * LAB_PIECE), -EFAULT);
    logged_end();
    lab_free(at);
    lab.test->free(pool);
}

static void freed(void **state)
{
    struct nigh_cuda_memory *memory = (void *)1;
    uint64_t at = lab_alloc(0, SMALL);

    (void)state;
    lab_free(at);
    assert_int_equal(nigh_cuda_look(lab.cuda, (void *)(uintptr_t)at, SMALL, &memory), 0);
    assert_null(memory);
}

/* A context that the host has destroyed is told from the one that it makes in its place. */
static void destroyed_contexts(void **state)
{
    int device = lab.test->device(), mode;
    char *at = lab.test->alloc(MEMORY_PLAIN, device, SMALL);
    struct nigh_cuda_memory *memory = lab_look((uintptr_t)at, SMALL), *again;

    (void)state;
    assert_int_equal(nigh_cuda_enter(memory->context, &mode), 0);
    assert_int_equal(nigh_cuda_leave(memory->context, mode), 0);
    lab.test->destroy_context(device);
    logged_begin();
    assert_int_equal(nigh_cuda_enter(memory->context, &mode), -EIO);
    logged_assert_has("was destroyed");
    lab.test->create_context(device);
    assert_int_equal(nigh_cuda_enter(memory->context, &mode), -EIO);
    logged_end();
    at = lab.test->alloc(MEMORY_PLAIN, device, SMALL);
    again = lab_look((uintptr_t)at, SMALL);
    assert_true(again->context != memory->context);
    assert_int_equal(nigh_cuda_enter(again->context, &mode), 0);
    assert_int_equal(nigh_cuda_leave(again->context, mode), 0);
    free(memory);
    free(again);
    lab.test->free(at);
}

/* Memory of no context is copied in the one that the host works in. */
static void the_hosts_context(void **state)
{
    char *at = lab.test->alloc(MEMORY_POOL, 0, SMALL);
    void *primary, *popped;
    struct nigh_cuda_memory *memory;

    (void)state;
    assert_int_equal(lab.driver->primary_retain(&primary, 0), 0);
    assert_int_equal(lab.driver->push(primary), 0);
    memory = lab_look((uintptr_t)at, SMALL);
    assert_ptr_equal(memory->context->handle, primary);
    assert_false(memory->context->primary);
    free(memory);
    assert_int_equal(lab.driver->pop(&popped), 0);
    memory = lab_look((uintptr_t)at, SMALL);
    assert_true(memory->context->primary);
    free(memory);
    assert_int_equal(lab.driver->primary_release(0), 0);
    lab.test->free(at);
}

static void a_graph_stays_whole(void **state)
{
    char *at = lab.test->alloc(MEMORY_MAPPED, 0, SMALL);

    (void)state;
    lab.test->capture(0, true);
    assert_int_equal(look_rc((uintptr_t)at, SMALL), 0);
    assert_true(lab.test->capture(0, false));
    lab.test->free(at);
}

/* Each call fails once: an error, or the answer without that call; and nothing stays pushed, retained or open. */
static void each_call_fails(void **state)
{
    static const char *const calls[] = {"cuPointerGetAttributes",
                                        "cuMemGetAddressRange_v2",
                                        "cuCtxPushCurrent_v2",
                                        "cuCtxPopCurrent_v2",
                                        "cuStreamCreate",
                                        "cuEventCreate",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuDeviceGet",
                                        "cuThreadExchangeStreamCaptureMode",
                                        "cuPointerSetAttribute",
                                        "cuMemHostRegister_v2",
                                        "cuCtxGetId",
                                        "cuMemRetainAllocationHandle",
                                        "cuMemGetAllocationPropertiesFromHandle"};
    char *at = lab.test->alloc(MEMORY_MAPPED, 0, SMALL);

    (void)state;
    logged_begin();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (unsigned after = 0; after < 4; after++) {
            int rc;

            lab_end_keeping();
            lab_begin();
            lab.test->fail_once(calls[i], after);
            rc = look_rc((uintptr_t)at, SMALL);
            assert_true(rc == 0 || rc == -EIO || rc == -EFAULT);
            lab.test->fail_once(NULL, 0);
            assert_int_equal(look_rc((uintptr_t)at, SMALL), 0);
        }
    logged_end();
    lab.test->free(at);
}

static void forked_children(void **state)
{
    char *at = lab.test->alloc(MEMORY_PLAIN, 0, SMALL);
    struct nigh_cuda_memory *memory = lab_look((uintptr_t)at, SMALL);
    int status, mode;
    pid_t child = fork();

    (void)state;
    if (!child) {
        unsigned calls = lab.test->calls(NULL);
        struct nigh_cuda *none;
        const char *why;

        IS(look_rc((uintptr_t)at, SMALL), -ECHILD);
        IS(nigh_cuda_enter(memory->context, &mode), -ECHILD);
        IS(nigh_cuda_open(&(struct nigh_cuda_options){.staging = NULL}, &none, &why), -ECHILD);
        nigh_cuda_close(lab.cuda);
        IS(lab.test->calls(NULL), calls);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(look_rc((uintptr_t)at, SMALL), 0);
    free(memory);
    lab.test->free(at);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(kinds),
        CASE(memory_of_the_host),
        CASE(three_segments),
        CASE(many_segments),
        CASE(holes_and_mixtures),
        CASE(past_the_end),
        CASE(freed),
        CASE(destroyed_contexts),
        CASE(the_hosts_context),
        CASE(a_graph_stays_whole),
        CASE(each_call_fails),
        CASE(forked_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
