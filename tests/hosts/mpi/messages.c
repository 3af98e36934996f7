/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking messages: every mode and size, order, oneself, truncation. */
#include "tests/hosts/mpi/suite.h"

#include <unistd.h>

/* around what fits a cache line, a ring, a chunk, and where MPIs change their own protocols */
static const int sizes[] = {0,    1,     8,     40,    41,     64,      256,    1000,
                            4096, 16384, 65536, 65537, 262144, 1048576, 4194305};

#define SIZES (sizeof sizes / sizeof *sizes)

/*
 * The first message to somebody, behind which its sender makes no calls until it sees that it was received: by a file, as
 * a program may wait for another one in any way. First of all cases, as nobody has met whom it does not need in MPI_Init.
 */
static void alone(void)
{
    int half = suite_ranks / 2, other = (suite_rank + half) % suite_ranks, there = 0, value = suite_rank;
    const char *folder = getenv("TMPDIR");
    char name[4096];
    FILE *file;

    if (suite_rank >= 2 * half)
        return;
    snprintf(name, sizeof name, "%s/alone.%d.%d", folder ? folder : "/tmp", (int)getppid(),
             suite_rank < half ? suite_rank : other);
    if (suite_rank >= half) {
        MPI_Recv(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(value, other);
        file = fopen(name, "w");
        EQUAL(file != NULL, 1);
        if (file)
            fclose(file);
        return;
    }
    MPI_Send(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    for (int tries = 0; tries < 2000 && !there; tries++) {
        usleep(10000);
        there = access(name, F_OK) == 0;
    }
    EQUAL(there, 1);
    unlink(name);
}

/* Round the ring; the first sends first, so that nothing depends on buffering. */
static void ring(void)
{
    char *bytes = suite_memory((size_t)sizes[SIZES - 1]);
    MPI_Status status;
    int got;

    /* with many ranks the big ones take their time and show nothing new */
    for (size_t i = 0; i < (suite_ranks > 4 ? SIZES - 3 : SIZES); i++) {
        size_t size = (size_t)sizes[i];

        if (suite_rank == 0) {
            suite_fill(bytes, size, (unsigned)i);
            MPI_Send(bytes, sizes[i], MPI_BYTE, 1, 7, MPI_COMM_WORLD);
            memset(bytes, 0, size);
        }
        MPI_Recv(bytes, sizes[i], MPI_BYTE, suite_left(), 7, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        EQUAL(got, sizes[i]);
        EQUAL(status.MPI_SOURCE, suite_left());
        EQUAL(status.MPI_TAG, 7);
        EQUAL(suite_wrong(bytes, size, (unsigned)i), 0);
        if (suite_rank != 0)
            MPI_Send(bytes, sizes[i], MPI_BYTE, suite_right(), 7, MPI_COMM_WORLD);
    }
    free(bytes);
}

static void modes(void)
{
    char out[3000], in[3000], room[3000 + MPI_BSEND_OVERHEAD];
    void *old;
    int old_size;

    MPI_Buffer_attach(room, sizeof room);
    for (int mode = 0; mode < 3; mode++) {
        MPI_Request posted;

        suite_fill(out, sizeof out, (unsigned)(suite_rank + mode));
        MPI_Irecv(in, sizeof in, MPI_BYTE, suite_left(), mode, MPI_COMM_WORLD, &posted);
        MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs its receive posted */
        if (mode == 0)
            MPI_Ssend(out, sizeof out, MPI_BYTE, suite_right(), mode, MPI_COMM_WORLD);
        else if (mode == 1)
            MPI_Bsend(out, sizeof out, MPI_BYTE, suite_right(), mode, MPI_COMM_WORLD);
        else
            MPI_Rsend(out, sizeof out, MPI_BYTE, suite_right(), mode, MPI_COMM_WORLD);
        MPI_Wait(&posted, MPI_STATUS_IGNORE);
        EQUAL(suite_wrong(in, sizeof in, (unsigned)(suite_left() + mode)), 0);
    }
    MPI_Buffer_detach(&old, &old_size);
    EQUAL(old_size, sizeof room);
}

/* A synchronous send ends only when its receive has begun. */
static void synchronous(void)
{
    MPI_Request request;
    int value = 5, done = 1;

    if (suite_rank == 0) {
        MPI_Issend(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 1000; i++)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        EQUAL(done, 0);
        MPI_Send(&value, 0, MPI_INT, 1, 4, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (suite_rank == 1) {
        MPI_Recv(&value, 0, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Many that nobody waits for yet, of mixed sizes: they arrive in the order in which they were sent. */
static void order(void)
{
    enum { MANY = 400, LONG = 20000 };
    static char out[MANY][LONG], bytes[LONG];
    MPI_Request requests[MANY];
    int token;

    if (suite_rank == 0) {
        for (int i = 0; i < MANY; i++) {
            memcpy(out[i], &i, sizeof i);
            MPI_Isend(out[i], i % 50 == 49 ? LONG : 16, MPI_BYTE, 1, i % 2, MPI_COMM_WORLD, &requests[i]);
            if (i == MANY / 2)
                MPI_Send(&i, 1, MPI_INT, 1, 99, MPI_COMM_WORLD);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    } else if (suite_rank == 1) {
        MPI_Recv(&token, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int tag = 1; tag >= 0; tag--) {
            for (int i = tag; i < MANY / 2; i += 2) {
                MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                memcpy(&token, bytes, sizeof token);
                EQUAL(token, i);
            }
        }
        for (int i = MANY / 2; i < MANY; i++) {
            MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            memcpy(&token, bytes, sizeof token);
            EQUAL(token, i);
        }
    }
}

static void exchange(void)
{
    size_t size = suite_ranks > 4 ? 100000 : 1000000;
    char *out = suite_memory(size), *in = suite_memory(size);

    for (int i = 0; i < 5; i++) {
        suite_fill(out, size, (unsigned)(suite_rank + i));
        MPI_Sendrecv(out, (int)size, MPI_BYTE, suite_right(), i, in, (int)size, MPI_BYTE, suite_left(), i,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(suite_wrong(in, size, (unsigned)(suite_left() + i)), 0);
        MPI_Sendrecv_replace(in, (int)size, MPI_BYTE, suite_left(), i, suite_right(), i, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        EQUAL(suite_wrong(in, size, (unsigned)(suite_rank + i)), 0);
    }
    free(in);
    free(out);
}

static void oneself(void)
{
    static char out[200000], in[200000];
    MPI_Request request;

    suite_fill(out, sizeof out, 9);
    MPI_Irecv(in, sizeof in, MPI_BYTE, suite_rank, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, sizeof out, MPI_BYTE, suite_rank, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EQUAL(suite_wrong(in, sizeof in, 9), 0);
    MPI_Isend(out, 10, MPI_BYTE, suite_rank, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(in, 10, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EQUAL(suite_wrong(in, 10, 9), 0);
}

/* Too long for its receive, expected and unexpected, short and long: an error, nothing written behind the buffer, and
 * all goes on. */
static void truncation(void)
{
    static char out[300000], in[300000];
    const int lengths[] = {60, 3000, 300000};
    int error, kind, token = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 6 && suite_rank < 2; i++) {
        int length = lengths[i / 2];

        if (suite_rank == 0) {
            if (i % 2) /* its receive is posted before */
                MPI_Recv(&token, 1, MPI_INT, 1, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            suite_fill(out, (size_t)length, 1);
            MPI_Send(out, length, MPI_BYTE, 1, 51, MPI_COMM_WORLD);
        } else {
            MPI_Request request;

            memset(in, 77, sizeof in);
            if (i % 2 == 0)
                MPI_Probe(0, 51, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            error = MPI_Irecv(in, length / 2, MPI_BYTE, 0, 51, MPI_COMM_WORLD, &request);
            if (i % 2)
                MPI_Send(&token, 1, MPI_INT, 0, 50, MPI_COMM_WORLD);
            if (error == MPI_SUCCESS)
                error = MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Error_class(error, &kind);
            EQUAL(kind, MPI_ERR_TRUNCATE);
            for (int k = length / 2; k < length; k++)
                if (in[k] != 77)
                    EQUAL(in[k], 77);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

const struct suite_case suite_messages[] = {
    {"a message to whom one never talked before, and no more calls", alone},
    {"messages of every size go round the ring", ring},
    {"synchronous, buffered and ready sends", modes},
    {"a synchronous send waits for its receive", synchronous},
    {"messages keep their order, tag by tag", order},
    {"exchanges with both neighbours", exchange},
    {"messages to oneself", oneself},
    {"a message too long for its receive", truncation},
    {0},
};
