/* SPDX-License-Identifier: BSD-3-Clause */
/* The detector of deadlocks: quick, silent where nothing is wrong, and at rest while a rank waits for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- how soon ---------------------------------------------------------------------------------------------------- */

/* The last rank closes the circle; everybody is told within a second behind the stall, which is 0.3 s. */
static void soon(int rank, int size)
{
    double closed;
    int value;

    OK(nigh_barrier(nigh_world()));
    if (rank == size - 1)
        ranks_nap(500);
    closed = nigh_wtime();
    CHECK_INT(nigh_recv(&value, sizeof(value), (rank + 1) % size, 1, nigh_world(), NIGH_STATUS_IGNORE),
              -EDEADLK);
    CHECK(nigh_wtime() - closed < 60); /* of a loaded machine */
    if (getenv("NIGH_TEST_FIGURES") && rank == size - 1)
        fprintf(stdout, "# %d ranks: named %.1f ms after the circle was closed\n", size,
                1e3 * (nigh_wtime() - closed));
    OK(nigh_barrier(nigh_world()));
}

static void test_soon(void **state)
{
    (void)state;
    ranks_run(2, soon, NULL);
    ranks_run(4, soon, NULL);
    ranks_run(8, soon, NULL);
}

/* Of many ranks eight are named, and write so; the text of all is the same. */
static void many(int rank, int size)
{
    bool named, lists;
    char text[32];
    int value;

    OK(nigh_barrier(nigh_world()));
    CHECK_INT(nigh_recv(&value, sizeof(value), (rank + 1) % size, 1, nigh_world(), NIGH_STATUS_IGNORE),
              -EDEADLK);
    CHECK_TEXT("deadlock: 11 ranks wait for each other: ");
    CHECK_TEXT("; and 3 more. To mend it: ");
    snprintf(text, sizeof(text), "rank %d waits in nigh_recv", rank);
    named = strstr(nigh_error_text(), text) != NULL;
    lists = strstr(ranks_said(), "; and 3 more. To mend it: ") != NULL;
    CHECK_INT(lists, named);
    CHECK(named || strstr(ranks_said(), "deadlock: this is one of 11 ranks that wait for each other; rank "));
    OK(nigh_barrier(nigh_world()));
}

static void test_many(void **state)
{
    (void)state;
    ranks_run(11, many, NULL);
}

/* After one deadlock the ranks go on, and the next one is found as well. */
static void again(int rank, int size)
{
    int value = rank, got = -1;

    for (int i = 0; i < 3; i++) {
        CHECK_INT(nigh_recv(&got, sizeof(got), (rank + 1) % size, i, nigh_world(), NIGH_STATUS_IGNORE),
                  -EDEADLK);
        OK(nigh_sendrecv(&value, sizeof(value), (rank + 1) % size, 50, &got, sizeof(got),
                         (rank + size - 1) % size, 50, nigh_world(), NIGH_STATUS_IGNORE));
        CHECK_INT(got, (rank + size - 1) % size);
    }
}

static void test_again(void **state)
{
    (void)state;
    ranks_run(2, again, &(struct ranks_how){.environment = "NIGH_STALL=0.05"});
    ranks_run(5, again, &(struct ranks_how){.environment = "NIGH_STALL=0.05"});
}

/* No memory for the receive of the verdict, once: it is not lost, and both are told the same. */
static void scarce(int rank, int size)
{
    int value;

    CHECK_INT(nigh_recv(&value, sizeof(value), (rank + 1) % size, 1, nigh_world(), NIGH_STATUS_IGNORE),
              -EDEADLK);
    CHECK_TEXT("2 ranks wait for each other");
}

static void test_scarce(void **state)
{
    const char *real = getenv("NIGH_PLUGIN"), *folder = getenv("NIGH_BUILDDIR");
    char name[600];

    (void)state;
    snprintf(name, sizeof(name), "NIGH_PLUGIN=%s/tests/support/.libs/scarceplugin.so", folder ? folder : ".");
    assert_non_null(real);
    assert_int_equal(setenv("NIGH_REAL_PLUGIN", real, 1), 0);
    for (int i = 0; i < 3; i++)
        ranks_run(2, scarce, &(struct ranks_how){.environment = name});
    unsetenv("NIGH_REAL_PLUGIN");
}

/* ---- never wrongly
 * ------------------------------------------------------------------------------------------------ */

