/* SPDX-License-Identifier: BSD-3-Clause */
/* The death of a rank with much memory is told before the kernel has given that memory back: to a rank that is blocked,
 * that polls, and that waits for its descriptor. So is exec, by which the process lives on. What is no death is told by
 * nobody: a process that is stopped, one that forks, one that closes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/hosted.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel gives back 4 KiB pages at some 25 GB/s: so many take it tens of milliseconds. */
#define MUCH (UINT64_C(768) << 20)
/* On a loaded machine this process may have no CPU for as long. One try that comes first is enough: by the pidfd none can. */
enum { TRIES = 6, TAG = 7, WAITED = 5 };

static struct hosted survivor;
static uint64_t job;
static uint32_t next_rank;

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool has_memory(void)
{
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) > 3 * MUCH;
}

/* ---- the one that dies -------------------------------------------------------------------------------------- */

static void touch_much(void)
{
    uint8_t *memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    (void)madvise(memory, MUCH, MADV_NOHUGEPAGE);
    for (uint64_t at = 0; at < MUCH; at += 4096)
        memory[at] = 1;
}

static void sleep_for_ever(struct hosted *me)
{
    (void)me;
    for (;;)
        pause();
}

static void begin_another(struct hosted *me)
{
    (void)me;
    execl("/bin/sh", "sh", "-c", "read nothing", (char *)NULL);
    _exit(1);
}

/* Its children have what it had when it forked, and live on when it dies. */
static void fork_and_sleep(struct hosted *me)
{
    char byte;

    if (fork() == 0)
        _exit(read(0, &byte, 1) == 0 ? 0 : 1); /* when the survivor closes the pipe */
    sleep_for_ever(me);
}

static void close_and_sleep(struct hosted *me)
{
    hosted_close(me);
    sleep_for_ever(me);
}

struct victim {
    uint32_t rank;
    pid_t pid;
    int pidfd, input;
    struct nigh_endpoint *to;
};

/* A process that has sent a message, upon which it does `then`. */
static void start(struct victim *victim, bool much, void (*then)(struct hosted *me))
{
    int input[2];
    uint64_t word = 0;

    victim->rank = 1 + next_rank++ % 7;
    victim->to = hosted_connect(&survivor, victim->rank);
    assert_int_equal(pipe(input), 0);
    fflush(NULL);
    victim->pid = fork();
    if (victim->pid == 0) {
        static struct hosted me;
        struct nigh_endpoint *to;

        alarm(100);
        dup2(input[0], 0);
        close(input[1]);
        if (much)
            touch_much();
        hosted_open(&me, job, victim->rank, 0);
        to = hosted_connect(&me, 0);
        hosted_send(to, 1, TAG, &word, sizeof(word), NIGH_SYNC);
        hosted_until(&me, NULL, NIGH_OP_SEND, 1);
        then(&me);
        _exit(0);
    }
    assert_true(victim->pid > 0);
    close(input[0]);
    victim->input = input[1];
    victim->pidfd = (int)syscall(SYS_pidfd_open, victim->pid, 0);
    assert_true(victim->pidfd >= 0);
    assert_int_equal(hosted_recv(&survivor, victim->to, 1, TAG, &word, sizeof(word), 0), 0);
    assert_int_equal(hosted_until(&survivor, NULL, NIGH_OP_RECV, 1)->status, 0);
    survivor.count = 0;
}

static bool has_ended(const struct victim *victim)
{
    struct pollfd end = {.fd = victim->pidfd, .events = POLLIN};

    return poll(&end, 1, 0) > 0;
}

static void finish(struct victim *victim)
{
    (void)kill(victim->pid, SIGKILL);
    assert_int_equal(waitpid(victim->pid, NULL, 0), victim->pid);
    close(victim->pidfd);
    close(victim->input);
    assert_int_equal(hosted_ops->disconnect(victim->to), 0);
    survivor.count = 0;
}

/* ---- the one that hears of it ------------------------------------------------------------------------------- */

static void by_wait(void)
{
    (void)hosted_ops->wait(survivor.context, UINT64_C(5000000000));
}

static void by_polling(void)
{
}

static void by_descriptor(void)
{
    struct pollfd ready = {.events = POLLIN};

    if (hosted_ops->wait_fd(survivor.context, &ready.fd) == 0)
        (void)poll(&ready, 1, 5000);
    assert_int_equal(hosted_ops->wait_fd(survivor.context, NULL), 0);
}

/* Until the receive that names it has ended. */
static void hear(void (*by)(void))
{
    uint64_t until = now_us() + 60000000;
    const struct nigh_completion *done;

    while (!(done = hosted_find(&survivor, NIGH_OP_RECV, WAITED))) {
        assert_true(now_us() < until);
        by();
        hosted_poll(&survivor);
    }
    assert_int_equal(done->status, -ECONNRESET);
}

