/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared heap memory, lends and receives in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

static void lend(int rank, int size)
{
    struct nigh_status status;
    nigh_request request;
    const void *data = NULL;
    void *memory;

    (void)size;
    OK(nigh_alloc_mem(BYTES, &memory));
    CHECK_INT((uintptr_t)memory % 64, 0);
    if (rank == 0) {
        ranks_fill(memory, BYTES, 1);
        OK(nigh_ilend(memory, BYTES, 1, 1, nigh_world(), &request));
        CHECK_INT(nigh_free_mem(memory), -EBUSY);
        OK(nigh_wait(&request, &status));
        CHECK_INT(status.bytes, BYTES);
        OK(nigh_ilend(memory, BYTES, 1, 2, nigh_world(), &request));
        OK(nigh_wait(&request, NULL));
        OK(nigh_send(memory, 100, 1, 3, nigh_world()));
        OK(nigh_send(NULL, 0, 1, 4, nigh_world()));
    } else {
        OK(nigh_recv_in_place(&data, BYTES, 0, 1, nigh_world(), &status));
        CHECK(data != NULL && status.data == data);
        CHECK_INT(status.bytes, BYTES);
        CHECK_INT(status.source, 0);
        CHECK(ranks_is_filled(data, BYTES, 1));
        OK(nigh_release(data));
        CHECK_INT(nigh_release(data), -EINVAL);
        CHECK_INT(nigh_release(NULL), -EINVAL);
        OK(nigh_recv(memory, BYTES, 0, 2, nigh_world(), &status)); /* a copy */
        CHECK(ranks_is_filled(memory, BYTES, 1));
        OK(nigh_irecv_in_place(100, NIGH_ANY_SOURCE, 3, nigh_world(), &request));
        OK(nigh_wait(&request, &status));
        CHECK(ranks_is_filled(status.data, 100, 1));
        OK(nigh_release(status.data));
        OK(nigh_recv_in_place(&data, 100, 0, 4, nigh_world(), &status));
        CHECK_INT(status.bytes, 0);
        if (status.data)
            OK(nigh_release(status.data));
    }
    OK(nigh_barrier(nigh_world()));
    OK(nigh_free_mem(memory));
    CHECK_INT(nigh_free_mem(memory), -EINVAL);
    CHECK_INT(nigh_free_mem(NULL), -EINVAL);
}

static void test_lend(void **state)
{
    (void)state;
    ranks_run(2, lend, NULL);
    ranks_run(2, lend, &(struct ranks_how){.threads = 1});
}

static void wrong(int rank, int size)
{
    nigh_request request;
    const void *data;
    void *memory;
    char private[64];

    (void)size;
    CHECK_INT(nigh_alloc_mem(0, &memory), -EINVAL);
    CHECK_INT(nigh_alloc_mem(8, NULL), -EINVAL);
    CHECK_INT(nigh_alloc_mem(UINT64_C(1) << 60, &memory), -ENOMEM);
    CHECK_TEXT("NIGH_HEAP");
    CHECK_INT(nigh_ilend(private, 64, rank, 1, nigh_world(), &request), -EINVAL);
    CHECK_TEXT("nigh_alloc_mem");
    CHECK_INT(nigh_recv_in_place(NULL, 64, rank, 1, nigh_world(), NULL), -EINVAL);
    OK(nigh_send(private, 64, rank, 1, nigh_world()));
    CHECK_INT(nigh_recv_in_place(&data, 10, rank, 1, nigh_world(), NULL), -EMSGSIZE);
}

static void test_wrong(void **state)
{
    (void)state;
    ranks_run(1, wrong, NULL);
}

/* What a call explains itself is said once; what else the plugin says in it is said. */
static void explained(int rank, int size)
{
    (void)rank;
    (void)size;
    CHECK_INT(nigh_release("nothing"), -EINVAL);
    CHECK_TEXT("no message received in place");
    CHECK(!strstr(ranks_said(), "nigh: release:"));
    CHECK(strstr(ranks_said(), "nigh: there is no memory"));
}

static void test_explained(void **state)
{
    const char *real = getenv("NIGH_PLUGIN"), *folder = getenv("NIGH_BUILDDIR");
    char name[600];

    (void)state;
    snprintf(name, sizeof(name), "NIGH_PLUGIN=%s/tests/support/.libs/scarceplugin.so", folder ? folder : ".");
    assert_non_null(real);
    assert_int_equal(setenv("NIGH_REAL_PLUGIN", real, 1), 0);
    ranks_run(1, explained, &(struct ranks_how){.environment = name});
    unsetenv("NIGH_REAL_PLUGIN");
}

/* One that is not given back is named when the job ends. */
static void forget(int rank, int size)
{
    const void *data;

    (void)size;
    OK(nigh_send("text", 5, rank, 6, nigh_world()));
    OK(nigh_recv_in_place(&data, 64, rank, 6, nigh_world(), NULL));
    CHECK_INT(nigh_finalize(), -EBUSY);
    CHECK(strstr(ranks_said(),
                 "never released: the message of 5 bytes from rank 0, tag 6, received in place at "));
    CHECK(strstr(ranks_said(), "lend_test.c:"));
}

static void test_forget(void **state)
{
    (void)state;
    ranks_run(1, forget, &(struct ranks_how){.loose = true});
}

/* A receive in place that has ended and is freed without a wait gives the message back: nobody knows where it lies. */
static void freed(int rank, int size)
{
    nigh_request request, receiving;
    int flag = 0;
    void *memory;

    (void)size;
    OK(nigh_alloc_mem(4096, &memory));
    if (rank == 0) {
        OK(nigh_ilend(memory, 4096, 1, 1, nigh_world(), &request));
        OK(nigh_wait_for(&request, 30, NULL));
    } else {
        OK(nigh_irecv_in_place(4096, 0, 1, nigh_world(), &receiving));
        while (!flag)
            OK(nigh_request_get_status(receiving, &flag, NULL));
        OK(nigh_request_free(&receiving));
        CHECK_INT(receiving.id, 0);
    }
    OK(nigh_barrier(nigh_world()));
    OK(nigh_free_mem(memory));
}

static void test_freed(void **state)
{
    (void)state;
    ranks_run(2, freed, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lend),      cmocka_unit_test(test_wrong), cmocka_unit_test(test_forget),
        cmocka_unit_test(test_explained), cmocka_unit_test(test_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
