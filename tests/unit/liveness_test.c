/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel tells of the process at the other end: credentials, a descriptor of its end by each of the ways to
 * one, and the limit of descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/liveness.h"
#include "shm/name.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nigh_name name;
static struct nigh_listener listener;
static pid_t child;
static int to_child; /* accepted from it */
static unsigned fds_before;

static int begin(void **state)
{
    struct pollfd knock;
    int fd;

    (void)state;
    fds_before = osfail_open_fds();
    name = (struct nigh_name){.uid = geteuid(), .job = ((uint64_t)getpid() << 32) + 2, .rank = 0};
    assert_int_equal(nigh_name_listen(&name, &listener), 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (nigh_name_connect(&name, &fd) == 0)
            pause();
        _exit(1);
    }
    knock = (struct pollfd){.fd = listener.fd, .events = POLLIN};
    assert_int_equal(poll(&knock, 1, 60000), 1);
    to_child = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(to_child >= 0);
    return 0;
}

static void end_child(void)
{
    if (child > 0) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    child = 0;
}

static int end(void **state)
{
    (void)state;
    osfail_remove();
    end_child();
    close(to_child);
    nigh_name_close(&name, &listener);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static void credentials(void **state)
{
    struct nigh_credentials peer = {0};

    (void)state;
    assert_int_equal(nigh_liveness_credentials(to_child, &peer), 0);
    assert_int_equal(peer.pid, child);
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(nigh_liveness_credentials(listener.fd + 1000, &peer), -EACCES);
    assert_int_equal(peer.pid, child);
}

static void expect_end(int pidfd)
{
    struct pollfd look = {.fd = pidfd, .events = POLLIN};

    assert_int_equal(poll(&look, 1, 20), 0);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(poll(&look, 1, 20), 0); /* stopped is not dead */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(poll(&look, 1, 60000), 1);
    assert_int_equal(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
    close(pidfd);
}

static void end_is_told_by_the_sockets_process(void **state)
{
    int pidfd = -1;

    (void)state;
    osfail_arm(OSFAIL_pidfd_open, 1, ENOSYS);
    if (nigh_liveness_pidfd(to_child, child, &pidfd) == -ENOTSUP) {
        print_message("SO_PEERPIDFD needs Linux 6.5\n");
        skip();
    }
    assert_false(osfail_hit()); /* not by number */
    expect_end(pidfd);
}

static void end_is_told_by_number(void **state)
{
    int pidfd = -1;

    (void)state;
    osfail_arm(OSFAIL_getsockopt, 1, ENOPROTOOPT);
    assert_int_equal(nigh_liveness_pidfd(to_child, child, &pidfd), 0);
    assert_int_equal(osfail_count(OSFAIL_pidfd_open), 1);
    expect_end(pidfd);
}

static void ended_processes(void **state)
{
    static const int errors[] = {0, ENOPROTOOPT, EINVAL, ESRCH};
    int pidfd = -1;

    (void)state;
    for (unsigned reaped = 0; reaped < 2; reaped++) {
        if (reaped)
            end_child();
        else
            kill(child, SIGKILL);
        if (!reaped) /* dead, and a zombie until it is reaped */
            assert_int_equal(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
        for (unsigned i = 0; i < 4; i++) {
            if (errors[i])
                osfail_arm(OSFAIL_getsockopt, 1, errors[i]);
            assert_int_equal(nigh_liveness_pidfd(to_child, child ? child : 12345678, &pidfd), -ESRCH);
            osfail_remove();
        }
    }
    assert_int_equal(pidfd, -1);
}

/* The process has ended, a number was given again: to this process here. */
static void reused_number_is_noticed(void **state)
{
    int pidfd = -1;

    (void)state;
    end_child();
    osfail_arm(OSFAIL_getsockopt, 1, ENOPROTOOPT);
    assert_int_equal(nigh_liveness_pidfd(to_child, getpid(), &pidfd), -ESRCH);
    assert_int_equal(osfail_count(OSFAIL_pidfd_open), 1);
}

static int with_failure(int of_socket)
{
    int pidfd = -1, error;

    osfail_arm(OSFAIL_getsockopt, 1, of_socket);
    error = nigh_liveness_pidfd(to_child, child, &pidfd);
    osfail_remove();
    assert_int_equal(pidfd, -1);
    return error;
}

static void no_way_and_no_room(void **state)
{
    (void)state;
    assert_int_equal(with_failure(EMFILE), -EMFILE);
    assert_int_equal(with_failure(ENFILE), -EMFILE);
    assert_int_equal(with_failure(ENOMEM), -ENOMEM);
    assert_int_equal(with_failure(ESRCH), -ESRCH);
}

static int refused_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    (void)fd, (void)level, (void)option, (void)value, (void)bytes;
    errno = ENOPROTOOPT;
    return -1;
}

static void by_number_alone(void **state)
{
    static const struct {
        int error, result;
    } cases[] = {
        {EMFILE, -EMFILE}, {ENOMEM, -ENOMEM}, {ESRCH, -ESRCH}, {ENOSYS, -ENOTSUP}, {EPERM, -ENOTSUP}};
    int pidfd = -1;

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        osfail_arm(OSFAIL_pidfd_open, 1, cases[i].error);
        nigh_os.getsockopt = refused_getsockopt;
        assert_int_equal(nigh_liveness_pidfd(to_child, child, &pidfd), cases[i].result);
        osfail_remove();
    }
    osfail_install();
    nigh_os.getsockopt = refused_getsockopt;
    assert_int_equal(nigh_liveness_pidfd(to_child, 0, &pidfd), -ENOTSUP); /* a number that is not visible */
    assert_int_equal(osfail_count(OSFAIL_pidfd_open), 0);
    assert_int_equal(pidfd, -1);
}

/* poll() that waits for nothing is interrupted as well: three of four times where signals come each 100 us. */
static void signals_say_nothing(void **state)
{
    int pidfd = -1;

    (void)state;
    assert_int_equal(nigh_liveness_pidfd(to_child, child, &pidfd), 0);
    osfail_arm(OSFAIL_poll, 1, EINTR);
    assert_false(nigh_liveness_hung_up(to_child));
    assert_true(osfail_hit());
    osfail_arm(OSFAIL_poll, 1, EINTR);
    assert_false(nigh_liveness_ended(pidfd));
    end_child();
    osfail_arm(OSFAIL_poll, 1, EINTR);
    assert_true(nigh_liveness_ended(pidfd));
    osfail_arm(OSFAIL_poll, 1, EINTR);
    assert_true(nigh_liveness_hung_up(to_child));
    close(pidfd);
}

/* In a child with a low soft limit, because it is done once a process. */
static void limit_is_raised_once(void **state)
{
    for (unsigned refused = 0; refused < 2; refused++) {
        int status;
        pid_t other = fork();

        (void)state;
        if (other == 0) {
            struct rlimit limit;

            getrlimit(RLIMIT_NOFILE, &limit);
            limit.rlim_cur = 100;
            setrlimit(RLIMIT_NOFILE, &limit);
            if (refused)
                osfail_arm(OSFAIL_setrlimit, 1, EPERM);
            logged_begin();
            nigh_liveness_raise_limit();
            logged_assert_has(refused ? "stays at 100" : "raised the limit of open descriptors from 100 to ");
            nigh_liveness_raise_limit();
            assert_int_equal(logged_lines(), 1);
            getrlimit(RLIMIT_NOFILE, &limit);
            _exit((limit.rlim_cur == limit.rlim_max) == !refused ? 0 : 1);
        }
        assert_int_equal(waitpid(other, &status, 0), other);
        assert_int_equal(status, 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(credentials),
        CASE(end_is_told_by_the_sockets_process),
        CASE(end_is_told_by_number),
        CASE(ended_processes),
        CASE(reused_number_is_noticed),
        CASE(no_way_and_no_room),
        CASE(by_number_alone),
        CASE(signals_say_nothing),
        cmocka_unit_test(limit_is_raised_once),
    };
    return cmocka_run_group_tests_name("liveness", tests, NULL, NULL);
}
