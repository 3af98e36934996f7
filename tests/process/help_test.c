/* SPDX-License-Identifier: BSD-3-Clause */
/* Sender and receiver of a message that both copy are processes: the sender is killed, or stopped, in the middle of a
 * slice; and both take slices as fast as they can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "tests/support/cpus.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 20, ROUNDS = 60 };

static struct nigh_os saved;
static pid_t child;
static int sent; /* in the first slice that the sender writes: this signal, to itself */
static unsigned writes;
static cpu_set_t allowed;
static uint8_t out[2][BYTES], in[2][BYTES];

static ssize_t signalling_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                                 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    if (sent && writes++ == 0)
        raise(sent);
    return saved.process_vm_writev(pid, local, locals, remote, remotes, flags);
}

/* Both use one CPU, so they are a crowd. */
static int crowd(void **state)
{
    (void)state;
    return cpus_one(&allowed);
}

static int spread(void **state)
{
    (void)state;
    return cpus_all(&allowed);
}

static uint64_t size_of(unsigned round, unsigned message)
{
    return (512 << 10) + (round * 7919u + message * 104729u) * 4099u % (BYTES - (512 << 10));
}

static void fill(unsigned round)
{
    for (unsigned m = 0; m < 2; m++)
        for (unsigned i = 0; i < BYTES; i += 8)
            out[m][i] = (uint8_t)(i / 8 + round * 3 + m);
}

/* As if it had a CPU of its own: one that runs on its receiver's is not asked. */
static int another_cpu(void)
{
    return saved.sched_getcpu() + 1000;
}

static void send_two(struct hosted *me, struct nigh_endpoint *to, unsigned round)
{
    fill(round);
    me->count = 0;
    for (unsigned m = 0; m < 2; m++)
        hosted_send(to, m, m, out[m], sent ? BYTES : size_of(round, m), 0);
    hosted_send(to, 8, 8, NULL, 0, NIGH_SILENT);
    while (!hosted_find(me, NIGH_OP_SEND, 0) || !hosted_find(me, NIGH_OP_SEND, 1)) {
        hosted_poll(me);
        sched_yield();
    }
}

static void play_sender(uint64_t job, unsigned rounds)
{
    static struct hosted me;
    struct nigh_endpoint *to;

    alarm(300);
    nigh_os.sched_getcpu = another_cpu;
    hosted_open(&me, job, 1, 0);
    to = hosted_connect(&me, 0);
    hosted_recv(&me, to, 9, 9, NULL, 0, 0);
    hosted_until(&me, NULL, NIGH_OP_RECV, 9);
    for (unsigned i = 0; i < rounds; i++)
        send_two(&me, to, i);
    hosted_close(&me);
    _exit(0);
}

static void receive_two(struct hosted *me, struct nigh_endpoint *from)
{
    hosted_recv(me, from, 0, 0, in[0], BYTES, 0);
    hosted_recv(me, from, 1, 1, in[1], BYTES, 0);
}

/* The receiver, when the sender may begin. */
static struct nigh_endpoint *begin(struct hosted *me, unsigned rounds, int signal)
{
    uint64_t job = hosted_job();
    struct nigh_endpoint *from;

    alarm(300);
    writes = 0;
    saved = nigh_os;
    nigh_os.process_vm_writev = signalling_writev;
    sent = signal;
    fflush(NULL);
    child = fork();
    if (child == 0)
        play_sender(job, rounds);
    hosted_open(me, job, 0, 0);
    from = hosted_connect(me, 1);
    /* What is posted before is in the peer's ring before the peer is told that we may read it, and what it is not told it
     * sends as copies, which nobody can help with. */
    while (hosted_state(me, from) != NIGH_READY)
        hosted_poll(me);
    hosted_send(from, 9, 9, NULL, 0, NIGH_SILENT);
    return from;
}

/* Both messages are there, half a MiB of the first is copied, and the sender is asked to help with the
 * second. It does, and gets its signal. */
static struct nigh_endpoint *begin_with(struct hosted *me, int signal)
{
    struct nigh_endpoint *from = begin(me, 1, signal);
    siginfo_t what;

    hosted_recv(me, from, 8, 8, NULL, 0, 0);
    hosted_until(me, NULL, NIGH_OP_RECV, 8);
    receive_two(me, from);
    hosted_poll(me);
    assert_int_equal(waitid(P_PID, (id_t)child, &what, WEXITED | WSTOPPED | WNOWAIT), 0);
    assert_int_equal(what.si_status, signal);
    return from;
}

static void end(struct hosted *me)
{
    hosted_close(me);
    nigh_os = saved;
}

static void check(unsigned round)
{
    fill(round);
    for (unsigned m = 0; m < 2; m++)
        assert_memory_equal(in[m], out[m], sent ? BYTES : size_of(round, m));
}

/* Its receive ends with -ECONNRESET, as that of any message whose sender is killed in the middle. */
static void test_killed(void **state)
{
    static struct hosted me;
    int status;

    (void)state;
    begin_with(&me, SIGKILL);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    hosted_until(&me, NULL, NIGH_OP_RECV, 0);
    end(&me);
}

