/* SPDX-License-Identifier: BSD-3-Clause */
/* Names: in use or free, in a directory or abstract, and the socket files that dead processes leave: replaced by
 * whoever opens, removed by whoever dials, and never a living one's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/name.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], file[128];
static struct nigh_name name, abstract;
static unsigned fds_before;

static int begin(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/nigh-name-XXXXXX");
    assert_non_null(mkdtemp(directory));
    name = (struct nigh_name){.directory = directory, .uid = geteuid(), .job = 0xabc, .rank = 7};
    abstract = name;
    abstract.directory = NULL;
    abstract.job = ((uint64_t)getpid() << 32) + 1;
    snprintf(file, sizeof(file), "%s/0000000000000abc-7", directory);
    fds_before = osfail_open_fds();
    logged_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    logged_end();
    osfail_remove();
    assert_int_equal(osfail_open_fds(), fds_before);
    unlink(file);
    if (rmdir(directory) < 0)
        fail_msg("%s: %s", directory, strerror(errno));
    return 0;
}

static bool exists(void)
{
    struct stat stat;

    return lstat(file, &stat) == 0;
}

static int connect_and_close(const struct nigh_name *to)
{
    int fd, error = nigh_name_connect(to, &fd);

    if (!error)
        close(fd);
    return error;
}

/* Leaves the file of a process that has ended without closing. */
static void leave_stale_file(void)
{
    struct nigh_listener listener;
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(nigh_name_listen(&name, &listener) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(exists());
}

static void listen_connect_close(void **state)
{
    const struct nigh_name *both[] = {&name, &abstract};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct nigh_listener listener, second;

        assert_int_equal(connect_and_close(both[i]), -ECONNREFUSED);
        assert_int_equal(nigh_name_listen(both[i], &listener), 0);
        assert_int_equal(exists(), i == 0);
        assert_int_equal(connect_and_close(both[i]), 0);
        assert_int_equal(nigh_name_listen(both[i], &second), -EADDRINUSE);
        logged_assert_has("is already open on this machine, in process ");
        assert_non_null(strstr(logged_text(), "rank 7"));
        nigh_name_close(both[i], &listener);
        assert_false(exists());
        assert_int_equal(connect_and_close(both[i]), -ECONNREFUSED);
    }
}

static void stale_file_is_replaced(void **state)
{
    struct nigh_listener listener;

    (void)state;
    leave_stale_file();
    assert_int_equal(nigh_name_listen(&name, &listener), 0);
    assert_int_equal(connect_and_close(&name), 0);
    nigh_name_close(&name, &listener);
}

static void stale_file_is_removed_by_a_dialler(void **state)
{
    (void)state;
    leave_stale_file();
    assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
    assert_false(exists());
}

/* Between bind() and listen() a socket refuses like a dead one. Whoever is there holds the lock. */
static void half_opened_name_is_left_alone(void **state)
{
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    leave_stale_file();
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
    assert_true(exists());
    close(lock);
    assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
    assert_false(exists());
}

static void lock_that_stays_ends_in_an_error(void **state)
{
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct nigh_listener listener;

    (void)state;
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(nigh_name_listen(&name, &listener), -EADDRINUSE);
    logged_assert_has("locked by another process");
    close(lock);
    assert_int_equal(nigh_name_listen(&name, &listener), 0);
    nigh_name_close(&name, &listener);
}

static void other_files_are_left_alone(void **state)
{
    struct nigh_listener listener;
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(nigh_name_listen(&name, &listener), -EADDRINUSE);
    logged_assert_has("is not a socket of this user");
    assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
    assert_true(exists());
    unlink(file);
    /* A name that was taken away by hand and given anew is not this one's to remove. */
    assert_int_equal(nigh_name_listen(&name, &listener), 0);
    unlink(file);
    leave_stale_file();
    nigh_name_close(&name, &listener);
    assert_true(exists());
}

static void of_many_openers_one_gets_a_stale_name(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        pid_t children[8];
        int got = 0, release[2];
        char byte;

        leave_stale_file();
        assert_int_equal(pipe(release), 0);
        for (unsigned i = 0; i < 8; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                struct nigh_listener listener;
                int error = nigh_name_listen(&name, &listener);

                close(release[1]);
                if (!error && read(release[0], &byte, 1) < 0) /* the winner stays until all have tried */
                    _exit(3);
                _exit(error == -EADDRINUSE ? 1 : error ? 2 : 0);
            }
        }
        for (unsigned i = 0, left = 7; i < 8 && left; i = (i + 1) % 8) {
            int status;

            if (children[i] && waitpid(children[i], &status, WNOHANG) == children[i]) {
                assert_int_equal(WEXITSTATUS(status), 1);
                children[i] = 0;
                left--;
            }
        }
        assert_int_equal(connect_and_close(&name), 0);
        close(release[1]);
        close(release[0]);
        for (unsigned i = 0; i < 8; i++) {
            int status;

            if (children[i] && waitpid(children[i], &status, 0) == children[i])
                got += WEXITSTATUS(status) == 0;
        }
        assert_int_equal(got, 1);
    }
}

