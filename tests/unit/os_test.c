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
#include <sys/eventfd.h>
#include <sys/mman.h>
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
    osfail_arm(OSFAIL_eventfd, 2, EMFILE);
    for (unsigned i = 1; i <= 3; i++) {
        int fd = nigh_os.eventfd(0, EFD_CLOEXEC);

        assert_int_equal(fd >= 0, i != 2);
        nigh_os_close(fd);
        assert_int_equal(osfail_count(OSFAIL_eventfd), i);
        assert_int_equal(osfail_hit(), i >= 2);
    }
    assert_int_equal(osfail_count(OSFAIL_close), 2);
    osfail_arm_all(OSFAIL_eventfd, 2, EMFILE);
    nigh_os_close(nigh_os.eventfd(0, EFD_CLOEXEC));
    assert_int_equal(nigh_os.eventfd(0, 0), -1);
    assert_int_equal(nigh_os.eventfd(0, 0), -1);
    osfail_remove();
}

static void close_keeps_errno(void **state)
{
    int fd = nigh_os.eventfd(0, EFD_CLOEXEC);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_complete),          cmocka_unit_test(memory_calls_reach_the_system),
        cmocka_unit_test(raw_calls_reach_the_system), cmocka_unit_test(every_call_can_fail),
        cmocka_unit_test(nth_failure_and_counts),     cmocka_unit_test(close_keeps_errno),
    };
    return cmocka_run_group_tests_name("os", tests, NULL, NULL);
}
