/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that nobody registered: found again by address while it is the same memory, and only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/seen.h"
#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, FD = NIGH_CUDA_HANDLE_POSIX_FD };

static struct nigh_cuda_seen seen;

static int begin(void **state)
{
    (void)state;
    lab_begin();
    nigh_cuda_seen_begin(&seen);
    return 0;
}

static int end(void **state)
{
    struct nigh_cuda_export *export;

    (void)state;
    while ((export = nigh_cuda_seen_take(&seen)))
        nigh_cuda_export_put(export);
    nigh_cuda_seen_end(&seen);
    assert_null(lab.cuda->exports);
    lab_end();
    return 0;
}

/* The number under which it was found; 0: it is the host's. */
static uint64_t found(uint64_t at, uint64_t bytes, uint64_t *evicted)
{
    struct nigh_cuda_export *export = (void *)1, *gone;
    uint64_t number;

    assert_int_equal(nigh_cuda_seen_find(&seen, lab.cuda, (void *)(uintptr_t)at, bytes, &export, &gone), 0);
    *evicted = gone ? gone->number : 0;
    if (gone)
        nigh_cuda_export_put(gone);
    if (!export)
        return 0;
    number = export->number;
    nigh_cuda_export_put(export);
    return number;
}

static void again(void **state)
{
    uint64_t at = lab_alloc(0, ROOM), evicted, number = found(at + 5, 100, &evicted);
    unsigned asked;

    (void)state;
    assert_true(number);
    asked = lab.test->calls("cuIpcGetMemHandle");
    assert_int_equal(found(at + 70, ROOM - 70, &evicted), number);
    assert_int_equal(found(at, ROOM, &evicted), number);
    assert_int_equal(found(at, 0, &evicted), number);
    assert_int_equal(lab.test->calls("cuIpcGetMemHandle"), asked);
    assert_int_equal(evicted, 0);
    lab_free(at);
}

static void memory_of_the_host(void **state)
{
    char stack[10] = "";
    uint64_t evicted;

    (void)state;
    assert_int_equal(found((uintptr_t)stack, 10, &evicted), 0);
    assert_int_equal(seen.count, 0);
}

/* The same addresses, other memory. */
static void freed_and_allocated_anew(void **state)
{
    static const int two[] = {0, 0};
    uint64_t at = lab_map(two, 2, FD), evicted, number = found(at, 2 * LAB_PIECE, &evicted), next;

    (void)state;
    assert_int_equal(found(at, 2 * LAB_PIECE, &evicted), number);
    IS(lab.driver->unmap(at + LAB_PIECE, LAB_PIECE), 0); /* the second of the two alone */
    lab_map_at(at + LAB_PIECE, 0, FD);
    next = found(at, 2 * LAB_PIECE, &evicted);
    assert_true(next > number);
    assert_int_equal(evicted, number);
    lab_unmap(at, two, 2);
    assert_int_equal(found(at, LAB_PIECE, &evicted), 0); /* nobody's now */
    assert_int_equal(evicted, next);
}

static void the_oldest_goes(void **state)
{
    uint64_t at[NIGH_CUDA_SEEN_MAX + 2], number[NIGH_CUDA_SEEN_MAX + 2], evicted;

    (void)state;
    for (int i = 0; i < NIGH_CUDA_SEEN_MAX; i++) {
        at[i] = lab_alloc(0, ROOM);
        number[i] = found(at[i], ROOM, &evicted);
        assert_int_equal(evicted, 0);
    }
    found(at[0], 1, &evicted); /* used once more */
    at[NIGH_CUDA_SEEN_MAX] = lab_alloc(0, ROOM);
    found(at[NIGH_CUDA_SEEN_MAX], ROOM, &evicted);
    assert_int_equal(evicted, number[1]);
    assert_int_equal(found(at[0], 1, &evicted), number[0]);
    for (int i = 0; i <= NIGH_CUDA_SEEN_MAX; i++)
        lab_free(at[i]);
}

/* Not what is in use, as long as there is something else. */
static void the_oldest_unused_goes(void **state)
{
    struct nigh_cuda_export *used[NIGH_CUDA_SEEN_MAX], *gone;
    uint64_t at[NIGH_CUDA_SEEN_MAX + 2], number, evicted;

    (void)state;
    for (int i = 0; i < NIGH_CUDA_SEEN_MAX + 2; i++)
        at[i] = lab_alloc(0, ROOM);
    for (int i = 0; i < NIGH_CUDA_SEEN_MAX; i++)
        assert_int_equal(
            nigh_cuda_seen_find(&seen, lab.cuda, (void *)(uintptr_t)at[i], ROOM, &used[i], &gone), 0);
    found(at[NIGH_CUDA_SEEN_MAX], ROOM, &evicted); /* all are: the oldest */
    assert_int_equal(evicted, used[0]->number);
    assert_false(nigh_cuda_seen_keeps(&seen, used[0]));
    number = used[4]->number;
    nigh_cuda_export_put(used[4]);
    found(at[NIGH_CUDA_SEEN_MAX], ROOM, &evicted); /* used once more */
    assert_int_equal(evicted, 0);
    found(at[NIGH_CUDA_SEEN_MAX + 1], ROOM, &evicted);
    assert_int_equal(evicted, number);
    assert_true(nigh_cuda_seen_keeps(&seen, used[1]));
    for (int i = 0; i < NIGH_CUDA_SEEN_MAX; i++)
        if (i != 4)
            nigh_cuda_export_put(used[i]);
    for (int i = 0; i < NIGH_CUDA_SEEN_MAX + 2; i++)
        lab_free(at[i]);
}

static void failures(void **state)
{
    struct nigh_cuda_export *export = (void *)1, *evicted = (void *)1;
    uint64_t at = lab_alloc(0, ROOM);

    (void)state;
    logged_begin();
    assert_int_equal(nigh_cuda_seen_find(&seen, lab.cuda, (void *)(uintptr_t)at, (uint64_t)64 * LAB_PIECE,
                                         &export, &evicted),
                     -EFAULT);
    logged_end();
    assert_ptr_equal(export, (void *)1);
    assert_null(evicted);
    assert_int_equal(seen.count, 0);
    lab_free(at);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(again),           CASE(memory_of_the_host),     CASE(freed_and_allocated_anew),
        CASE(the_oldest_goes), CASE(the_oldest_unused_goes), CASE(failures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
