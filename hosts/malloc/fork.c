/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/fork.c - see fork.h. */
#include "hosts/malloc/fork.h"
#include "hosts/malloc/blocks.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The thread that forks, or NOBODY. A thread compares it with itself alone, and it is itself only where it wrote so last: it
 * matters not when the others see it change. */
#define NOBODY ((pthread_t)0)
static volatile pthread_t forker = NOBODY;

bool nigh_malloc_forks(void)
{
    return pthread_equal(forker, pthread_self());
}

void nigh_malloc_lock(void)
{
    if (!nigh_malloc_forks())
        pthread_mutex_lock(&lock);
}

void nigh_malloc_unlock(void)
{
    if (!nigh_malloc_forks())
        pthread_mutex_unlock(&lock);
}

static void before(void)
{
    pthread_mutex_lock(&lock);
    nigh_malloc_blocks_part();
    forker = pthread_self();
}

static void behind_in_parent(void)
{
    forker = NOBODY;
    pthread_mutex_unlock(&lock);
}

static void behind_in_child(void)
{
    nigh_malloc_blocks_forget();
    forker = NOBODY;
    pthread_mutex_init(&lock, NULL); /* who waited for it is not here */
}

void nigh_malloc_fork_register(void)
{
    static bool registered;
    bool first;

    nigh_malloc_lock();
    first = !registered;
    registered = true;
    nigh_malloc_unlock();
    if (first) /* without the lock: it may allocate */
        pthread_atfork(before, behind_in_parent, behind_in_child);
}