/* Is a kill told before the process has ended? */
static bool is_told_first(void (*by)(void))
{
    struct victim victim;
    uint64_t word;
    bool first;

    start(&victim, true, sleep_for_ever);
    assert_int_equal(hosted_recv(&survivor, victim.to, WAITED, TAG, &word, sizeof(word), 0), 0);
    if (by != by_polling) /* asleep, and not on its way there */
        for (uint64_t until = now_us() + 20000; now_us() < until;)
            hosted_poll(&survivor);
    assert_int_equal(kill(victim.pid, SIGKILL), 0);
    hear(by);
    first = !has_ended(&victim);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_PEER_DEAD);
    finish(&victim);
    return first;
}

static void told_first(void (*by)(void))
{
    bool first = false;

    if (!has_memory()) {
        print_message("SKIP: less than %llu MiB of memory are free\n", (unsigned long long)(3 * MUCH >> 20));
        skip();
    }
    for (unsigned i = 0; i < TRIES && !first; i++)
        first = is_told_first(by);
    assert_true(first);
}

static void test_blocked(void **state)
{
    (void)state;
    told_first(by_wait);
}

static void test_polling(void **state)
{
    (void)state;
    told_first(by_polling);
}

static void test_for_descriptor(void **state)
{
    (void)state;
    told_first(by_descriptor);
}

/* ---- what is a death, and what is none ---------------------------------------------------------------------- */

static void test_exec(void **state)
{
    struct victim victim;
    uint64_t word;

    (void)state;
    start(&victim, false, begin_another);
    assert_int_equal(hosted_recv(&survivor, victim.to, WAITED, TAG, &word, sizeof(word), 0), 0);
    hear(by_wait);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_PEER_DEAD);
    assert_false(has_ended(&victim));
    finish(&victim);
}

static void test_with_a_child_that_lives(void **state)
{
    struct victim victim;
    uint64_t word;

    (void)state;
    start(&victim, false, fork_and_sleep);
    for (uint64_t until = now_us() + 50000; now_us() < until;)
        hosted_poll(&survivor);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_READY);
    assert_int_equal(hosted_recv(&survivor, victim.to, WAITED, TAG, &word, sizeof(word), 0), 0);
    assert_int_equal(kill(victim.pid, SIGKILL), 0);
    hear(by_wait);
    finish(&victim);
}

static void test_stopped_lives(void **state)
{
    struct victim victim;
    uint64_t word;

    (void)state;
    start(&victim, false, sleep_for_ever);
    assert_int_equal(hosted_recv(&survivor, victim.to, WAITED, TAG, &word, sizeof(word), 0), 0);
    assert_int_equal(kill(victim.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(victim.pid, NULL, WUNTRACED), victim.pid);
    for (uint64_t until = now_us() + 200000; now_us() < until;)
        hosted_poll(&survivor);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_READY);
    assert_int_equal(kill(victim.pid, SIGCONT), 0);
    for (uint64_t until = now_us() + 50000; now_us() < until;)
        hosted_poll(&survivor);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_READY);
    assert_null(hosted_find(&survivor, NIGH_OP_RECV, WAITED));
    assert_int_equal(kill(victim.pid, SIGKILL), 0);
    hear(by_wait);
    finish(&victim);
}

static void test_closing_is_no_death(void **state)
{
    struct victim victim;
    uint64_t word;

    (void)state;
    start(&victim, false, close_and_sleep);
    assert_int_equal(hosted_recv(&survivor, victim.to, WAITED, TAG, &word, sizeof(word), 0), 0);
    hear(by_wait);
    for (uint64_t until = now_us() + 50000; now_us() < until;)
        hosted_poll(&survivor);
    assert_int_equal(hosted_state(&survivor, victim.to), NIGH_PEER_CLOSED);
    finish(&victim);
}

static int open_survivor(void **state)
{
    (void)state;
    alarm(300);
    job = hosted_job();
    hosted_quiet = true;
    hosted_open(&survivor, job, 0, NIGH_OPEN_WAIT_FD);
    return 0;
}

static int close_survivor(void **state)
{
    (void)state;
    assert_int_equal(hosted_stats(&survivor).rescues, 0);
    hosted_close(&survivor);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_polling),
        cmocka_unit_test(test_for_descriptor),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_with_a_child_that_lives),
        cmocka_unit_test(test_stopped_lives),
        cmocka_unit_test(test_closing_is_no_death),
    };

    return cmocka_run_group_tests(tests, open_survivor, close_survivor);
}
