/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/thread.c - the thread of NIGH_PROGRESS=thread. It sleeps in the plugin like any thread that waits, and gives each
 * completion to its operation: a program that comes to its wait finds it ended.
 */
#include "lib/thread.h"
#include "lib/error.h"
#include "lib/progress.h"

#include <errno.h>
#include <string.h>

#define SLEEP_NS UINT64_C(1000000000)

static pthread_t thread;
static bool running, stop;

static void *run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&nigh_core.lock);
    while (!stop)
        nigh_progress_sleep(SLEEP_NS);
    pthread_mutex_unlock(&nigh_core.lock);
    return NULL;
}

int nigh_thread_start(struct nigh_call call)
{
    int error;

    stop = false;
    error = pthread_create(&thread, NULL, run, NULL);
    if (error)
        return nigh_fail(call, -ENOMEM, "no thread can be started for NIGH_PROGRESS=thread: %s",
                         strerror(error));
    running = true;
    return 0;
}

void nigh_thread_stop(void)
{
    if (!running)
        return;
    stop = true;
    nigh_progress_wake();
    pthread_mutex_unlock(&nigh_core.lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&nigh_core.lock);
    running = false;
}
