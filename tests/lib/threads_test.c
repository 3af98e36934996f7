/* SPDX-License-Identifier: BSD-3-Clause */
/* Any thread at any time: threads that block beside each other, each woken by what is its own; and
 * progress without calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/lib/ranks.h"
#include "tests/support/cpus.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 500 };

static const struct ranks_how threads = {.threads = 1};

struct worker {
    pthread_t thread;
    int number, rank, size;
    struct nigh_comm *comm;
};

static void *exchange(void *data)
{
    struct worker *worker = data;
    int other = (worker->rank + 1) % worker->size, from = (worker->rank + worker->size - 1) % worker->size;

    for (int i = 0; i < ROUNDS; i++) {
        int out = worker->rank * 1000000 + worker->number * 10000 + i, in = -1;
        nigh_request request;

        if (i % 2) {
            OK(nigh_sendrecv(&out, sizeof(out), other, worker->number, &in, sizeof(in), from, worker->number,
                             nigh_world(), NULL));
        } else {
            OK(nigh_irecv(&in, sizeof(in), from, worker->number, nigh_world(), &request));
            OK(nigh_send(&out, sizeof(out), other, worker->number, nigh_world()));
            OK(nigh_wait(&request, NULL));
        }
        CHECK_INT(in, from * 1000000 + worker->number * 10000 + i);
        if (i % 50 == worker->number)
            ranks_nap(1);
    }
    return NULL;
}

static void run_workers(int rank, int size, void *(*work)(void *), struct nigh_comm **comms)
{
    struct worker workers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.number = i, .rank = rank, .size = size, .comm = comms ? comms[i] : NULL};
        CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(workers[i].thread, NULL), 0);
}

static void side_by_side(int rank, int size)
{
    run_workers(rank, size, exchange, NULL);
}

static void test_side_by_side(void **state)
{
    (void)state;
    ranks_run(2, side_by_side, &threads);
    ranks_run(3, side_by_side, &threads);
    ranks_run(2, side_by_side, &(struct ranks_how){.progress = 1});
}

/* Threads make communicators at the same time: no two get the same identifier. */
static void *make(void *data)
{
    struct worker *worker = data;

    for (int i = 0; i < 50; i++) {
        struct nigh_comm *comm;
        int out = worker->rank * 100 + worker->number, in = -1;
        int other = (worker->rank + 1) % worker->size,
            from = (worker->rank + worker->size - 1) % worker->size;

        OK(nigh_comm_dup(worker->comm, &comm));
        OK(nigh_sendrecv(&out, sizeof(out), other, 1, &in, sizeof(in), from, 1, comm, NULL));
        CHECK_INT(in, from * 100 + worker->number);
        OK(nigh_comm_free(&comm));
    }
    return NULL;
}

static void make_comms(int rank, int size)
{
    struct nigh_comm *comms[THREADS];

    for (int i = 0; i < THREADS; i++)
        OK(nigh_comm_dup(nigh_world(), &comms[i]));
    run_workers(rank, size, make, comms);
    for (int i = 0; i < THREADS; i++)
        OK(nigh_comm_free(&comms[i]));
}

/* All threads of all ranks on one CPU, where they run in the worst of orders. */
static void make_comms_in_turn(int rank, int size)
{
    cpu_set_t all;

    CHECK_INT(cpus_one(&all), 0);
    make_comms(rank, size);
}

static void test_make_comms(void **state)
{
    (void)state;
    ranks_run(2, make_comms, &threads);
    ranks_run(3, make_comms, &threads);
    ranks_run(2, make_comms_in_turn, &threads);
}

/* One thread sleeps in a receive while another one tests: the tester must not keep the sleeper's
 * completion to itself. */
static void *receive_late(void *data)
{
    struct worker *worker = data;
    int value = -1;

    OK(nigh_recv(&value, sizeof(value), 1 - worker->rank, 7, nigh_world(), NULL));
    CHECK_INT(value, 42);
    return NULL;
}

