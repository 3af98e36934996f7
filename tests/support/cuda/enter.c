/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/enter.c - what every call of the fake driver begins with: delay, lock, count, injected error. */
#include "tests/support/cuda/fake.h"

#include "tests/support/cuda_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REFUSED_MOST = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t started_in; /* a forked child has no driver, and gets none */

/* Calls that always fail, as a test wants it. */
static struct {
    char call[48];
    int result;
} refused[REFUSED_MOST];

void fake_lock(void)
{
    pthread_mutex_lock(&lock);
    fake_configure();
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void fake_leave(const int *entered)
{
    (void)entered;
    fake_unlock();
}

long fake_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

void fake_pause(void)
{
    fake_unlock();
    sleep_us(50);
    fake_lock();
}

void fake_wrong(const char *call, const char *what)
{
    fprintf(stderr, "%s %s\n", call, what);
    abort();
}

void fake_waits_for_host(const char *call)
{
    long begin = fake_now_us();

    if (fake_held_here())
        fake_wrong(call, "waits for a kernel of the host's, which may wait for this very message");
    while (fake_held() || fake_spins()) {
        if (fake_now_us() - begin > STUCK_S * 1000000L)
            fake_wrong(call, "waits for a kernel that does not end");
        fake_pause();
    }
}

static void lock_for_fork(void)
{
    pthread_mutex_lock(&lock);
}

void fake_started(bool started)
{
    static bool watched;

    if (!watched)
        pthread_atfork(lock_for_fork, fake_unlock, fake_unlock);
    watched = true;
    started_in = started ? getpid() : 0;
}

void fake_refuse(const char *call, int result)
{
    int i = 0;

    while (i < REFUSED_MOST - 1 && refused[i].call[0] && strcmp(refused[i].call, call) != 0)
        i++;
    snprintf(refused[i].call, sizeof(refused[i].call), "%s", call);
    refused[i].result = result;
}

static int refuses(const char *call)
{
    long after, result = fake_listed(fake.fails, call, &after);

    for (int i = 0; i < REFUSED_MOST && refused[i].call[0]; i++)
        if (strcmp(refused[i].call, call) == 0)
            return refused[i].result;
    if (result < 0)
        return 0;
    return after < 0 || (long)cuda_calls(call) == after + 1 ? (int)result : 0;
}

/* Before cuInit(), and after a fork, the driver refuses; what it answers in any state asks for no start. */
static bool is_started(const char *call)
{
    return started_in == getpid() || (!started_in && strcmp(call, "cuInit") == 0) ||
           strcmp(call, "cuDriverGetVersion") == 0 || strcmp(call, "cuGetProcAddress_v2") == 0;
}

int fake_enter(const char *call)
{
    long delay;
    bool fails;

    fake_lock();
    delay = fake_listed(fake.delays, call, NULL);
    if (delay > 0) {
        fake_unlock();
        sleep_us(delay);
        fake_lock();
    }
    fails = cuda_call_fails(call);
    if (!is_started(call))
        return CU_NOT_INITIALIZED;
    return fails ? TEST_CUDA_ERROR : refuses(call);
}
