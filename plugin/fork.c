/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/fork.c - the contexts of this process. A forked child has their private memory but, by MADV_DONTFORK, not
 * their arenas, and its threads are gone; so each context is marked in the child and every call says -ECHILD.
 */
#include "plugin/fork.h"
#include "plugin/context.h"
#include "shm/rendezvous.h"
#include <errno.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nigh_context *open_contexts;
static bool registered;

static void before(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (struct nigh_context *context = open_contexts; context; context = context->next_open) {
        context->guard |= NIGH_GUARD_FORKED;
        nigh_context_settle(context);
        nigh_rendezvous_abandon(context->rendezvous);
    }
    open_contexts = NULL;
    pthread_mutex_init(&lock, NULL);
}

int nigh_fork_watch(struct nigh_context *context)
{
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (!registered && pthread_atfork(before, in_parent, in_child))
        rc = -ENOMEM;
    registered = registered || !rc;
    if (!rc) {
        context->next_open = open_contexts;
        context->link_open = &open_contexts;
        if (open_contexts)
            open_contexts->link_open = &context->next_open;
        open_contexts = context;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void nigh_fork_forget(struct nigh_context *context)
{
    pthread_mutex_lock(&lock);
    *context->link_open = context->next_open;
    if (context->next_open)
        context->next_open->link_open = context->link_open;
    pthread_mutex_unlock(&lock);
}
