/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that hosts/mpi answers, where they go wrong or come from several threads. Rank 0 says how it ended.
 *     answered short|far|late|mismatch|close|alltoall|rows|threads [TIMES]|waits|ends | killed|gone|lost FILE
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG    300000
#define THREADS 3

static int rank, ranks;

static int sum_of(int count)
{
    return ranks * count + ranks * (ranks - 1) / 2;
}

/* Of up to 256 bytes, and more; roots change while others have sent them ahead. */
static long lengths(void)
{
    int in[70], all[70];
    long wrong = 0;

    for (int i = 0; i < 7000; i++) {
        int count = 1 + i % 70, root = i / 50 % ranks;

        for (int k = 0; k < count; k++)
            in[k] = rank + i + k;
        MPI_Reduce(in, all, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        for (int k = 0; k < count && rank == root; k++)
            wrong += all[k] != sum_of(i + k);
    }
    return wrong;
}

/* Nobody but the root waits; it is behind by thousands of calls, and must get each one's. */
static long shorts(void)
{
    long wrong = 0;
    int out = 0;

    for (int i = 0; i < 20000; i++) {
        int in = rank + i, root = i / 5000 % ranks;

        MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        if (rank == root)
            wrong += out != sum_of(i);
    }
    for (int i = 0; i < 2000; i++) {
        double in[4] = {rank, -rank, i, 1}, all[4];

        MPI_Reduce(rank == i % ranks ? MPI_IN_PLACE : in, rank == i % ranks ? in : all, 4, MPI_DOUBLE,
                   MPI_MAX, i % ranks, MPI_COMM_WORLD);
        if (rank == i % ranks)
            wrong += in[0] != ranks - 1 || in[1] != 0 || in[2] != i || in[3] != 1;
    }
    return wrong + lengths();
}

#define COMMS 12

/* As many calls as no ring has room for, and then something of MPI's that the root, which comes late, has to send. With
 * `frees` the communicators go before it has come. */
static long far(int frees)
{
    MPI_Comm many[COMMS];
    long wrong = 0;
    int in = 1, out = 0;

    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &many[c]);
        for (int i = 0; i < 3000; i++) /* so that it forms */
            MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, 0, many[c]);
        MPI_Barrier(many[c]);
    }
    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            usleep(50000);
        for (int c = 0; c < COMMS; c++)
            for (int i = 0; i < 100; i++) {
                MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, 0, many[c]);
                wrong += rank == 0 && out != ranks;
            }
        for (int r = 1; r < ranks && !frees; r++) {
            if (rank == 0)
                MPI_Send(&in, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
            if (rank == r)
                MPI_Recv(&out, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_free(&many[c]);
    return wrong;
}

/* One rank gives half of what the others do. All that wait for it, and for those, are told: at the latest by the next
 * call. How many were not. */
enum kind { ALLREDUCE, GATHER, ALLGATHER, ALLTOALL, OWN, REQUEST };

static long mismatch(enum kind kind, int count)
{
    int *in = calloc(LONG, sizeof *in), *out = calloc(LONG, sizeof *out), rc = 0, all;
    int mine = rank == 1 ? count / 2 : count;
    MPI_Request request;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* of requests Open MPI tells this, too */
    for (int i = 0; i < 16; i++)                                /* so that it forms */
        MPI_Allreduce(in, out, LONG, MPI_INT, MPI_SUM, comm);
    if (kind == GATHER)
        rc = MPI_Gather(in, mine, MPI_INT, out, mine, MPI_INT, 0, comm) != MPI_SUCCESS;
    if (kind == ALLGATHER)
        rc = MPI_Allgather(in, mine, MPI_INT, out, mine, MPI_INT, comm) != MPI_SUCCESS;
    if (kind == ALLTOALL)
        rc = MPI_Alltoall(in, mine, MPI_INT, out, mine, MPI_INT, comm) != MPI_SUCCESS;
    if (kind == REQUEST &&
        MPI_Iallgather(in, mine, MPI_INT, out, mine, MPI_INT, comm, &request) == MPI_SUCCESS)
        rc = MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    if (kind == OWN) /* it keeps what the others send */
        rc = MPI_Alltoall(in, mine, MPI_INT, out, count, MPI_INT, comm) != MPI_SUCCESS;
    rc |= MPI_Allreduce(in, out, kind == ALLREDUCE ? mine : LONG, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS;
    MPI_Comm_free(&comm);
    MPI_Allreduce(&rc, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(in);
    free(out);
    return ranks - all;
}

/* Types without gaps, whose elements are sent as they lie. */
static long close_types(void)
{
    enum { MANY = 20000 };
    int *in = calloc(MANY, sizeof *in), *all = calloc((size_t)MANY * (size_t)ranks, sizeof *all);
    MPI_Datatype types[3];
    long wrong = 0;

    MPI_Type_contiguous(4, MPI_INT, &types[0]);
    MPI_Type_vector(2, 2, 2, MPI_INT, &types[1]);
    MPI_Type_dup(types[0], &types[2]);
    for (int i = 0; i < MANY; i++)
        in[i] = rank * MANY + i;
    for (int t = 0; t < 3; t++) {
        MPI_Type_commit(&types[t]);
        for (int turn = 0; turn < 20; turn++) {
            memset(all, 0, (size_t)MANY * (size_t)ranks * sizeof *all);
            MPI_Allgather(in, MANY / 4, types[t], all, MANY / 4, types[t], MPI_COMM_WORLD);
            for (int i = 0; i < MANY * ranks; i++)
                wrong += all[i] != i;
        }
        MPI_Type_free(&types[t]);
    }
    free(all);
    free(in);
    return wrong;
}

/* ---- alltoalls: of lengths that are answered, and others ------------------------------------------------ */

static int turn;

static int element(int from, int to, int i)
{
    return ((from * 16 + to) * 128 + turn) * 17000 + i;
}

/* Elements lie `step` integers apart. */
static void fill(int *out, int count, int step)
{
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < count; i++)
            out[(r * count + i) * step] = element(rank, r, i);
}

static long wrong_of(const int *in, int count, int step)
{
    long wrong = 0;

    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < count; i++)
            wrong += in[(r * count + i) * step] != element(r, rank, i);
    for (int i = 1; i < step * ranks * count; i += step)
        wrong += step > 1 && in[i] != -1;
    return wrong;
}

/* From integers or what has gaps to either; or in place. */
static long alltoall(int count, int out_step, int in_step, int in_place)
{
    size_t most = 2 * (size_t)count * (size_t)ranks;
    int *out = malloc(most * sizeof *out), *in = malloc(most * sizeof *in);
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    long wrong;

    MPI_Type_create_resized(MPI_INT, 0, 8, &types[2]);
    MPI_Type_commit(&types[2]);
    memset(in, -1, most * sizeof *in);
    turn++;
    fill(in_place ? in : out, count, in_place ? in_step : out_step);
    MPI_Alltoall(in_place ? MPI_IN_PLACE : out, count, types[out_step], in, count, types[in_step],
                 MPI_COMM_WORLD);
    memset(out, -2, most * sizeof *out); /* it is the program's again */
    wrong = wrong_of(in, count, in_step);
    MPI_Type_free(&types[2]);
    free(in);
    free(out);
    return wrong;
}

/* On the same communicator, by the same memory of nigh's. */
static long beside(void)
{
    enum { MANY = 1000 };
    int *in = malloc(MANY * sizeof *in), *all = malloc((size_t)MANY * (size_t)ranks * sizeof *all);
    int root = turn % ranks;
    long wrong = 0;

    for (int i = 0; i < MANY; i++)
        in[i] = rank + turn + i;
    MPI_Allgather(in, MANY, MPI_INT, all, MANY, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < MANY * ranks; i++)
        wrong += all[i] != i / MANY + turn + i % MANY;
    MPI_Reduce(in, all, MANY, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    for (int i = 0; i < MANY && rank == root; i++)
        wrong += all[i] != sum_of(turn + i);
    free(all);
    free(in);
    return wrong;
}

static long alltoalls(void)
{
    static const int counts[] = {1, 64, 65, 8191, 8192, 8193, 12000, 16384, 16385};
    long wrong = 0;

    for (int again = 0; again < 3; again++)
        for (int c = 0; c < 9; c++)
            for (int how = 0; how < 6; how++)
                wrong +=
                    alltoall(counts[c], 1 + how % 2, 1 + (how < 4 ? how / 2 : how % 2), how >= 4) + beside();
    return wrong;
}

/* Many to a root that is late, so that they are far ahead of it. */
static long row_to(int root, int i)
{
    int in = rank + i, out = 0;
    long wrong = 0;

    if (rank == root)
        usleep(5000);
    for (int k = 0; k < 100; k++) {
        MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        wrong += rank == root && out != sum_of(i);
    }
    return wrong;
}

/* Of up to 256 bytes and more, with what else is short in between, whose roots change. */
static long rows(void)
{
    int in[24 * 70], out[24 * 70];
    long wrong = 0;

    for (int i = 0; i < 6000; i++) {
        int count = 1 + i % 70, root = i / 50 % ranks;

        if (i % 500 == 0)
            wrong += row_to(root, i);
        for (int r = 0; r < ranks; r++)
            for (int k = 0; k < count; k++)
                in[r * count + k] = rank * 1000 + r * 100 + i + k;
        MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < ranks; r++)
            for (int k = 0; k < count; k++)
                wrong += out[r * count + k] != r * 1000 + rank * 100 + i + k;
        in[0] = rank + i;
        if (i % 3 == 0)
            MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        wrong += i % 3 == 0 && rank == root && out[0] != sum_of(i);
        if (i % 3 == 1)
            MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, root, MPI_COMM_WORLD);
        for (int r = 0; r < ranks && i % 3 == 1 && rank == root; r++)
            wrong += out[r] != r + i;
    }
    return wrong;
}

static long mismatches(void)
{
    return mismatch(ALLTOALL, 16384) + mismatch(OWN, 16384) + mismatch(ALLTOALL, 60) + mismatch(OWN, 60);
}

static MPI_Comm comms[THREADS];

/* One thread of each rank sends so many to the root that it waits for it, which the root comes to behind the alltoall
 * that another thread is in: on another communicator, so that waits for nobody else. */
static void *reduces(void *arg)
{
    MPI_Comm *comm = arg;
    long wrong = 0;

    for (int i = 0; i < 300; i++) {
        int in = rank + i, out = 0;

        MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, 0, *comm);
        wrong += rank == 0 && out != sum_of(i);
    }
    return (void *)wrong;
}

