/* SPDX-License-Identifier: BSD-3-Clause */
/* The table calls the system, and every call in it can be made to fail the way that call fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void table_is_complete(void **state)
{
    void *const *members = (void *const *)(void *)&nigh_os;

    (void)state;
    assert_int_equal(sizeof(nigh_os), OSFAIL_CALLS * sizeof(void *));
    for (unsigned i = 0; i < OSFAIL_CALLS; i++) {
        if (!members[i])
            fail_msg("no function for %s", osfail_names[i]);
    }
}

static void memory_calls_reach_the_system(void **state)
{
    struct stat stat;
    int fd = nigh_os.memfd_create("os", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *at, read_back[4];

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(nigh_os.ftruncate(fd, 8192), 0);
    assert_int_equal(nigh_os.fallocate(fd, 0, 4096, 4096), 0);
    assert_int_equal(nigh_os.fstat(fd, &stat), 0);
    assert_int_equal(stat.st_size, 8192);
    assert_int_equal(stat.st_blocks, 8);
    at = nigh_os.mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    memcpy(at + 4096, "abc", 4);
    assert_int_equal(nigh_os.pread(fd, read_back, 4, 4096), 4);
    assert_string_equal(read_back, "abc");
    assert_int_equal(nigh_os.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(nigh_os.ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(nigh_os.munmap(at, 8192), 0);
    assert_int_equal(nigh_os.close(fd), 0);
}

static void raw_calls_reach_the_system(void **state)
{
    uint32_t word = 7;
    struct timespec soon = {.tv_nsec = 1000000};
    int fd;

    (void)state;
    assert_int_equal(nigh_os.futex(&word, FUTEX_WAIT, 8, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(nigh_os.futex(&word, FUTEX_WAIT, 7, &soon), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(nigh_os.futex(&word, FUTEX_WAKE, 1, NULL), 0);
    assert_int_equal(nigh_os.membarrier(-1, 0), -1);
    fd = nigh_os.pidfd_open(getpid(), 0);
    assert_true(fd >= 0);
    nigh_os.close(fd);
    assert_int_equal(nigh_os.pidfd_open(-1, 0), -1);
    assert_int_equal(errno, EINVAL);
}

static void every_call_can_fail(void **state)
{
    pthread_t thread;
    uint32_t word = 0;
    char byte;

    (void)state;
    osfail_arm(OSFAIL_mmap, 1, ENOMEM);
    assert_true(nigh_os.mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    assert_int_equal(errno, ENOMEM);
    osfail_arm(OSFAIL_pthread_create, 1, EAGAIN);
    assert_int_equal(nigh_os.pthread_create(&thread, NULL, NULL, NULL), EAGAIN);
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_null(nigh_os.calloc(1, 1));
    osfail_arm(OSFAIL_futex, 1, EINTR);
    assert_int_equal(nigh_os.futex(&word, FUTEX_WAKE, 1, NULL), -1);
    assert_int_equal(errno, EINTR);
    osfail_arm(OSFAIL_read, 1, EINTR);
    assert_int_equal(nigh_os.read(-1, &byte, 1), -1);
    assert_int_equal(errno, EINTR);
    osfail_remove();
}

static void nth_failure_and_counts(void **state)
{
    (void)state;
    osfail_arm(OSFAIL_epoll_create1, 2, EMFILE);
    for (unsigned i = 1; i <= 3; i++) {
        int fd = nigh_os.epoll_create1(EPOLL_CLOEXEC);

        assert_int_equal(fd >= 0, i != 2);
        nigh_os_close(fd);
        assert_int_equal(osfail_count(OSFAIL_epoll_create1), i);
        assert_int_equal(osfail_hit(), i >= 2);
    }
    assert_int_equal(osfail_count(OSFAIL_close), 2);
    osfail_arm_all(OSFAIL_epoll_create1, 2, EMFILE);
    nigh_os_close(nigh_os.epoll_create1(EPOLL_CLOEXEC));
    assert_int_equal(nigh_os.epoll_create1(0), -1);
    assert_int_equal(nigh_os.epoll_create1(0), -1);
    osfail_remove();
}

static void close_keeps_errno(void **state)
{
    int fd = nigh_os.epoll_create1(EPOLL_CLOEXEC);
    unsigned open_before = osfail_open_fds();

    (void)state;
    assert_true(fd >= 0);
    osfail_arm(OSFAIL_close, 2, EIO);
    errno = ENOSPC;
    nigh_os_close(fd);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(osfail_open_fds(), open_before - 1);
    nigh_os_close(99999);
    assert_int_equal(errno, ENOSPC);
    nigh_os_close(-1);
    assert_int_equal(osfail_count(OSFAIL_close), 2);
    osfail_remove();
}

/* What a call makes while 0, 1 and 2 are closed, in a child that says by its exit what is wrong. */
enum { HIGH = 0, LOW = 1, LEFT = 2, LOST = 3 };

