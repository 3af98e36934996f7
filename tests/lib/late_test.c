/* SPDX-License-Identifier: BSD-3-Clause */
/* Time-outs that must come, whatever else goes on, and a message that comes together with one: it is never lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdlib.h>
#include <string.h>

enum { LARGE = 32 << 20 };

static void check_since(double start)
{
    CHECK(nigh_wtime() - start < 60);
}

/* The moment to look for deadlocks has passed before the call sleeps for the first time. */
static void looks_at_once(int rank, int size)
{
    double start = nigh_wtime();
    int value = 0;

    (void)size;
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    if (rank == 0) {
        CHECK_INT(nigh_recv(&value, sizeof(value), 1, 1, nigh_world(), NULL), -ETIMEDOUT);
        check_since(start);
        ranks_tell(0);
    } else {
        ranks_hear(0);
    }
    OK(nigh_comm_set_timeout(nigh_world(), 0));
}

static void test_looks_at_once(void **state)
{
    (void)state;
    ranks_run(2, looks_at_once, &(struct ranks_how){.environment = "NIGH_STALL=0.000001"});
}

/* Whoever waits for several goes on polling as long as something comes: what wakes another thread
 * is nothing of that. */
static void beside_a_sleeper(int rank, int size)
{
    nigh_request requests[2];
    int in[2] = {0}, index = -1;
    double start = nigh_wtime();

    (void)size;
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    ranks_nap(20);
    OK(nigh_irecv(&in[0], sizeof(in[0]), rank, 1, nigh_world(), &requests[0]));
    OK(nigh_irecv(&in[1], sizeof(in[1]), rank, 2, nigh_world(), &requests[1]));
    OK(nigh_send(&rank, sizeof(rank), rank, 1, nigh_world()));
    CHECK_INT(nigh_waitall(2, requests, NULL), -ETIMEDOUT);
    check_since(start);
    CHECK_INT(nigh_waitany(1, &requests[1], &index, NULL), -ETIMEDOUT);
    check_since(start);
    OK(nigh_cancel(&requests[1]));
    CHECK_INT(nigh_wait(&requests[1], NULL), -ECANCELED);
}

static void test_beside_a_sleeper(void **state)
{
    (void)state;
    /* No verdict of a deadlock, which it is, where it has no CPU for longer than the time-out. */
    ranks_run(1, beside_a_sleeper, &(struct ranks_how){.environment = "NIGH_STALL=0"});
    ranks_run(1, beside_a_sleeper, &(struct ranks_how){.environment = "NIGH_STALL=0", .progress = 1});
}

enum { JUDGED = 5 };

/* The time-out passes while the message is being copied: what cannot be taken back any more is received, if the rest of
 * it comes within a second. Where its sender had no CPU for so long nothing is judged. */
static void on_the_way(int rank, int size)
{
    uint8_t *buffer = malloc(LARGE);
    nigh_request request;
    double start;
    int rc;

    (void)size;
    ranks_fill(buffer, LARGE, 9);
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        OK(nigh_isend(buffer, LARGE, 1, 1, nigh_world(), &request));
        ranks_tell(0);
        ranks_nap(600);
        OK(nigh_wait(&request, NULL));
    } else {
        struct nigh_status status = {.error = 1};

        memset(buffer, 0, LARGE);
        ranks_hear(0);
        OK(nigh_comm_set_timeout(nigh_world(), 0.3));
        start = nigh_wtime();
        rc = nigh_recv(buffer, LARGE, 0, 1, nigh_world(), &status);
        OK(nigh_comm_set_timeout(nigh_world(), 0));
        if (rc == -ETIMEDOUT && nigh_wtime() - start > 1.25)
            return; /* the buffer stays in use */
        OK(rc);
        ranks_tell(JUDGED);
        CHECK_INT(status.bytes, LARGE);
        CHECK_INT(status.error, 0);
        CHECK(ranks_is_filled(buffer, LARGE, 9));
    }
    free(buffer);
}

static void test_on_the_way(void **state)
{
    bool judged = false;

    (void)state;
    for (uint32_t threads = 0; threads < 2; threads++, judged = false) {
        for (int i = 0; i < 20 && !judged; i++) {
            ranks_run(2, on_the_way, &(struct ranks_how){.threads = threads});
            judged = ranks_told(JUDGED);
        }
        assert_true(judged);
    }
}

/* How a receive ends whose sender stands still in the middle of its message, as one that is stopped does. */
enum end { BY_TIME, BY_TIME_MATCHED, BY_TIME_AMONG_SENDS, BY_CANCEL, ENDS };

static enum end end_by;

static void take_matched(uint8_t *buffer)
{
    nigh_matched message;

    OK(nigh_comm_set_timeout(nigh_world(), 0));
    OK(nigh_mprobe(0, 1, nigh_world(), &message, NULL));
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    CHECK_INT(nigh_mrecv(buffer, LARGE, &message, NULL), -ETIMEDOUT);
}