static long crossed(void)
{
    int *in = calloc((size_t)ranks, sizeof *in), *out = calloc((size_t)ranks, sizeof *out);
    pthread_t running;
    void *wrong;
    long others = 0;

    if (rank != 0)
        pthread_create(&running, NULL, reduces, &comms[0]);
    usleep(100000);
    for (int i = 0; i < 40; i++) {
        for (int r = 0; r < ranks; r++)
            in[r] = rank * 1000 + r + i;
        MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, comms[1]);
        for (int r = 0; r < ranks; r++)
            others += out[r] != r * 1000 + rank + i;
    }
    if (rank == 0)
        wrong = reduces(&comms[0]);
    else
        pthread_join(running, &wrong);
    free(in);
    free(out);
    return (long)wrong + others;
}

static void *thread(void *arg)
{
    MPI_Comm *comm = arg;
    int *in = malloc(LONG * sizeof *in), *out = malloc(LONG * sizeof *out);
    MPI_Request requests[2];
    long wrong = 0;

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < LONG; i++)
            in[i] = rank + i + round;
        MPI_Allreduce(in, out, LONG, MPI_INT, MPI_SUM, *comm);
        for (int i = 0; i < LONG; i++)
            wrong += out[i] != sum_of(i + round);
        MPI_Reduce(in, out, LONG / 2, MPI_INT, MPI_MIN, round % ranks, *comm);
        for (int i = 0; i < LONG / 2 && rank == round % ranks; i++)
            wrong += out[i] != i + round;
        MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, round % ranks, *comm);
        if (rank == round % ranks)
            wrong += out[0] != sum_of(round);
        MPI_Iallreduce(in, out, 5000, MPI_INT, MPI_SUM, *comm, &requests[0]);
        MPI_Ibcast(in + 5000, 9, MPI_INT, 0, *comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 5000; i++)
            wrong += out[i] != sum_of(i + round);
        for (int i = 0; i < 9; i++)
            wrong += in[5000 + i] != 5000 + i + round;
    }
    free(in);
    free(out);
    return (void *)wrong;
}

