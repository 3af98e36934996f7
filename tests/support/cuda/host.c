/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/host.c - what the fake driver's host does beside nigh: kernels, graphs, copies that come late. */
#include "tests/support/cuda/fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool held, capturing, spoilt;
static number since;
static pthread_t holder;

/* Bytes that a copy from pageable memory has left to come: within LATE_US, or after the next copies of a stream. */
static struct late {
    struct late *next;
    cu_address to;
    size_t bytes;
    long at_us;
    char *copy;
} * late, **last_late = &late;

/* ---- a kernel in the host's stream -------------------------------------------------------------------------------------- */

bool fake_held(void)
{
    return held;
}

bool fake_held_here(void)
{
    return held && pthread_equal(holder, pthread_self());
}

number fake_held_since(void)
{
    return since;
}

void fake_hold(bool hold)
{
    held = hold;
    holder = pthread_self();
    since = fake_last_order();
}

/* ---- a graph -------------------------------------------------------------------------------------------------------------- */

bool fake_capture(bool capture)
{
    bool whole = !spoilt;

    capturing = capture;
    spoilt = false;
    return whole;
}

bool fake_capturing(void)
{
    return capturing;
}

void fake_spoil(void)
{
    spoilt |= capturing;
}

bool fake_spoils(void)
{
    bool spoils = capturing && fake_capture_mode() != CU_CAPTURE_RELAXED;

    spoilt |= spoils;
    return spoils;
}

/* ---- copies that come late -------------------------------------------------------------------------------------------------- */

static void come(struct late *one)
{
    size_t span;

    for (size_t done = 0; done < one->bytes; done += span) {
        char *at = fake_bytes_at(one->to + done, &span);

        if (!at) /* it was freed meanwhile */
            break;
        span = span < one->bytes - done ? span : one->bytes - done;
        memcpy(at, one->copy + done, span);
    }
    free(one->copy);
    free(one);
}

bool fake_come_all(void)
{
    bool any = late != NULL;

    while (late) {
        struct late *one = late;

        late = one->next;
        come(one);
    }
    last_late = &late;
    return any;
}

void fake_come_in_time(void)
{
    const struct late *newest = NULL;

    for (struct late *one = late; one; one = one->next)
        newest = one;
    if (newest && fake_now_us() - newest->at_us >= LATE_US)
        fake_come_all();
}

static bool finishes(const struct range *range)
{
    const struct context *context = range->context ? range->context : fake_current();

    for (int i = 0; !context && i < fake.shown; i++)
        if (fake.visible[i] == range->object->device)
            context = fake_primary(i);
    return range->finishes || range->kind == RANGE_HOST ||
           (context && context->flags & CU_CONTEXT_SYNC_MEMOPS);
}

void fake_put(cu_address to, const void *from, size_t bytes)
{
    const struct range *range = fake_range_at(to);
    struct late *one;

    if (!bytes)
        return;
    one = malloc(sizeof(*one));
    if (!range || !one)
        abort();
    *one = (struct late){NULL, to, bytes, fake_now_us(), malloc(bytes)};
    if (!one->copy)
        abort();
    memcpy(one->copy, from, bytes);
    if (finishes(range)) {
        fake_come_all();
        come(one);
        return;
    }
    *last_late = one;
    last_late = &one->next;
}
