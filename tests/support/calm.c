/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linked into every test where the address sanitizer is: its allocator has locks of its own, which no handler of a fork
 * takes. A child that is forked while another thread has one would wait for it for ever, so a fork waits until the other
 * threads sleep, which none does for long inside the allocator.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void nigh_calm_forks(void);

enum { TRIES = 2000, PAUSE_NS = 50000 };

static bool sleeps(const char *thread)
{
    char path[64], stat[256];
    const char *name_end;
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* it has ended */
    bytes = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    stat[bytes > 0 ? bytes : 0] = '\0';
    name_end = strrchr(stat, ')');
    return !name_end || name_end[1] == '\0' || name_end[2] != 'R';
}

static bool all_sleep(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    bool all = true;

    while (threads && all && (thread = readdir(threads)))
        all = thread->d_name[0] == '.' || atoi(thread->d_name) == gettid() || sleeps(thread->d_name);
    if (threads)
        closedir(threads);
    return all;
}

/* Threads that spin never sleep: after a tenth of a second their test takes its chance. */
static void wait_for_calm(void)
{
    for (int i = 0; i < TRIES && !all_sleep(); i++)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* Registered first, so called last, when nothing else is done before the fork. */
__attribute__((constructor)) void nigh_calm_forks(void)
{
    pthread_atfork(wait_for_calm, NULL, NULL);
}
