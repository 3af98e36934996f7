/* SPDX-License-Identifier: BSD-3-Clause */
/* Right programs, one and more for each premise of a verdict (docs/diagnosis.md): in each some ranks look stuck for
 * longer than NIGH_STALL, and what frees them is something that a detector of deadlocks may not overlook. */
#include "tests/wrong/wrong.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG 900 /* ms: three looks */

static char data[1 << 20], room[1 << 20];
enum { BIG = sizeof(data), SHORT = 60000 };

static void must(int rc, int expected)
{
    if (rc != expected)
        wrong_told(rc ? rc : -EILSEQ);
}

static void send_to(int rank, int tag)
{
    must(nigh_send(data, 8, rank, tag, WORLD), 0);
}

static void receive_from(int rank, int tag)
{
    must(nigh_recv(room, 8, rank, tag, WORLD, NIGH_STATUS_IGNORE), 0);
}

/* ---- waits that end by the clock ---- */

/* A relay that starts when its first rank has waited long enough. */
static void wait_for_starts_it(int rank, int size)
{
    nigh_request request;

    if (rank == 0) {
        must(nigh_irecv(room, 8, size - 1, 1, WORLD, &request), 0);
        must(nigh_wait_for(&request, 1.0, NIGH_STATUS_IGNORE), -ETIMEDOUT);
        send_to(1, 1);
        must(nigh_wait(&request, NIGH_STATUS_IGNORE), 0);
    } else {
        receive_from(rank - 1, 1);
        send_to((rank + 1) % size, 1);
    }
}

/* A short one after the other: no line about each of them. */
static void wait_for_again_and_again(int rank, int size)
{
    double start = nigh_wtime();
    nigh_request request;

    (void)size;
    if (rank == 1) {
        receive_from(0, 1);
        send_to(0, 2);
        return;
    }
    must(nigh_irecv(room, 8, 1, 2, WORLD, &request), 0);
    while (nigh_wtime() - start < 1)
        must(nigh_wait_for(&request, 0.1, NIGH_STATUS_IGNORE), -ETIMEDOUT);
    send_to(1, 1);
    must(nigh_wait(&request, NIGH_STATUS_IGNORE), 0);
}

/* Of one in nigh_finalize nothing comes; who waits with an end gets what was promised, at its time. */
static void wait_for_one_that_leaves(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 1)
        return;
    must(nigh_irecv(room, 8, 1, 1, WORLD, &request), 0);
    must(nigh_wait_for(&request, 1.0, NIGH_STATUS_IGNORE), -ETIMEDOUT);
    must(nigh_cancel(&request), 0);
    must(nigh_wait(&request, NIGH_STATUS_IGNORE), -ECANCELED);
}

static struct nigh_comm *timed(double seconds)
{
    struct nigh_comm *copy = NULL;

    must(nigh_comm_dup(WORLD, &copy), 0);
    must(nigh_comm_set_timeout(copy, seconds), 0);
    return copy;
}

/* What rank 0 does takes a second at most; rank 1 waits for it without an end. */
static void timed_call(int rank, int (*call)(struct nigh_comm *comm))
{
    struct nigh_comm *comm = timed(rank == 0 ? 1.0 : 0.0);

    if (rank == 0) {
        must(call(comm), -ETIMEDOUT);
        send_to(1, 1);
    } else {
        receive_from(0, 1);
    }
    must(nigh_comm_free(&comm), 0);
}

static int receive_in(struct nigh_comm *comm)
{
    return nigh_recv(room, 8, 1, 1, comm, NIGH_STATUS_IGNORE);
}

static int receive_any_in(struct nigh_comm *comm)
{
    return nigh_recv(room, 8, NIGH_ANY_SOURCE, NIGH_ANY_TAG, comm, NIGH_STATUS_IGNORE);
}

static int probe_in(struct nigh_comm *comm)
{
    return nigh_probe(1, 1, comm, NIGH_STATUS_IGNORE);
}

static int barrier_in(struct nigh_comm *comm)
{
    return nigh_barrier(comm);
}

static int dup_in(struct nigh_comm *comm)
{
    struct nigh_comm *copy;

    return nigh_comm_dup(comm, &copy);
}

static int wait_in(struct nigh_comm *comm, int (*wait)(int count, nigh_request *requests))
{
    nigh_request requests[2];
    int rc;

    must(nigh_irecv(room, 8, 1, 1, comm, &requests[0]), 0);
    must(nigh_irecv(room + 8, 8, 1, 2, comm, &requests[1]), 0);
    rc = wait(2, requests);
    for (int i = 0; i < 2; i++) {
        must(nigh_cancel(&requests[i]), 0);
        must(nigh_wait(&requests[i], NIGH_STATUS_IGNORE), -ECANCELED);
    }
    return rc;
}

