/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descendants are found in /proc by their parents' numbers, again and again until none is left. Where /proc is not mounted,
 * or counts processes otherwise, children are found by asking waitid() for each number that they can have; their own
 * children become ours when they have ended.
 */
#include "tools/run/orphans.h"
#include "include/common/proc.h"
#include "shm/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS  UINT64_C(5000000)     /* between two looks; a kill takes effect in well under that */
#define STUCK_NS UINT64_C(10000000000) /* a process that survives KILL for so long sits in the kernel */
#define PID_LAST (1 << 22)             /* the kernel's PID_MAX_LIMIT */

struct process {
    pid_t pid, parent;
    bool ours;
};

struct table {
    struct process *rows;
    size_t count, room;
};

/* The parent of a process that is not yet a zombie, -1 otherwise. */
static pid_t parent_of(const char *pid)
{
    char path[300], line[1024], *end, state;
    size_t count;
    FILE *file;
    int parent;

    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return -1;
    count = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[count] = '\0';
    end = strrchr(line, ')'); /* the name in front of it may hold anything */
    if (end == NULL || sscanf(end + 1, " %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X')
        return -1;
    return parent;
}

static void add(struct table *table, pid_t pid, pid_t parent)
{
    if (table->count == table->room) {
        size_t room = table->room * 2 + 256;
        struct process *rows = reallocarray(table->rows, room, sizeof(*rows));

        if (rows == NULL)
            return; /* found at the next look, when some are gone */
        table->rows = rows;
        table->room = room;
    }
    table->rows[table->count++] = (struct process){pid, parent, false};
}

static void read_processes(struct table *table)
{
    DIR *directory = opendir("/proc");
    struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        pid_t parent;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        parent = parent_of(entry->d_name);
        if (parent > 0)
            add(table, atoi(entry->d_name), parent);
    }
    if (directory != NULL)
        closedir(directory);
}

static bool is_ours(const struct table *table, pid_t pid)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].pid == pid)
            return table->rows[i].ours;
    return false;
}

/* One generation after the other, until nothing is added. */
static void mark(struct table *table, pid_t root)
{
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *row = &table->rows[i];

            if (!row->ours && (row->parent == root || is_ours(table, row->parent)))
                row->ours = more = true;
        }
    }
}

/* ---- without /proc ---- */

/* Numbers are given out in order, and begin again after the last: all since this process was made lie up to this one. 0: not
 * known. */
static pid_t newest(void)
{
    pid_t probe = fork();

    if (probe == 0)
        _exit(0);
    if (probe < 0)
        return 0;
    while (waitpid(probe, NULL, 0) < 0 && errno == EINTR)
        ;
    return probe;
}

/* Signals children with numbers from `first` to `last`. How many there are, with those that have ended. */
static uint32_t signal_range(pid_t first, pid_t last, int number, uint32_t *running)
{
    uint32_t count = 0;

    for (pid_t pid = first; pid <= last; pid++) {
        siginfo_t info = {0};

        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
            continue;
        count++;
        if (info.si_pid != 0)
            continue;
        (*running)++;
        if (number != 0)
            kill(pid, number);
    }
    return count;
}

static uint32_t signal_children(int number)
{
    pid_t me = getpid(), last = newest();
    uint32_t running = 0, found = 0;

    if (last > me)
        found = signal_range(me + 1, last, number, &running);
    else if (last > 0)
        found = signal_range(me + 1, PID_LAST, number, &running) + signal_range(1, last, number, &running);
    if (found == 0) /* older than all numbers that are given out */
        signal_range(1, PID_LAST, number, &running);
    return running;
}

/* ---- all ---- */

uint32_t run_orphans_signal(int number)
{
    struct table table = {0};
    uint32_t count = 0;

    if (!nigh_proc_counts_as_we())
        return signal_children(number);
    read_processes(&table);
    mark(&table, getpid());
    for (size_t i = 0; i < table.count; i++) {
        if (!table.rows[i].ours)
            continue;
        count++;
        if (number != 0)
            kill(table.rows[i].pid, number);
    }
    free(table.rows);
    return count;
}

/* Reap what has ended. False when there are no children at all. */
static bool reap(void)
{
    pid_t pid;

    do {
        pid = waitpid(-1, NULL, WNOHANG);
    } while (pid > 0);
    return pid == 0;
}

/* Wait until all children are gone, `number` being sent again at every look (0: not at all). */
static bool wait_for_all(uint64_t limit_ns, int number)
{
    uint64_t end = nigh_clock_ns() + limit_ns;
    struct timespec step = {.tv_nsec = STEP_NS};

    while (reap()) {
        if (nigh_clock_ns() >= end)
            return false;
        if (number != 0)
            run_orphans_signal(number);
        nanosleep(&step, NULL);
    }
    return true;
}

void run_orphans_end(uint64_t grace_ns, struct run_orphans *result)
{
    *result = (struct run_orphans){0};
    if (!reap())
        return;
    result->ended = run_orphans_signal(grace_ns > 0 ? SIGTERM : SIGKILL);
    if (grace_ns > 0) {
        run_orphans_signal(SIGCONT); /* a stopped process would not see the TERM */
        if (wait_for_all(grace_ns, 0))
            return;
    }
    if (wait_for_all(STUCK_NS, SIGKILL))
        return;
    result->left = run_orphans_signal(0);
    result->left += result->left == 0; /* one that /proc hides, of another user */
}
