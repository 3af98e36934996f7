/* SPDX-License-Identifier: BSD-3-Clause */
/* fork and exec of one rank. Everything that can fail in the child comes back through a pipe that exec closes. */
#include "tools/run/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, value);
    if (setenv(name, text, 1) != 0)
        abort();
}

/* A person's own stays; an outer job's are taken by its ranks, perhaps. */
static void set_progress_cpus(const struct run_start *start, bool inner)
{
    char spare[4096];

    if (inner)
        unsetenv("NIGH_PROGRESS_CPUS");
    run_binding_spare_text(start->binding, spare, sizeof(spare));
    if (spare[0] && setenv("NIGH_PROGRESS_CPUS", spare, 0) != 0)
        abort();
}

static void set_environment(const struct run_rank *rank, uint32_t number, const struct run_start *start)
{
    char job[32], lives[32 + sizeof(start->lives)];

    set_progress_cpus(start, getenv("NIGH_RANK") != NULL);
    snprintf(job, sizeof(job), "0x%016" PRIx64, start->job);
    setenv("NIGH_JOB", job, 1);
    snprintf(lives, sizeof(lives), "%s:%s", job, start->lives);
    if (start->lives[0])
        setenv("NIGH_LIVES", lives, 1);
    else
        unsetenv("NIGH_LIVES"); /* an outer job's */
    if (start->lines[0])
        setenv("NIGH_LINES", start->lines, 1);
    else
        unsetenv("NIGH_LINES"); /* an outer job's */
    set_number("NIGH_RANK", number);
    set_number("NIGH_SIZE", start->ranks);
    set_number("NIGH_LOCAL_RANK", number);
    set_number("NIGH_LOCAL_SIZE", start->ranks);
    if (run_binding_oversubscribed(start->binding))
        setenv("NIGH_OVERSUBSCRIBED", "1", 1);
    else
        unsetenv("NIGH_OVERSUBSCRIBED"); /* an outer job's */
    if (start->turns)
        putenv(start->turns);
    for (uint32_t i = 0; i < rank->program->variable_count; i++)
        putenv((char *)(uintptr_t)rank->program->variables[i]);
}

static int connect_stdio(uint32_t number, const struct run_start *start, const int outputs[2])
{
    int in = start->stdin_rank == (int64_t)number ? start->stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (in < 0)
        return -1;
    if (in != STDIN_FILENO && dup2(in, STDIN_FILENO) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (outputs[i] >= 0 && dup2(outputs[i], STDOUT_FILENO + i) < 0)
            return -1;
    return 0;
}

/* The child's side: the step that failed; does not return when none does. */
static const char *become(const struct run_rank *rank, uint32_t number, const struct run_start *start,
                          const int outputs[2], pid_t parent)
{
    int rc;

    /* The parent may have died before the request; its death is then not signalled any more. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RUN_FAILED);
    setpgid(0, 0);
    rc = run_binding_apply(start->binding, number);
    if (rc != 0) {
        errno = -rc;
        return "bind the process of";
    }
    if (connect_stdio(number, start, outputs) != 0)
        return "connect input and output of";
    if (rank->program->directory != NULL && chdir(rank->program->directory) != 0)
        return "change to the --wdir of";
    set_environment(rank, number, start);
    setrlimit(RLIMIT_NOFILE, &start->descriptors);
    sigaction(SIGPIPE, &start->pipe, NULL);
    sigaction(SIGTTOU, &start->ttou, NULL);
    sigprocmask(SIG_SETMASK, &start->mask, NULL);
    execvp(rank->program->argv[0], rank->program->argv);
    return "execute";
}

int run_rank_start(struct run_rank *rank, uint32_t number, const struct run_start *start,
                   const int outputs[2], struct run_start_error *error)
{
    struct run_start_error failure = {0};
    pid_t parent = getpid(), pid;
    int report[2];
    ssize_t count;

    if (pipe2(report, O_CLOEXEC) != 0) {
        *error = (struct run_start_error){"make a pipe for", errno};
        return -1;
    }
    pid = fork();
    if (pid < 0) {
        *error = (struct run_start_error){"make a process for", errno};
        close(report[0]);
        close(report[1]);
        return -1;
    }
    if (pid == 0) {
        failure.step =
            become(rank, number, start, outputs, parent); /* a constant: the same address in both */
        failure.number = errno;
        count = write(report[1], &failure, sizeof(failure));
        _exit(count == sizeof(failure) ? RUN_FAILED : RUN_NOT_FOUND);
    }
    close(report[1]);
    do {
        count = read(report[0], &failure, sizeof(failure));
    } while (count < 0 && errno == EINTR);
    close(report[0]);
    if (count == sizeof(failure)) {
        waitpid(pid, NULL, 0);
        *error = failure;
        return -1;
    }
    rank->pid = pid;
    rank->running = true;
    return 0;
}

bool run_rank_failed(const struct run_rank *rank)
{
    return !WIFEXITED(rank->wait_status) || WEXITSTATUS(rank->wait_status) != 0;
}

int run_rank_status(const struct run_rank *rank)
{
    if (WIFSIGNALED(rank->wait_status))
        return RUN_SIGNALLED + WTERMSIG(rank->wait_status);
    return WEXITSTATUS(rank->wait_status);
}

void run_rank_signal(const struct run_rank *rank, int number)
{
    if (rank->running)
        kill(-rank->pid, number);
}

void run_rank_text(const struct run_rank *rank, char *text, size_t bytes)
{
    const char *name;

    if (!WIFSIGNALED(rank->wait_status)) {
        snprintf(text, bytes, "exited with status %d", WEXITSTATUS(rank->wait_status));
        return;
    }
    name = sigabbrev_np(WTERMSIG(rank->wait_status));
    if (name != NULL)
        snprintf(text, bytes, "was killed by SIG%s%s", name,
                 WCOREDUMP(rank->wait_status) ? " (core dumped)" : "");
    else
        snprintf(text, bytes, "was killed by signal %d", WTERMSIG(rank->wait_status));
}
