/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/context.c - the fake driver's contexts, and what a thread has of them. */
#include "tests/support/cuda/fake.h"

#include <stdlib.h>

enum { DEPTH = 32 };

static struct context primaries[DEVICES_MOST];
static struct context *others;
static number ids;

/* A thread's stack of contexts. `pushed`: those that cuCtxPushCurrent() put there. */
static _Thread_local struct {
    struct context *at[DEPTH];
    int depth, pushed, capture_mode;
} mine;

struct context *fake_primary(int device)
{
    struct context *context = &primaries[device];

    if (!context->id)
        *context = (struct context){.device = device, .primary = true, .id = ++ids};
    return context;
}

struct context *fake_current(void)
{
    return mine.depth ? mine.at[mine.depth - 1] : NULL;
}

int fake_capture_mode(void)
{
    return mine.capture_mode;
}

static struct context *known(void *context)
{
    for (int i = 0; i < DEVICES_MOST; i++)
        if (context == &primaries[i] && primaries[i].id)
            return context;
    for (struct context *other = others; other; other = other->next)
        if (other == context)
            return other;
    return NULL;
}

static bool is_device(int device)
{
    return device >= 0 && device < fake.shown;
}

/* ---- primary contexts --------------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    fake_primary(device)->retained++;
    *context = fake_primary(device);
    return CU_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    FAKE_CALL;
    if (!is_device(device) || fake_primary(device)->retained <= 0)
        return CU_INVALID_CONTEXT;
    if (--fake_primary(device)->retained == 0)
        fake_primary(device)->flags = 0;
    return CU_SUCCESS;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    *flags = fake_primary(device)->flags;
    *active = fake_primary(device)->retained > 0;
    return CU_SUCCESS;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    fake_primary(device)->flags = flags;
    return CU_SUCCESS;
}

/* ---- a program's own ----------------------------------------------------------------------------------------- */

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    struct context *made;

    FAKE_CALL;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    fake_waits_for_host(__func__);
    made = calloc(1, sizeof(*made));
    if (!made || mine.depth == DEPTH)
        abort();
    *made = (struct context){.next = others, .device = device, .flags = flags, .id = ++ids};
    others = made;
    mine.at[mine.depth++] = made;
    *context = made;
    return CU_SUCCESS;
}

void fake_destroy_context(struct context *context)
{
    context->dead = true;
    fake_streams_of_context_gone(context);
    fake_events_of_context_gone(context);
    fake_ranges_of_context_gone(context);
    fake_pins_of_context_gone(context);
}

/* At the same address, as the driver often does. */
void fake_create_context(struct context *context)
{
    context->dead = false;
    context->flags = 0;
    context->id = ++ids;
}

int cuCtxDestroy_v2(void *context)
{
    struct context *own;

    FAKE_CALL;
    own = known(context);
    if (!own || own->dead || own->primary)
        return CU_INVALID_CONTEXT;
    fake_finish_context(own, __func__);
    if (fake_current() == own)
        mine.depth--;
    fake_destroy_context(own);
    return CU_SUCCESS;
}

/* ---- the thread's current one ---------------------------------------------------------------------------------- */

static void must_live(const struct context *context, const char *call)
{
    if (context->dead) /* the real driver takes it, and what comes then is undefined */
        fake_wrong(call, "of a context that was destroyed");
}

int cuCtxPushCurrent_v2(void *context)
{
    FAKE_CALL;
    if (!known(context) || mine.depth == DEPTH)
        return CU_INVALID_VALUE;
    must_live(context, __func__);
    mine.at[mine.depth++] = context;
    mine.pushed++;
    return CU_SUCCESS;
}

/* What was pushed must not stay though the call fails. */
int cuCtxPopCurrent_v2(void **context)
{
    FAKE_LETS_GO;
    if (!mine.depth)
        return CU_INVALID_CONTEXT;
    mine.depth--;
    mine.pushed -= mine.pushed > 0;
    if (context)
        *context = mine.at[mine.depth];
    return injected;
}

int cuCtxSetCurrent(void *context)
{
    FAKE_CALL;
    if (context && !known(context))
        return CU_INVALID_CONTEXT;
    if (mine.depth)
        mine.depth--;
    if (!context)
        return CU_SUCCESS;
    must_live(context, __func__);
    mine.at[mine.depth++] = context;
    return CU_SUCCESS;
}

int cuCtxGetCurrent(void **context)
{
    FAKE_CALL;
    *context = fake_current();
    return CU_SUCCESS;
}

int cuCtxGetDevice(int *device)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    *device = fake_current()->device;
    return CU_SUCCESS;
}

int cuCtxGetFlags(unsigned *flags)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    *flags = fake_current()->flags;
    return CU_SUCCESS;
}

int cuCtxSetFlags(unsigned flags)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    fake_waits_for_host(__func__);
    fake_current()->flags = flags;
    fake_come_all();
    return CU_SUCCESS;
}

/* No context has the number of another that was at its address. */
int cuCtxGetId(void *context, unsigned long long *id)
{
    struct context *of;

    FAKE_CALL;
    of = context ? known(context) : fake_current();
    if (!of)
        return CU_INVALID_CONTEXT;
    *id = of->id;
    return of->dead ? CU_CONTEXT_DESTROYED : CU_SUCCESS;
}

int cuCtxGetApiVersion(void *context, unsigned *version)
{
    FAKE_CALL;
    if (context && !known(context))
        return CU_INVALID_CONTEXT;
    *version = 3020;
    return CU_SUCCESS;
}

int cuCtxSynchronize(void)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    fake_waits_for_host(__func__);
    fake_finish_context(fake_current(), __func__);
    fake_come_all();
    return CU_SUCCESS;
}

/* ---- peers ------------------------------------------------------------------------------------------------------ */

int cuCtxEnablePeerAccess(void *peer, unsigned flags)
{
    struct context *of, *to;

    FAKE_CALL;
    of = fake_current();
    to = known(peer);
    if (!of || !to)
        return CU_INVALID_CONTEXT;
    if (flags)
        return CU_INVALID_VALUE;
    if (!fake.peers[fake.visible[of->device]][fake.visible[to->device]])
        return CU_NO_PEER_ACCESS;
    if (of->peers & 1u << to->device)
        return CU_PEER_ALREADY_ENABLED;
    of->peers |= 1u << to->device;
    return CU_SUCCESS;
}

int cuCtxDisablePeerAccess(void *peer)
{
    struct context *of, *to;

    FAKE_CALL;
    of = fake_current();
    to = known(peer);
    if (!of || !to)
        return CU_INVALID_CONTEXT;
    if (!(of->peers & 1u << to->device))
        return CU_PEER_NOT_ENABLED;
    of->peers &= ~(1u << to->device);
    return CU_SUCCESS;
}

/* ---- capture modes ---------------------------------------------------------------------------------------------- */

/* Putting it back fails after the fact, as popping does. */
int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = mine.capture_mode;

    FAKE_LETS_GO;
    if (*mode < 0 || *mode > CU_CAPTURE_RELAXED)
        return CU_INVALID_VALUE;
    if (injected && *mode == CU_CAPTURE_RELAXED)
        return injected;
    mine.capture_mode = *mode;
    *mode = before;
    return injected;
}

const char *fake_context_leaks(void)
{
    if (mine.pushed)
        return "a context is still pushed";
    if (mine.capture_mode)
        return "the thread's capture mode was not put back";
    for (int i = 0; i < DEVICES_MOST; i++)
        if (primaries[i].retained)
            return "a primary context was not released";
    return NULL;
}
