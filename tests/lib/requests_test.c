/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: each way to wait and to test, persistent ones, taking back, letting go, and no memory
 * that grows with messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 64, LARGE = 1 << 20 };

static void waitall(int rank, int size)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    nigh_request requests[2 * MANY];
    struct nigh_status statuses[2 * MANY];
    uint64_t in[MANY], out[MANY];

    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < MANY; i++) {
            in[i] = 0;
            OK(nigh_irecv(&in[i], sizeof(in[i]), left, i, nigh_world(), &requests[i]));
        }
        for (int i = 0; i < MANY; i++) {
            out[i] = (uint64_t)(rank * 1000000 + round * 1000 + i);
            OK(nigh_isend(&out[i], sizeof(out[i]), right, i, nigh_world(), &requests[MANY + i]));
        }
        OK(nigh_waitall(2 * MANY, requests, round % 2 ? statuses : NIGH_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++)
            CHECK_INT(in[i], left * 1000000 + round * 1000 + i);
        for (int i = 0; i < 2 * MANY; i++)
            CHECK_INT(requests[i].id, 0);
        for (int i = 0; round % 2 && i < MANY; i++) {
            CHECK_INT(statuses[i].source, left);
            CHECK_INT(statuses[i].tag, i);
            CHECK_INT(statuses[i].bytes, 8);
        }
    }
    OK(nigh_waitall(2 * MANY, requests, statuses));
    CHECK_INT(statuses[5].source, NIGH_ANY_SOURCE);
    CHECK_INT(statuses[5].tag, NIGH_ANY_TAG);
    OK(nigh_waitall(0, NULL, NULL));
}

static void test_waitall(void **state)
{
    (void)state;
    ranks_run_all(waitall, NULL);
    ranks_run(2, waitall, &(struct ranks_how){.environment = "NIGH_DEBUG=1"});
}

/* What place `i` of a list is: both ranks draw the same. */
enum place { FITS, FROM_ANYONE, TOO_LONG, SEND, NONE, PLACES };

static void shuffle(int *order, int count, unsigned *seed)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = rand_r(seed) % (i + 1), was = order[i];

        order[i] = order[other];
        order[other] = was;
    }
}

static nigh_request posted(enum place place, int tag, int peer, uint64_t *buffer)
{
    nigh_request request = NIGH_REQUEST_NULL;

    if (place == SEND)
        OK(nigh_isend(buffer, sizeof(*buffer), peer, tag, nigh_world(), &request));
    else if (place != NONE)
        OK(nigh_irecv(buffer, place == TOO_LONG ? 4 : 8, place == FROM_ANYONE ? NIGH_ANY_SOURCE : peer, tag,
                      nigh_world(), &request));
    return request;
}

static void check_place(enum place place, int tag, int peer, const struct nigh_status *status)
{
    bool receives = place < SEND;

    CHECK_INT(status->source, receives ? peer : NIGH_ANY_SOURCE);
    CHECK_INT(status->tag, receives ? tag : NIGH_ANY_TAG);
    CHECK_INT(status->bytes, place == NONE ? 0 : 8);
    CHECK_INT(status->error, place == TOO_LONG ? -EMSGSIZE : 0);
}

/* Lists in any order, of receives whose messages come in another one, with sends and nothing in between:
 * each status tells of its own request. */
static void in_any_order(int rank, int size)
{
    enum place place[MANY];
    int list[MANY], coming[MANY], peer = (rank + 1) % size;
    nigh_request requests[MANY];
    struct nigh_status statuses[MANY];
    uint64_t buffer[MANY], sent[MANY];
    unsigned seed = 1;

    for (int round = 0; round < 200; round++) {
        bool wrong = false;

        for (int i = 0; i < MANY; i++) {
            place[i] = (enum place)(rand_r(&seed) % PLACES);
            wrong = wrong || place[i] == TOO_LONG;
            sent[i] = (uint64_t)(round * MANY + i);
            buffer[i] = place[i] == SEND ? sent[i] : 0;
        }
        shuffle(list, MANY, &seed);
        shuffle(coming, MANY, &seed);
        for (int i = 0; i < MANY; i++)
            requests[list[i]] = posted(place[list[i]], list[i], peer, &buffer[list[i]]);
        for (int i = 0; i < MANY; i++)
            if (place[coming[i]] < SEND)
                OK(nigh_send(&sent[coming[i]], 8, peer, coming[i], nigh_world()));
        CHECK_INT(nigh_waitall(MANY, requests, statuses), wrong ? -EMSGSIZE : 0);
        for (int i = 0; i < MANY; i++) {
            check_place(place[i], i, peer, &statuses[i]);
            CHECK_INT(requests[i].id, 0);
            if (place[i] == SEND)
                OK(nigh_recv(&buffer[i], 8, peer, i, nigh_world(), NULL));
            CHECK_INT(buffer[i], place[i] == NONE ? 0 : place[i] == TOO_LONG ? (uint32_t)sent[i] : sent[i]);
        }
    }
}

