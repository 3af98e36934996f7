/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting a command and listening to it; see peer_process.h. */
#include "tools/perf/peer_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int spawn(char *const *command, int input, int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc)
        return -rc;
    if (input >= 0)
        rc = posix_spawn_file_actions_adddup2(&actions, input, 0);
    else
        rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, output, 2);
    if (!rc) /* sockets and arenas of nigh must not live on in a peer */
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (!rc)
        rc = posix_spawnp(pid, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

int perf_process_start(char *const *command, int with_input, struct perf_process *process)
{
    int pair[2] = {-1, -1}, output, rc;

    if (with_input && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return -errno;
    output = memfd_create("nigh-perf-output", MFD_CLOEXEC);
    rc = output < 0 ? -errno : spawn(command, pair[1], output, &process->pid);
    if (pair[1] >= 0)
        close(pair[1]);
    if (rc) {
        if (pair[0] >= 0)
            close(pair[0]);
        if (output >= 0)
            close(output);
        return rc;
    }
    process->input = pair[0];
    process->output = output;
    return 0;
}

int perf_process_wait(struct perf_process *process, int milliseconds)
{
    struct timespec nap = {.tv_nsec = 2000000};
    int status;

    if (process->pid <= 0)
        return -ECHILD;
    for (int waited = 0;; waited += 2) {
        pid_t got = waitpid(process->pid, &status, WNOHANG);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0)
            break;
        if (waited >= milliseconds)
            return -EAGAIN;
        nanosleep(&nap, NULL);
    }
    process->pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *perf_process_said(const struct perf_process *process, char *text, size_t size)
{
    struct stat info;
    ssize_t got = 0;

    if (process->output >= 0 && fstat(process->output, &info) == 0) {
        off_t from = info.st_size > (off_t)size - 1 ? info.st_size - ((off_t)size - 1) : 0;
        got = pread(process->output, text, size - 1, from);
    }
    if (got < 0)
        got = 0;
    while (got > 0 && text[got - 1] == '\n')
        got--;
    text[got] = 0;
    return text;
}

void perf_process_close(struct perf_process *process)
{
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        perf_process_wait(process, 5000);
    }
    if (process->input >= 0)
        close(process->input);
    if (process->output >= 0)
        close(process->output);
    *process = (struct perf_process){.pid = -1, .input = -1, .output = -1};
}
