/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptor of wait_fd(): a ring of the doorbell makes it readable while it is armed, by a thread of the owner's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/notifier.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/others.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static struct nigh_bell bell;
static struct nigh_notifier *notifier;

enum { SOON_MS = 50, LONG_MS = 60000 };

static int start(void **test)
{
    (void)test;
    osfail_install(); /* before the thread: it reads the table */
    assert_int_equal(nigh_bell_create(4, &bell), 0);
    assert_int_equal(nigh_notifier_start(&bell, &notifier), 0);
    return 0;
}

static int stop(void **test)
{
    (void)test;
    nigh_notifier_stop(notifier);
    nigh_bell_close(&bell);
    osfail_remove();
    return 0;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, timeout_ms) == 1;
}

static int arm(void)
{
    int fd = nigh_notifier_clear(notifier);

    assert_true(fd > STDERR_FILENO);
    assert_false(readable(fd, 0));
    nigh_notifier_arm(notifier, nigh_bell_read(&bell), UINT64_MAX);
    return fd;
}

static void each_arming_hears_a_ring(void **test)
{
    (void)test;
    for (unsigned i = 0; i < 500; i++) {
        int fd = arm();

        nigh_bell_ring(&bell, NIGH_ASLEEP);
        assert_true(readable(fd, LONG_MS));
    }
}

/* Also if it sleeps without a bound, for an earlier arming. */
static void a_bound_ends_the_sleep(void **test)
{
    int fd = arm();

    (void)test;
    usleep(20000);
    nigh_notifier_disarm(notifier);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(nigh_notifier_clear(notifier), fd);
        nigh_notifier_arm(notifier, nigh_bell_read(&bell), UINT64_C(10000000));
        assert_true(readable(fd, LONG_MS));
    }
    fd = arm();
    assert_false(readable(fd, SOON_MS));
}

/* The thread may not sleep yet: what the bell was is the owner's to say. */
static void a_ring_ahead_of_the_arming_is_heard(void **test)
{
    int fd = nigh_notifier_clear(notifier);
    uint32_t seen = nigh_bell_read(&bell);

    (void)test;
    nigh_bell_ring(&bell, NIGH_AWAKE);
    nigh_notifier_arm(notifier, seen, UINT64_MAX);
    assert_true(readable(fd, LONG_MS));
}

static void without_arms_it_stays_as_it_is(void **test)
{
    int fd = nigh_notifier_clear(notifier);

    (void)test;
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_false(readable(fd, SOON_MS));
    fd = arm();
    assert_false(readable(fd, SOON_MS));
    nigh_notifier_disarm(notifier);
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_false(readable(fd, SOON_MS));
    fd = arm();
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_true(readable(fd, LONG_MS));
}

static void one_arming_is_told_once(void **test)
{
    int fd = arm();

    (void)test;
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_true(readable(fd, LONG_MS));
    fd = nigh_notifier_clear(notifier);
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_false(readable(fd, SOON_MS));
}

/* A kernel or a sandbox that refuses futexes: the owner looks, and nothing spins. */
static void a_sleep_that_fails_wakes_the_owner(void **test)
{
    int fd;

    (void)test;
    nigh_notifier_stop(notifier);
    notifier = NULL;
    osfail_arm(OSFAIL_futex, 1, ENOSYS);
    assert_int_equal(nigh_notifier_start(&bell, &notifier), 0);
    for (unsigned i = 0; i < LONG_MS && !osfail_hit(); i++)
        poll(NULL, 0, 1);
    fd = arm();
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_true(readable(fd, LONG_MS));
}

/* Armed or not, rung or not; also where a hostile peer sets the bell back each time. */
static void stop_ends_it_at_any_moment(void **test)
{
    unsigned fds = osfail_open_fds();

    (void)test;
    for (unsigned i = 0; i < 200; i++) {
        if (i % 2)
            arm();
        if (i % 3)
            nigh_bell_ring(&bell, NIGH_ASLEEP);
        nigh_notifier_stop(notifier);
        notifier = NULL;
        assert_int_equal(osfail_open_fds(), fds - 2);
        assert_int_equal(nigh_notifier_start(&bell, &notifier), 0);
    }
}

/* The thread's, of the two that came with it. */
static int other_end(int own)
{
    struct stat stat;

    for (int fd = OTHERS_FIRST; fd <= OTHERS_LAST; fd++)
        if (fd != own && fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode))
            return fd;
    fail_msg("there is no second socket");
    return -1;
}

/* Its number is another file by then: nothing is read from it, nothing written to it, and it stays open. */
static void a_descriptor_that_the_program_closed_is_noticed(void **test)
{
    (void)test;
    for (unsigned kind = 0; kind < 2 * OTHERS_KINDS; kind++) {
        int fd = arm();

        others_open(kind % 2 ? other_end(fd) : fd, kind / 2);
        nigh_bell_ring(&bell, NIGH_ASLEEP);
        poll(NULL, 0, SOON_MS);
        logged_begin();
        assert_int_equal(nigh_notifier_clear(notifier), -EBADF);
        assert_int_equal(nigh_notifier_clear(notifier), -EBADF);
        logged_assert_has("closed the descriptor of wait_fd");
        assert_int_equal(logged_lines(), 1);
        logged_end();
        nigh_notifier_stop(notifier);
        assert_int_equal(others_touched(), -1);
        assert_int_equal(nigh_notifier_start(&bell, &notifier), 0);
    }
}

/* The host has closed its end alone. */
static void no_signal_comes_of_it(void **test)
{
    int fd = arm();

    (void)test;
    signal(SIGPIPE, SIG_DFL);
    close(fd);
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    poll(NULL, 0, SOON_MS);
}

static void failed_start_leaves_nothing(void **test)
{
    static const struct {
        enum osfail_call call;
        unsigned nth;
        int error, told;
    } cases[] = {{OSFAIL_calloc, 1, ENOMEM, ENOMEM},
                 {OSFAIL_socketpair, 1, EMFILE, EMFILE},
                 {OSFAIL_fstat, 1, ENOMEM, ENOMEM},
                 {OSFAIL_fstat, 2, ENOMEM, ENOMEM},
                 {OSFAIL_pthread_create, 1, EAGAIN, ENOMEM}};
    struct nigh_notifier *none = NULL;
    unsigned fds;

    (void)test;
    nigh_notifier_stop(notifier);
    notifier = NULL;
    fds = osfail_open_fds();
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        osfail_arm(cases[i].call, cases[i].nth, cases[i].error);
        logged_begin();
        assert_int_equal(nigh_notifier_start(&bell, &none), -cases[i].told);
        if (i > 0)
            logged_assert_has("cannot make the descriptor of wait_fd");
        logged_end();
        assert_null(none);
        assert_int_equal(osfail_open_fds(), fds);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_arming_hears_a_ring),
        CASE(a_bound_ends_the_sleep),
        CASE(a_ring_ahead_of_the_arming_is_heard),
        CASE(without_arms_it_stays_as_it_is),
        CASE(one_arming_is_told_once),
        CASE(a_sleep_that_fails_wakes_the_owner),
        CASE(stop_ends_it_at_any_moment),
        CASE(a_descriptor_that_the_program_closed_is_noticed),
        CASE(no_signal_comes_of_it),
        CASE(failed_start_leaves_nothing),
    };
    return cmocka_run_group_tests_name("notifier", tests, NULL, NULL);
}