static int wait_all(int count, nigh_request *requests)
{
    return nigh_waitall(count, requests, NIGH_STATUSES_IGNORE);
}

static int wait_any(int count, nigh_request *requests)
{
    int index;

    return nigh_waitany(count, requests, &index, NIGH_STATUS_IGNORE);
}

static int waitall_in(struct nigh_comm *comm)
{
    return wait_in(comm, wait_all);
}

static int waitany_in(struct nigh_comm *comm)
{
    return wait_in(comm, wait_any);
}

#define TIMED(name)                              \
    static void timed_##name(int rank, int size) \
    {                                            \
        (void)size;                              \
        timed_call(rank, name##_in);             \
    }
TIMED(receive)
TIMED(receive_any)
TIMED(probe)
TIMED(barrier)
TIMED(dup)
TIMED(waitall)
TIMED(waitany)

/* ---- one of several may end it ---- */

static void any_with_a_way_out(int rank, bool some)
{
    nigh_request requests[2];
    int index[2], count;

    if (rank == 2) {
        wrong_nap(LONG);
        send_to(0, 2);
    } else if (rank == 1) {
        receive_from(0, 1);
        send_to(0, 1);
    } else {
        must(nigh_irecv(room, 8, 1, 1, WORLD, &requests[0]), 0);
        must(nigh_irecv(room + 8, 8, 2, 2, WORLD, &requests[1]), 0);
        must(some ? nigh_waitsome(2, requests, &count, index, NIGH_STATUSES_IGNORE)
                  : nigh_waitany(2, requests, index, NIGH_STATUS_IGNORE),
             0);
        send_to(1, 1);
        must(nigh_wait(&requests[0], NIGH_STATUS_IGNORE), 0);
    }
}

static void waitany_with_a_way_out(int rank, int size)
{
    (void)size;
    any_with_a_way_out(rank, false);
}

static void waitsome_with_a_way_out(int rank, int size)
{
    (void)size;
    any_with_a_way_out(rank, true);
}

/* ---- ranks that run, and have waited before ---- */

static void looks_now_and_then(int rank, bool probes)
{
    int flag = 0;
    nigh_request request;
    double start;

    if (rank == 1) {
        wrong_nap(400);
        send_to(0, 1);
        receive_from(0, 2);
        send_to(0, 3);
        return;
    }
    receive_from(1, 1);
    must(nigh_irecv(room, 8, 1, 3, WORLD, &request), 0);
    for (start = nigh_wtime(); nigh_wtime() - start < LONG / 1e3; wrong_nap(1))
        must(probes ? nigh_iprobe(1, 4, WORLD, &flag, NIGH_STATUS_IGNORE)
                    : nigh_test(&request, &flag, NIGH_STATUS_IGNORE),
             0);
    send_to(1, 2);
    must(nigh_wait(&request, NIGH_STATUS_IGNORE), 0);
}

static void tests_in_a_loop(int rank, int size)
{
    (void)size;
    looks_now_and_then(rank, false);
}

static void probes_in_a_loop(int rank, int size)
{
    (void)size;
    looks_now_and_then(rank, true);
}

static struct nigh_endpoint *reach(uint32_t rank)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *endpoint = NULL;

    must(nigh_plugin()->connect(nigh_plugin_context(), &to, &endpoint), 0);
    return endpoint;
}

static void await_posts(int count)
{
    struct nigh_completion done;

    while (count > 0)
        if (nigh_plugin_poll(&done, 1) == 1)
            count--;
        else
            (void)nigh_plugin()->wait(nigh_plugin_context(), 10000000);
}

/* Rank 1 waits in the plugin's table, for a message that is none of the library's. */
static void waits_in_the_plugin(int rank, int size)
{
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = room, .bytes = 8};
    struct nigh_send send = {.size = sizeof(send), .buffer = data, .bytes = 8};

    (void)size;
    if (rank == 0) {
        receive_from(1, 1);
        send_to(1, 1);
    } else if (rank == 1) {
        must(nigh_plugin()->post_recv(nigh_plugin_context(), reach(2), &recv), 0);
        receive_from(2, 2); /* its line has said that it is blocked */
        await_posts(1);
        send_to(0, 1);
        receive_from(0, 1);
    } else {
        wrong_nap(400);
        send_to(1, 2);
        wrong_nap(LONG);
        must(nigh_plugin()->post_send(reach(1), &send), 0);
        await_posts(1);
    }
}

/* ---- other threads, other processes, signals ---- */

static void *sends_later(void *unused)
{
    (void)unused;
    wrong_nap(LONG);
    send_to(1, 1);
    return NULL;
}

