/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/fork.c - see fork.h. */
#include "hosts/malloc/fork.h"
#include "hosts/malloc/blocks.h"
#include "hosts/malloc/next.h"

#include <errno.h>
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

static int cancelled; /* before, of the thread that forks: reading files is a point at which threads are */

static void before(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_mutex_lock(&lock);
    cancelled = state;
    nigh_malloc_blocks_part();
    forker = pthread_self();
}

static void behind_in_parent(void)
{
    int state = cancelled;

    forker = NOBODY;
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(state, NULL);
}

static void behind_in_child(void)
{
    nigh_malloc_blocks_forget();
    forker = NOBODY;
    pthread_mutex_init(&lock, NULL); /* who waited for it is not here */
    pthread_setcancelstate(cancelled, NULL);
}

bool nigh_malloc_fork_register(void)
{
    static bool registered;
    bool first;

    nigh_malloc_lock();
    first = !registered;
    registered = true;
    nigh_malloc_unlock();
    if (first && nigh_malloc_next.register_atfork) /* without the lock: it may allocate */
        nigh_malloc_next.register_atfork(before, behind_in_parent, behind_in_child, NULL);
    return nigh_malloc_next.register_atfork;
}

/* What pthread_atfork() of any object calls. Constructors of libraries run before ours, and handlers that are registered
 * first run within all others: a thread that forks would hold our lock while it waits for a library's, whose owner may
 * be about to allocate. */
__attribute__((visibility("default"))) int __register_atfork(void (*prepare)(void), void (*in_parent)(void),
                                                             void (*in_child)(void), void *object);
int __register_atfork(void (*prepare)(void), void (*in_parent)(void), void (*in_child)(void), void *object)
{
    if (!nigh_malloc_next_find() || !nigh_malloc_fork_register())
        return ENOMEM;
    return nigh_malloc_next.register_atfork(prepare, in_parent, in_child, object);
}
