/* SPDX-License-Identifier: BSD-3-Clause */
/* The service thread raises its flag when its descriptor is ready, rings the bell of a sleeper and only then,
 * sleeps until it is taken, and ends whatever it is doing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/service.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/others.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct nigh_service *service;
static struct nigh_bell bell;
static struct nigh_arena_state state;
static int source;

static int start(void **test)
{
    (void)test;
    osfail_install(); /* before the thread: it reads the table */
    state.asleep = NIGH_AWAKE;
    source = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(source >= 0);
    assert_int_equal(nigh_bell_create(4, &bell), 0);
    assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
    return 0;
}

static int stop(void **test)
{
    (void)test;
    nigh_service_stop(service);
    nigh_bell_close(&bell);
    close(source);
    osfail_remove();
    return 0;
}

static void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static uint32_t flag(void)
{
    return nigh_load_acquire(nigh_service_flag(service), FLAG_SEE);
}

static void make_ready(void)
{
    assert_int_equal(write(source, &(uint64_t){1}, 8), 8);
}

static void make_unready(void)
{
    uint64_t value;

    assert_int_equal(read(source, &value, 8), 8);
}

static void await_flag(void)
{
    for (unsigned i = 0; i < 60000 && !flag(); i++)
        pause_ms(1);
    assert_int_equal(flag(), 1);
}

/* The next call of poll() is the thread's, and it sleeps in it. */
static void await_polls(unsigned count)
{
    for (unsigned i = 0; i < 60000 && osfail_count(OSFAIL_poll) < count; i++)
        pause_ms(1);
    assert_int_equal(osfail_count(OSFAIL_poll), count);
}

static void flag_follows_the_descriptor(void **test)
{
    (void)test;
    pause_ms(20);
    assert_int_equal(flag(), 0);
    for (unsigned i = 1; i <= 50; i++) {
        make_ready();
        await_flag();
        make_unready();
        nigh_service_taken(service);
        await_polls(i + 1);
        assert_int_equal(flag(), 0);
    }
}

static void flag_rises_again_while_ready(void **test)
{
    (void)test;
    make_ready();
    for (unsigned i = 0; i < 10; i++) {
        await_flag();
        nigh_service_taken(service);
    }
    await_flag();
    make_unready();
    nigh_service_taken(service);
}

static void untaken_flag_costs_nothing(void **test)
{
    (void)test;
    make_ready();
    await_flag();
    for (unsigned i = 0; i < 60000 && !osfail_count(OSFAIL_futex); i++)
        pause_ms(1);
    pause_ms(50);
    assert_int_equal(osfail_count(OSFAIL_poll), 1);
    assert_int_equal(osfail_count(OSFAIL_futex), 1);
}

static void awake_owner_is_not_rung(void **test)
{
    uint32_t before = nigh_bell_read(&bell);

    (void)test;
    make_ready();
    await_flag();
    pause_ms(10);
    assert_int_equal(nigh_bell_read(&bell), before);
}

static void sleeper_on_the_bell_is_woken(void **test)
{
    (void)test;
    for (unsigned i = 0; i < 200; i++) {
        uint32_t seen = nigh_bell_read(&bell);

        nigh_store_relaxed(&state.asleep, NIGH_ASLEEP);
        nigh_bell_fence(nigh_bell_light());
        assert_int_equal(flag(), 0);
        make_ready();
        assert_int_equal(nigh_bell_sleep(&bell, seen, UINT64_C(60000000000)), 0);
        nigh_store_relaxed(&state.asleep, NIGH_AWAKE);
        assert_int_equal(flag(), 1);
        make_unready();
        nigh_service_taken(service);
        await_polls(i + 2);
    }
}

/* Which of the process' descriptors the thread has for its stop: sockets that came with it. */
static int sockets(int fds[2])
{
    struct stat stat;
    int count = 0;

    for (int fd = 3; fd < 256; fd++)
        if (fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode) && count++ < 2)
            fds[count - 1] = fd;
    return count;
}

enum { FIRST_END = 1, SECOND_END = 2, BOTH_ENDS = 3 };