static void test_in_any_order(void **state)
{
    (void)state;
    ranks_run(1, in_any_order, NULL);
    ranks_run(2, in_any_order, NULL);
    ranks_run(2, in_any_order, &(struct ranks_how){.environment = "NIGH_DEBUG=1"});
    ranks_run(2, in_any_order, &(struct ranks_how){.environment = "NIGH_THREADS=multiple"});
}

/* Each index once, whatever the order; then none is active. */
static void waitany(int rank, int size)
{
    nigh_request requests[8];
    int values[8], seen[8] = {0}, index;
    struct nigh_status status;

    (void)size;
    if (rank == 0) {
        for (int i = 7; i >= 0; i--)
            OK(nigh_send(&i, sizeof(i), 1, i, nigh_world()));
        return;
    }
    for (int i = 0; i < 8; i++)
        OK(nigh_irecv(&values[i], sizeof(int), 0, i, nigh_world(), &requests[i]));
    for (int i = 0; i < 8; i++) {
        OK(nigh_waitany(8, requests, &index, &status));
        CHECK(index >= 0 && index < 8);
        CHECK_INT(seen[index]++, 0);
        CHECK_INT(values[index], index);
        CHECK_INT(status.tag, index);
    }
    OK(nigh_waitany(8, requests, &index, &status));
    CHECK_INT(index, NIGH_UNDEFINED);
    CHECK_INT(status.source, NIGH_ANY_SOURCE);
}

static void waitsome(int rank, int size)
{
    nigh_request requests[8];
    int values[8], seen[8] = {0}, indices[8], count, left = 8;
    struct nigh_status statuses[8];

    (void)size;
    if (rank == 0) {
        for (int i = 7; i >= 0; i--)
            OK(nigh_send(&i, sizeof(i), 1, i, nigh_world()));
        return;
    }
    for (int i = 0; i < 8; i++)
        OK(nigh_irecv(&values[i], sizeof(int), 0, i, nigh_world(), &requests[i]));
    while (left > 0) {
        OK(nigh_waitsome(8, requests, &count, indices, statuses));
        CHECK(count >= 1 && count <= left);
        for (int i = 0; i < count; i++) {
            CHECK_INT(seen[indices[i]]++, 0);
            CHECK_INT(statuses[i].tag, indices[i]);
        }
        left -= count;
    }
    OK(nigh_waitsome(8, requests, &count, indices, statuses));
    CHECK_INT(count, NIGH_UNDEFINED);
    OK(nigh_testsome(8, requests, &count, indices, statuses));
    CHECK_INT(count, NIGH_UNDEFINED);
}

static void test_some_and_any(void **state)
{
    (void)state;
    ranks_run(2, waitany, NULL);
    ranks_run(2, waitsome, NULL);
}

/* False before the message was sent, true after. */
static void tests(int rank, int size)
{
    nigh_request requests[3];
    int values[3] = {0}, flag = 7, index = 7, count, indices[3];
    struct nigh_status statuses[3];

    (void)size;
    if (rank == 0) {
        OK(nigh_barrier(nigh_world()));
        for (int i = 1; i <= 3; i++)
            OK(nigh_send(&i, sizeof(i), 1, i - 1, nigh_world()));
        OK(nigh_barrier(nigh_world()));
        return;
    }
    for (int i = 0; i < 3; i++)
        OK(nigh_irecv(&values[i], sizeof(int), 0, i, nigh_world(), &requests[i]));
    OK(nigh_test(&requests[0], &flag, statuses));
    CHECK_INT(flag, 0);
    OK(nigh_testall(3, requests, &flag, statuses));
    CHECK_INT(flag, 0);
    OK(nigh_testany(3, requests, &index, &flag, statuses));
    CHECK_INT(flag, 0);
    CHECK_INT(index, 7);
    OK(nigh_testsome(3, requests, &count, indices, statuses));
    CHECK_INT(count, 0);
    OK(nigh_request_get_status(requests[0], &flag, statuses));
    CHECK_INT(flag, 0);
    OK(nigh_barrier(nigh_world()));
    for (flag = 0; !flag;)
        OK(nigh_request_get_status(requests[0], &flag, statuses));
    CHECK_INT(statuses[0].bytes, 4);
    CHECK(requests[0].id != 0);
    for (flag = 0; !flag;)
        OK(nigh_test(&requests[0], &flag, statuses));
    CHECK_INT(values[0], 1);
    CHECK_INT(requests[0].id, 0);
    for (flag = 0; !flag;)
        OK(nigh_testall(3, requests, &flag, statuses));
    CHECK_INT(values[1] + values[2], 5);
    OK(nigh_testany(3, requests, &index, &flag, statuses));
    CHECK_INT(flag, 1);
    CHECK_INT(index, NIGH_UNDEFINED);
    OK(nigh_test(&requests[0], &flag, statuses));
    CHECK_INT(flag, 1);
    OK(nigh_barrier(nigh_world()));
}