static int all_makers(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t);
    int fds[16], pair[2], count = 0, listener = nigh_os.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other;

    fds[count++] = listener;
    fds[count++] = nigh_os.memfd_create("os", MFD_CLOEXEC);
    fds[count++] = nigh_os.open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
    fds[count++] = nigh_os.epoll_create1(EPOLL_CLOEXEC);
    fds[count++] = nigh_os.timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    fds[count++] = other = nigh_os.pidfd_open(getpid(), 0);
    fds[count++] = nigh_os.pidfd_getfd(other, listener, 0);
    if (nigh_os.bind(listener, (struct sockaddr *)&name, bytes) || nigh_os.listen(listener, 1))
        return LOST;
    bytes = sizeof(name);
    getsockname(listener, (struct sockaddr *)&name, &bytes);
    fds[count++] = other = nigh_os.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (nigh_os.connect(other, (struct sockaddr *)&name, bytes))
        return LOST;
    fds[count++] = nigh_os.accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (nigh_os.socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return LOST;
    fds[count++] = pair[0];
    fds[count++] = pair[1];
    for (int i = 0; i < count; i++) {
        if (fds[i] < 0 || !(fcntl(fds[i], F_GETFD) & FD_CLOEXEC))
            return LOST;
        if (fds[i] <= STDERR_FILENO)
            return LOW;
    }
    return HIGH;
}

static int closed(int (*play)(void), unsigned set)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        int rc;

        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            if (set & 1u << fd)
                close(fd);
        rc = play();
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            if (rc == HIGH && set & 1u << fd && fcntl(fd, F_GETFD) >= 0)
                rc = LEFT;
        _exit(rc);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static void nothing_becomes_stdio(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 8; set++)
        assert_int_equal(closed(all_makers, set), HIGH);
}

/* A call that makes one where only `maker` is open above stderr has no room: nothing is left then. */
static int no_room(void)
{
    struct rlimit limit = {.rlim_cur = 3, .rlim_max = 3};

    if (setrlimit(RLIMIT_NOFILE, &limit))
        return LOST;
    return nigh_os.memfd_create("os", MFD_CLOEXEC) == -1 && errno == EMFILE ? HIGH : LOST;
}

static void without_room_nothing_is_left(void **state)
{
    (void)state;
    assert_int_equal(closed(no_room, 2), HIGH);
}

/* What another thread prints meanwhile. */
static void *print(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        if (write(STDOUT_FILENO, "x", 1) != -1)
            return (void *)1;
    return NULL;
}

static int all_while_printing(void)
{
    int stop = 0, rc = HIGH;
    pthread_t thread;
    void *wrote;

    if (pthread_create(&thread, NULL, print, &stop))
        return LOST;
    for (int i = 0; i < 2000 && rc == HIGH; i++) {
        int fd = nigh_os.memfd_create("os", MFD_CLOEXEC);

        rc = fd < 0 ? LOST : fd <= STDERR_FILENO ? LOW : HIGH;
        nigh_os_close(fd);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, &wrote);
    return wrote ? LOW : rc;
}

static void prints_of_other_threads_reach_nothing(void **state)
{
    (void)state;
    assert_int_equal(closed(all_while_printing, 2), HIGH);
}

static void a_file_is_known_again(void **state)
{
    int fd = nigh_os.memfd_create("os", MFD_CLOEXEC), other = nigh_os.memfd_create("os", MFD_CLOEXEC);
    struct nigh_file_id id;

    (void)state;
    assert_int_equal(nigh_os_identify(fd, &id), 0);
    assert_true(nigh_os_is(fd, &id));
    assert_false(nigh_os_is(other, &id));
    assert_false(nigh_os_is(-1, &id));
    assert_int_equal(nigh_os_identify(-1, &id), -EBADF);
    assert_int_equal(dup3(other, fd, O_CLOEXEC), fd);
    nigh_os_close_own(fd, &id);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_complete),          cmocka_unit_test(memory_calls_reach_the_system),
        cmocka_unit_test(raw_calls_reach_the_system), cmocka_unit_test(every_call_can_fail),
        cmocka_unit_test(nth_failure_and_counts),     cmocka_unit_test(close_keeps_errno),
        cmocka_unit_test(nothing_becomes_stdio),      cmocka_unit_test(without_room_nothing_is_left),
        cmocka_unit_test(a_file_is_known_again),      cmocka_unit_test(prints_of_other_threads_reach_nothing),
    };
    return cmocka_run_group_tests_name("os", tests, NULL, NULL);
}