static unsigned long next(unsigned long *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static char out[4][200000], in[4][200000];

/* All ranks know what all do in a round, from the seed, so that whatever they do fits. */
static void exchange(int rank, int size, unsigned long seed)
{
    uint64_t bytes = next(&seed) % 3 == 0 ? 100000 + next(&seed) % 100000 : next(&seed) % 5000;
    int how = (int)(next(&seed) % 7), step = 1 + (int)(next(&seed) % (unsigned)(size - 1)), index;
    int to = (rank + step) % size, from = (rank + size - step) % size;
    nigh_request requests[2];
    nigh_matched message;

    if (how == 0) {
        OK(nigh_barrier(nigh_world()));
    } else if (how == 1) {
        OK(nigh_sendrecv(out[0], bytes, to, how, in[0], sizeof(in[0]), from, how, nigh_world(), NULL));
    } else if (how == 2) {
        OK(nigh_irecv(in[0], sizeof(in[0]), from, how, nigh_world(), &requests[0]));
        OK(nigh_issend(out[0], bytes, to, how, nigh_world(), &requests[1]));
        OK(nigh_waitall(2, requests, NIGH_STATUSES_IGNORE));
    } else if (how == 3) {
        OK(nigh_irecv(in[0], sizeof(in[0]), NIGH_ANY_SOURCE, how, nigh_world(), &requests[0]));
        OK(nigh_isend(out[0], bytes, to, how, nigh_world(), &requests[1]));
        OK(nigh_waitany(2, requests, &index, NIGH_STATUS_IGNORE));
        OK(nigh_waitany(2, requests, &index, NIGH_STATUS_IGNORE));
        OK(nigh_barrier(nigh_world()));
    } else if (how == 4) {
        OK(nigh_isend(out[0], bytes, to, how, nigh_world(), &requests[0]));
        OK(nigh_mprobe(from, how, nigh_world(), &message, NIGH_STATUS_IGNORE));
        OK(nigh_mrecv(in[0], sizeof(in[0]), &message, NIGH_STATUS_IGNORE));
        OK(nigh_wait(&requests[0], NIGH_STATUS_IGNORE));
    } else if (how == 5) {
        /* A relay: each waits for the one before it. */
        if (rank > 0)
            OK(nigh_recv(in[0], sizeof(in[0]), rank - 1, how, nigh_world(), NIGH_STATUS_IGNORE));
        if (rank < size - 1)
            OK(nigh_ssend(out[0], bytes, rank + 1, how, nigh_world()));
    } else {
        OK(nigh_isend(out[0], bytes, to, how, nigh_world(), &requests[0]));
        OK(nigh_probe(NIGH_ANY_SOURCE, how, nigh_world(), NIGH_STATUS_IGNORE));
        OK(nigh_recv(in[0], sizeof(in[0]), from, how, nigh_world(), NIGH_STATUS_IGNORE));
        OK(nigh_wait(&requests[0], NIGH_STATUS_IGNORE));
        OK(nigh_barrier(nigh_world()));
    }
}

static unsigned long number_of(const char *name, unsigned long standard)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : standard;
}

/* Stops and continues its parent, a rank, now and then: to its peers it looks stuck for a while. */
static pid_t start_tormentor(int rank)
{
    pid_t parent = getpid(), pid = fork();
    unsigned long seed = (unsigned long)rank + 99;

    if (pid)
        return pid;
    while (getppid() == parent) {
        kill(parent, SIGSTOP);
        ranks_nap(1 + (unsigned)(next(&seed) % 40));
        kill(parent, SIGCONT);
        ranks_nap(5 + (unsigned)(next(&seed) % 100));
    }
    _exit(0);
}

static void share_two_cpus(void)
{
    cpu_set_t cpus;
    int kept = 0;

    sched_getaffinity(0, sizeof(cpus), &cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus) && kept++ >= 2)
            CPU_CLR(cpu, &cpus);
    sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void never_wrongly(int rank, int size)
{
    unsigned long seed = number_of("NIGH_TEST_SEED", 12345), rounds = number_of("NIGH_TEST_ROUNDS", 1000);
    pid_t tormentor;

    share_two_cpus();
    tormentor = start_tormentor(rank);
    for (unsigned long i = 0; i < rounds; i++)
        exchange(rank, size, next(&seed));
    kill(tormentor, SIGKILL);
    kill(getpid(), SIGCONT);
    waitpid(tormentor, NULL, 0);
    OK(nigh_barrier(nigh_world()));
    CHECK(!strstr(ranks_said(), "deadlock"));
}

/* A look after 10 ms instead of 300, eight ranks on two CPUs, each of them stopped now and then. */
static void test_never_wrongly(void **state)
{
    (void)state;
    ranks_run(8, never_wrongly, &(struct ranks_how){.environment = "NIGH_STALL=0.01"});
}

static void large_ring(int rank, int size)
{
    unsigned long rounds = number_of("NIGH_TEST_ROUNDS", 300);

    for (unsigned long i = 0; i < rounds; i++)
        OK(nigh_sendrecv(out, sizeof(out), (rank + 1) % size, (int)i, in, sizeof(in),
                         (rank + size - 1) % size, (int)i, nigh_world(), NIGH_STATUS_IGNORE));
    CHECK(!strstr(ranks_said(), "deadlock"));
}

static void test_never_wrongly_at_once(void **state)
{
    (void)state;
    ranks_run(4, large_ring, &(struct ranks_how){.environment = "NIGH_STALL=0.0005"});
    ranks_run(4, never_wrongly, &(struct ranks_how){.environment = "NIGH_STALL=0.0005"});
}

/* ---- at rest
 * -------------------------------------------------------------------------------------------------------- */

static long switches(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    long count = -1;

    while (file && fgets(line, sizeof(line), file))
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    if (file)
        fclose(file);
    return count;
}

static void at_rest(int rank, int size)
{
    unsigned seconds = getenv("NIGH_TEST_FIGURES") ? 10 : 3;
    long before, after;
    int value = 1;

    (void)size;
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        ranks_nap(seconds * 1000);
        OK(nigh_send(&value, sizeof(value), 1, 1, nigh_world()));
        return;
    }
    before = switches();
    OK(nigh_recv(&value, sizeof(value), 0, 1, nigh_world(), NIGH_STATUS_IGNORE));
    after = switches();
    if (getenv("NIGH_TEST_FIGURES"))
        fprintf(stdout, "# blocked for %u s: %ld switches\n", seconds, after - before);
    CHECK(before >= 0 && after - before < 60);
}

static void test_at_rest(void **state)
{
    (void)state;
    ranks_run(2, at_rest, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soon),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_never_wrongly),
        cmocka_unit_test(test_never_wrongly_at_once),
        cmocka_unit_test(test_at_rest),
        cmocka_unit_test(test_scarce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