static void test_tests(void **state)
{
    (void)state;
    ranks_run(2, tests, NULL);
}

static void large(int rank, int size)
{
    uint8_t *in = malloc(LARGE), *out = malloc(LARGE);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    nigh_request requests[2];
    struct nigh_status statuses[2];

    for (int i = 0; i < 10; i++) {
        ranks_fill(out, LARGE, (uint64_t)(rank + i));
        OK(nigh_isend(out, LARGE, right, 1, nigh_world(), &requests[0]));
        OK(nigh_irecv(in, LARGE, left, 1, nigh_world(), &requests[1]));
        OK(nigh_waitall(2, requests, statuses));
        CHECK_INT(statuses[0].bytes, LARGE);
        CHECK_INT(statuses[1].bytes, LARGE);
        CHECK(ranks_is_filled(in, LARGE, (uint64_t)(left + i)));
    }
    free(in);
    free(out);
}

static void test_large(void **state)
{
    (void)state;
    ranks_run_all(large, NULL);
    ranks_run(4, large, &(struct ranks_how){.progress = 1});
}

static void persistent(int rank, int size)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, in = -1, out, flag;
    nigh_request requests[2], extra;
    struct nigh_status statuses[2];

    OK(nigh_recv_init(&in, sizeof(in), left, 4, nigh_world(), &requests[0]));
    OK((rank % 2 ? nigh_send_init : nigh_ssend_init)(&out, sizeof(out), right, 4, nigh_world(),
                                                     &requests[1]));
    OK(nigh_wait(&requests[0], &statuses[0]));
    CHECK_INT(statuses[0].source, NIGH_ANY_SOURCE);
    OK(nigh_test(&requests[0], &flag, NULL));
    CHECK_INT(flag, 1);
    for (int i = 0; i < 50; i++) {
        out = rank * 100 + i;
        OK(nigh_startall(2, requests));
        CHECK_INT(nigh_start(&requests[0]), -EBUSY);
        OK(nigh_waitall(2, requests, statuses));
        CHECK_INT(in, left * 100 + i);
        CHECK_INT(statuses[0].source, left);
        CHECK(requests[0].id != 0 && requests[1].id != 0);
    }
    OK(nigh_irecv(&in, sizeof(in), rank, 9, nigh_world(), &extra));
    CHECK_INT(nigh_start(&extra), -EINVAL);
    CHECK_TEXT("not persistent");
    OK(nigh_send(&out, sizeof(out), rank, 9, nigh_world()));
    OK(nigh_wait(&extra, NULL));
    OK(nigh_request_free(&requests[0]));
    CHECK_INT(requests[0].id, 0);
    OK(nigh_request_free(&requests[1]));
}

static void test_persistent(void **state)
{
    (void)state;
    ranks_run_all(persistent, NULL);
}

static void cancel(int rank, int size)
{
    nigh_request request;
    struct nigh_status status;
    int value = 3;

    (void)rank;
    (void)size;
    OK(nigh_irecv(&value, sizeof(value), 0, 1, nigh_world(), &request));
    OK(nigh_cancel(&request));
    CHECK_INT(nigh_wait(&request, &status), -ECANCELED);
    CHECK_INT(status.error, -ECANCELED);
    CHECK_INT(request.id, 0);
    /* It had ended: the result is its own. */
    OK(nigh_irecv(&value, sizeof(value), rank, 1, nigh_world(), &request));
    OK(nigh_send(&rank, sizeof(rank), rank, 1, nigh_world()));
    ranks_poll();
    OK(nigh_cancel(&request));
    OK(nigh_wait(&request, &status));
    CHECK_INT(value, rank);
    CHECK_INT(nigh_cancel(&request), -EINVAL);
}

/* Freed sends go on by themselves; receives are not let go of. */
static void let_go(int rank, int size)
{
    uint8_t *buffer = malloc(LARGE);
    nigh_request request;

    (void)size;
    ranks_fill(buffer, LARGE, 5);
    if (rank == 0) {
        OK(nigh_isend(buffer, LARGE, 1, 1, nigh_world(), &request));
        OK(nigh_request_free(&request));
        CHECK_INT(request.id, 0);
        OK(nigh_isend(buffer, 4, 1, 2, nigh_world(), &request));
        OK(nigh_request_free(&request));
    } else {
        OK(nigh_irecv(buffer, LARGE, 0, 1, nigh_world(), &request));
        CHECK_INT(nigh_request_free(&request), -EBUSY);
        CHECK_TEXT("nigh_cancel");
        OK(nigh_wait(&request, NULL));
        CHECK(ranks_is_filled(buffer, LARGE, 5));
        OK(nigh_recv(buffer, 4, 0, 2, nigh_world(), NULL));
    }
    OK(nigh_barrier(nigh_world()));
    free(buffer);
}

