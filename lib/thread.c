/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/thread.c - the thread of NIGH_PROGRESS=thread. It sleeps in the plugin like any thread that waits, and gives each
 * completion to its operation: a program that comes to its wait finds it ended. Where it has a CPU that
 * no rank needs, it looks for itself for a moment after a large message was posted: to be woken takes
 * 40 us, half as long as such a message.
 */
#include "lib/thread.h"
#include "lib/error.h"
#include "lib/progress.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SLEEP_NS UINT64_C(1000000000)
/* Programs that exchange large messages 50 times a second never wake the thread. While a call waits it moves things by
 * itself, so a rank that is blocked for 10 s has burnt 0.01 % of them. */
#define BUSY_NS UINT64_C(20000000)
#define IDLE_NS UINT64_C(1000000)
#define PAUSES  16 /* between two looks, in which a call of the program gets the lock */
#define LOOKS   8  /* between two looks at the clock */

static pthread_t thread;
static bool running, stop, busy;
static uint64_t busy_until;
static int16_t listed[CPU_SETSIZE]; /* NIGH_PROGRESS_CPUS, in its order */
static int listed_count;

static int list(unsigned long first, unsigned long last)
{
    if (last < first || last >= CPU_SETSIZE || last - first >= (unsigned long)(CPU_SETSIZE - listed_count))
        return -EINVAL;
    for (unsigned long cpu = first; cpu <= last; cpu++)
        listed[listed_count++] = (int16_t)cpu;
    return 0;
}

int nigh_thread_cpus(const char *text)
{
    listed_count = 0;
    while (text && *text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (end == text)
            return -EINVAL;
        if (*end == '-')
            last = strtoul(text = end + 1, &end, 10);
        if (end == text || (*end && *end != ',') || list(first, last) != 0)
            return -EINVAL;
        text = *end ? end + 1 : end;
    }
    return 0;
}

/* Has it a CPU that no rank needs, and no other thread of this kind? Two that look busily share a
 * CPU by turns of milliseconds. */
static bool has_room(void)
{
    struct nigh_query_machine machine = {.size = sizeof(machine)};
    uint64_t bytes = sizeof(machine);
    cpu_set_t own;

    if (nigh_core.ops->query(nigh_core.context, NULL, NIGH_QUERY_MACHINE, &machine, &bytes) != 0 ||
        (machine.cpu_quota && machine.cpu_quota < 2000u * (uint32_t)nigh_core.ranks))
        return false;
    if (listed_count > 0)
        return listed_count >= nigh_core.ranks;
    return sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_COUNT(&own) >= 2 * nigh_core.ranks;
}

/* Of a list with one for each rank it takes its own. */
static void find_place(void)
{
    bool own = listed_count >= nigh_core.ranks;
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    for (int i = 0; i < listed_count; i++)
        if (!own || i == nigh_core.rank)
            CPU_SET((size_t)listed[i], &cpus);
    if (listed_count > 0 && sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
        nigh_say(NIGH_LOG_WARN,
                 "the thread of NIGH_PROGRESS=thread cannot run on the CPUs of NIGH_PROGRESS_CPUS: %s",
                 strerror(errno));
}

/* Never waits for the lock asleep: who has it would have to wake this thread. */
static void take_lock(void)
{
    while (pthread_mutex_trylock(&nigh_core.lock) != 0)
        nigh_pause();
}

/* Without the lock, so that calls of the program come in while this thread copies, and copy with it. Is there something
 * to be polled? Not while a call waits: it does it, on a CPU that may be nearer to the data. */
static bool look(bool waits)
{
    bool found;

    pthread_mutex_unlock(&nigh_core.lock);
    for (int i = 0; i < PAUSES; i++)
        nigh_pause();
    found = !waits && nigh_core.ops->wait(nigh_core.context, 0) == 0;
    /* A call of the program that wants the lock gets it. */
    while (pthread_mutex_trylock(&nigh_core.door) != 0)
        nigh_pause();
    take_lock();
    pthread_mutex_unlock(&nigh_core.door);
    return found;
}

static void look_busily(void)
{
    uint64_t now = nigh_now_ns(), computed = now; /* when last no call waited */

    busy = true;
    for (; !stop && now < busy_until && now - computed < IDLE_NS; now = nigh_now_ns()) {
        if (nigh_core.waiters == 0)
            computed = now;
        /* One of what is there: a poll that has room for more would begin a copy, under the lock. */
        for (int i = 0; i < LOOKS; i++)
            if (look(nigh_core.waiters != 0))
                (void)nigh_poll_up_to(1);
    }
    busy = false;
}

static void *run(void *unused)
{
    (void)unused;
    find_place();
    pthread_mutex_lock(&nigh_core.lock);
    while (!stop) {
        look_busily();
        if (!stop)
            nigh_progress_sleep(SLEEP_NS);
    }
    pthread_mutex_unlock(&nigh_core.lock);
    return NULL;
}

void nigh_thread_expect(void)
{
    busy_until = nigh_now_ns() + BUSY_NS;
    if (!busy)
        nigh_progress_wake();
}

int nigh_thread_start(struct nigh_call call)
{
    int error;

    stop = busy = false;
    busy_until = 0;
    nigh_core.spare = has_room();
    error = pthread_create(&thread, NULL, run, NULL);
    if (error) {
        nigh_core.spare = false;
        return nigh_fail(call, -ENOMEM, "no thread can be started for NIGH_PROGRESS=thread: %s",
                         strerror(error));
    }
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
