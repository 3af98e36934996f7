/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/cuda/stream.c - the fake driver's streams. Work is done in the order of its stream and out of step with its
 * caller: when the caller waits for it; some of it, chosen by the seed, when the caller asks; or by a worker thread.
 */
#include "tests/support/cuda/fake.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static struct stream *streams; /* destroyed ones too: no other is ever made at the address of one */
static number orders, ids;

#define PER_THREAD ((void *)2)
#define LEGACY     ((void *)1)

/* ---- which stream --------------------------------------------------------------------------------------------------- */

struct stream *fake_stream_create(struct context *context, unsigned flags)
{
    struct stream *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    made->context = made->of = context;
    made->flags = flags;
    made->id = ++ids;
    made->last = &made->first;
    made->next = streams;
    streams = made;
    return made;
}

/* The stream of a context that waits for all others of it that let it. */
static struct stream *legacy_of(const struct context *context)
{
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (stream->context == context && stream->legacy)
            return stream;
    return NULL;
}

struct stream *fake_stream(void *handle)
{
    struct context *current = fake_current();
    struct stream *found;

    if (handle && handle != LEGACY && handle != PER_THREAD) {
        for (struct stream *stream = streams; stream; stream = stream->next)
            if (stream == handle)
                return stream->context ? stream : NULL;
        return NULL;
    }
    found = current ? legacy_of(current) : NULL;
    if (current && !found) {
        found = fake_stream_create(current, 0);
        found->legacy = true;
    }
    return found;
}

/* ---- work ------------------------------------------------------------------------------------------------------------- */

int fake_submit(struct stream *stream, const struct work *work)
{
    struct work *made = malloc(sizeof(*made));

    if (!made)
        abort();
    *made = *work;
    made->next = NULL;
    made->order = ++orders;
    made->from_us = fake_now_us() + fake.delay_us;
    *stream->last = made;
    stream->last = &made->next;
    return CU_SUCCESS;
}

number fake_last_order(void)
{
    return orders;
}

static void drop_first(struct stream *stream)
{
    struct work *done = stream->first;

    stream->first = done->next;
    if (!stream->first)
        stream->last = &stream->first;
    if (done->event)
        fake_event_unuse(done->event);
    free(done->owned);
    free(done);
}

/* The legacy stream and those that wait for it do each other's earlier work first; a kernel of the host's is such work. */
static bool is_turn(const struct stream *stream, const struct work *work)
{
    if (stream->flags & STREAM_NON_BLOCKING)
        return true;
    if (fake_held() && work->order > fake_held_since())
        return false;
    for (const struct stream *other = streams; other; other = other->next)
        if (other != stream && other->of == stream->of && !(other->flags & STREAM_NON_BLOCKING) &&
            (stream->legacy || other->legacy) && other->first && other->first->order < work->order)
            return false;
    return true;
}

static bool is_ready(const struct stream *stream, long until_us)
{
    const struct work *work = stream->first;

    return work && !stream->busy && work->from_us <= until_us && is_turn(stream, work) &&
           fake_work_ready(work);
}

static void do_first(struct stream *stream)
{
    fake_work_do(stream, stream->first);
    drop_first(stream);
}

bool fake_step(long older_than_us)
{
    long until_us = fake_now_us() - older_than_us;
    uint64_t ready = 0, chosen;

    for (struct stream *stream = streams; stream; stream = stream->next)
        ready += is_ready(stream, until_us);
    if (!ready)
        return false;
    chosen = fake_random() % ready;
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (is_ready(stream, until_us) && chosen-- == 0) {
            do_first(stream);
            return true;
        }
    return false;
}

void fake_progress(void)
{
    for (uint64_t steps = fake_random() % 3; steps > 0 && fake_step(0); steps--)
        ;
}

void fake_finish(struct stream *stream, const char *call)
{
    long begin = fake_now_us();

    while (stream->first) {
        if (is_ready(stream, fake_now_us())) {
            do_first(stream);
            continue;
        }
        if (!(stream->flags & STREAM_NON_BLOCKING) && fake_held() && stream->first->order > fake_held_since())
            fake_waits_for_host(call);
        if (fake_step(0))
            continue;
        if (fake_now_us() - begin > STUCK_S * 1000000L)
            fake_wrong(call, "waits for work that cannot begin");
        fake_pause();
    }
}

/* NULL: of all. */
void fake_finish_context(const struct context *context, const char *call)
{
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (!context || stream->of == context)
            fake_finish(stream, call);
}

void fake_streams_of_context_gone(const struct context *context)
{
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (stream->of == context) {
            while (stream->first && !stream->busy)
                drop_first(stream);
            stream->context = stream->of = NULL;
        }
}

