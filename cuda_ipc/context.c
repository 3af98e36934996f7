/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/context.c - see context.h. */
#include "cuda_ipc/context.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <stdlib.h>

/* ---- entering ------------------------------------------------------------------------------------------ */

static unsigned long long id_of(const struct nigh_driver *driver, void *handle)
{
    unsigned long long id = 0;

    return driver->context_id && driver->context_id(handle, &id) == 0 ? id + 1 : 0;
}

static void set_gone(struct nigh_cuda_context *context)
{
    nigh_store_relaxed(&context->gone, true);
}

/* A call that fails for another reason says nothing of the context. */
static bool is_same(const struct nigh_cuda_context *context)
{
    unsigned long long id = 0;
    int result = context->driver->context_id(context->handle, &id);

    if (result)
        return result != NIGH_CUDA_CONTEXT_IS_DESTROYED && result != NIGH_CUDA_INVALID_CONTEXT;
    return id + 1 == context->id;
}

bool nigh_cuda_context_is_gone(struct nigh_cuda_context *context)
{
    if (nigh_load_relaxed(&context->gone))
        return true;
    if (!context->id || is_same(context))
        return false;
    set_gone(context);
    return true;
}

int nigh_cuda_relax(const struct nigh_driver *driver, int *mode)
{
    *mode = NIGH_CUDA_CAPTURE_RELAXED;
    if (nigh_driver_is_forked())
        return -ECHILD;
    return nigh_driver_check(driver, "cuThreadExchangeStreamCaptureMode",
                             driver->exchange_capture_mode(mode));
}

int nigh_cuda_put_back(const struct nigh_driver *driver, int mode)
{
    return nigh_driver_check(driver, "cuThreadExchangeStreamCaptureMode",
                             driver->exchange_capture_mode(&mode));
}

int nigh_cuda_enter(struct nigh_cuda_context *context, int *mode)
{
    const struct nigh_driver *driver = context->driver;
    void *popped;
    int result, rc;

    if (nigh_driver_is_forked())
        return -ECHILD;
    if (nigh_cuda_context_is_gone(context)) {
        nigh_log(NIGH_LOG_WARN, "CUDA: the context that a buffer of device %d lay in was destroyed",
                 context->ordinal);
        return -EIO;
    }
    result = driver->push(context->handle);
    if (result == NIGH_CUDA_INVALID_CONTEXT || result == NIGH_CUDA_CONTEXT_IS_DESTROYED)
        set_gone(context);
    rc = nigh_driver_check(driver, "cuCtxPushCurrent", result);
    if (rc)
        return rc;
    rc = nigh_cuda_relax(driver, mode);
    if (rc)
        driver->pop(&popped);
    return rc;
}

int nigh_cuda_leave(const struct nigh_cuda_context *context, int mode)
{
    const struct nigh_driver *driver = context->driver;
    void *popped;
    int rc = nigh_cuda_put_back(driver, mode),
        left = nigh_driver_check(driver, "cuCtxPopCurrent", driver->pop(&popped));

    return rc ? rc : left;
}

/* ---- finding ------------------------------------------------------------------------------------------- */

static int open_lanes(struct nigh_cuda_context *context)
{
    int mode, left, rc = nigh_cuda_enter(context, &mode);

    if (rc)
        return rc;
    rc = nigh_lanes_open(&context->lanes, context->driver);
    left = nigh_cuda_leave(context, mode);
    return rc ? rc : left;
}

/* What belonged to a context that is gone went with it. */
static void close_lanes(struct nigh_cuda_context *context)
{
    int mode;
    bool enters =
        !nigh_driver_is_forked() && !nigh_cuda_context_is_gone(context) && !nigh_cuda_enter(context, &mode);

    nigh_lanes_close(&context->lanes, enters ? context->driver : NULL);
    if (enters)
        nigh_cuda_leave(context, mode);
}

static void close_context(struct nigh_cuda_context *context)
{
    const struct nigh_driver *driver = context->driver;

    close_lanes(context);
    nigh_settle_close(context);
    if (context->primary && !nigh_driver_is_forked())
        nigh_driver_check(driver, "cuDevicePrimaryCtxRelease", driver->primary_release(context->ordinal));
    free(context);
}

static int hold_primary(struct nigh_cuda_context *context)
{
    const struct nigh_driver *driver = context->driver;
    int device, rc = nigh_driver_check(driver, "cuDeviceGet", driver->device_get(&device, context->ordinal));

    if (!rc)
        rc = nigh_driver_check(driver, "cuDevicePrimaryCtxRetain",
                               driver->primary_retain(&context->handle, device));
    context->primary = !rc;
    return rc;
}

static int open_context(struct nigh_cuda *cuda, void *handle, int ordinal, struct nigh_cuda_context **out)
{
    struct nigh_cuda_context *context = nigh_os.calloc(1, sizeof(*context));
    int rc = 0;

    if (!context)
        return -ENOMEM;
    context->cuda = cuda;
    context->driver = cuda->driver;
    context->handle = handle;
    context->ordinal = ordinal;
    nigh_lanes_begin(&context->lanes);
    if (!handle)
        rc = hold_primary(context);
    if (!rc) {
        context->id = id_of(cuda->driver, context->handle);
        rc = nigh_settle_open(context);
    }
    if (!rc)
        rc = open_lanes(context);
    if (rc) {
        close_context(context);
        return rc;
    }
    nigh_staging_pin(&cuda->staging, context);
    context->next = cuda->contexts;
    cuda->contexts = context;
    *out = context;
    return 0;
}

/* The one that the host works in, if it is of that device. */
static void *host_context(const struct nigh_driver *driver, int ordinal)
{
    void *context = NULL;
    int its = -1;

    if (driver->current(&context) || !context || driver->current_device(&its) || its != ordinal)
        return NULL;
    return context;
}

static bool is_it(const struct nigh_cuda_context *context, void *handle, int ordinal)
{
    return handle ? context->handle == handle : context->primary && context->ordinal == ordinal;
}

int nigh_cuda_context_find(struct nigh_cuda *cuda, void *handle, int ordinal, struct nigh_cuda_context **out)
{
    struct nigh_cuda_context *context;
    int rc = 0;

    if (nigh_driver_is_forked())
        return -ECHILD;
    if (!handle)
        handle = host_context(cuda->driver, ordinal);
    pthread_mutex_lock(&cuda->lock);
    context = cuda->contexts;
    while (context && (!is_it(context, handle, ordinal) || nigh_cuda_context_is_gone(context)))
        context = context->next;
    if (!context)
        rc = open_context(cuda, handle, ordinal, &context);
    pthread_mutex_unlock(&cuda->lock);
    if (!rc)
        *out = context;
    return rc;
}

void nigh_cuda_contexts_close(struct nigh_cuda *cuda)
{
    struct nigh_cuda_context *next;

    for (; cuda->contexts; cuda->contexts = next) {
        next = cuda->contexts->next;
        close_context(cuda->contexts);
    }
}