/* Each on a communicator of its own, all at a time. */
static long threads(void)
{
    pthread_t running[THREADS];
    long wrong = 0;

    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&running[t], NULL, thread, &comms[t]);
    for (int t = 0; t < THREADS; t++) {
        void *one;

        pthread_join(running[t], &one);
        wrong += (long)one;
    }
    wrong += crossed();
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&comms[t]);
    return wrong;
}

#define MESSAGE (1 << 20)
static int message[MESSAGE];

/* Short ones, and such as need their receiver. */
static void *sends(void *arg)
{
    const int *count = arg;

    usleep(50000);
    for (int r = 1; r < ranks; r++)
        MPI_Ssend(message, *count, MPI_INT, r, 0, MPI_COMM_WORLD);
    return arg;
}

/* Both, by each of MPI's calls in turn. */
static void wait_both(MPI_Request requests[2], int how)
{
    int done = 0, at, some[2], flag = 0;

    if (how == 1)
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 && how == 2; i++)
        MPI_Waitany(2, requests, &at, MPI_STATUS_IGNORE);
    while (how == 3 && done < 2) {
        MPI_Waitsome(2, requests, &at, some, MPI_STATUSES_IGNORE);
        done += at;
    }
    while (how == 4 && !flag)
        MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* A thread waits for a request that the other ranks come to by a message of another thread's. */
