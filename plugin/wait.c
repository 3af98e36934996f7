/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/wait.c - spin, yield, sleep. A sleeper raises its flag, fences, looks at everything once more and only then
 * sleeps on its bell, so nothing that was published is missed; the bound on each sleep is a second line of defence, and a
 * sleep that it ended although work was there counts as a rescue.
 */
#include "plugin/context.h"
#include <errno.h>
#include <sched.h>
#include <time.h>

#define FIRST_SLEEP_NS UINT64_C(100000000)
#define LAST_SLEEP_NS  UINT64_C(60000000000)
/* Yields before sleeping: with several ranks on a CPU the one that is waited for runs within these. */
#define YIELDS 64u

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* Something can be polled, or something must be done that nobody will wake us for. */
static bool ready(struct nigh_context *context)
{
    nigh_progress(context);
    return nigh_cq_count(&context->cq) != 0;
}

static bool spin(struct nigh_context *context, uint64_t until)
{
    /* The clock costs as much as three passes: look at it each eighth. */
    do {
        for (uint32_t i = 0; i < 8; i++) {
            if (ready(context))
                return true;
            nigh_pause();
        }
    } while (now_ns() < until);
    return false;
}

static bool yield(struct nigh_context *context)
{
    for (uint32_t i = 0; i < YIELDS; i++) {
        nigh_guard_leave(context);
        sched_yield();
        nigh_guard_enter(context);
        if (ready(context))
            return true;
    }
    return false;
}

/* Raises the flag and looks at everything. True: nothing is there, sleep. */
static bool arm(struct nigh_context *context, enum nigh_asleep how)
{
    /* Relaxed: the fence orders it before the look. */
    nigh_store_relaxed(&nigh_arena_state(&context->arena)->asleep, (uint32_t)how);
    nigh_bell_fence();
    while (nigh_progress(context) || nigh_progress_sweep(context))
        if (nigh_cq_count(&context->cq))
            return false;
    return !nigh_cq_count(&context->cq) && !context->pulls;
}

static void disarm(struct nigh_context *context)
{
    nigh_store_relaxed(&nigh_arena_state(&context->arena)->asleep, (uint32_t)NIGH_AWAKE);
}

static int sleep_once(struct nigh_context *context, uint64_t limit_ns)
{
    uint32_t seen = nigh_bell_read(&context->bell);
    int rc = 0;

    if (arm(context, NIGH_ASLEEP_FUTEX)) {
        context->counters.sleeps++;
        nigh_guard_leave(context);
        rc = nigh_bell_sleep(&context->bell, seen, limit_ns);
        nigh_guard_enter(context);
    }
    disarm(context);
    if (ready(context) && rc == -ETIMEDOUT)
        context->counters.rescues++;
    return rc;
}

int nigh_wait(struct nigh_context *context, uint64_t timeout_ns)
{
    uint64_t start, deadline, bound = FIRST_SLEEP_NS;

    if (ready(context))
        return 0;
    if (!timeout_ns)
        return -ETIMEDOUT;
    start = now_ns();
    deadline = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;
    if (context->config.spin_ns && !(context->config.spin_by_load && context->crowd.full)) {
        uint64_t until = start + context->config.spin_ns;

        if (spin(context, until < deadline ? until : deadline))
            return 0;
    }
    if (yield(context))
        return 0;
    for (;;) {
        uint64_t now = now_ns(), left = now < deadline ? deadline - now : 0;
        int rc;

        if (!left)
            return -ETIMEDOUT;
        rc = sleep_once(context, left < bound ? left : bound);
        if (nigh_cq_count(&context->cq))
            return 0;
        if (rc == -EINTR)
            return rc;
        bound = bound * 2 < LAST_SLEEP_NS ? bound * 2 : LAST_SLEEP_NS;
    }
}

int nigh_wait_fd(struct nigh_context *context, int *fd)
{
    uint64_t drained;

    if (context->bell.eventfd < 0)
        return -ENOTSUP;
    disarm(context);
    if (ready(context))
        return -EAGAIN;
    if (nigh_os.read(context->bell.eventfd, &drained, sizeof(drained)) < 0 && errno != EAGAIN)
        return -errno;
    if (!arm(context, NIGH_ASLEEP_FD)) {
        disarm(context);
        return -EAGAIN;
    }
    *fd = context->bell.eventfd;
    return 0;
}