static bool overlaps(cu_address at, size_t pitch, const struct work *work, cu_address from, size_t bytes)
{
    size_t length = work->height ? (work->height - 1) * pitch + work->width : 0;

    return length && at < from + bytes && from < at + length;
}

bool fake_in_use(cu_address at, size_t bytes)
{
    for (const struct stream *stream = streams; stream; stream = stream->next)
        for (const struct work *work = stream->first; work; work = work->next)
            if (overlaps(work->to, work->to_pitch, work, at, bytes) ||
                overlaps(work->from, work->from_pitch, work, at, bytes))
                return true;
    return false;
}

bool fake_spins(void)
{
    for (const struct stream *stream = streams; stream; stream = stream->next)
        if (stream->first && stream->first->kind == WORK_SPIN && !fake_work_ready(stream->first))
            return true;
    return false;
}

/* ---- the worker ----------------------------------------------------------------------------------------------------------- */

/* Work goes on though nobody asks: where another process or thread waits for what it does. */
static void *works(void *nothing)
{
    bool any;

    (void)nothing;
    for (;;) {
        fake_lock();
        for (any = false; fake_step(LATE_US); any = true)
            ;
        fake_unlock();
        nanosleep(&(struct timespec){0, any ? 100000 : 500000}, NULL);
    }
    return NULL;
}

void fake_need_worker(void)
{
    static bool started;
    sigset_t all, before;
    pthread_t thread;

    if (started || !fake.worker)
        return;
    started = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, works, NULL))
        abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

int cuStreamCreate(void **stream, unsigned flags)
{
    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (flags > STREAM_NON_BLOCKING)
        return CU_INVALID_VALUE;
    *stream = fake_stream_create(fake_current(), flags);
    return CU_SUCCESS;
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    FAKE_CALL;
    (void)priority;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (flags > STREAM_NON_BLOCKING)
        return CU_INVALID_VALUE;
    *stream = fake_stream_create(fake_current(), flags);
    return CU_SUCCESS;
}

/* It does not wait for the work, which is still done. */
int cuStreamDestroy_v2(void *handle)
{
    struct stream *stream;

    FAKE_LETS_GO;
    stream = fake_stream(handle);
    if (!stream || stream->legacy)
        return CU_INVALID_HANDLE;
    stream->context = NULL;
    return injected;
}

/* What the host's own copies have left comes after ours. */
int cuStreamSynchronize(void *handle)
{
    struct stream *stream;

    FAKE_LETS_GO;
    stream = fake_stream(handle);
    if (!stream)
        return handle ? CU_INVALID_HANDLE : CU_INVALID_CONTEXT;
    if (stream->legacy)
        fake_waits_for_host(__func__);
    fake_finish(stream, __func__);
    fake_come_all();
    return injected;
}

/* The host's stream is busy while something comes late. To ask is enough to spoil a graph. */
static int query_legacy(const struct stream *stream)
{
    fake_spoil();
    if (fake_capturing())
        return CU_CAPTURE_IMPLICIT;
    fake_progress();
    return fake_come_all() || fake_held() || (stream && stream->first) ? CU_NOT_READY : CU_SUCCESS;
}

int cuStreamQuery(void *handle)
{
    const struct stream *stream;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!handle || (stream && stream->legacy))
        return query_legacy(stream);
    if (!stream)
        return CU_INVALID_HANDLE;
    if (stream->first)
        fake_progress();
    return stream->first ? CU_NOT_READY : CU_SUCCESS;
}

int cuStreamIsCapturing(void *handle, int *status)
{
    FAKE_CALL;
    *status = 0;
    if (handle)
        return fake_stream(handle) ? CU_SUCCESS : CU_INVALID_HANDLE;
    return fake_capturing() ? CU_CAPTURE_IMPLICIT : CU_SUCCESS;
}

int cuStreamGetCtx(void *handle, void **context)
{
    const struct stream *stream;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_HANDLE;
    *context = stream->context;
    return CU_SUCCESS;
}

int cuStreamGetFlags(void *handle, unsigned *flags)
{
    const struct stream *stream;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_HANDLE;
    *flags = stream->flags;
    return CU_SUCCESS;
}

int cuStreamGetId(void *handle, unsigned long long *id)
{
    const struct stream *stream;

    FAKE_CALL;
    stream = fake_stream(handle);
    if (!stream)
        return CU_INVALID_HANDLE;
    *id = stream->id;
    return CU_SUCCESS;
}

const char *fake_stream_leaks(void)
{
    for (const struct stream *stream = streams; stream; stream = stream->next)
        if (stream->context && !stream->legacy)
            return "a stream was not destroyed";
    return NULL;
}