static void polled_away(int rank, int size)
{
    struct worker worker = {.rank = rank, .size = size};
    nigh_request never;
    int value, flag, answer = 42;

    CHECK_INT(pthread_create(&worker.thread, NULL, receive_late, &worker), 0);
    OK(nigh_irecv(&value, sizeof(value), 1 - rank, 8, nigh_world(), &never));
    for (double end = nigh_wtime() + 0.3; nigh_wtime() < end;) {
        OK(nigh_test(&never, &flag, NULL));
        CHECK_INT(flag, 0);
    }
    OK(nigh_send(&answer, sizeof(answer), 1 - rank, 7, nigh_world()));
    for (double end = nigh_wtime() + 0.3; nigh_wtime() < end;)
        OK(nigh_test(&never, &flag, NULL));
    CHECK_INT(pthread_join(worker.thread, NULL), 0);
    OK(nigh_cancel(&never));
    CHECK_INT(nigh_wait(&never, NULL), -ECANCELED);
}

static void test_polled_away(void **state)
{
    (void)state;
    ranks_run(2, polled_away, &threads);
}

/* A rank that makes no calls at all still receives, and still sends what does not fit any buffer. */
static void no_calls(int rank, int size)
{
    enum { BYTES = 8 << 20 };
    uint8_t *buffer = malloc(BYTES);
    nigh_request request;

    (void)size;
    ranks_fill(buffer, BYTES, 4);
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        OK(nigh_isend(buffer, BYTES, 1, 1, nigh_world(), &request));
        ranks_hear(0);
        OK(nigh_wait(&request, NULL));
    } else {
        memset(buffer, 0, BYTES);
        OK(nigh_recv(buffer, BYTES, 0, 1, nigh_world(), NULL));
        ranks_tell(0);
        CHECK(ranks_is_filled(buffer, BYTES, 4));
    }
    free(buffer);
}

static void test_progress(void **state)
{
    (void)state;
    ranks_run(2, no_calls, &(struct ranks_how){.progress = 1});
    ranks_run(2, no_calls, &(struct ranks_how){.environment = "NIGH_PROGRESS=thread"});
}

/* Left while the thread copies: it is done, or stops between two slices, and nobody writes to the buffer afterwards. */
static void left_while_it_copies(int rank, int size)
{
    enum { BYTES = 32 << 20 };
    uint8_t *buffer = malloc(BYTES);
    nigh_request request;
    void *memory;

    (void)size;
    OK(nigh_alloc_mem(BYTES, &memory));
    memset(memory, 1, BYTES);
    OK(nigh_barrier(nigh_world()));
    if (rank == 0)
        OK(nigh_isend(memory, BYTES, 1, 1, nigh_world(), &request));
    else
        OK(nigh_irecv(buffer, BYTES, 0, 1, nigh_world(), &request));
    CHECK_INT(nigh_finalize(), -EBUSY);
    memset(buffer, 0, BYTES);
    ranks_nap(5);
    for (unsigned i = 0; i < BYTES; i++)
        if (buffer[i])
            CHECK_INT(i, BYTES);
    free(buffer);
}

static void test_left_while_it_copies(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        ranks_run(2, left_while_it_copies, &(struct ranks_how){.progress = 1, .loose = true});
}

static int place[2]; /* of each rank's thread */

/* How many threads of this process may run on that CPU alone. */
static int bound_to(int cpu)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;

    CHECK(tasks != NULL);
    for (struct dirent *task = readdir(tasks); task; task = readdir(tasks)) {
        cpu_set_t cpus;

        if (sched_getaffinity(atoi(task->d_name), sizeof(cpus), &cpus) == 0 && task->d_name[0] != '.')
            found += CPU_COUNT(&cpus) == 1 && CPU_ISSET((size_t)cpu, &cpus);
    }
    closedir(tasks);
    return found;
}

/* Large messages both ways, posted close behind each other, of which each side computes for a moment: whoever finds
 * them, the thread or the call, they are right. */
static void in_between(int rank, int size)
{
    enum { ROUNDS = 300, BYTES = 1 << 20 };
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    int peer = 1 - rank;

    (void)size;
    while (bound_to(place[rank]) == 0) /* it binds itself */
        ranks_nap(1);
    CHECK_INT(bound_to(place[rank]), 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t bytes = (uint64_t)i * i * 7919 % BYTES + 1;
        nigh_request requests[2];
        struct nigh_status statuses[2];
        int done = 0;

        ranks_fill(out, bytes, i * 2 + (unsigned)rank);
        OK(nigh_irecv(in, BYTES, peer, (int)i, nigh_world(), &requests[0]));
        OK(nigh_isend(out, bytes, peer, (int)i, nigh_world(), &requests[1]));
        for (volatile unsigned x = 0; x < i * 100; x++)
            continue;
        if (i % 3 == 0)
            OK(nigh_testall(2, requests, &done, statuses));
        if (!done)
            OK(nigh_waitall(2, requests, statuses));
        CHECK(statuses[0].bytes == bytes && ranks_is_filled(in, bytes, i * 2 + (unsigned)peer));
    }
    free(out);
    free(in);
}

