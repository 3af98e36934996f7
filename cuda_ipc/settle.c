/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/settle.c - see settle.h. */
#include "cuda_ipc/settle.h"
#include "cuda_ipc/context.h"
#include "shm/clock.h"
#include "shm/os.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* A copy that has returned ends within microseconds; one that waits for a kernel does not return. */
#define SETTLE_NS UINT64_C(2000000)

static struct nigh_settle *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int nigh_settle_open(struct nigh_cuda_context *context)
{
    struct nigh_settle *settle;

    pthread_mutex_lock(&lock);
    settle = all;
    while (settle && (settle->handle != context->handle || settle->id != context->id))
        settle = settle->next;
    if (!settle && (settle = nigh_os.calloc(1, sizeof(*settle)))) {
        settle->handle = context->handle;
        settle->id = context->id;
        settle->next = all;
        all = settle;
    }
    if (settle)
        settle->users++;
    pthread_mutex_unlock(&lock);
    context->settle = settle;
    return settle ? 0 : -ENOMEM;
}

void nigh_settle_close(struct nigh_cuda_context *context)
{
    struct nigh_settle **link = &all;

    if (!context->settle || nigh_driver_is_forked()) /* a thread that is not in the child may hold the lock */
        return;
    pthread_mutex_lock(&lock);
    while (*link != context->settle)
        link = &(*link)->next;
    if (!--context->settle->users) {
        *link = context->settle->next;
        free(context->settle);
    }
    pthread_mutex_unlock(&lock);
    context->settle = NULL;
}

void nigh_settle_memory(struct nigh_cuda_context *context, const void *memory)
{
    unsigned one = 1;
    bool told;

    pthread_mutex_lock(&lock);
    if (!context->settle->finishes) {
        told =
            context->driver->pointer_set(&one, NIGH_CUDA_POINTER_SYNC_MEMOPS, nigh_cuda_ptr_of(memory)) == 0;
        context->settle->seen++;
        context->settle->untold |= !told;
    }
    pthread_mutex_unlock(&lock);
}

/* To ask the legacy stream while a graph is captured would void the graph: only the time is waited for then. */
static bool is_at_rest(const struct nigh_driver *driver)
{
    int status = 0;

    return driver->is_capturing(NULL, &status) == 0 && !status && driver->stream_query(NULL) == 0;
}

/* Telling a context waits for all of its legacy stream: only when that is at rest. */
static bool tell(const struct nigh_driver *driver)
{
    unsigned flags = 0;

    return driver->set_flags && driver->get_flags(&flags) == 0 &&
           (flags & NIGH_CUDA_CTX_SYNC_MEMOPS || driver->set_flags(flags | NIGH_CUDA_CTX_SYNC_MEMOPS) == 0);
}

static bool is_settled(const struct nigh_settle *settle)
{
    return settle->settled == settle->seen && !settle->untold;
}

/* The lock is held. */
static bool step(struct nigh_cuda_context *context, struct nigh_settling *settling)
{
    struct nigh_settle *settle = context->settle;

    if (is_settled(settle))
        return true;
    if (!settling->until_ns) {
        settling->seen = settle->seen;
        settling->until_ns = nigh_clock_ns() + SETTLE_NS;
    }
    if (is_at_rest(context->driver)) {
        if (settle->untold && tell(context->driver)) {
            settle->finishes = true;
            settle->untold = false;
        }
    } else if (nigh_clock_ns() < settling->until_ns) {
        return false;
    }
    if (settle->settled < settling->seen)
        settle->settled = settling->seen;
    return true;
}

int nigh_cuda_settle(struct nigh_cuda_context *context, struct nigh_settling *settling)
{
    int mode, left, rc;
    bool settled;

    if (nigh_driver_is_forked())
        return -ECHILD;
    pthread_mutex_lock(&lock);
    settled = is_settled(context->settle);
    pthread_mutex_unlock(&lock);
    if (settled)
        return 0;
    rc = nigh_cuda_enter(context, &mode);
    if (rc)
        return rc;
    pthread_mutex_lock(&lock);
    settled = step(context, settling);
    pthread_mutex_unlock(&lock);
    left = nigh_cuda_leave(context, mode);
    return left ? left : settled ? 0 : -EAGAIN;
}
