/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/apart.c - ranks in containers of their own, and of another boot of the machine. */
#include "tests/hosts/nccl/host.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of a process of another PID namespace, whose signals are numbers from 128 on. */
static int status_of(pid_t pid)
{
    int status = 0;

    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool well = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return well;
}

/* These namespaces are this process's own then; its user stays the same. */
static bool leave_namespaces(int all)
{
    char users[64], groups_map[64];

    snprintf(users, sizeof(users), "%u %u 1", geteuid(), geteuid());
    snprintf(groups_map, sizeof(groups_map), "%u %u 1", getegid(), getegid());
    if (unshare(all) &&
        (unshare(CLONE_NEWUSER | all) || !write_file("/proc/self/setgroups", "deny") ||
         !write_file("/proc/self/uid_map", users) || !write_file("/proc/self/gid_map", groups_map)))
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

void apart_enter(int number)
{
    pid_t first, second;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "container-%d", number);
    if (!leave_namespaces(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) ||
        sethostname(name, strlen(name)))
        _exit(APART_NONE);
    first = fork();
    if (first > 0) {
        status = status_of(first);
        if (status > 128)
            kill(getpid(), status - 128);
        _exit(status);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("proc", "/proc", "proc", 0, NULL) || mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m"))
        _exit(APART_NONE);
    second = fork();
    if (second > 0)
        _exit(status_of(second));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void apart_boot(int number)
{
    char path[] = "/tmp/nccl-host-boot.XXXXXX", id[64];
    int fd = mkstemp(path);
    bool well;

    if (fd < 0)
        _exit(APART_NONE);
    snprintf(id, sizeof(id), "0f4c2b1e-8d6a-4c3b-9e7f-00000000000%d\n", number + 1);
    well = write(fd, id, strlen(id)) == (ssize_t)strlen(id) && leave_namespaces(CLONE_NEWNS) &&
           mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0;
    close(fd);
    unlink(path);
    if (!well)
        _exit(APART_NONE);
}