static void unsuitable_directories(void **state)
{
    char path[256];
    struct stat stat;

    (void)state;
    assert_int_equal(nigh_name_directory(directory, &stat), 0);
    assert_true(S_ISDIR(stat.st_mode));
    snprintf(path, sizeof(path), "%s/none", directory);
    assert_int_equal(nigh_name_directory(path, &stat), -ENOTDIR);
    logged_assert_has("give a directory of your own with mode 0700");
    assert_int_equal(nigh_name_directory("/proc/version", &stat), -ENOTDIR);
    assert_int_equal(chmod(directory, 0750), 0);
    assert_int_equal(nigh_name_directory(directory, &stat), -EACCES);
    logged_assert_has("has mode 0750");
    assert_int_equal(chmod(directory, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(directory, 65534, 65534), 0);
        assert_int_equal(nigh_name_directory(directory, &stat), -EACCES);
        logged_assert_has("belongs to user 65534");
        assert_int_equal(chown(directory, 0, 0), 0);
    }
}

static void long_directories(void **state)
{
    char path[128];
    struct nigh_name deep = {.directory = path, .uid = geteuid(), .job = UINT64_MAX, .rank = 0};
    struct nigh_listener listener;
    int fd;

    (void)state;
    memset(path, '/', sizeof(path));
    memcpy(path, directory, strlen(directory)); /* slashes in a row are one, but count */
    path[107 - 16 - 2 - 1] = 0; /* directory, slash, job, dash, one digit, and the zero: 108 */
    assert_int_equal(nigh_name_listen(&deep, &listener), 0);
    nigh_name_close(&deep, &listener);
    deep.rank = 10;
    assert_int_equal(nigh_name_listen(&deep, &listener), -ENAMETOOLONG);
    logged_assert_has("at most 79");
    assert_int_equal(nigh_name_connect(&deep, &fd), -ENAMETOOLONG);
}

/* Every system call behind a name, failing at each of its places: an error or success, and nothing is left. */
static void failures_leave_nothing(void **state)
{
    static const enum osfail_call calls[] = {OSFAIL_open,  OSFAIL_flock,   OSFAIL_socket, OSFAIL_bind, OSFAIL_listen,
                                             OSFAIL_lstat, OSFAIL_connect, OSFAIL_unlink, OSFAIL_chmod};
    unsigned hits = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        for (unsigned nth = 1; nth <= 3; nth++) {
            struct nigh_listener listener = {.fd = -1};
            int error;

            leave_stale_file(); /* the longest way */
            osfail_arm(calls[i], nth, ENOMEM);
            error = nigh_name_listen(&name, &listener);
            hits += (unsigned)osfail_hit();
            if (osfail_hit())
                assert_int_equal(error, -ENOMEM);
            osfail_remove();
            assert_int_equal(osfail_open_fds(), fds_before + (error == 0));
            if (error) /* what it left is a file that nobody listens on, or none */
                assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
            else
                nigh_name_close(&name, &listener);
            unlink(file);
        }
    }
    assert_int_equal(hits, 12); /* bind, socket and lstat twice, the others once */
}

static void connect_failures(void **state)
{
    static const struct {
        enum osfail_call call;
        int error, result;
    } cases[] = {
        {OSFAIL_socket, EMFILE, -EMFILE},      {OSFAIL_socket, ENFILE, -EMFILE},
        {OSFAIL_socket, ENOBUFS, -ENOMEM},     {OSFAIL_connect, EAGAIN, -EAGAIN},
        {OSFAIL_connect, EINTR, -EAGAIN},      {OSFAIL_connect, EPERM, -EACCES},
        {OSFAIL_connect, EACCES, -EACCES},     {OSFAIL_connect, ENOMEM, -ENOMEM},
        {OSFAIL_connect, EPROTOTYPE, -EPROTO}, {OSFAIL_connect, ENOENT, -ECONNREFUSED},
    };
    struct nigh_listener listener;

    (void)state;
    assert_int_equal(nigh_name_listen(&name, &listener), 0);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        osfail_arm(cases[i].call, 1, cases[i].error);
        assert_int_equal(connect_and_close(&name), cases[i].result);
        osfail_remove();
    }
    assert_true(exists());
    nigh_name_close(&name, &listener);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(listen_connect_close),
        CASE(stale_file_is_replaced),
        CASE(stale_file_is_removed_by_a_dialler),
        CASE(half_opened_name_is_left_alone),
        CASE(lock_that_stays_ends_in_an_error),
        CASE(other_files_are_left_alone),
        CASE(of_many_openers_one_gets_a_stale_name),
        CASE(unsuitable_directories),
        CASE(long_directories),
        CASE(failures_leave_nothing),
        CASE(connect_failures),
    };
    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