static long waits(void)
{
    long wrong = 0;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 16; i++) /* so that it forms */
        MPI_Barrier(comm);
    for (int i = 0; i < 20; i++) {
        MPI_Request requests[2];
        pthread_t sender;
        int in = rank + i, out = 0, count = i < 10 ? 1 : MESSAGE;

        if (rank == 0)
            pthread_create(&sender, NULL, sends, &count);
        else
            MPI_Recv(message, count, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
        MPI_Ibarrier(comm, &requests[1]);
        wait_both(requests, i % 5);
        wrong += out != sum_of(i);
        if (rank == 0)
            pthread_join(sender, NULL);
    }
    MPI_Comm_free(&comm);
    return wrong;
}

/* What MPI_Finalize() calls first. */
static int in_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    long wrong = 0;

    for (int i = 0; i < 40; i++) {
        int in = rank + i, out = 0;

        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += out != sum_of(i);
    }
    if (rank == 0)
        printf("%ld wrong\n", wrong);
    return MPI_SUCCESS;
}

static void set_end(void)
{
    int key;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, in_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
}

/* Of the functions that MPI_Finalize() calls, some ranks have set theirs before the first collective, some behind it. */
static void ends(void)
{
    if (rank % 2)
        set_end();
    for (int i = 0; i < 20; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    if (rank % 2 == 0)
        set_end();
}

/* While the others are at an allreduce (0), at a short alltoall (1), or wait for a request (2). */
static void killed(const char *told, int which)
{
    int *in = calloc(LONG, sizeof *in), *out = calloc(LONG, sizeof *out);
    MPI_Request request;

    for (int turn = 0;; turn++) {
        if (turn / 3 == 25 && turn % 3 == which && rank == 1 &&
            open(told, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0)
            raise(SIGKILL);
        if (turn % 3 == 1) {
            MPI_Alltoall(in, 4, MPI_INT, out, 4, MPI_INT, MPI_COMM_WORLD);
        } else if (turn % 3 == 2) {
            MPI_Ialltoall(in, 4, MPI_INT, out, 4, MPI_INT, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Allreduce(in, out, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int level, threaded;
    long wrong, all;

    threaded = !strcmp(mode, "threads") || !strcmp(mode, "waits");
    MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    alarm(120); /* a job that does not end must not stay */
    if ((!strcmp(mode, "killed") || !strcmp(mode, "gone") || !strcmp(mode, "lost")) && argc > 2)
        killed(argv[2], mode[0] == 'k' ? 0 : mode[0] == 'g' ? 1 : 2);
    if (!strcmp(mode, "ends")) {
        ends();
    } else if (threaded && level != MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            printf("no threads\n");
    } else {
        wrong = !strcmp(mode, "short")      ? shorts()
                : !strcmp(mode, "far")      ? far(0)
                : !strcmp(mode, "late")     ? far(1)
                : !strcmp(mode, "alltoall") ? alltoalls() + mismatches() + rows()
                : !strcmp(mode, "rows")     ? rows()
                : !strcmp(mode, "close")    ? close_types()
                : !strcmp(mode, "waits")    ? waits()
                : !strcmp(mode, "mismatch")
                    ? mismatch(ALLREDUCE, LONG) + mismatch(GATHER, 60) + mismatch(GATHER, 4000) +
                          mismatch(ALLGATHER, 4000) + mismatch(REQUEST, 4000)
                    : 0;
        for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 1) && !strcmp(mode, "threads"); i++)
            wrong += threads();
        MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%ld wrong\n", all);
    }
    MPI_Finalize();
    return 0;
}
