/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nigh-run's front: the process that the user sees. It passes signals and a terminal's input on to the keeper and
 * ends with its status; should the keeper be killed, it ends what is left. Why two processes: see keeper.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/home.h"
#include "tools/run/keeper.h"
#include "tools/run/mpi.h"
#include "tools/run/options.h"
#include "tools/run/orphans.h"
#include "tools/standard.h"

/* A terminal's input on its way to a rank: the rank, in a process group of its own, may not read it itself. */
struct pump {
    int to; /* our end of the pipe, -1: nothing to pump */
    char bytes[4096];
    size_t length;
};

struct front {
    pid_t keeper;
    int control_fd, signal_fd;
    struct pump pump;
};

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "nigh-run: cannot %s: %s\n", what, strerror(errno));
    exit(RUN_FAILED);
}

/* A signal that we were started to ignore (nohup, a shell's background job) stays ignored, by the ranks too. */
static void block_signals(sigset_t *watched, struct run_keeper_start *start)
{
    struct sigaction action, ignore = {.sa_handler = SIG_IGN};

    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(watched, passed_on[i]);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would make exit statuses vanish */
    sigprocmask(SIG_BLOCK, watched, &start->mask);
    sigaction(SIGPIPE, &ignore, &start->pipe);
    sigaction(SIGTTOU, &ignore, &start->ttou);
}

/* ---- terminal input ---- */

static void pump_close(struct pump *pump)
{
    if (pump->to >= 0)
        close(pump->to);
    pump->to = -1;
    pump->length = 0;
}

/* Reading a terminal from the background would stop us. */
static bool in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void pump_poll(const struct pump *pump, struct pollfd *poll)
{
    *poll = (struct pollfd){.fd = -1};
    if (pump->to >= 0 && pump->length > 0)
        *poll = (struct pollfd){.fd = pump->to, .events = POLLOUT};
    else if (pump->to >= 0 && in_foreground())
        *poll = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
}

/* Nobody tells a process that runs already that its shell has put it into the foreground. */
static int pump_wait_ms(const struct pump *pump, const struct pollfd *poll)
{
    return pump->to >= 0 && poll->fd < 0 ? 250 : -1;
}

static void pump_handle(struct pump *pump, const struct pollfd *poll)
{
    ssize_t count;

    if (poll->fd < 0 || poll->revents == 0)
        return;
    if (poll->events == POLLIN) {
        count = read(STDIN_FILENO, pump->bytes, sizeof(pump->bytes));
        if (count > 0)
            pump->length = (size_t)count;
        else if (count == 0 || (errno != EINTR && errno != EAGAIN))
            pump_close(pump);
        return;
    }
    count = write(pump->to, pump->bytes, pump->length);
    if (count > 0) {
        pump->length -= (size_t)count;
        memmove(pump->bytes, pump->bytes + count, pump->length);
    } else if (count < 0 && errno != EINTR && errno != EAGAIN) {
        pump_close(pump); /* the rank has closed its stdin */
    }
}

/* ---- signals ---- */

static void pass_on(struct front *front, int number)
{
    unsigned char byte = (unsigned char)number;

    if (write(front->control_fd, &byte, 1) < 0 && errno != EPIPE)
        give_up("reach the keeper");
    if (number == SIGTSTP)
        raise(SIGSTOP);
}

/* False when the keeper has ended. */
static bool handle_signals(struct front *front, int *wait_status)
{
    struct signalfd_siginfo info;

    while (read(front->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo != SIGCHLD)
            pass_on(front, (int)info.ssi_signo);
        else if (waitpid(front->keeper, wait_status, WNOHANG) == front->keeper)
            return false;
    }
    return true;
}

/* ---- the job ---- */

static int end_status(int wait_status)
{
    struct run_orphans orphans;

    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status);
    fprintf(stderr, "nigh-run: the process that watches the ranks was killed by SIG%s; ending the job\n",
            sigabbrev_np(WTERMSIG(wait_status)));
    run_orphans_end(0, &orphans);
    return RUN_FAILED;
}

static int watch(struct front *front)
{
    struct pollfd polls[2] = {{.fd = front->signal_fd, .events = POLLIN}};
    int wait_status;

    for (;;) {
        pump_poll(&front->pump, &polls[1]);
        if (poll(polls, 2, pump_wait_ms(&front->pump, &polls[1])) < 0 && errno != EINTR)
            give_up("wait");
        pump_handle(&front->pump, &polls[1]);
        if (!handle_signals(front, &wait_status))
            return end_status(wait_status);
    }
}

static void start_keeper(struct front *front, struct run_keeper_start *start)
{
    int control[2], input[2] = {-1, -1};

    if (pipe2(control, O_CLOEXEC) != 0)
        give_up("make a pipe");
    if (start->options->stdin_rank >= 0 && isatty(STDIN_FILENO) && pipe2(input, O_CLOEXEC) != 0)
        give_up("make a pipe");
    start->stdin_fd = input[0] >= 0 ? input[0] : STDIN_FILENO;
    front->keeper = fork();
    if (front->keeper < 0)
        give_up("make a process");
    if (front->keeper == 0) {
        setpgid(0, 0);
        close(control[1]);
        close(front->signal_fd);
        if (input[1] >= 0)
            close(input[1]);
        start->control_fd = control[0];
        exit(run_keeper(start));
    }
    setpgid(front->keeper, front->keeper);
    close(control[0]);
    front->control_fd = control[1];
    front->pump.to = input[1];
    if (input[0] >= 0) {
        close(input[0]);
        fcntl(input[1], F_SETFL, O_NONBLOCK);
    } else { /* so that a writer to it notices when the rank has gone */
        close(STDIN_FILENO);
        if (open("/dev/null", O_RDONLY) != STDIN_FILENO)
            give_up("open /dev/null");
    }
}

/* Ranks of a nigh-run in a build folder load the module from there. */
static void name_module(void)
{
    char path[PATH_MAX];

    if (!getenv("NIGH_PLUGIN") && tool_in_build("plugin/.libs/nigh.so", path, sizeof(path)))
        setenv("NIGH_PLUGIN", path, 1);
}

int main(int argc, char **argv)
{
    static struct run_options options; /* lives until exit, with all that it points to */
    struct run_keeper_start start = {.options = &options};
    struct front front = {.pump = {.to = -1}};
    sigset_t watched;

    /* Else pipes would be given these numbers, and be taken for stdio by the ranks. */
    if (!tool_fill_standard())
        give_up("open /dev/null");
    name_module();
    run_options_read(argc, argv, &options);
    if (options.mpi)
        run_mpi(&options);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    block_signals(&watched, &start);
    front.signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (front.signal_fd < 0)
        give_up("watch signals");
    start_keeper(&front, &start);
    return watch(&front);
}