/* Until it goes on its slice is not whole; all else is, and its peer is no worse off. */
static void test_stopped(void **state)
{
    static struct hosted me;
    struct nigh_endpoint *from;
    int status;

    (void)state;
    from = begin_with(&me, SIGSTOP);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    for (unsigned i = 0; i < 5000; i++)
        hosted_poll(&me);
    assert_null(hosted_find(&me, NIGH_OP_RECV, 1));
    assert_int_equal(hosted_state(&me, from), NIGH_READY);
    /* It costs nobody a CPU meanwhile. */
    me.count = 0;
    while (hosted_stats(&me).sleeps == 0) /* on a busy machine the time may be over before */
        assert_int_equal(hosted_ops->wait(me.context, 30000000), -ETIMEDOUT);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status, 0);
    check(0);
    while (waitpid(child, &status, WNOHANG) == 0)
        hosted_poll(&me);
    assert_int_equal(status, 0);
    end(&me);
}

static void is_not_written(void)
{
    for (unsigned i = 0; i < BYTES; i++)
        assert_int_equal(in[1][i], 0x77);
}

/* Cancelled while the sender is stopped in a slice: the buffer is the host's when it has gone on, and not before. */
static void test_stopped_and_cancelled(void **state)
{
    static struct hosted me;
    int status;

    (void)state;
    begin_with(&me, SIGSTOP);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_int_equal(hosted_ops->cancel(me.context, 1), 0);
    for (unsigned i = 0; i < 5000; i++)
        hosted_poll(&me);
    assert_null(hosted_find(&me, NIGH_OP_RECV, 1));
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    memset(in[1], 0x77, BYTES);
    while (waitpid(child, &status, WNOHANG) == 0) /* its sends complete */
        hosted_poll(&me);
    assert_int_equal(status, 0);
    is_not_written();
    end(&me);
}

static void test_stopped_cancelled_and_killed(void **state)
{
    static struct hosted me;

    (void)state;
    begin_with(&me, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    assert_int_equal(hosted_ops->cancel(me.context, 1), 0);
    for (unsigned i = 0; i < 100; i++)
        hosted_poll(&me);
    assert_null(hosted_find(&me, NIGH_OP_RECV, 1));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status, -ECANCELED);
    assert_int_equal(waitpid(child, NULL, 0), child);
    end(&me);
}

/* A stopped one that is killed then. */
static void test_stopped_and_killed(void **state)
{
    static struct hosted me;

    (void)state;
    begin_with(&me, SIGSTOP);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 0)->status, 0);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    for (unsigned i = 0; i < 100; i++)
        hosted_poll(&me);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(hosted_until(&me, NULL, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    assert_int_equal(waitpid(child, NULL, 0), child);
    end(&me);
}

/* Where there are fewer than 8 CPUs the two, of 8 ranks, are a crowd without being bound to one. */
static void test_race(void **state)
{
    static struct hosted me;
    struct nigh_endpoint *from = begin(&me, ROUNDS, 0);
    int status;

    (void)state;
    receive_two(&me, from);
    for (unsigned round = 0; round < ROUNDS; round++) {
        while (!hosted_find(&me, NIGH_OP_RECV, 0) || !hosted_find(&me, NIGH_OP_RECV, 1)) {
            hosted_poll(&me);
            sched_yield();
        }
        for (unsigned m = 0; m < 2; m++) {
            assert_int_equal(hosted_find(&me, NIGH_OP_RECV, m)->status, 0);
            assert_int_equal(hosted_find(&me, NIGH_OP_RECV, m)->bytes, size_of(round, m));
        }
        check(round);
        me.count = 0;
        if (round + 1 < ROUNDS)
            receive_two(&me, from);
    }
    while (waitpid(child, &status, WNOHANG) == 0)
        hosted_poll(&me);
    assert_int_equal(status, 0);
    end(&me);
}

/* Whether a process may read and write its child, and a child its parent: the yama module and sandboxes say no. */
static bool is_allowed(void)
{
    static uint64_t word = 5;
    uint64_t seen = 0;
    struct iovec here = {&seen, sizeof(seen)}, there = {&word, sizeof(word)};
    pid_t parent = getpid();
    int status;

    child = fork();
    if (child == 0)
        _exit(process_vm_readv(parent, &here, 1, &there, 1, 0) != sizeof(seen) ||
              process_vm_writev(parent, &here, 1, &there, 1, 0) != sizeof(seen));
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed, crowd, spread),
        cmocka_unit_test_setup_teardown(test_stopped, crowd, spread),
        cmocka_unit_test_setup_teardown(test_stopped_and_cancelled, crowd, spread),
        cmocka_unit_test_setup_teardown(test_stopped_cancelled_and_killed, crowd, spread),
        cmocka_unit_test_setup_teardown(test_stopped_and_killed, crowd, spread),
        cmocka_unit_test_setup_teardown(test_race, crowd, spread),
        cmocka_unit_test(test_race),
    };

    if (!is_allowed()) {
        printf("SKIP: a process may not read its parent's memory here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