static void test_cancel_and_free(void **state)
{
    (void)state;
    ranks_run(1, cancel, NULL);
    ranks_run(2, let_go, NULL);
}

/* Waiting for a while, and the error of one among several. */
static void late_and_wrong(int rank, int size)
{
    nigh_request requests[3];
    struct nigh_status statuses[3];
    char small[4], large_[8] = "1234567";
    double start = nigh_wtime();

    (void)size;
    if (rank == 0) {
        OK(nigh_barrier(nigh_world()));
        for (int i = 0; i < 3; i++)
            OK(nigh_send(large_, i == 1 ? 8 : 4, 1, i, nigh_world()));
        return;
    }
    for (int i = 0; i < 3; i++)
        OK(nigh_irecv(small, sizeof(small), 0, i, nigh_world(), &requests[i]));
    CHECK_INT(nigh_wait_for(&requests[0], 0.05, statuses), -ETIMEDOUT);
    CHECK(nigh_wtime() - start >= 0.05 && nigh_wtime() - start < 60);
    CHECK_INT(nigh_wait_for(&requests[0], 0, statuses), -ETIMEDOUT);
    CHECK_INT(nigh_wait_for(&requests[0], -1, statuses), -EINVAL);
    OK(nigh_barrier(nigh_world()));
    CHECK_INT(nigh_waitall(3, requests, statuses), -EMSGSIZE);
    CHECK_INT(statuses[0].error, 0);
    CHECK_INT(statuses[1].error, -EMSGSIZE);
    CHECK_INT(statuses[1].bytes, 8);
    CHECK_INT(statuses[2].error, 0);
    CHECK_INT(requests[1].id, 0);
}

static void test_late_and_wrong(void **state)
{
    (void)state;
    ranks_run(2, late_and_wrong, NULL);
}

/* Many messages: what malloc has handed out does not grow. As many of a round come before their receives as the minute
 * will have it, so in the first rounds all do: behind them another one that is received first. */
static void steady(int rank, int size)
{
    nigh_request requests[MANY];
    uint64_t value = 0, last = 0;
    size_t before = 0;

    (void)size;
    for (int round = 0; round < 2000; round++) {
        if (round < 50 && rank == 1)
            OK(nigh_recv(&last, sizeof(last), 0, 2, nigh_world(), NULL));
        for (int i = 0; i < MANY; i++)
            OK(rank == 0 ? nigh_isend(&value, sizeof(value), 1, 1, nigh_world(), &requests[i])
                         : nigh_irecv(&value, sizeof(value), 0, 1, nigh_world(), &requests[i]));
        if (round < 50 && rank == 0)
            OK(nigh_send(&last, sizeof(last), 1, 2, nigh_world()));
        OK(nigh_waitall(MANY, requests, NULL));
        OK(nigh_barrier(nigh_world()));
        if (round == 100)
            before = mallinfo2().uordblks;
    }
    CHECK_INT(mallinfo2().uordblks, before);
}

static void test_steady(void **state)
{
    (void)state;
    ranks_run(2, steady, NULL);
}

/* A request that is kept for long does not make all later small sends take the long way (bit 63: the short one). */
static void kept(int rank, int size)
{
    enum { SENDS = 5000 };
    nigh_request first, request;
    int value = 1, light = 0;

    (void)size;
    OK(nigh_send(&value, sizeof(value), rank, 1, nigh_world()));
    OK(nigh_isend(&value, sizeof(value), rank, 1, nigh_world(), &first));
    for (int i = 0; i < SENDS; i++) {
        OK(nigh_isend(&value, sizeof(value), rank, 1, nigh_world(), &request));
        light += (int)(request.id >> 63);
        OK(nigh_recv(&value, sizeof(value), rank, 1, nigh_world(), NULL));
        OK(nigh_wait(&request, NULL));
    }
    CHECK(light > SENDS - 10);
    OK(nigh_wait(&first, NULL));
    for (int i = 0; i < 2; i++)
        OK(nigh_recv(&value, sizeof(value), rank, 1, nigh_world(), NULL));
}

static void test_kept(void **state)
{
    (void)state;
    ranks_run(1, kept, NULL);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_waitall),         cmocka_unit_test(test_some_and_any),
        cmocka_unit_test(test_in_any_order),    cmocka_unit_test(test_tests),
        cmocka_unit_test(test_large),           cmocka_unit_test(test_persistent),
        cmocka_unit_test(test_cancel_and_free), cmocka_unit_test(test_late_and_wrong),
        cmocka_unit_test(test_steady),          cmocka_unit_test(test_kept),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
