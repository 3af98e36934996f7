/* SPDX-License-Identifier: BSD-3-Clause */
/* Files, not pipes, take the output: a test that looks at it late must not hold up what it tests. */
#include "tests/support/capture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};

    nanosleep(&time, NULL);
}

static int make_file(void)
{
    int fd = memfd_create("capture", MFD_CLOEXEC);

    assert_true(fd >= 0);
    /* several processes write at once, and a memfd's position is not kept from racing */
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

static void become(const char *line, int out, int err)
{
    static const int usual[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE};
    const char *build = getenv("NIGH_BUILDDIR");
    char path[4096], command[8192];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "%s/tools/nigh-run", build != NULL ? build : ".");
    setenv("RUN", path, 1);
    snprintf(path, sizeof(path), "%s/tests/support", build != NULL ? build : ".");
    setenv("BIN", path, 1);
    snprintf(command, sizeof(command), "exec %s", line);
    /* what starts the tests may ignore some (nohup, a shell's background job), and a shell cannot undo that */
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        signal(usual[i], SIG_DFL);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(99);
}

void capture_start(struct capture *capture, const char *line)
{
    *capture = (struct capture){.out_fd = make_file(), .err_fd = make_file(), .started = now()};
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a killed launcher leaves is ours to reap, init may be slow */
    capture->pid = fork();
    assert_true(capture->pid >= 0);
    if (capture->pid == 0)
        become(line, capture->out_fd, capture->err_fd);
}

/* The file is shared with the writers: pread leaves their position alone, lseek would not. */
static char *read_file(int fd)
{
    struct stat file;
    off_t size, at = 0;
    char *text;

    assert_int_equal(fstat(fd, &file), 0);
    size = file.st_size;
    text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    while (at < size) {
        ssize_t count = pread(fd, text + at, (size_t)(size - at), at);

        if (count <= 0)
            break;
        at += count;
    }
    return text;
}

void capture_wait(struct capture *capture, double seconds)
{
    double limit = now() + seconds;
    int status;

    while (waitpid(capture->pid, &status, WNOHANG) == 0) {
        if (now() > limit) {
            kill(capture->pid, SIGKILL);
            waitpid(capture->pid, &status, 0);
            fail_msg("still ran after %.1f s; stdout: %s stderr: %s", seconds, read_file(capture->out_fd),
                     read_file(capture->err_fd));
        }
        pause_ms(1);
    }
    capture->seconds = now() - capture->started;
    capture->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    capture->out = read_file(capture->out_fd);
    capture->err = read_file(capture->err_fd);
}

void capture_run(struct capture *capture, const char *line)
{
    capture_start(capture, line);
    capture_wait(capture, 300); /* a hang; how long it takes is the machine's affair */
}

void capture_free(struct capture *capture)
{
    close(capture->out_fd);
    close(capture->err_fd);
    free(capture->out);
    free(capture->err);
}

static bool has_until(int fd, const char *text)
{
    double limit = now() + 60;
    bool found = false;

    while (!found && now() < limit) {
        char *printed = read_file(fd);

        found = strstr(printed, text) != NULL;
        free(printed);
        if (!found)
            pause_ms(2);
    }
    return found;
}

bool capture_until(struct capture *capture, const char *text)
{
    return has_until(capture->out_fd, text);
}

bool capture_until_said(struct capture *capture, const char *text)
{
    return has_until(capture->err_fd, text);
}

const char *capture_mark(void)
{
    static char mark[64];
    static int count;

    snprintf(mark, sizeof(mark), "NIGH_TEST_MARK=%d.%d.%lld", (int)getpid(), count++,
             (long long)(now() * 1e9));
    return mark;
}

static bool has_mark(const char *pid, const char *mark)
{
    char path[300], *bytes;
    size_t count, room = 1 << 17;
    bool found;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    bytes = malloc(room);
    assert_non_null(bytes);
    count = fread(bytes, 1, room, file);
    fclose(file);
    found = memmem(bytes, count, mark, strlen(mark)) != NULL;
    free(bytes);
    return found;
}

int capture_marked(const char *mark)
{
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            count += has_mark(entry->d_name, mark);
    closedir(directory);
    return count;
}

bool capture_mark_gone(const char *mark)
{
    double limit = now() + 60;

    while (capture_marked(mark) > 0) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (now() > limit)
            return false;
        pause_ms(5);
    }
    return true;
}
