/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies, or does not come, in the middle of a collective: all others are told by name, none hangs,
 * and what they do without it goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* LATE: what each gives is more than a stream has room for, so that nobody is through without the others. */
enum { RANKS = 5, DEAD = 2, BYTES = 2 << 20, LATE = 4 << 20, KINDS = 11 };

static uint8_t *in, *out;

static int call_kind(int kind, uint64_t bytes, struct nigh_comm *comm)
{
    switch (kind) {
    case 0:
        return nigh_barrier(comm);
    case 1:
        return nigh_bcast(out, bytes, NIGH_U8, 0, comm);
    case 2:
        return nigh_reduce(in, out, bytes, NIGH_U8, NIGH_SUM, 1, comm);
    case 3:
        return nigh_allreduce(in, out, bytes, NIGH_U8, NIGH_SUM, comm);
    case 4:
        return nigh_gather(in, out, bytes / RANKS, NIGH_U8, 0, comm);
    case 5:
        return nigh_scatter(in, out, bytes / RANKS, NIGH_U8, 0, comm);
    case 6:
        return nigh_allgather(in, out, bytes / RANKS, NIGH_U8, comm);
    case 7:
        return nigh_alltoall(in, out, bytes / RANKS, NIGH_U8, comm);
    case 8:
        return nigh_reduce_scatter(in, out, bytes / RANKS, NIGH_U8, NIGH_SUM, comm);
    case 9:
        return nigh_scan(in, out, bytes, NIGH_U8, NIGH_SUM, comm);
    default:
        return nigh_exscan(in, out, bytes, NIGH_U8, NIGH_SUM, comm);
    }
}

static void make_buffers(void)
{
    in = calloc(1, LATE);
    out = calloc(1, LATE);
    CHECK(in && out);
}

static void die(int signal_number)
{
    (void)signal_number;
    raise(SIGKILL);
}

/* What a test is about: forked ranks know it. */
static int kind;
static uint64_t bytes;
static unsigned microseconds;

/* What is left works among itself. */
static void survivors_go_on(int rank)
{
    static const int list[] = {0, 1, 3, 4};
    struct nigh_comm *rest;
    int one = 1, sum = 0;

    OK(nigh_comm_create(nigh_world(), list, 4, &rest));
    OK(nigh_allreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, rest));
    CHECK_INT(sum, 4);
    OK(call_kind(kind, bytes, rest));
    OK(nigh_comm_free(&rest));
    (void)rank;
}

/* All call the same for ever; one is killed at a moment of no one's choice. The memory goes at
 * once: nobody may write it any more. */
static void killed_in_the_middle(int rank, int size)
{
    struct itimerval soon = {.it_value = {.tv_usec = microseconds}};
    double start;
    int rc = 0;

    (void)size;
    make_buffers();
    OK(nigh_barrier(nigh_world()));
    OK(nigh_barrier(nigh_world()));
    if (rank == DEAD) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    start = nigh_wtime();
    while (!rc && nigh_wtime() - start < 20)
        rc = call_kind(kind, bytes, nigh_world());
    free(in);
    free(out);
    CHECK_INT(rc, -ECONNRESET);
    CHECK_TEXT("rank 2");
    CHECK_TEXT("was killed");
    CHECK_INT(nigh_barrier(nigh_world()), -ECONNRESET);
    CHECK_TEXT("rank 2");
    make_buffers();
    survivors_go_on(rank);
    OK(nigh_finalize());
}

static const struct ranks_how one_killed = {.killed = DEAD + 1, .loose = true};

static void kill_in_all(uint64_t of_bytes)
{
    bytes = of_bytes;
    for (kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < 3; i++) {
            microseconds = 500 + 1777 * i + 331 * (unsigned)kind;
            ranks_run(RANKS, killed_in_the_middle, &one_killed);
        }
}

static void test_killed_short(void **state)
{
    (void)state;
    kill_in_all(100);
}

static void test_killed_long(void **state)
{
    (void)state;
    kill_in_all(BYTES);
}

