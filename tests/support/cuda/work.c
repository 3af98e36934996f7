/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/work.c - one piece of a stream's work: whether it can be done, and doing it. */
#include "tests/support/cuda/fake.h"

#include <stdatomic.h>
#include <string.h>

/* Where the bytes at an address are; *span shrinks to what lies there in one piece. */
static char *place(cu_address at, bool device, size_t *span)
{
    size_t left;
    char *bytes = fake_bytes_at(at, &left);

    if (!bytes && device)
        fake_wrong("a copy", "reads or writes device memory that is no more: it faults");
    if (bytes && left < *span)
        *span = left;
    return bytes ? bytes : (char *)(uintptr_t)at;
}

static void copy_row(const struct work *work, size_t row)
{
    cu_address to = work->to + row * work->to_pitch, from = work->from + row * work->from_pitch;

    for (size_t done = 0, span; done < work->width; done += span) {
        char *source, *target;

        span = work->width - done;
        target = place(to + done, work->to_device, &span);
        source = place(from + done, work->from_device, &span);
        memmove(target, source, span);
    }
}

static void fill(const struct work *work)
{
    for (size_t done = 0, span; done < work->width; done += span) {
        char *target;

        span = work->width - done;
        target = place(work->to + done, true, &span);
        for (size_t i = 0; i < span; i++)
            target[i] = ((const char *)&work->fill)[(done + i) % work->fill_bytes];
    }
}

static number word_at(const struct work *work)
{
    size_t span = work->width;
    number value = 0;

    memcpy(&value, place(work->to, true, &span), work->width);
    return value;
}

/* CU_STREAM_WAIT_VALUE_GEQ, EQ, AND, NOR */
static bool is_seen(const struct work *work)
{
    number now = word_at(work), mask = work->width == 4 ? 0xffffffffu : ~0ULL;

    switch (work->flags & 3) {
    case 0:
        return work->width == 4 ? (int32_t)(now - work->value) >= 0 : (int64_t)(now - work->value) >= 0;
    case 1:
        return now == work->value;
    case 2:
        return (now & work->value) != 0;
    default:
        return (~(now | work->value) & mask) != 0;
    }
}

bool fake_work_ready(const struct work *work)
{
    if (work->kind == WORK_AWAIT)
        return fake_event_reached(work->event, work->value);
    if (work->kind == WORK_SPIN)
        return atomic_load((_Atomic(uint32_t) *)(uintptr_t)work->to) != 0;
    return work->kind != WORK_WATCH || is_seen(work);
}

void fake_copy_now(const struct work *work)
{
    for (size_t row = 0; row < work->height; row++)
        copy_row(work, row);
}

static void write_word(const struct work *work)
{
    size_t span = work->width;

    memcpy(place(work->to, true, &span), &work->value, work->width);
}

void fake_work_do(struct stream *stream, struct work *work)
{
    switch (work->kind) {
    case WORK_COPY:
        fake_copy_now(work);
        break;
    case WORK_FILL:
        fill(work);
        break;
    case WORK_RECORD:
        fake_event_record(work->event, work->value);
        break;
    case WORK_FREE:
        fake_range_remove(fake_range_at(work->to));
        break;
    case WORK_WRITE:
        write_word(work);
        break;
    case WORK_HOST:
        stream->busy = true;
        fake_unlock();
        work->function(work->argument);
        fake_lock();
        stream->busy = false;
        break;
    case WORK_AWAIT:
    case WORK_WATCH:
    case WORK_SPIN:
        break;
    }
}
