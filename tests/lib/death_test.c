/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank is killed or leaves: whoever waits for it is told by name, once, and everything else goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct ranks_how killed_last = {.killed = 3, .loose = true};

static void meet_and_kill_last(int rank)
{
    OK(nigh_barrier(nigh_world()));
    if (rank == 2)
        raise(SIGKILL);
}

typedef int start_fn(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                     nigh_request *request);

/* What could not be posted can be waited for with others, whatever the request was before. */
static void starts_nothing(start_fn *start)
{
    nigh_request request = {12345};
    int value = 0;

    CHECK_INT(start(&value, sizeof(value), 2, 1, nigh_world(), &request), -ECONNRESET);
    CHECK_INT(request.id, 0);
    OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static int receive(const void *buffer, uint64_t bytes, int dest, int tag, struct nigh_comm *comm,
                   nigh_request *request)
{
    return nigh_irecv((void *)(uintptr_t)buffer, bytes, dest, tag, comm, request);
}

static void named(int rank, int size)
{
    struct nigh_status status;
    nigh_request request = NIGH_REQUEST_NULL;
    int value = 0;
    double start = nigh_wtime();

    (void)size;
    meet_and_kill_last(rank);
    CHECK_INT(nigh_recv(&value, sizeof(value), 2, 1, nigh_world(), &status), -ECONNRESET);
    CHECK(nigh_wtime() - start < 60);
    CHECK_INT(status.error, -ECONNRESET);
    CHECK_INT(status.source, 2);
    CHECK_TEXT("rank 2 (process ");
    CHECK_TEXT("was killed");
    CHECK_INT(nigh_ssend(&value, sizeof(value), 2, 1, nigh_world()), -ECONNRESET);
    CHECK_INT(nigh_send(&value, sizeof(value), 2, 1, nigh_world()), -ECONNRESET);
    CHECK_TEXT("rank 2");
    CHECK_INT(nigh_isend(&value, sizeof(value), 2, 1, nigh_world(), &request), -ECONNRESET);
    CHECK_INT(request.id, 0);
    CHECK_INT(nigh_irecv(&value, sizeof(value), 2, 1, nigh_world(), &request), -ECONNRESET);
    starts_nothing(nigh_isend);
    starts_nothing(nigh_issend);
    starts_nothing(receive);
    CHECK_INT(nigh_probe(2, 1, nigh_world(), &status), -ECONNRESET);
    /* The others go on. */
    OK(nigh_sendrecv(&rank, sizeof(rank), 1 - rank, 2, &value, sizeof(value), 1 - rank, 2, nigh_world(),
                     NULL));
    CHECK_INT(value, 1 - rank);
    CHECK_INT(nigh_barrier(nigh_world()), -ECONNRESET);
    OK(nigh_finalize());
}

static void test_named(void **state)
{
    (void)state;
    ranks_run(3, named, &killed_last);
    ranks_run(3, named, &(struct ranks_how){.killed = 3, .loose = true, .threads = 1});
    ranks_run(3, named, &(struct ranks_how){.killed = 3, .loose = true, .progress = 1});
}

/* Receives from anyone: each communicator that the dead was in hears of it once, the others never. */
static void anyone(int rank, int size)
{
    struct nigh_comm *copy, *without;
    nigh_request first, second, other;
    struct nigh_status status;
    int value = 0, flag = 0;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &copy));
    OK(nigh_comm_split(nigh_world(), rank == 2, 0, &without));
    OK(nigh_irecv(&value, sizeof(value), NIGH_ANY_SOURCE, 1, without, &other));
    OK(nigh_irecv(&value, sizeof(value), NIGH_ANY_SOURCE, 1, nigh_world(), &first));
    OK(nigh_irecv(&value, sizeof(value), NIGH_ANY_SOURCE, 1, nigh_world(), &second));
    meet_and_kill_last(rank);
    CHECK_INT(nigh_wait(&first, &status), -ECONNRESET);
    CHECK_TEXT("killed");
    /* The other communicator's next receive is told. */
    CHECK_INT(nigh_recv(&value, sizeof(value), NIGH_ANY_SOURCE, 1, copy, &status), -ECONNRESET);
    OK(nigh_test(&second, &flag, NULL));
    CHECK_INT(flag, 0);
    OK(nigh_test(&other, &flag, NULL));
    CHECK_INT(flag, 0);
    OK(nigh_barrier(without));
    OK(nigh_send(&rank, sizeof(rank), 1 - rank, 1, nigh_world()));
    OK(nigh_wait(&second, &status));
    CHECK_INT(status.source, 1 - rank);
    OK(nigh_send(&rank, sizeof(rank), 1 - rank, 1, without));
    OK(nigh_wait(&other, &status));
    CHECK_INT(value, 1 - rank);
    OK(nigh_comm_free(&copy));
    OK(nigh_comm_free(&without));
    OK(nigh_finalize());
}

