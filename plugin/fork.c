/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/fork.c - the contexts of this process. A forked child has their private memory but, by MADV_DONTFORK, not
 * their arenas, and its threads are gone. So each context is marked in the child, and every call says -ECHILD. Another
 * thread may have been changing a context at the fork: nothing else of it is looked at, and its memory stays.
 */
#include "plugin/fork.h"
#include "plugin/context.h"
#include "shm/held.h"
#include <errno.h>

/* Within the other one, as a signal's handler may fork while its thread holds that. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct nigh_context *open_contexts;
static bool registered;

static void before(void)
{
    nigh_held_lock();
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
    nigh_held_unlock();
}

static void in_child(void)
{
    for (struct nigh_context *context = open_contexts; context; context = context->next_open) {
        context->guard |= NIGH_GUARD_FORKED;
        context->meets = false;
    }
    open_contexts = NULL;
    /* Also of contexts that are being opened or closed: a listener would keep its name in use after the parent has ended, and a
     * socket would never hang up. */
    nigh_held_abandon();
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

int nigh_fork_handle(void)
{
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (!registered && pthread_atfork(before, in_parent, in_child))
        rc = -ENOMEM;
    registered = registered || !rc;
    pthread_mutex_unlock(&lock);
    return rc;
}

void nigh_fork_watch(struct nigh_context *context)
{
    pthread_mutex_lock(&lock);
    context->next_open = open_contexts;
    context->link_open = &open_contexts;
    if (open_contexts)
        open_contexts->link_open = &context->next_open;
    open_contexts = context;
    pthread_mutex_unlock(&lock);
}

void nigh_fork_forget(struct nigh_context *context)
{
    pthread_mutex_lock(&lock);
    *context->link_open = context->next_open;
    if (context->next_open)
        context->next_open->link_open = context->link_open;
    pthread_mutex_unlock(&lock);
}
