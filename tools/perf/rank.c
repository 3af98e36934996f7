/* SPDX-License-Identifier: BSD-3-Clause */
/* What every measured process does: pinning, the barrier, failing. */
#include "tools/perf/job.h"

#include "tools/perf/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A waiter that has spun this long has met a rank that does not run: on a busy machine the time slice is better given
 * away. Measured rounds that this touches are outliers in any case. */
enum { SPINS_BEFORE_YIELD = 20000 };

/* Counts this rank in; the last one opens the barrier. */
static void enter(struct perf_rank *me)
{
    struct perf_shared *s = me->shared;

    me->barriers++;
    if (perf_add(&s->arrived.word, 1) + 1 == me->barriers * me->ranks)
        perf_line_give(&s->generation, me->barriers);
}

void perf_barrier(struct perf_rank *me)
{
    uint32_t spins = 0;

    enter(me);
    while (perf_line_take(&me->shared->generation) < me->barriers)
        if (me->crowded || ++spins > SPINS_BEFORE_YIELD)
            sched_yield();
}

bool perf_barrier_poll(struct perf_rank *me)
{
    if (!me->in_barrier)
        enter(me);
    me->in_barrier = perf_line_take(&me->shared->generation) < me->barriers;
    return !me->in_barrier;
}

int perf_pin(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0 ? 0 : -errno;
}

void perf_fail(const struct perf_rank *me, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "nigh-perf: rank %u: %s\n", (unsigned)me->rank, text);
    fflush(stderr);
    _exit(1);
}