static void test_anyone(void **state)
{
    (void)state;
    ranks_run(3, anyone, &killed_last);
}

static void while_probing(int rank, int size)
{
    struct nigh_status status;

    (void)size;
    meet_and_kill_last(rank);
    CHECK_INT(nigh_probe(NIGH_ANY_SOURCE, 1, nigh_world(), &status), -ECONNRESET);
    OK(nigh_finalize());
}

static void test_while_probing(void **state)
{
    (void)state;
    ranks_run(3, while_probing, &killed_last);
}

/* A program that looks again and again hears of it, too. */
static void while_looking(int rank, int size)
{
    double start = nigh_wtime();
    int rc = 0, flag = 0;

    (void)size;
    meet_and_kill_last(rank);
    while (rc == 0 && nigh_wtime() - start < 60)
        rc = nigh_iprobe(NIGH_ANY_SOURCE, 1, nigh_world(), &flag, NULL);
    CHECK_INT(rc, -ECONNRESET);
    OK(nigh_finalize());
}

static void test_while_looking(void **state)
{
    (void)state;
    ranks_run(3, while_looking, &killed_last);
}

/* One that waits for all: the request of the dead fails, the others end as they should. */
static void among_several(int rank, int size)
{
    nigh_request requests[2];
    struct nigh_status statuses[2];
    int values[2];

    (void)size;
    OK(nigh_irecv(&values[0], sizeof(int), 2, 1, nigh_world(), &requests[0]));
    OK(nigh_irecv(&values[1], sizeof(int), 1 - rank, 1, nigh_world(), &requests[1]));
    meet_and_kill_last(rank);
    ranks_nap(20);
    OK(nigh_send(&rank, sizeof(rank), 1 - rank, 1, nigh_world()));
    CHECK_INT(nigh_waitall(2, requests, statuses), -ECONNRESET);
    CHECK_INT(statuses[0].error, -ECONNRESET);
    CHECK_INT(statuses[1].error, 0);
    CHECK_INT(values[1], 1 - rank);
    OK(nigh_finalize());
}

static void test_among_several(void **state)
{
    (void)state;
    ranks_run(3, among_several, &killed_last);
}

/* One that never comes to the end is named by the others, who leave without it. */
static void never_comes(int rank, int size)
{
    (void)size;
    OK(nigh_barrier(nigh_world()));
    OK(nigh_comm_set_timeout(nigh_world(), 0.2));
    if (rank == 1) {
        ranks_hear(0);
        (void)nigh_finalize();
        return;
    }
    CHECK_INT(nigh_finalize(), -ETIMEDOUT);
    CHECK_TEXT("not come to nigh_finalize within");
    ranks_tell(0);
}

static void test_never_comes(void **state)
{
    (void)state;
    ranks_run(2, never_comes, &(struct ranks_how){.loose = true});
}

/* What was sent before a rank left is received after it. */
static void last_words(int rank, int size)
{
    static char text[40000];
    int other = 1 - rank;

    (void)size;
    ranks_fill(text, sizeof(text), 3);
    if (rank == 0) {
        OK(nigh_send(text, sizeof(text), other, 1, nigh_world()));
        OK(nigh_send(text, 10, other, 2, nigh_world()));
        OK(nigh_finalize());
        return;
    }
    ranks_nap(100);
    memset(text, 0, sizeof(text));
    OK(nigh_recv(text, sizeof(text), other, 1, nigh_world(), NULL));
    CHECK(ranks_is_filled(text, sizeof(text), 3));
    OK(nigh_recv(text, 10, other, 2, nigh_world(), NULL));
    OK(nigh_finalize());
}

static void test_last_words(void **state)
{
    (void)state;
    ranks_run(2, last_words, &(struct ranks_how){.loose = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),         cmocka_unit_test(test_anyone),
        cmocka_unit_test(test_while_probing), cmocka_unit_test(test_while_looking),
        cmocka_unit_test(test_among_several), cmocka_unit_test(test_never_comes),
        cmocka_unit_test(test_last_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
