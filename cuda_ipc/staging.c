/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/staging.c - see staging.h. */
#include "cuda_ipc/staging.h"
#include "cuda_ipc/context.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <sys/mman.h>

#define ALL ((size_t)NIGH_STAGING_BLOCKS * NIGH_STAGING_BYTES)

int nigh_staging_open(struct nigh_staging *staging, void *memory)
{
    *staging = (struct nigh_staging){.memory = memory, .own = !memory};
    if (!memory) {
        memory = nigh_os.mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return -ENOMEM;
        /* A child's copy would have the parent's next store go to a new page, and the device to the pinned one. */
        (void)nigh_os.madvise(memory, ALL, MADV_DONTFORK);
        staging->memory = memory;
    }
    while (staging->idles < NIGH_STAGING_BLOCKS) {
        staging->idle[staging->idles] = staging->memory + (size_t)staging->idles * NIGH_STAGING_BYTES;
        staging->idles++;
    }
    pthread_mutex_init(&staging->lock, NULL);
    return 0;
}

void nigh_staging_pin(struct nigh_staging *staging, struct nigh_cuda_context *context)
{
    const struct nigh_driver *driver = context->driver;
    int mode;

    if (staging->pinned_by && !nigh_cuda_context_is_gone(staging->pinned_by))
        return;
    nigh_store_relaxed(&staging->pinned_by, NULL);
    if (nigh_cuda_enter(context, &mode))
        return;
    if (!nigh_driver_check(driver, "cuMemHostRegister",
                           driver->pin(staging->memory, ALL, NIGH_CUDA_PIN_PORTABLE)))
        nigh_store_relaxed(&staging->pinned_by, context);
    nigh_cuda_leave(context, mode);
}

bool nigh_staging_is_pinned(const struct nigh_staging *staging)
{
    const struct nigh_cuda_context *context = nigh_load_relaxed(&staging->pinned_by);

    return context && !nigh_load_relaxed(&context->gone);
}

/* What a context that is gone had pinned went with it. */
static void unpin(struct nigh_staging *staging)
{
    struct nigh_cuda_context *context = staging->pinned_by;
    int mode;

    if (!context || nigh_driver_is_forked() || nigh_cuda_context_is_gone(context) ||
        nigh_cuda_enter(context, &mode))
        return;
    nigh_driver_check(context->driver, "cuMemHostUnregister", context->driver->unpin(staging->memory));
    nigh_cuda_leave(context, mode);
}

void nigh_staging_close(struct nigh_staging *staging)
{
    unpin(staging);
    if (staging->own)
        nigh_os.munmap(staging->memory, ALL);
    pthread_mutex_destroy(&staging->lock);
}

static void *take(struct nigh_staging *staging, unsigned left)
{
    void *block = NULL;

    pthread_mutex_lock(&staging->lock);
    if (staging->idles > left)
        block = staging->idle[--staging->idles];
    pthread_mutex_unlock(&staging->lock);
    return block;
}

void *nigh_staging_take(struct nigh_staging *staging)
{
    return take(staging, 0);
}

void *nigh_staging_hold(struct nigh_staging *staging)
{
    return take(staging, NIGH_STAGING_PASSING);
}

void nigh_staging_give(struct nigh_staging *staging, void *block)
{
    pthread_mutex_lock(&staging->lock);
    staging->idle[staging->idles++] = block;
    pthread_mutex_unlock(&staging->lock);
}
