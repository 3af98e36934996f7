/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the receivers of one copy is killed, whenever that is: the others get all of it, round by round, and so does
 * who comes in its place. And the sender is killed: what comes whole is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the shorter ones a send is complete when it is posted. */
enum { BYTES = 1 << 20, SHORTER = 40000, PEERS = 2, DEATHS = 40, ROUNDS = 6 };

static cpu_set_t allowed;
static uint64_t out[BYTES / 8], in[BYTES / 8];
static unsigned bytes = BYTES;

/* All use one CPU, so they are a crowd. */
static int crowd(void **state)
{
    (void)state;
    alarm(300);
    return cpus_one(&allowed);
}

static int crowd_of_shorter(void **state)
{
    bytes = SHORTER;
    return crowd(state);
}

static int spread(void **state)
{
    (void)state;
    bytes = BYTES;
    return cpus_all(&allowed);
}

static void fill(uint64_t round)
{
    for (unsigned i = 0; i < bytes / 8; i++)
        out[i] = round * BYTES + i;
}

static bool is_whole(void)
{
    for (unsigned i = 1; i < bytes / 8; i++)
        if (in[i] != in[0] + i)
            return false;
    return in[0] % BYTES == 0;
}

static void wait_for(struct hosted *me, uint16_t op, uint64_t context)
{
    while (!hosted_find(me, op, context)) {
        hosted_poll(me);
        sched_yield();
    }
}

/* Takes what comes, and answers, until the sender goes, or it is killed. */
static void play_receiver(uint64_t job, uint32_t rank)
{
    static struct hosted me;
    struct nigh_endpoint *from;

    alarm(300);
    hosted_open(&me, job, rank, 0);
    from = hosted_connect(&me, 0);
    for (;;) {
        me.count = 0;
        if (hosted_recv(&me, from, 1, 1, in, bytes, 0))
            break;
        wait_for(&me, NIGH_OP_RECV, 1);
        if (me.done[0].status)
            break;
        if (!is_whole())
            _exit(2);
        (void)hosted_send(from, 2, 2, NULL, 0, NIGH_SILENT);
    }
    hosted_close(&me);
    _exit(0);
}

static pid_t start_receiver(uint64_t job, uint32_t rank)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        play_receiver(job, rank);
    return pid;
}

static void ended(pid_t pid, int killed_by)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (killed_by && WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), killed_by);
    else
        assert_int_equal(status, 0);
}

/* To all that are there; says which of them have it. */
static void broadcast(struct hosted *me, struct nigh_endpoint **to, uint64_t round, bool *has)
{
    me->count = 0;
    fill(round);
    for (unsigned p = 0; p < PEERS; p++) {
        has[p] = hosted_recv(me, to[p], 10 + p, 2, NULL, 0, 0) == 0 &&
                 hosted_send(to[p], p, 1, out, bytes, 0) == 0;
    }
    for (unsigned p = 0; p < PEERS; p++) {
        if (!has[p])
            continue;
        wait_for(me, NIGH_OP_SEND, p);
        wait_for(me, NIGH_OP_RECV, 10 + p);
        has[p] = !hosted_find(me, NIGH_OP_RECV, 10 + p)->status;
    }
}

static void receiver_killed(void **state)
{
    static struct hosted me;
    uint64_t round = 0;

    (void)state;
    for (unsigned death = 0; death < DEATHS; death++) {
        uint64_t job = hosted_job();
        struct nigh_endpoint *to[PEERS];
        pid_t child[PEERS], killer;
        bool has[PEERS];

        for (unsigned p = 0; p < PEERS; p++)
            child[p] = start_receiver(job, p + 1);
        hosted_open(&me, job, 0, 0);
        for (unsigned p = 0; p < PEERS; p++)
            to[p] = hosted_connect(&me, p + 1);
        for (unsigned i = 0; i < 3; i++) {
            broadcast(&me, to, ++round, has);
            assert_true(has[0] && has[1]);
        }
        assert_true(hosted_stats(&me).heap_sent >= 2);
        killer = fork();
        if (killer == 0) {
            usleep(death * 50);
            _exit(kill(child[1], SIGKILL));
        }
        for (unsigned i = 0; i < ROUNDS || has[1]; i++) {
            broadcast(&me, to, ++round, has);
            assert_true(has[0]);
        }
        ended(killer, 0);
        ended(child[1], SIGKILL);
        hosted_close(&me);
        ended(child[0], 0);
    }
}

static void play_sender(uint64_t job)
{
    static struct hosted me;
    struct nigh_endpoint *to[PEERS];
    bool has[PEERS];

    alarm(300);
    hosted_open(&me, job, 0, 0);
    for (unsigned p = 0; p < PEERS; p++)
        to[p] = hosted_connect(&me, p + 1);
    for (uint64_t round = 0;; round++)
        broadcast(&me, to, round, has);
}

static void sender_killed(void **state)
{
    (void)state;
    for (unsigned death = 0; death < DEATHS; death++) {
        uint64_t job = hosted_job();
        pid_t child[PEERS], sender;

        for (unsigned p = 0; p < PEERS; p++)
            child[p] = start_receiver(job, p + 1);
        sender = fork();
        if (sender == 0)
            play_sender(job);
        usleep(20000 + death * 100);
        assert_int_equal(kill(sender, SIGKILL), 0);
        ended(sender, SIGKILL);
        /* Who has not met it has nothing to wait for. */
        usleep(20000);
        for (unsigned p = 0; p < PEERS; p++) {
            kill(child[p], SIGTERM);
            ended(child[p], SIGTERM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(receiver_killed, crowd, spread),
        cmocka_unit_test_setup_teardown(sender_killed, crowd, spread),
        cmocka_unit_test_setup_teardown(receiver_killed, crowd_of_shorter, spread),
        cmocka_unit_test_setup_teardown(sender_killed, crowd_of_shorter, spread),
    };

    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
