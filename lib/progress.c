/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/progress.c - sleeping, and waking the threads that sleep, where several use the library. */
#include "lib/progress.h"
#include "lib/complete.h"
#include "lib/thread.h"

#include <errno.h>
#include <time.h>

static bool waiting;      /* a thread is in ops->wait() */
static uint32_t sleepers; /* threads on the condition */

static char wake; /* its address is the context of a receive that wakes the waiting thread */

/* A receive that nobody sends to, taken back at once: its completion is something to poll, and ends ops->wait(). */
static void end_wait(void)
{
    struct nigh_recv recv = {
        .size = sizeof(recv), .tag = UINT64_MAX, .tclass = NIGH_CLASS_CONTROL, .context = (uintptr_t)&wake};

    if (nigh_core.ops->post_recv(nigh_core.context, NULL, &recv) == 0)
        (void)nigh_core.ops->cancel(nigh_core.context, recv.context);
}

bool nigh_progress_is_wake(uint64_t context)
{
    return context == (uintptr_t)&wake;
}

void nigh_progress_wake(void)
{
    if (sleepers)
        pthread_cond_broadcast(&nigh_core.changed);
    if (waiting)
        end_wait();
}

/* A wake-up that another thread has polled is sent again. It is not counted: whoever polls as long as something comes
 * would send and poll it for ever, and the waiting thread would never get the lock. */
int nigh_progress_tell(const struct nigh_completion *done, int count)
{
    int wakes = 0;

    for (int i = 0; i < count; i++)
        wakes += nigh_progress_is_wake(done[i].context);
    nigh_progress_wake();
    return count - wakes;
}

static void count_watchers(void)
{
    nigh_core.watchers = sleepers + waiting;
}

static void sleep_on_condition(uint64_t ns)
{
    uint64_t until = nigh_now_ns() + (ns < UINT64_C(1000000000000) ? ns : UINT64_C(1000000000000));
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};

    sleepers++;
    count_watchers();
    (void)pthread_cond_timedwait(&nigh_core.changed, &nigh_core.lock, &at);
    sleepers--;
    count_watchers();
}

static int sleep_in_plugin(uint64_t ns)
{
    int rc, polled;

    waiting = true;
    count_watchers();
    pthread_mutex_unlock(&nigh_core.lock);
    rc = nigh_core.ops->wait(nigh_core.context, ns);
    nigh_lock();
    waiting = false;
    count_watchers();
    polled = nigh_poll();
    /* One of those on the condition must take this one's place, whether anything was polled or not. */
    if (sleepers)
        pthread_cond_broadcast(&nigh_core.changed);
    return rc == -EINTR ? rc : polled;
}

int nigh_progress_sleep(uint64_t ns)
{
    int rc, polled;

    if (!(nigh_core.guard & NIGH_GUARD_THREADS)) {
        rc = nigh_core.ops->wait(nigh_core.context, ns);
        polled = nigh_poll();
        return rc == -EINTR ? rc : polled;
    }
    if (!waiting)
        return sleep_in_plugin(ns);
    sleep_on_condition(ns);
    return 0;
}
