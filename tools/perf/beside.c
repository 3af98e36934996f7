/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and ending busy loops, each by its own number. */
#include "tools/perf/beside.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pids[PERF_BESIDE];
static uint32_t running;

static void burn(pid_t parent)
{
    volatile uint64_t turns = 0;

    /* A parent that ended before the call would not be noticed by it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    for (;;)
        turns++;
}

int perf_beside_start(uint32_t count)
{
    pid_t parent = getpid();

    fflush(NULL);
    while (running < count && running < PERF_BESIDE) {
        pid_t pid = fork();

        if (pid == 0)
            burn(parent);
        if (pid < 0) {
            fprintf(stderr, "nigh-perf: busy loop %" PRIu32 " of %" PRIu32 ": %s\n", running + 1, count,
                    strerror(errno));
            perf_beside_stop();
            return -EAGAIN;
        }
        pids[running++] = pid;
    }
    return 0;
}

void perf_beside_stop(void)
{
    for (uint32_t i = 0; i < running; i++)
        kill(pids[i], SIGKILL);
    for (; running > 0; running--)
        while (waitpid(pids[running - 1], NULL, 0) < 0 && errno == EINTR)
            continue;
}
