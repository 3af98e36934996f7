/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: waiting for one, any, some and all of many; persistent ones; cancelling. */
#include "tests/hosts/mpi/suite.h"

enum { MANY = 40, BYTES = 2000 };

static char out[MANY][BYTES], in[MANY][BYTES];
static MPI_Request requests[2 * MANY];

/* MANY receives from the left, then MANY sends to the right in the opposite order of tags. */
static void post(void)
{
    for (int i = 0; i < MANY; i++) {
        memset(in[i], 0, BYTES);
        MPI_Irecv(in[i], BYTES, MPI_BYTE, suite_left(), i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        suite_fill(out[i], BYTES, (unsigned)(suite_rank * MANY + i));
        MPI_Isend(out[i], BYTES, MPI_BYTE, suite_right(), i, MPI_COMM_WORLD, &requests[MANY + i]);
    }
}

static void check(void)
{
    for (int i = 0; i < MANY; i++)
        EQUAL(suite_wrong(in[i], BYTES, (unsigned)(suite_left() * MANY + i)), 0);
}

static void all(void)
{
    MPI_Status status[2 * MANY];

    post();
    MPI_Waitall(2 * MANY, requests, status);
    for (int i = 0; i < MANY; i++)
        EQUAL(status[i].MPI_TAG, i);
    check();
}

static void any(void)
{
    int seen[2 * MANY] = {0}, index;

    post();
    for (int i = 0; i < 2 * MANY; i++) {
        MPI_Waitany(2 * MANY, requests, &index, MPI_STATUS_IGNORE);
        if (index < 0 || index >= 2 * MANY)
            EQUAL(index, 0);
        else
            EQUAL(seen[index]++, 0);
    }
    MPI_Waitany(2 * MANY, requests, &index, MPI_STATUS_IGNORE);
    EQUAL(index, MPI_UNDEFINED);
    check();
}

static void some(void)
{
    int indices[2 * MANY], count, done = 0;

    post();
    while (done < 2 * MANY) {
        MPI_Waitsome(2 * MANY, requests, &count, indices, MPI_STATUSES_IGNORE);
        EQUAL(count > 0, 1);
        done += count;
    }
    EQUAL(done, 2 * MANY);
    check();
    post();
    for (done = 0; !done;)
        MPI_Testall(2 * MANY, requests, &done, MPI_STATUSES_IGNORE);
    check();
}

/* Nothing has been sent: no test may say otherwise; then it is there. */
static void test(void)
{
    MPI_Request request;
    int done, value = 0, token = 1;

    MPI_Irecv(&value, 1, MPI_INT, suite_left(), 8, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 100; i++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        EQUAL(done, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&token, 1, MPI_INT, suite_right(), 8, MPI_COMM_WORLD);
    for (done = 0; !done;)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    EQUAL(value, 1);
}

static void persistent(void)
{
    MPI_Request pair[2];
    int to = -1, from = -1;

    MPI_Recv_init(&from, 1, MPI_INT, suite_left(), 5, MPI_COMM_WORLD, &pair[0]);
    MPI_Send_init(&to, 1, MPI_INT, suite_right(), 5, MPI_COMM_WORLD, &pair[1]);
    for (int i = 0; i < 20; i++) {
        to = suite_rank * 100 + i;
        MPI_Startall(2, pair);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
        EQUAL(from, suite_left() * 100 + i);
    }
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);
}

/* A receive that is cancelled takes nothing; the message goes to the next one. */
static void cancel(void)
{
    int wrong = -1, right = -1, value = suite_rank, cancelled;
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(&wrong, 1, MPI_INT, suite_left(), 6, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    EQUAL(cancelled, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, suite_right(), 6, MPI_COMM_WORLD);
    MPI_Recv(&right, 1, MPI_INT, suite_left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EQUAL(wrong, -1);
    EQUAL(right, suite_left());
}

const struct suite_case suite_requests[] = {
    {"waitall", all},
    {"waitany gives each index once", any},
    {"waitsome, testall", some},
    {"test is false, then true with the data", test},
    {"persistent requests", persistent},
    {"a cancelled receive takes nothing", cancel},
    {0},
};
