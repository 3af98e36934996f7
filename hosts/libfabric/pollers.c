/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/pollers.c - see pollers.h. */
#include "hosts/libfabric/pollers.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* set in each thread that counts, so that its end is heard of */
static bool has_key;
static uint32_t threads;
static cpu_set_t cpus; /* of all that have ever counted: others may run there */
static __thread bool counts;

static void leave(void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    threads--;
    pthread_mutex_unlock(&lock);
}

/* Threads that end when this object is gone must not call into it. */
__attribute__((destructor)) static void forget_key(void)
{
    if (has_key)
        pthread_key_delete(key);
}

/* Of a forked child's threads none is left but the one that forked, and the lock may be another one's. */
static void forget_threads(void)
{
    pthread_mutex_init(&lock, NULL);
    threads = 0;
    CPU_ZERO(&cpus);
    if (counts && has_key)
        pthread_setspecific(key, NULL);
    counts = false;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, leave) == 0 && pthread_atfork(NULL, NULL, forget_threads) == 0;
}

/* Who cannot be heard of when it ends does not count. */
static void enter(void)
{
    cpu_set_t mine;

    counts = true;
    pthread_once(&once, make_key);
    if (!has_key || sched_getaffinity(0, sizeof(mine), &mine) || pthread_setspecific(key, &key))
        return;
    pthread_mutex_lock(&lock);
    threads++;
    CPU_OR(&cpus, &cpus, &mine);
    pthread_mutex_unlock(&lock);
}

bool nigh_fi_pollers_crowd(void)
{
    bool crowd;

    if (!counts)
        enter();
    pthread_mutex_lock(&lock);
    crowd = threads > 1 && threads > (uint32_t)CPU_COUNT(&cpus);
    pthread_mutex_unlock(&lock);
    return crowd;
}
