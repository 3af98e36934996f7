/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/event.c - the fake driver's events. Those for other processes lie in shared memory. */
#include "tests/support/cuda/fake.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CELL_BYTES = 4096 };

#define MAGIC UINT64_C(0x6e69676847504545)

static struct event *events;
static struct event *gone; /* no other is ever made at the address of one */

static struct event *known(void *handle)
{
    for (struct event *event = events; event; event = event->next)
        if (event == handle)
            return event->destroyed ? NULL : event;
    return NULL;
}

static struct cell *map_cell(int fd)
{
    void *at = mmap(NULL, CELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

static struct event *added(unsigned flags, int fd)
{
    struct event *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    made->flags = flags;
    made->fd = fd;
    made->context = fake_current();
    made->cell = fd < 0 ? calloc(1, sizeof(*made->cell)) : map_cell(fd);
    if (!made->cell)
        abort();
    made->next = events;
    events = made;
    return made;
}

/* Its memory, once no work names it. */
static void release(struct event *event)
{
    struct event **link = &events;

    if (!event->destroyed || event->uses)
        return;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    if (event->flags & CU_INTERPROCESS)
        munmap(event->cell, CELL_BYTES);
    else
        free(event->cell);
    event->cell = NULL;
    event->next = gone;
    gone = event;
}

void fake_event_unuse(struct event *event)
{
    event->uses--;
    release(event);
}

/* The descriptor goes at once: other processes find it no more. */
static void destroy(struct event *event)
{
    if (event->fd >= 0) {
        atomic_store(&event->cell->gone, 1);
        close(event->fd);
        event->fd = -1;
    }
    event->destroyed = true;
    release(event);
}

void fake_events_of_context_gone(const struct context *context)
{
    struct event *next;

    for (struct event *event = events; event; event = next) {
        next = event->next;
        if (event->context == context && !event->destroyed)
            destroy(event);
    }
}

bool fake_event_reached(const struct event *event, number value)
{
    return atomic_load(&event->cell->done) >= value;
}

void fake_event_record(struct event *event, number value)
{
    number done = atomic_load(&event->cell->done);

    event->at_us = fake_now_us();
    while (done < value && !atomic_compare_exchange_weak(&event->cell->done, &done, value))
        ;
}

static bool is_reached(const struct event *event)
{
    return fake_event_reached(event, atomic_load(&event->cell->recorded));
}

/* ---- calls ---------------------------------------------------------------------------------------------------------- */

/* Making and destroying those for other processes can wait for work under way. */
static void must_be_idle(const char *call, unsigned flags)
{
    if (flags & CU_INTERPROCESS)
        fake_waits_for_host(call);
}

int cuEventCreate(void **event, unsigned flags)
{
    int fd = -1;

    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (flags > 7 || (flags & CU_INTERPROCESS && !(flags & CU_NO_TIMING)))
        return CU_INVALID_VALUE;
    must_be_idle(__func__, flags);
    if (flags & CU_INTERPROCESS) {
        fd = memfd_create("fake event", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, CELL_BYTES))
            abort();
    }
    *event = added(flags, fd);
    return CU_SUCCESS;
}

int cuEventDestroy_v2(void *handle)
{
    struct event *event;

    FAKE_LETS_GO;
    event = known(handle);
    if (event)
        must_be_idle(__func__, event->flags);
    event = known(handle);
    if (!event)
        return CU_INVALID_HANDLE;
    destroy(event);
    return injected;
}

int cuEventRecord(void *handle, void *of)
{
    struct stream *stream;
    struct event *event;
    number value;

    FAKE_CALL;
    event = known(handle);
    stream = fake_stream(of);
    if (!event || !stream || event->context != stream->context)
        return CU_INVALID_HANDLE;
    value = atomic_fetch_add(&event->cell->recorded, 1) + 1;
    event->uses++;
    return fake_submit(stream, &(struct work){.kind = WORK_RECORD, .event = event, .value = value});
}

/* For what was recorded until now: for nothing, if nothing was. */
int cuStreamWaitEvent(void *of, void *handle, unsigned flags)
{
    struct stream *stream;
    struct event *event;

    FAKE_CALL;
    event = known(handle);
    stream = fake_stream(of);
    if (!event || !stream)
        return CU_INVALID_HANDLE;
    if (flags > 1)
        return CU_INVALID_VALUE;
    event->uses++;
    return fake_submit(
        stream,
        &(struct work){.kind = WORK_AWAIT, .event = event, .value = atomic_load(&event->cell->recorded)});
}

int cuEventQuery(void *handle)
{
    const struct event *event;

    FAKE_CALL;
    event = known(handle);
    if (!event)
        return CU_INVALID_HANDLE;
    if (is_reached(event))
        return CU_SUCCESS;
    fake_progress();
    return is_reached(event) ? CU_SUCCESS : CU_NOT_READY;
}

int cuEventSynchronize(void *handle)
{
    struct event *event;
    long begin = fake_now_us();

    FAKE_CALL;
    event = known(handle);
    if (!event)
        return CU_INVALID_HANDLE;
    event->uses++;
    while (!is_reached(event)) {
        if (fake_step(0))
            continue;
        if (fake_now_us() - begin > STUCK_S * 1000000L)
            fake_wrong(__func__, "waits for an event that nothing reaches");
        fake_pause();
    }
    fake_come_all();
    fake_event_unuse(event);
    return CU_SUCCESS;
}

int cuEventElapsedTime(float *ms, void *start, void *end)
{
    const struct event *first, *last;

    FAKE_CALL;
    first = known(start);
    last = known(end);
    if (!first || !last || (first->flags | last->flags) & CU_NO_TIMING ||
        !atomic_load(&first->cell->recorded) || !atomic_load(&last->cell->recorded))
        return CU_INVALID_HANDLE;
    if (!is_reached(first) || !is_reached(last))
        return CU_NOT_READY;
    *ms = (float)(last->at_us - first->at_us) / 1000;
    return CU_SUCCESS;
}

/* ---- between processes ------------------------------------------------------------------------------------------------ */

int cuIpcGetEventHandle(struct cu_ipc *handle, void *of)
{
    const struct event *event;
    struct ipc ipc;

    FAKE_CALL;
    event = known(of);
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (!event || !(event->flags & CU_INTERPROCESS) || event->opened)
        return CU_INVALID_HANDLE;
    memset(&ipc, 0, sizeof(ipc));
    fake_ipc_name(event->fd, &ipc);
    ipc.id = MAGIC;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    fake_need_worker();
    return CU_SUCCESS;
}

int cuIpcOpenEventHandle(void **event, struct cu_ipc handle)
{
    struct event *made;
    struct ipc ipc;
    int fd, rc;

    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    fake_waits_for_host(__func__);
    memcpy(&ipc, &handle, sizeof(ipc));
    rc = ipc.id == MAGIC ? fake_ipc_open(&ipc, &fd) : CU_INVALID_VALUE;
    if (rc)
        return rc;
    made = added(CU_NO_TIMING | CU_INTERPROCESS, fd);
    close(fd);
    made->fd = -1;
    made->opened = true;
    fake_need_worker();
    *event = made;
    return CU_SUCCESS;
}

const char *fake_event_leaks(void)
{
    for (struct event *event = events; event; event = event->next)
        if (!event->destroyed)
            return "an event was not destroyed";
    return NULL;
}
