/* SPDX-License-Identifier: BSD-3-Clause */
/* `PROGRAM --launch COMMAND...`: runs a launcher (mpirun) and answers for everything that it starts. It is a process
 * of its own because it makes itself the reaper of all descendants, so that none can escape by losing its parent,
 * and because it outlives a nigh-perf that is killed. It ends them when its standard input says so or ends. */
#include "tools/perf/peer_rank.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAMILY_MAX 65536
#define FILES_MAX  256
#define GRACE_MS   1500

struct process {
    pid_t pid, parent;
    bool ours;
};

/* Files in /dev/shm that the family has mapped: an MPI removes its own only when it ends by itself. The inode tells
 * whether a name still means the same file. */
struct shared_file {
    ino_t inode;
    char *path;
};

static struct shared_file files[FILES_MAX];
static int file_count;

static pid_t parent_of(pid_t pid)
{
    char name[64], text[512];
    long parent = -1;

    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    FILE *file = fopen(name, "re");
    if (!file)
        return -1;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    char *after = strrchr(text, ')'); /* the name in parentheses may hold anything */
    if (!after || sscanf(after + 1, " %*c %ld", &parent) != 1)
        return -1;
    return (pid_t)parent;
}

/* All processes of the machine; returns how many. */
static int all_processes(struct process *list, int max)
{
    DIR *proc = opendir("/proc");
    int count = 0;

    for (struct dirent *entry; proc && count < max && (entry = readdir(proc));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0)
            continue;
        pid_t parent = parent_of(pid);
        if (parent > 0)
            list[count++] = (struct process){.pid = pid, .parent = parent};
    }
    if (proc)
        closedir(proc);
    return count;
}

/* Marks the descendants of this process; returns how many there are. */
static int mark_family(struct process *list, int count)
{
    int found = 0, before;

    do {
        before = found;
        for (int i = 0; i < count; i++) {
            bool child = list[i].parent == getpid();
            for (int j = 0; j < count && !child; j++)
                child = list[j].ours && list[j].pid == list[i].parent;
            if (child && !list[i].ours) {
                list[i].ours = true;
                found++;
            }
        }
    } while (found > before);
    return found;
}

static void remember_file(const char *path)
{
    struct stat info;

    for (int i = 0; i < file_count; i++) {
        if (!strcmp(files[i].path, path))
            return;
    }
    if (file_count < FILES_MAX && !lstat(path, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        (files[file_count].path = strdup(path)))
        files[file_count++].inode = info.st_ino;
}

static void remember_files_of(pid_t pid)
{
    char name[64], line[1024];

    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *path = strstr(line, " /dev/shm/");
        line[strcspn(line, "\n")] = 0;
        if (path && !strstr(path, " (deleted)"))
            remember_file(path + 1);
    }
    if (file)
        fclose(file);
}

static void remove_files(void)
{
    struct stat info;

    for (int i = 0; i < file_count; i++) {
        if (!lstat(files[i].path, &info) && info.st_ino == files[i].inode)
            unlink(files[i].path);
        free(files[i].path);
    }
    file_count = 0;
}

/* Sends every descendant a signal, 0 for none; all files are looked at before. */
static void signal_family(int signal)
{
    static struct process list[FAMILY_MAX];
    int count = all_processes(list, FAMILY_MAX);

    mark_family(list, count);
    for (int i = 0; i < count; i++) {
        if (list[i].ours)
            remember_files_of(list[i].pid);
    }
    for (int i = 0; i < count && signal; i++) {
        if (list[i].ours)
            kill(list[i].pid, signal);
    }
}

/* Takes what has ended; returns false when there is no child left. *status is set when `wanted` was among them. */
static bool reap(pid_t wanted, int *status)
{
    for (;;) {
        int how;
        pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid == wanted)
            *status = how;
        if (pid <= 0)
            return pid == 0;
    }
}

static void end_family(void)
{
    int ignored;

    /* Everything is stopped before anything dies: the death of one makes others clean up by halves. */
    signal_family(SIGSTOP);
    while (reap(0, &ignored)) {
        signal_family(SIGKILL);
        usleep(2000);
    }
    remove_files();
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

/* A directory for what the peer leaves lying about; also removed when the peer is killed. */
static bool own_directory(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");

    if ((size_t)snprintf(path, size, "%s/nigh-peer-XXXXXX", base && *base ? base : "/tmp") >= size ||
        !mkdtemp(path)) {
        fprintf(stderr, "peer: no directory for temporary files at %s: %s\n", path, strerror(errno));
        return false;
    }
    setenv("TMPDIR", path, 1);
    return true;
}

static pid_t start(char **command)
{
    sigset_t none;
    pid_t pid = fork();

    if (pid)
        return pid;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen("/dev/null", "r", stdin))
        _exit(126);
    execvp(command[0], command);
    fprintf(stderr, "peer: cannot start %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

/* Waits until the launcher has ended or must. Returns true when it ended. */
static bool watch(pid_t launcher, int signals, int *status)
{
    struct pollfd on[2] = {{.fd = signals, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    uint64_t end = 0;

    *status = -1;
    while (*status == -1) {
        struct signalfd_siginfo info;
        char order;
        int wait = !end ? -1 : end > peer_clock_ns() ? (int)((end - peer_clock_ns()) / 1000000) : 0;
        int ready = poll(on, end ? 1 : 2, wait);

        if (ready == 0)
            return false;
        if (on[0].revents && read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
            return false;
        if (!end && on[1].revents) {
            bool told = read(0, &order, 1) == 1;
            if (told && order != PEER_READY)
                return false;
            signal_family(0); /* a launcher whose rank dies takes the others along before they can clean up */
            if (told)
                continue;
            /* nigh-perf is gone: the ranks see it too and end by themselves, unless they hang. */
            end = peer_clock_ns() + GRACE_MS * 1000000ull;
        }
        reap(launcher, status);
    }
    return true;
}

/* Whether /proc counts processes as we do: else nothing that the launcher starts could be found, and ended. */
static bool has_proc(void)
{
    char text[16] = "";

    return readlink("/proc/self", text, sizeof text - 1) > 0 && atoi(text) == getpid();
}

int peer_launch(char **command)
{
    char directory[256];
    sigset_t set;
    int status = -1;

    close_range(3, ~0u, 0);
    if (!has_proc()) {
        fprintf(stderr, "peer: /proc is not mounted here: what %s starts could not be ended: mount it\n",
                command[0]);
        return 1;
    }
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0 || !own_directory(directory, sizeof directory))
        return 1;
    pid_t launcher = start(command);
    bool ended = launcher > 0 && watch(launcher, signals, &status);
    end_family();
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
