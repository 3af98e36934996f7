/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-top's view on a terminal: drawn, moved, paused, over, and what it says of a terminal that it cannot use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config.h"
#include "tests/support/capture.h"
#include "tests/support/standing.h"
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void needs_a_screen(void)
{
#if !HAVE_NCURSES
    print_message("skip: built without ncurses (on Debian: apt-get install libncurses-dev)\n");
    skip();
#endif
}

/* What the terminal has shown so far. */
static char shown[1 << 20];
static size_t bytes_shown;

static pid_t on_terminal(const struct job *job, const char *terminal, int *fd)
{
    struct winsize size = {.ws_row = 30, .ws_col = 160};
    char command[4096];
    pid_t pid = forkpty(fd, NULL, NULL, &size);

    assert_true(pid >= 0);
    shown[bytes_shown = 0] = 0;
    if (pid == 0) {
        setenv("TERM", terminal, 1);
        snprintf(command, sizeof(command), "exec " TOP " -i 0.1 --job %s", job->id);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(99);
    }
    return pid;
}

/* Reads what the terminal shows until `part` was in it, now or before: what has not changed is not drawn again. */
static bool shows(int fd, const char *part)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    while (!strstr(shown, part)) {
        size_t room = sizeof(shown) - 1 - bytes_shown;
        ssize_t got = poll(&readable, 1, 60000) > 0 ? read(fd, shown + bytes_shown, room) : 0;

        if (got <= 0) {
            print_message("the terminal showed %zu bytes:\n%s\n", bytes_shown, shown);
            return false;
        }
        bytes_shown += (size_t)got;
        shown[bytes_shown] = 0;
    }
    return true;
}

static int status_of(pid_t pid)
{
    int status = -1;

    for (unsigned i = 0; i < 6000; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        sleep_ms(10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static void the_view_lives(void **state)
{
    struct job job;
    pid_t pid;
    int fd;

    (void)state;
    needs_a_screen();
    start(&job, 3, "recv:1 recv:0 sleep");
    pid = on_terminal(&job, "vt100", &fd);
    assert_true(shows(fd, "recv from 1 tag 5 400 B"));
    assert_true(shows(fd, "0 -> 1 -> 0: deadlock"));
    /* Moved, paused and going on; then the job ends under its eyes. */
    assert_int_equal(write(fd, "\033[B\033[B\033[C \033[A", 13), 13);
    assert_true(shows(fd, "paused"));
    assert_int_equal(write(fd, " ", 1), 1);
    kill(job.run.pid, SIGTERM);
    assert_true(shows(fd, "ended"));
    assert_int_equal(write(fd, "q", 1), 1);
    assert_int_equal(status_of(pid), 0);
    close(fd);
    capture_wait(&job.run, 300);
    capture_free(&job.run);
}

static void the_view_needs_a_terminal(void **state)
{
    char line[128];
    struct job job;
    pid_t pid;
    int fd;

    (void)state;
    start(&job, 1, "idle");
    snprintf(line, sizeof(line), TOP " --job %s", job.id);
    has(line, 1, true, "--once");
    end(&job);
    needs_a_screen();
    start(&job, 1, "idle");
    pid = on_terminal(&job, "a-terminal-that-nobody-knows", &fd);
    assert_true(shows(fd, "is not known here"));
    assert_int_equal(status_of(pid), 1);
    close(fd);
    /* One that goes away takes the view with it. */
    pid = on_terminal(&job, "vt100", &fd);
    assert_true(shows(fd, "idle"));
    close(fd);
    assert_int_not_equal(status_of(pid), -1);
    end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_view_lives),
        cmocka_unit_test(the_view_needs_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