static void give_up(uint8_t *buffer)
{
    nigh_request request;
    int value = 1;

    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    if (end_by == BY_TIME) {
        CHECK_INT(nigh_recv(buffer, LARGE, 0, 1, nigh_world(), NULL), -ETIMEDOUT);
    } else if (end_by == BY_TIME_MATCHED) {
        take_matched(buffer);
    } else if (end_by == BY_TIME_AMONG_SENDS) {
        CHECK_INT(nigh_sendrecv(&value, sizeof(value), 1, 7, buffer, LARGE, 0, 1, nigh_world(), NULL),
                  -ETIMEDOUT);
    } else {
        OK(nigh_irecv(buffer, LARGE, 0, 1, nigh_world(), &request));
        CHECK_INT(nigh_wait(&request, NULL), -ETIMEDOUT);
        OK(nigh_cancel(&request));
        CHECK_INT(nigh_wait(&request, NULL), -ECANCELED);
    }
    OK(nigh_comm_set_timeout(nigh_world(), 0));
}

static void half_way(int rank, int size)
{
    uint8_t *buffer = malloc(LARGE);
    nigh_request request;
    int value = 0;

    (void)size;
    memset(buffer, rank, LARGE);
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        OK(nigh_isend(buffer, LARGE, 1, 1, nigh_world(), &request));
        ranks_tell(0);
        ranks_hear(1);
        OK(nigh_wait(&request, NULL));
        OK(nigh_send(&value, sizeof(value), 1, 2, nigh_world()));
    } else {
        ranks_hear(0);
        give_up(buffer);
        memset(buffer, 0x77, LARGE);
        ranks_tell(1);
        OK(nigh_recv(&value, sizeof(value), 0, 2, nigh_world(), NULL));
        for (size_t i = 0; i < LARGE; i++)
            CHECK(buffer[i] == 0x77);
        if (end_by == BY_TIME_AMONG_SENDS)
            OK(nigh_recv(&value, sizeof(value), 1, 7, nigh_world(), NULL));
    }
    free(buffer);
}

static void test_half_way(void **state)
{
    (void)state;
    for (end_by = 0; end_by < ENDS; end_by++)
        ranks_run(2, half_way,
                  &(struct ranks_how){.threads = end_by % 2, .environment = "NIGH_PATH=chunked"});
}

/* A get whose target stands still: its window is freed after a time-out, and the memory it was for is the program's. */
static void get_half_way(int rank, int size)
{
    struct nigh_win *win;
    struct nigh_comm *comm;
    uint8_t *memory = malloc(LARGE);
    int value = 0;

    (void)size;
    memset(memory, rank, LARGE);
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_win_create(memory, LARGE, comm, &win));
    if (rank == 0) {
        uint8_t *buffer = malloc(LARGE);

        OK(nigh_comm_set_timeout(comm, 0.2));
        OK(nigh_get(buffer, LARGE, 1, 0, win));
        CHECK_INT(nigh_win_flush(1, win), -ETIMEDOUT);
        CHECK_INT(nigh_win_free(&win), -ETIMEDOUT);
        memset(buffer, 0x77, LARGE);
        ranks_tell(0);
        OK(nigh_recv(&value, sizeof(value), 1, 2, nigh_world(), NULL));
        for (size_t i = 0; i < LARGE; i++)
            CHECK(buffer[i] == 0x77);
        free(buffer);
    } else {
        ranks_hear(0);
        CHECK(nigh_win_free(&win) != 0);
        OK(nigh_send(&value, sizeof(value), 0, 2, nigh_world()));
    }
    OK(nigh_comm_free(&comm));
    OK(nigh_barrier(nigh_world()));
    free(memory);
}

static void test_get_half_way(void **state)
{
    (void)state;
    ranks_run(2, get_half_way, NULL);
}

/* Of several requests each keeps the time-out of its communicator, whichever is waited for first. */
static void of_several(int rank, int size)
{
    nigh_request requests[2];
    struct nigh_comm *comm;
    int in[2], index;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_comm_set_timeout(comm, 0.2));
    for (int round = 0; rank == 0 && round < 2; round++) {
        OK(nigh_irecv(&in[0], sizeof(in[0]), 1, 1, nigh_world(), &requests[0]));
        OK(nigh_irecv(&in[1], sizeof(in[1]), 1, 1, comm, &requests[1]));
        if (round == 0)
            CHECK_INT(nigh_waitall(2, requests, NULL), -ETIMEDOUT);
        else
            CHECK_INT(nigh_waitany(2, requests, &index, NULL), -ETIMEDOUT);
        for (int i = 0; i < 2; i++) {
            OK(nigh_cancel(&requests[i]));
            CHECK_INT(nigh_wait(&requests[i], NULL), -ECANCELED);
        }
    }
    if (rank == 0)
        ranks_tell(0);
    else
        ranks_hear(0);
    OK(nigh_comm_free(&comm));
}

static void test_of_several(void **state)
{
    (void)state;
    ranks_run(2, of_several, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_at_once), cmocka_unit_test(test_beside_a_sleeper),
        cmocka_unit_test(test_on_the_way),    cmocka_unit_test(test_of_several),
        cmocka_unit_test(test_half_way),      cmocka_unit_test(test_get_half_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
