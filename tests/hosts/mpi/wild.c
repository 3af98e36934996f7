/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives and probes that do not name their sender or tag; communicators that keep apart what they carry. */
#include "tests/hosts/mpi/suite.h"

/* Everybody writes to rank 0, which takes what comes: from each rank in the order of its sending. */
static void any_source(void)
{
    enum { MANY = 50 };
    int next[256] = {0}, value[2];
    MPI_Status status;

    if (suite_rank != 0) {
        for (int i = 0; i < MANY; i++) {
            value[0] = suite_rank;
            value[1] = i;
            MPI_Send(value, 2, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
        }
        return;
    }
    for (int i = 0; i < MANY * (suite_ranks - 1); i++) {
        MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        EQUAL(status.MPI_SOURCE, value[0]);
        EQUAL(status.MPI_TAG, value[1] % 3);
        EQUAL(next[value[0]]++, value[1]);
    }
}

/* A receive from anyone and one from somebody, posted in both orders: the older one that fits gets it. */
static void oldest_first(void)
{
    int named = -1, anyone = -1, first, second;
    MPI_Request request[2];

    for (int turn = 0; turn < 2; turn++) {
        if (suite_rank == 1) {
            int *one = turn ? &named : &anyone, *two = turn ? &anyone : &named;

            MPI_Irecv(one, 1, MPI_INT, turn ? 0 : MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &request[0]);
            MPI_Irecv(two, 1, MPI_INT, turn ? MPI_ANY_SOURCE : 0, 4, MPI_COMM_WORLD, &request[1]);
            MPI_Send(&turn, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
            first = turn ? named : anyone;
            second = turn ? anyone : named;
            EQUAL(first, 1);
            EQUAL(second, 2);
        } else if (suite_rank == 0) {
            MPI_Recv(&first, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            first = 1;
            second = 2;
            MPI_Send(&first, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
            MPI_Send(&second, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
        }
    }
}

static void probe(void)
{
    static char bytes[150000];
    const int lengths[] = {0, 5, 5000, 150000};
    MPI_Status status;
    int length, there;

    for (int i = 0; i < 4; i++) {
        if (suite_rank == 0) {
            MPI_Iprobe(1, 60 + i, MPI_COMM_WORLD, &there, &status);
            EQUAL(there, 0);
            MPI_Send(&length, 0, MPI_INT, 1, 70, MPI_COMM_WORLD);
            MPI_Probe(MPI_ANY_SOURCE, 60 + i, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &length);
            EQUAL(length, lengths[i]);
            EQUAL(status.MPI_SOURCE, 1);
            for (there = 0; !there;)
                MPI_Iprobe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
            EQUAL(status.MPI_TAG, 60 + i);
            MPI_Recv(bytes, length, MPI_BYTE, 1, 60 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EQUAL(suite_wrong(bytes, (size_t)length, (unsigned)i), 0);
        } else if (suite_rank == 1) {
            suite_fill(bytes, (size_t)lengths[i], (unsigned)i);
            MPI_Recv(&length, 0, MPI_INT, 0, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, lengths[i], MPI_BYTE, 0, 60 + i, MPI_COMM_WORLD);
        }
    }
}

/* What a matched probe has taken no receive can get, and no later message overtakes it. */
static void matched_probe(void)
{
    static char bytes[100000];
    MPI_Message message, none;
    MPI_Request request;
    MPI_Status status;
    int there, value[2] = {1, 2};

    if (suite_rank == 0) {
        suite_fill(bytes, sizeof bytes, 3);
        MPI_Send(&value[0], 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
        MPI_Isend(bytes, sizeof bytes, MPI_BYTE, 1, 12, MPI_COMM_WORLD, &request);
        MPI_Send(&value[1], 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (suite_rank == 1) {
        MPI_Mprobe(0, 11, MPI_COMM_WORLD, &message, &status);
        MPI_Recv(&value[1], 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(value[1], 2);
        MPI_Improbe(0, 11, MPI_COMM_WORLD, &there, &none, MPI_STATUS_IGNORE);
        EQUAL(there, 0);
        MPI_Mrecv(&value[0], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        EQUAL(value[0], 1);
        for (there = 0; !there;)
            MPI_Improbe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &there, &message, &status);
        MPI_Imrecv(bytes, sizeof bytes, MPI_BYTE, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EQUAL(suite_wrong(bytes, sizeof bytes, 3), 0);
    }
}

/* The same source and tag on two communicators: neither sees the other's. */
static void apart(void)
{
    MPI_Comm twin;
    int one = 1, two = 2, got = 0;

    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    if (suite_rank == 0) {
        MPI_Send(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Send(&two, 1, MPI_INT, 1, 0, twin);
    } else if (suite_rank == 1) {
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE);
        EQUAL(got, 2);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(got, 1);
    }
    MPI_Comm_free(&twin);
}

/* Odd and even ranks, in opposite order, at the same time; then each half as one side of an intercommunicator. */
static void split(void)
{
    MPI_Comm half, across;
    int rank, size, sum, mine = suite_rank, got = -1, lead = suite_rank % 2 ? 0 : 1;

    MPI_Comm_split(MPI_COMM_WORLD, suite_rank % 2, -suite_rank, &half);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    EQUAL(rank, size - 1 - suite_rank / 2);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, half);
    EQUAL(sum, suite_rank % 2 ? size * size : size * (size - 1));
    /* rank 0 of each half is the highest of its kind */
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, suite_ranks - 1 - (suite_ranks - 1 - lead) % 2, 9, &across);
    MPI_Sendrecv(&mine, 1, MPI_INT, rank, 3, &got, 1, MPI_INT, rank, 3, across, MPI_STATUS_IGNORE);
    EQUAL(got, suite_rank ^ 1);
    MPI_Comm_free(&across);
    MPI_Comm_free(&half);
}

const struct suite_case suite_wild[] = {
    {"any source, any tag", any_source},
    {"the oldest receive that fits gets the message", oldest_first},
    {"probes", probe},
    {"matched probes", matched_probe},
    {"communicators keep their messages apart", apart},
    {"communicators of some ranks, and between them", split},
    {0},
};