/* The owner looks once, and what has these numbers by then is neither polled, nor written to, nor closed. */
static void close_ends(unsigned which, unsigned kind)
{
    unsigned polls = osfail_count(OSFAIL_poll);
    int fds[2];

    assert_int_equal(sockets(fds), 2);
    for (int i = 0; i < 2; i++)
        if (which & 1u << i)
            others_open(fds[i], kind);
    if (which == FIRST_END) /* nothing tells of it but the next look */
        make_ready();
    await_flag();
    nigh_service_taken(service);
    if (which != FIRST_END)
        make_ready();
    pause_ms(20);
    assert_int_equal(flag(), 0);
    assert_int_equal(osfail_count(OSFAIL_poll), polls);
    nigh_service_stop(service);
    service = NULL;
    assert_int_equal(others_touched(), -1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

/* A daemon closes all descriptors, or one of these alone. */
static void closed_descriptors_are_noticed(void **test)
{
    unsigned polls = 1;

    (void)test;
    await_polls(polls);
    for (unsigned which = FIRST_END; which <= BOTH_ENDS; which++)
        for (unsigned kind = 0; kind < OTHERS_KINDS; kind++) {
            close_ends(which, kind);
            make_unready();
            assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
            await_polls(++polls);
        }
}

/* A child that was forked before has the descriptors yet, so that none hangs up. */
static void stop_ends_it_beside_a_child(void **test)
{
    int fds[2], other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t child;

    (void)test;
    await_polls(1);
    assert_int_equal(sockets(fds), 2);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    for (int i = 0; i < 2; i++)
        assert_int_equal(dup3(other, fds[i], O_CLOEXEC), fds[i]);
    nigh_service_stop(service);
    service = NULL;
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(fds[i]), 0);
    close(other);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The owner has noticed that what is polled is not its own. */
static void a_blind_thread_polls_no_more(void **test)
{
    unsigned polls;

    (void)test;
    await_polls(1);
    make_ready();
    await_flag();
    nigh_service_taken(service);
    nigh_service_blind(service);
    polls = osfail_count(OSFAIL_poll);
    for (unsigned i = 0; i < 150; i++) {
        pause_ms(1);
        if (flag())
            nigh_service_taken(service);
    }
    /* It may have been about to look when it was told; one that sees looks whenever its flag is taken. */
    assert_in_range(osfail_count(OSFAIL_poll) - polls, 0, 1);
}

static void failing_poll_is_looked_into_once(void **test)
{
    (void)test;
    nigh_service_stop(service); /* the table is changed while no thread reads it */
    osfail_arm(OSFAIL_poll, 2, ENOMEM);
    assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
    make_ready();
    await_flag();
    make_unready();
    nigh_service_taken(service);
    await_flag(); /* for the failure */
    nigh_service_taken(service);
    await_polls(3);
    assert_int_equal(flag(), 0);
    make_ready();
    await_flag();
}

/* Reads `what` of the service thread from /proc; "" when there is no such thread. */
static void describe_thread(const char *what, char *out, size_t room)
{
    char path[64], name[32];
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    assert_non_null(tasks);
    out[0] = 0;
    while ((task = readdir(tasks))) {
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (!fgets(name, sizeof(name), file))
            name[0] = 0;
        fclose(file);
        if (strcmp(name, "nigh-service\n") != 0)
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%.16s/%s", task->d_name, what);
        file = fopen(path, "r");
        if (!file)
            continue;
        out[fread(out, 1, room - 1, file)] = 0;
        fclose(file);
    }
    closedir(tasks);
}

static void thread_has_a_name_and_no_signals(void **test)
{
    static char status[8192];
    uint64_t blocked = 0;
    const char *line;

    (void)test;
    await_polls(1);
    describe_thread("status", status, sizeof(status));
    line = strstr(status, "SigBlk:");
    assert_non_null(line);
    blocked = strtoull(line + 7, NULL, 16);
    /* All but SIGKILL, SIGSTOP and the two that the C library keeps for itself. */
    assert_int_equal(~blocked & UINT64_C(0x7fffffff), 1u << 8 | 1u << 18);
}

static void stop_ends_it_at_any_moment(void **test)
{
    static char status[8192];

    (void)test;
    for (unsigned i = 0; i < 300; i++) {
        if (i % 3)
            make_ready();
        if (i % 5 == 0)
            pause_ms(i % 2);
        if (i % 4 == 0)
            nigh_service_taken(service);
        nigh_service_stop(service);
        if (i % 3)
            make_unready();
        assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
    }
    nigh_service_stop(service);
    service = NULL;
    /* A thread that was joined stands in /proc until the kernel has taken it down. */
    describe_thread("status", status, sizeof(status));
    for (unsigned i = 0; status[0] && i < 10000; i++) {
        pause_ms(1);
        describe_thread("status", status, sizeof(status));
    }
    assert_string_equal(status, "");
}

static void failed_start_leaves_nothing(void **test)
{
    static const struct {
        enum osfail_call call;
        int error, told;
    } cases[] = {{OSFAIL_calloc, ENOMEM, ENOMEM},
                 {OSFAIL_socketpair, EMFILE, EMFILE},
                 {OSFAIL_pthread_create, EAGAIN, ENOMEM}};
    struct nigh_service *none = NULL;
    unsigned fds;

    (void)test;
    nigh_service_stop(service);
    service = NULL;
    fds = osfail_open_fds();
    for (unsigned i = 0; i < 3; i++) {
        osfail_arm(cases[i].call, 1, cases[i].error);
        logged_begin();
        assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &none), -cases[i].told);
        if (i > 0)
            logged_assert_has("cannot start the service thread");
        logged_end();
        assert_null(none);
        assert_int_equal(osfail_open_fds(), fds);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(flag_follows_the_descriptor),      CASE(flag_rises_again_while_ready),
        CASE(untaken_flag_costs_nothing),       CASE(awake_owner_is_not_rung),
        CASE(sleeper_on_the_bell_is_woken),     CASE(closed_descriptors_are_noticed),
        CASE(a_blind_thread_polls_no_more),     CASE(stop_ends_it_beside_a_child),
        CASE(failing_poll_is_looked_into_once), CASE(thread_has_a_name_and_no_signals),
        CASE(stop_ends_it_at_any_moment),       CASE(failed_start_leaves_nothing),
    };
    return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