/* Out of the sender's heap: what the thread copies while its rank computes, slice by slice and past the cache, begins
 * and ends anywhere, and nothing around it is touched. */
static void from_the_heap(int rank, int size)
{
    static const uint64_t sizes[] = {524288, 524289, 1048575, 1048577, 3000001};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]), BYTES = 3000001, EDGE = 64 };
    uint8_t *in = malloc(BYTES + 2 * EDGE);
    void *out;

    (void)size;
    OK(nigh_alloc_mem(BYTES + EDGE, &out));
    for (unsigned i = 0; i < 4 * COUNT; i++) {
        uint64_t bytes = sizes[i % COUNT];
        uint8_t *at = in + EDGE / 2 + i * 7 % EDGE / 2;
        nigh_request request;

        if (rank == 0) {
            ranks_fill((uint8_t *)out + i, bytes, i);
            OK(nigh_send((uint8_t *)out + i, bytes, 1, 3, nigh_world()));
            continue;
        }
        memset(in, 0xa5, BYTES + 2 * EDGE);
        OK(nigh_irecv(at, bytes, 0, 3, nigh_world(), &request));
        if (i % 4)
            ranks_nap(i % 4);
        OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
        CHECK(ranks_is_filled(at, bytes, i));
        for (int edge = 1; edge <= EDGE / 4; edge++)
            CHECK(at[-edge] == 0xa5 && at[bytes + (unsigned)edge - 1] == 0xa5);
    }
    free(in);
    OK(nigh_free_mem(out));
}

static void test_from_the_heap(void **state)
{
    (void)state;
    ranks_run(2, from_the_heap, &(struct ranks_how){.progress = 1});
    ranks_run(2, from_the_heap, &(struct ranks_how){.threads = 1});
}

static void test_placed(void **state)
{
    char variable[64];
    cpu_set_t own;

    (void)state;
    if (sched_getaffinity(0, sizeof(own), &own) != 0 || CPU_COUNT(&own) < 2) {
        print_message("skipped: threads of two places take two CPUs\n");
        skip();
    }
    for (int rank = 0, cpu = 0; rank < 2; cpu++)
        if (CPU_ISSET((size_t)cpu, &own))
            place[rank++] = cpu;
    snprintf(variable, sizeof(variable), "NIGH_PROGRESS_CPUS=%d,%d", place[0], place[1]);
    ranks_run(2, in_between, &(struct ranks_how){.progress = 1, .environment = variable});
}

/* ---- threads that were not asked for ----------------------------------------------------------------------------- */

/* Calls beside the main thread, which waits in a receive. */
static void *call_beside(void *data)
{
    int value = 1, rank = -1, refused = nigh_comm_free(NULL);

    /* -EINVAL, and nothing else has happened, as long as it does not wait yet. */
    for (; refused == -EINVAL; refused = nigh_comm_free(NULL))
        ranks_nap(1);
    CHECK_INT(refused, -EPERM);
    CHECK_INT(nigh_send(&value, sizeof(value), 0, 7, nigh_world()), -EPERM);
    CHECK_TEXT("another thread of this rank is in nigh_recv at ");
    CHECK_TEXT("threads_test.c:");
    CHECK_TEXT("NIGH_THREADS=multiple");
    CHECK_INT(nigh_barrier(nigh_world()), -EPERM);
    CHECK_INT(nigh_finalize(), -EPERM);
    OK(nigh_comm_rank(nigh_world(), &rank));
    CHECK_INT(rank, *(int *)data);
    ranks_tell(0);
    return NULL;
}

static void *call_alone(void *data)
{
    OK(nigh_send(data, sizeof(int), 0, 8, nigh_world()));
    return NULL;
}

