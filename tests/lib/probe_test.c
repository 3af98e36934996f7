/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: what is there, without and with taking it; by source and tag, and of nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdlib.h>
#include <string.h>

static void look(int rank, int size)
{
    struct nigh_status status;
    int flag = 5, value = 77;
    char text[12] = "hello world";

    (void)size;
    if (rank == 0) {
        OK(nigh_barrier(nigh_world()));
        ranks_nap(50);
        OK(nigh_send(&value, sizeof(value), 1, 7, nigh_world()));
        OK(nigh_send(text, sizeof(text), 1, 8, nigh_world()));
        return;
    }
    OK(nigh_iprobe(0, 7, nigh_world(), &flag, &status));
    CHECK_INT(flag, 0);
    OK(nigh_barrier(nigh_world()));
    OK(nigh_probe(0, 8, nigh_world(), &status));
    CHECK_INT(status.source, 0);
    CHECK_INT(status.tag, 8);
    CHECK_INT(status.bytes, 12);
    OK(nigh_probe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &status));
    CHECK_INT(status.tag, 7);
    CHECK_INT(status.bytes, 4);
    OK(nigh_iprobe(NIGH_ANY_SOURCE, 8, nigh_world(), &flag, &status));
    CHECK_INT(flag, 1);
    OK(nigh_recv(text, sizeof(text), 0, 8, nigh_world(), NULL));
    OK(nigh_iprobe(NIGH_ANY_SOURCE, 8, nigh_world(), &flag, &status));
    CHECK_INT(flag, 0);
    OK(nigh_recv(&value, sizeof(value), 0, 7, nigh_world(), NULL));
    CHECK_INT(value, 77);
}

static void test_look(void **state)
{
    (void)state;
    ranks_run(2, look, NULL);
}

/* As mpi4py receives objects: the size is known before the buffer is made. Several ranks, several sizes. */
static void take(int rank, int size)
{
    static const uint64_t sizes[] = {0, 10, 2000, 100000, 3000000};
    uint8_t *buffer = malloc(3000000);
    struct nigh_status status;
    nigh_matched message;
    nigh_request request;
    int flag;

    for (int i = 0; rank > 0 && i < 5; i++) {
        ranks_fill(buffer, sizes[i], (uint64_t)rank);
        OK(nigh_send(buffer, sizes[i], 0, i, nigh_world()));
    }
    for (int i = 0; rank == 0 && i < 5 * (size - 1); i++) {
        OK(nigh_mprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &message, &status));
        CHECK_INT(status.bytes, sizes[status.tag]);
        if (i % 2) {
            nigh_matched copy = message;
            struct nigh_status again;

            OK(nigh_mrecv(buffer, status.bytes, &message, &again));
            CHECK_INT(message.id, 0);
            CHECK_INT(nigh_mrecv(buffer, status.bytes, &copy, &again), -EINVAL);
            CHECK_TEXT("received before");
        } else {
            OK(nigh_imrecv(buffer, status.bytes, &message, &request));
            OK(nigh_wait(&request, &status));
        }
        CHECK(ranks_is_filled(buffer, status.bytes, (uint64_t)status.source));
    }
    if (rank == 0) {
        OK(nigh_improbe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &flag, &message, &status));
        CHECK_INT(flag, 0);
    }
    free(buffer);
}

/* What was taken matches no receive that comes later. */
static void take_first(int rank, int size)
{
    int one = 1, two = 2, got = 0;
    nigh_matched message;

    (void)size;
    OK(nigh_send(&one, sizeof(one), rank, 3, nigh_world()));
    OK(nigh_send(&two, sizeof(two), rank, 3, nigh_world()));
    OK(nigh_mprobe(rank, 3, nigh_world(), &message, NULL));
    OK(nigh_recv(&got, sizeof(got), rank, 3, nigh_world(), NULL));
    CHECK_INT(got, 2);
    CHECK_INT(nigh_mrecv(&got, 2, &message, NULL), -EMSGSIZE);
}

static void nobody(int rank, int size)
{
    struct nigh_status status;
    nigh_matched message = NIGH_MATCHED_NULL;
    int flag = 0, value = 5;

    (void)rank;
    (void)size;
    OK(nigh_probe(NIGH_PROC_NULL, 1, nigh_world(), &status));
    CHECK_INT(status.source, NIGH_PROC_NULL);
    OK(nigh_iprobe(NIGH_PROC_NULL, 1, nigh_world(), &flag, &status));
    CHECK_INT(flag, 1);
    CHECK_INT(nigh_mrecv(&value, 4, &message, &status), -EINVAL);
    OK(nigh_mprobe(NIGH_PROC_NULL, 1, nigh_world(), &message, &status));
    CHECK(message.id != 0);
    OK(nigh_mrecv(&value, sizeof(value), &message, &status));
    CHECK_INT(status.source, NIGH_PROC_NULL);
    CHECK_INT(status.bytes, 0);
    CHECK_INT(value, 5);
}

static void test_take(void **state)
{
    (void)state;
    ranks_run(2, take, NULL);
    ranks_run(4, take, NULL);
    ranks_run(1, take_first, NULL);
    ranks_run(1, nobody, NULL);
}

static void in_vain(int rank, int size)
{
    nigh_matched message;

    (void)rank;
    (void)size;
    CHECK_INT(nigh_probe(NIGH_ANY_SOURCE, 1, nigh_world(), NULL), -ETIMEDOUT);
    CHECK_INT(nigh_mprobe(0, 1, nigh_world(), &message, NULL), -ETIMEDOUT);
    CHECK_TEXT("tag 1");
    OK(nigh_comm_set_timeout(nigh_world(), 0)); /* it is nigh_finalize's, too */
}

static void test_in_vain(void **state)
{
    (void)state;
    ranks_run(2, in_vain, &(struct ranks_how){.timeout = 0.05, .environment = "NIGH_STALL=0"});
}

/* The sentence is that of whoever has found that nobody will send any more. */
static void deserted(int rank, int size)
{
    (void)size;
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        CHECK_INT(nigh_probe(1, 1, nigh_world(), NULL), -ECONNRESET);
        CHECK_TEXT("is in nigh_finalize");
        CHECK_INT(nigh_probe(NIGH_ANY_SOURCE, 1, nigh_world(), NULL), -ECONNRESET);
        CHECK_TEXT("is in nigh_finalize");
    }
}

static void test_deserted(void **state)
{
    (void)state;
    ranks_run(2, deserted, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_in_vain),
        cmocka_unit_test(test_deserted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
