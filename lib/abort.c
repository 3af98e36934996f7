/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/abort.c - ending a job at once. A child ends the other ranks when this one is gone, so that whoever started the
 * job sees the status of the rank that wanted the end before those of its victims. */
#include "include/common/descriptor.h"
#include "include/common/proc.h"
#include "lib/error.h"
#include "lib/peer.h"
#include "lib/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEET_NS  UINT64_C(200000000) /* for ranks that this one has not met yet */
#define GRACE_MS 2000                /* between TERM and KILL, as nigh-run has it */
#define LAST_MS  200                 /* for this rank to be gone */

/* A process, and when it was started: another one may get its number. Not known without /proc: the number alone then. */
struct process {
    int32_t pid; /* 0: none, or not seen from here */
    unsigned long long started;
};

/* In ticks since boot; 0: not known. */
static unsigned long long started(int32_t pid)
{
    unsigned long long ticks = 0;
    char name[32], line[1024] = "", *end;
    FILE *file;

    snprintf(name, sizeof(name), "/proc/%d/stat", pid);
    file = nigh_fd_fopen(name);
    if (!file)
        return 0;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    end = strrchr(line, ')'); /* the program's name may have any characters in it */
    if (!end ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        return 0;
    return ticks;
}

/* Who a rank is, if it has answered and is alive: its state is asked again when its number has been looked up. */
static void find(int rank, struct process *process)
{
    int32_t pid = nigh_peer_pid(rank);
    struct process found = {.pid = pid, .started = nigh_proc_counts_as_we() ? started(pid) : 0};

    (void)nigh_poll();
    if (nigh_peer_state(rank) == NIGH_READY)
        *process = found;
}

/* Where every rank is. */
static void find_all(struct process *processes)
{
    struct nigh_call none = {"nigh_abort", NULL};
    uint64_t until = nigh_now_ns() + MEET_NS;
    struct nigh_endpoint *endpoint;
    int missing;

    do {
        missing = 0;
        (void)nigh_poll();
        for (int rank = 0; rank < nigh_core.ranks; rank++) {
            uint32_t state;

            if (rank == nigh_core.rank || processes[rank].pid || nigh_peer_connect(none, rank, &endpoint))
                continue;
            state = nigh_peer_state(rank);
            if (state == NIGH_READY)
                find(rank, &processes[rank]);
            missing += state == NIGH_CONNECTING;
        }
    } while (missing && nigh_now_ns() < until);
}

static void nap_ms(long ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

static bool is_there(const struct process *process)
{
    return process->pid > 0 && (!process->started || started(process->pid) == process->started);
}

/* How many of them there still are. */
static int signal_all(const struct process *processes, int number)
{
    int left = 0;

    for (int rank = 0; rank < nigh_core.ranks; rank++) {
        if (is_there(&processes[rank]) && kill(processes[rank].pid, number) == 0)
            left++;
    }
    return left;
}

static void end_all(const struct process *processes, pid_t me)
{
    for (int ms = 0; ms < LAST_MS && getppid() == me; ms++)
        nap_ms(1);
    /* It has given its children away, and tells whoever started it a moment later. */
    nap_ms(20);
    signal_all(processes, SIGTERM);
    for (int ms = 0; ms < GRACE_MS; ms += 10) {
        nap_ms(10);
        if (signal_all(processes, 0) == 0)
            return;
    }
    signal_all(processes, SIGKILL);
}

NIGH_PUBLIC void nigh_abort(int code)
{
    struct nigh_call call = NIGH_CALL("nigh_abort");
    struct process *processes = NULL;
    pid_t me = getpid();

    if (nigh_initialized() && nigh_enter_beside(call) == 0) {
        nigh_say(NIGH_LOG_ERROR, "%s%s: ends all ranks with status %d", call.name, nigh_where(call.site).text,
                 code);
        processes = calloc((size_t)nigh_core.ranks, sizeof(*processes));
    }
    if (processes) {
        find_all(processes);
        if (fork() == 0) {
            end_all(processes, me);
            code = 0;
        }
    }
    _exit(code);
}
