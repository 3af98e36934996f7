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
#include <inttypes.h>
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
    static const enum osfail_call calls[] = {OSFAIL_open,    OSFAIL_flock,  OSFAIL_socket,
                                             OSFAIL_bind,    OSFAIL_listen, OSFAIL_lstat,
                                             OSFAIL_connect, OSFAIL_unlink, OSFAIL_chmod};
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
            /* Its second use is to unlock, which closing does, too. */
            if (osfail_hit())
                assert_int_equal(error, calls[i] == OSFAIL_flock && nth == 2 ? 0 : -ENOMEM);
            osfail_remove();
            assert_int_equal(osfail_open_fds(), fds_before + (error == 0));
            if (error) /* what it left is a file that nobody listens on, or none */
                assert_int_equal(connect_and_close(&name), -ECONNREFUSED);
            else
                nigh_name_close(&name, &listener);
            unlink(file);
        }
    }
    assert_int_equal(hits, 13); /* bind, flock, socket and lstat twice, the others once */
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

/* ---- a child that has it yet ------------------------------------------------------------------------------ */

/* A name that was left is free when the child has let go of its socket, and in use if it never does. */
static void a_child_has_it_yet(void **state)
{
    const struct nigh_name *names[] = {&abstract, &name};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const struct nigh_name *of = names[i / 2];
        struct nigh_listener listener;
        int go[2], expected = i == 1 ? -EADDRINUSE : 0;
        bool keeps = i % 2;
        pid_t child;

        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        assert_int_equal(nigh_name_listen(of, &listener), 0);
        child = fork();
        if (child == 0) {
            close(go[1]);
            usleep(keeps ? 0 : 30000);
            _exit(keeps ? (int)read(go[0], &(char){0}, 1) : 0);
        }
        close(go[0]);
        nigh_name_close(of, &listener);
        assert_int_equal(connect_and_close(of), -ECONNREFUSED);
        assert_int_equal(nigh_name_listen(of, &listener), expected);
        close(go[1]);
        if (!expected)
            nigh_name_close(of, &listener);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ---- the umask ------------------------------------------------------------------------------------------------------ */

/* Root may connect to everything, so as somebody else where that can be. Returns what the child does. */
static int as_owner(int (*play)(mode_t mask), mode_t mask)
{
    int status;
    pid_t child;

    if (geteuid() == 0)
        assert_int_equal(chown(directory, 1234, 1234), 0);
    child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setresgid(1234, 1234, 1234) || setresuid(1234, 1234, 1234)))
            _exit(99);
        name.uid = geteuid();
        umask(mask);
        _exit(play(mask));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int listens(mode_t mask)
{
    struct nigh_listener listener;
    struct stat stat;

    (void)mask;
    if (nigh_name_listen(&name, &listener))
        return 1;
    if (lstat(file, &stat) || (stat.st_mode & 07777) != 0600)
        return 2;
    if (connect_and_close(&name))
        return 3;
    nigh_name_close(&name, &listener);
    return 0;
}

static void any_umask_will_do(void **state)
{
    static const mode_t masks[] = {0, 022, 077, 0177, 0200, 0777};

    (void)state;
    for (unsigned i = 0; i < sizeof(masks) / sizeof(*masks); i++)
        assert_int_equal(as_owner(listens, masks[i]), 0);
}

/* As far as nigh_name_listen() had come when it was killed. */
static int binds_and_ends(mode_t mask)
{
    struct sockaddr_un address;
    socklen_t bytes;
    int fd;

    (void)mask;
    return nigh_name_address(&name, &address, &bytes) || nigh_name_socket(SOCK_SEQPACKET, &fd) ||
           bind(fd, (struct sockaddr *)&address, bytes);
}

static int dials_twice(mode_t mask)
{
    (void)mask;
    return connect_and_close(&name) != -EAGAIN || exists() || connect_and_close(&name) != -ECONNREFUSED;
}

static void shut_sockets_of_the_dead_go(void **state)
{
    (void)state;
    assert_int_equal(as_owner(binds_and_ends, 0777), 0);
    assert_true(exists());
    assert_int_equal(as_owner(listens, 022), 0);
    assert_int_equal(as_owner(binds_and_ends, 0777), 0);
    if (geteuid() == 0)
        assert_int_equal(as_owner(dials_twice, 022), 0);
}

/* ---- what other jobs have left --------------------------------------------------------------------------------------- */

static void path_of(uint64_t other, uint32_t rank, char *path)
{
    sprintf(path, "%s/%016" PRIx64 "-%" PRIu32, directory, other, rank);
}

static bool is_there(const char *path)
{
    struct stat stat;

    return lstat(path, &stat) == 0;
}

static void the_next_job_sweeps(void **state)
{
    enum { DEAD = 200, ALIVE = 3 };
    struct nigh_listener listener, living[ALIVE];
    struct nigh_name other = name;
    char path[128], *const odd = path;
    int status, bound;
    unsigned left = DEAD;
    struct sockaddr_un address;
    socklen_t bytes;
    pid_t child;

    (void)state;
    for (other.rank = 0; other.rank < ALIVE; other.rank++) {
        other.job = 0x2000;
        assert_int_equal(nigh_name_listen(&other, &living[other.rank]), 0);
    }
    child = fork();
    if (child == 0) {
        for (other.rank = 0; other.rank < DEAD; other.rank++) {
            other.job = 0x1000 + other.rank;
            if (nigh_name_address(&other, &address, &bytes) || nigh_name_socket(SOCK_SEQPACKET, &bound) ||
                bind(bound, (struct sockaddr *)&address, bytes))
                _exit(1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* Bound and not listening yet, as a job that is just starting. */
    other.job = 0x3000;
    assert_int_equal(nigh_name_address(&other, &address, &bytes), 0);
    assert_int_equal(nigh_name_socket(SOCK_SEQPACKET, &bound), 0);
    assert_int_equal(bind(bound, (struct sockaddr *)&address, bytes), 0);
    sprintf(odd, "%s/0000000000004000-1", directory);
    close(open(odd, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (unsigned jobs = 0; jobs < 100 && left; jobs++) {
        name.job = 0x5000 + jobs;
        assert_int_equal(nigh_name_listen(&name, &listener), 0);
        nigh_name_close(&name, &listener);
        left = 0;
        for (uint32_t rank = 0; rank < DEAD; rank++) {
            path_of(0x1000 + rank, rank, path);
            left += is_there(path);
        }
        if (jobs == 0)
            assert_in_range(left, 1, DEAD - 40); /* many are looked at by and by */
    }
    assert_int_equal(left, 0);
    sprintf(odd, "%s/0000000000004000-1", directory);
    assert_int_equal(unlink(odd), 0);
    assert_int_equal(unlink(address.sun_path), 0);
    close(bound);
    for (other.rank = 0; other.rank < ALIVE; other.rank++) {
        other.job = 0x2000;
        assert_int_equal(connect_and_close(&other), 0);
        nigh_name_close(&other, &living[other.rank]);
    }
}

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
        CASE(any_umask_will_do),
        CASE(shut_sockets_of_the_dead_go),
        CASE(the_next_job_sweeps),
        CASE(a_child_has_it_yet),
    };
    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
