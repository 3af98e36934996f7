/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines go to standard error as the program has it, wherever it leads; not into a file of data that was opened where standard
 * error was closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "include/common/standard_error.h"
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct nigh_standard_error standard_error;

enum { PLAIN = O_WRONLY, BOTH = O_RDWR, APPENDS = O_WRONLY | O_APPEND };

static const char *path(void)
{
    static char name[64];

    snprintf(name, sizeof(name), "/tmp/nigh_standard_error.%d", (int)getpid());
    return name;
}

/* Like close(2) and open() in a program: the lowest number that is free. */
static void take_place(int flags)
{
    close(STDERR_FILENO);
    if (open(path(), flags | O_CREAT, 0600) != STDERR_FILENO)
        _exit(100);
    unlink(path());
}

static void redirect(int flags)
{
    int fd = open(path(), flags | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || dup2(fd, STDERR_FILENO) != STDERR_FILENO)
        _exit(100);
    close(fd);
    unlink(path());
}

static void redirect_plain(void)
{
    redirect(PLAIN);
}

static void redirect_append(void)
{
    redirect(APPENDS);
}

static void redirect_pipe(void)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(100);
}

static void redirect_to_output(void)
{
    int fd = fcntl(open(path(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), F_DUPFD_CLOEXEC, 3);

    if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(100);
    unlink(path());
}

/* As harnesses that capture what is said. */
static void redirect_captured(void)
{
    int fd = memfd_create("said", MFD_CLOEXEC);

    if (dup2(fd, STDERR_FILENO) != STDERR_FILENO)
        _exit(100);
}

static void nothing(void)
{
}

static void data_both(void)
{
    take_place(BOTH);
}

static void data_cloexec(void)
{
    take_place(PLAIN | O_CLOEXEC);
}

/* A look in between saw it closed. */
static void data_seen(void)
{
    close(STDERR_FILENO);
    (void)nigh_standard_error_is(&standard_error);
    take_place(PLAIN);
}

static void data_socket(void)
{
    int ends[2];

    close(STDERR_FILENO);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || ends[0] != STDERR_FILENO)
        _exit(100);
}

static void only_closed(void)
{
    close(STDERR_FILENO);
}

static void reads_only(void)
{
    take_place(O_RDONLY);
}

static bool is_after(void (*change)(void), bool closed_at_load)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (closed_at_load)
            close(STDERR_FILENO);
        nigh_standard_error_begin(&standard_error);
        change();
        _exit(nigh_standard_error_is(&standard_error));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status);
}

static void redirections_are_followed(void **state)
{
    (void)state;
    assert_true(is_after(nothing, false));
    assert_true(is_after(redirect_plain, false));
    assert_true(is_after(redirect_append, false));
    assert_true(is_after(redirect_pipe, false));
    assert_true(is_after(redirect_captured, false));
    assert_true(is_after(redirect_to_output, false));
    assert_true(is_after(redirect_to_output, true));
}

static void files_of_data_get_no_lines(void **state)
{
    (void)state;
    assert_false(is_after(only_closed, false));
    assert_false(is_after(data_both, false));
    assert_false(is_after(data_cloexec, false));
    assert_false(is_after(data_seen, false));
    assert_false(is_after(data_socket, false));
    assert_false(is_after(reads_only, false));
    assert_false(is_after(nothing, true));
    assert_false(is_after(data_both, true));
    assert_false(is_after(redirect_plain, true));
    assert_false(is_after(redirect_pipe, true));
}

static void whatever_it_is_at_first_gets_them(void **state)
{
    static void (*const first[])(void) = {data_both, data_socket, redirect_plain, redirect_pipe};

    (void)state;
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            first[i]();
            nigh_standard_error_begin(&standard_error);
            _exit(nigh_standard_error_is(&standard_error) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void one_write_that_keeps_errno(void **state)
{
    char text[16] = "";
    int ends[2], own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    (void)state;
    nigh_standard_error_begin(&standard_error);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    errno = ENOSPC;
    nigh_standard_error_write(&standard_error, "a line\n", 7);
    close(STDERR_FILENO);
    nigh_standard_error_write(&standard_error, "another\n", 8);
    assert_int_equal(errno, ENOSPC);
    dup2(own, STDERR_FILENO);
    close(own);
    assert_int_equal(read(ends[0], text, sizeof(text)), 7);
    assert_string_equal(text, "a line\n");
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redirections_are_followed),
        cmocka_unit_test(files_of_data_get_no_lines),
        cmocka_unit_test(whatever_it_is_at_first_gets_them),
        cmocka_unit_test(one_write_that_keeps_errno),
    };
    return cmocka_run_group_tests_name("standard_error", tests, NULL, NULL);
}