/* One is dead already, the others come one after another. */
static void come_late(int rank, int size)
{
    double start;
    int rc;

    (void)size;
    make_buffers();
    /* What is sent before a connection stands dies with its sender: the first one is for that. */
    OK(nigh_barrier(nigh_world()));
    OK(nigh_barrier(nigh_world()));
    if (rank == DEAD)
        raise(SIGKILL);
    ranks_nap((unsigned)rank * 30);
    start = nigh_wtime();
    rc = call_kind(kind, bytes, nigh_world());
    CHECK(rc == -ECONNRESET || (rc == 0 && kind == 9 && rank < DEAD)); /* a scan needs the ranks before */
    CHECK_INT(nigh_barrier(nigh_world()), -ECONNRESET);
    CHECK_TEXT("rank 2");
    CHECK(nigh_wtime() - start < 60);
    survivors_go_on(rank);
    OK(nigh_finalize());
}

static void test_come_late(void **state)
{
    (void)state;
    bytes = 1000;
    for (kind = 0; kind < KINDS; kind += 3)
        ranks_run(RANKS, come_late, &one_killed);
}

/* ---- time-outs ---- */

/* It needs nothing of the rank that comes last: reduce to 1, gather to 0, exscan. */
static bool may_be_through(int rank)
{
    return (kind == 2 && rank != 1) || (kind == 4 && rank != 0) || kind == 10;
}

static void late(int rank, int size)
{
    struct nigh_comm *comm;
    double start;
    int last = size - 1, rc;

    make_buffers();
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_comm_set_timeout(comm, rank == last ? 100 : 0.2));
    for (int other = 0; rank == last && other < last; other++)
        ranks_hear((unsigned)other);
    start = nigh_wtime();
    rc = call_kind(kind, bytes, comm);
    if (rank == last) {
        /* What is short may be there already, and is good. */
        CHECK(rc == -ETIMEDOUT || (rc == 0 && (kind == 0 || bytes < 1000)));
        if (rc)
            CHECK_TEXT("has given up waiting for rank");
        CHECK(nigh_wtime() - start < 60);
    } else {
        CHECK(rc == -ETIMEDOUT || (rc == 0 && may_be_through(rank)));
        if (rc)
            CHECK_TEXT("rank ");
        /* Who comes when others have given up already is told so at once. */
        CHECK(!rc || nigh_wtime() - start > 0.15 || strstr(nigh_error_text(), "has given up waiting"));
        CHECK(nigh_wtime() - start < 60);
        ranks_tell((unsigned)rank);
    }
    /* All are at the same place again, and nothing of the old one gets into the next. */
    OK(nigh_comm_set_timeout(comm, 100));
    for (int i = 0; i < 20; i++) {
        int one = i, sum;

        OK(nigh_allreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, comm));
        CHECK_INT(sum, size * i);
        OK(call_kind(kind, bytes, comm));
    }
    OK(nigh_comm_free(&comm));
    free(in);
    free(out);
}

static void test_late(void **state)
{
    (void)state;
    for (kind = 0; kind < KINDS; kind += 2) {
        bytes = kind % 4 ? 100 : LATE;
        ranks_run(2, late, NULL);
        ranks_run(5, late, NULL);
    }
}

/* A rank that is stopped while all are in the middle of long messages, and goes on when the others have given up. They
 * wait a second for it to take what it was sent; where it is slower it is said that the buffers stay in use. */
static void stopped(int rank, int size)
{
    struct nigh_comm *comm;
    pid_t parent = getpid();
    int rc = 0, status = 0;

    (void)size;
    make_buffers();
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_barrier(comm));
    OK(nigh_comm_set_timeout(comm, 0.3));
    if (rank == DEAD && fork() == 0) {
        usleep(20000);
        kill(parent, SIGSTOP);
        usleep(900000);
        kill(parent, SIGCONT);
        _exit(0);
    }
    for (int i = 0; !rc && i < 100000; i++)
        rc = nigh_allreduce(in, out, BYTES, NIGH_U8, NIGH_MAX, comm);
    CHECK_INT(rc, -ETIMEDOUT);
    OK(nigh_comm_set_timeout(comm, 100));
    if (rank == DEAD)
        CHECK(wait(&status) > 0 && status == 0);
    if (!strstr(ranks_said(), "stays in use")) {
        free(in);
        free(out);
    }
    make_buffers();
    OK(nigh_barrier(nigh_world()));
    OK(nigh_allreduce(in, out, BYTES, NIGH_U8, NIGH_MAX, nigh_world()));
    OK(nigh_comm_free(&comm));
}

static void test_stopped(void **state)
{
    (void)state;
    ranks_run(4, stopped, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_short), cmocka_unit_test(test_killed_long),
        cmocka_unit_test(test_come_late),    cmocka_unit_test(test_late),
        cmocka_unit_test(test_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