/* One thread of rank 0 waits, the other one computes and then sends. Rank 1 has one thread, and looks. */
static void another_thread_sends(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config), .threads = rank == 0};
    pthread_t thread;

    (void)size;
    must(nigh_init(&config), 0);
    if (rank == 0) {
        must(pthread_create(&thread, NULL, sends_later, NULL), 0);
        receive_from(1, 1);
        pthread_join(thread, NULL);
    } else {
        receive_from(0, 1);
        send_to(0, 1);
    }
    must(nigh_finalize(), 0);
}

static void nothing(int number)
{
    (void)number;
}

static void ring_often(void)
{
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval often = {{0, 2000}, {0, 2000}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* A handler that runs every 2 ms ends no wait before its time. */
static void under_a_timer(int rank, int size)
{
    double start = nigh_wtime();

    ring_often();
    wait_for_starts_it(rank, size);
    if (rank == 0) /* the other one may come late */
        must(nigh_wtime() - start < 1 ? -ETIME : 0, 0);
}

/* Rank 1 does not take what has been sent to it, as it is stopped: its line says what it said before. */
static void stopped_for_a_while(int rank, int size)
{
    pid_t pid = getpid();

    (void)size;
    if (rank == 1) {
        must(nigh_send(&pid, sizeof(pid), 0, 1, WORLD), 0);
        receive_from(0, 2);
        send_to(0, 3);
        return;
    }
    must(nigh_recv(&pid, sizeof(pid), 1, 1, WORLD, NIGH_STATUS_IGNORE), 0);
    wrong_nap(200);
    kill(pid, SIGSTOP);
    send_to(1, 2);
    if (fork() == 0) {
        wrong_nap(LONG);
        kill(pid, SIGCONT);
        _exit(0);
    }
    receive_from(1, 3);
    wait(NULL);
}

/* A child of a rank is none: what it waits for, and that it ends, says nothing of its parent. */
static void a_child_that_sleeps(int rank, int size)
{
    pid_t pid = fork();

    (void)size;
    if (pid == 0) {
        wrong_nap(LONG);
        _exit(0);
    }
    if (rank == 0)
        receive_from(1, 1);
    waitpid(pid, NULL, 0);
    if (rank == 1)
        send_to(0, 1);
}

/* ---- what is on its way ---- */

/* Ranks that compute hold all the memory that rank 0 has for messages: its message for rank 1 waits for them. */
static void short_of_chunks(int rank, int size)
{
    nigh_request requests[WRONG_RANKS];

    /* A message to a rank that is not met yet would be a reason of its own. */
    for (int other = 1; rank == 0 && other < size; other++) {
        send_to(other, 2);
        receive_from(other, 3);
    }
    if (rank != 0) {
        receive_from(0, 2);
        send_to(0, 3);
    }
    if (rank == 0) {
        for (int to = 2; to < size; to++)
            must(nigh_isend(data, SHORT, to, 1, WORLD, &requests[to]), 0);
        must(nigh_send(data, BIG, 1, 1, WORLD), 0);
        must(nigh_waitall(size - 2, requests + 2, NIGH_STATUSES_IGNORE), 0);
    } else if (rank == 1) {
        must(nigh_recv(room, BIG, 0, 1, WORLD, NIGH_STATUS_IGNORE), 0);
    } else {
        wrong_nap(LONG);
        must(nigh_recv(room, BIG, 0, 1, WORLD, NIGH_STATUS_IGNORE), 0);
    }
}

/* Puts and gets need their target, which waits for the rank that waits for them. */
static void flush_at_one_that_waits(int rank, int size)
{
    struct nigh_win *window;

    (void)size;
    must(nigh_win_create(room, BIG, WORLD, &window), 0);
    for (int i = 0; rank == 0 && i < 100; i++) {
        must(nigh_put(data, BIG, 1, 0, window), 0);
        must(nigh_win_flush(1, window), 0);
        must(nigh_get(data, BIG, 1, 0, window), 0);
        must(nigh_win_flush(NIGH_ANY_SOURCE, window), 0);
    }
    if (rank == 0)
        send_to(1, 1);
    else
        must(nigh_recv(data, 8, 0, 1, WORLD, NIGH_STATUS_IGNORE), 0);
    must(nigh_win_free(&window), 0);
}

/* What was sent before it is received while its sender is in nigh_finalize. */
static void sent_before_nigh_finalize(int rank, int size)
{
    nigh_request request;

    (void)size;
    for (int i = 0; i < 8; i++) {
        if (rank == 1) {
            must(nigh_isend(data, i % 2 ? BIG : 8, 0, i, WORLD, &request), 0);
            must(nigh_request_free(&request), 0);
        } else {
            wrong_nap(i % 3 ? 0 : 100);
            must(nigh_recv(room, BIG, 1, i, WORLD, NIGH_STATUS_IGNORE), 0);
        }
    }
}

/* Rank 0 waits for one that has left, and joins again. */
static void joined_again(int rank, int size)
{
    (void)size;
    for (int life = 0; life < 2; life++) {
        must(nigh_init(NULL), 0);
        if (rank == 1)
            send_to(0, life);
        else
            receive_from(1, life);
        must(nigh_finalize(), 0);
        wrong_nap(rank == 1 ? LONG : 0);
    }
}

#define LATE(what)             \
    {                          \
        "timed out.*" what, "" \
    }

/* Rank 0 sends when its collective is done, in which the others are, too, while they receive. */
static void a_receive_beside_a_request(int rank, int size)
{
    static int in[100000], out[100000];
    nigh_request request;

    for (int round = 0; round < 20; round++) {
        must(nigh_iallreduce(in, out, 100000, NIGH_I32, NIGH_SUM, WORLD, &request), 0);
        if (rank == 0)
            must(nigh_wait(&request, NIGH_STATUS_IGNORE), 0);
        for (int to = 1; rank == 0 && to < size; to++)
            send_to(to, 1);
        if (rank == 0)
            continue;
        receive_from(0, 1);
        must(nigh_wait(&request, NIGH_STATUS_IGNORE), 0);
    }
}

const struct wrong wrong_premises[] = {
    {"right: wait-for-starts-it", 2, wait_for_starts_it, {""}, NULL, 0},
    {"right: wait-for-starts-it, of four", 4, wait_for_starts_it, {""}, "NIGH_STALL=0.01", 0},
    {"right: wait-for-again-and-again", 2, wait_for_again_and_again, {""}, "NIGH_STALL=0.01", 0},
    {"right: wait-for-one-that-leaves", 2, wait_for_one_that_leaves, {""}, NULL, 0},
    {"right: timed-receive", 2, timed_receive, LATE("rank 1 waits in nigh_recv from rank 0"), NULL, 0},
    {"right: timed-receive-from-anyone", 2, timed_receive_any, LATE("from any rank"), NULL, 0},
    {"right: timed-probe", 2, timed_probe, LATE("no message from rank 1.*; rank 1 waits in nigh_recv"), NULL,
     0},
    {"right: timed-barrier", 2, timed_barrier, LATE("rank 1 has not come; rank 1 waits in nigh_recv"), NULL,
     0},
    {"right: timed-dup", 2, timed_dup, LATE("rank 1 has not come; rank 1 waits in nigh_recv"), NULL, 0},
    {"right: timed-waitall", 2, timed_waitall, LATE("2 of 2 requests.*; rank 1 waits in nigh_recv"), NULL, 0},
    {"right: timed-waitany", 2, timed_waitany, LATE("2 of 2 requests.*; rank 1 waits in nigh_recv"), NULL, 0},
    {"right: waitany-with-a-way-out", 3, waitany_with_a_way_out, {""}, NULL, 0},
    {"right: waitsome-with-a-way-out", 3, waitsome_with_a_way_out, {""}, NULL, 0},
    {"right: tests-in-a-loop", 2, tests_in_a_loop, {""}, NULL, 0},
    {"right: probes-in-a-loop", 2, probes_in_a_loop, {""}, NULL, 0},
    {"right: waits-in-the-plugin", 3, waits_in_the_plugin, {""}, NULL, 0},
    {"right: another-thread-sends", 2, another_thread_sends, {""}, NULL, WRONG_LOOSE},
    {"right: waitany-with-a-way-out, progress", 3, waitany_with_a_way_out, {""}, "NIGH_PROGRESS=thread", 0},
    {"right: under-a-timer", 2, under_a_timer, {""}, NULL, 0},
    {"right: stopped-for-a-while", 2, stopped_for_a_while, {""}, NULL, 0},
    {"right: a-child-that-sleeps", 2, a_child_that_sleeps, {""}, NULL, 0},
    {"right: short-of-chunks", 8, short_of_chunks, {""}, "NIGH_POOL=262144 NIGH_PATH=chunked", 0},
    {"right: flush-at-one-that-waits", 2, flush_at_one_that_waits, {""}, "NIGH_STALL=0.001", 0},
    {"right: sent-before-nigh-finalize", 2, sent_before_nigh_finalize, {""}, "NIGH_STALL=0.001", 0},
    {"right: a-receive-beside-a-request", 4, a_receive_beside_a_request, {""}, "NIGH_STALL=0.0001", 0},
    {"right: joined-again", 2, joined_again, {""}, NULL, WRONG_LOOSE},
    {0},
};