static void one_at_a_time(int rank, int size)
{
    pthread_t beside;
    int value = 0, last = size - 1;

    if (rank == last) {
        CHECK_INT(pthread_create(&beside, NULL, call_beside, &rank), 0);
        OK(nigh_recv(&value, sizeof(value), 0, 7, nigh_world(), NULL));
        CHECK_INT(pthread_join(beside, NULL), 0);
        /* Another thread, but not beside this one. */
        CHECK_INT(pthread_create(&beside, NULL, call_alone, &rank), 0);
        CHECK_INT(pthread_join(beside, NULL), 0);
    } else {
        ranks_hear(0);
        OK(nigh_send(&rank, sizeof(rank), last, 7, nigh_world()));
    }
    if (rank == 0)
        OK(nigh_recv(&value, sizeof(value), last, 8, nigh_world(), NULL));
    CHECK_INT(value, rank == 0 ? last : 0);
    OK(nigh_barrier(nigh_world()));
}

/* The other thread has not called yet. */
static void nobody_beside(int rank, int size)
{
    int value;

    (void)size;
    CHECK_INT(nigh_recv(&value, sizeof(value), rank, 7, nigh_world(), NULL), -EDEADLK);
    CHECK_TEXT("of another thread of this rank, NIGH_THREADS=multiple");
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    ranks_run(1, nobody_beside, NULL);
    ranks_run(2, one_at_a_time, NULL);
}

/* ---- small stacks ---- */

enum { STACK = 64 << 10, STACK_PROMISED = 32 << 10, SMALL_THREADS = 8, LONGEST = 2 << 20 };
#define PAINT 0xa5

/* Messages of each path, windows, collectives, and what goes wrong in words. */
static void *in_little_room(void *data)
{
    const struct worker *worker = data;
    int other = 1 - worker->rank;
    uint8_t *out = malloc(LONGEST), *in = malloc(LONGEST);

    CHECK(out && in);
    for (uint64_t bytes = 1; bytes <= LONGEST; bytes *= 8) {
        ranks_fill(out, bytes, (uint64_t)worker->number);
        OK(nigh_sendrecv(out, bytes, other, worker->number, in, bytes, other, worker->number, nigh_world(),
                         NULL));
        CHECK(ranks_is_filled(in, bytes, (uint64_t)worker->number));
    }
    OK(nigh_allreduce(out, in, 1000, NIGH_I32, NIGH_SUM, worker->comm));
    CHECK_INT(nigh_send(NULL, 1, other, 1, nigh_world()), -EFAULT);
    CHECK_INT(nigh_recv(in, 4, 7, 1, nigh_world(), NULL), -ERANGE);
    free(in);
    free(out);
    return NULL;
}

static size_t used_of(const uint8_t *stack)
{
    size_t untouched = 0;

    while (untouched < STACK && stack[untouched] == PAINT)
        untouched++;
    return STACK - untouched;
}

static void small_stacks(int rank, int size)
{
    static uint8_t stacks[SMALL_THREADS][STACK] __attribute__((aligned(4096)));
    struct worker workers[SMALL_THREADS];
    pthread_attr_t attributes;

    (void)size;
    memset(stacks, PAINT, sizeof(stacks));
    CHECK_INT(pthread_attr_init(&attributes), 0);
    for (int i = 0; i < SMALL_THREADS; i++) {
        workers[i] = (struct worker){.number = i, .rank = rank};
        OK(nigh_comm_dup(nigh_world(), &workers[i].comm));
    }
    for (int i = 0; i < SMALL_THREADS; i++) {
        CHECK_INT(pthread_attr_setstack(&attributes, stacks[i], STACK), 0);
        CHECK_INT(pthread_create(&workers[i].thread, &attributes, in_little_room, &workers[i]), 0);
    }
    for (int i = 0; i < SMALL_THREADS; i++) {
        CHECK_INT(pthread_join(workers[i].thread, NULL), 0);
        if (used_of(stacks[i]) > STACK_PROMISED)
            ranks_check_int(__FILE__, __LINE__, "bytes of stack", (long long)used_of(stacks[i]),
                            STACK_PROMISED);
        OK(nigh_comm_free(&workers[i].comm));
    }
}

static void test_small_stacks(void **state)
{
    (void)state;
    if (FAULT_SANITIZED) {
        print_message("sanitizers take stack of their own\n");
        skip();
    }
    ranks_run(2, small_stacks, &threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),  cmocka_unit_test(test_placed),
        cmocka_unit_test(test_make_comms),    cmocka_unit_test(test_polled_away),
        cmocka_unit_test(test_progress),      cmocka_unit_test(test_left_while_it_copies),
        cmocka_unit_test(test_from_the_heap), cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_small_stacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
