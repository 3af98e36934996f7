/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/wait.c - spin, yield, sleep. A sleeper raises its flag, fences, looks at everything once more and only then
 * sleeps on its bell, so nothing that was published is missed; the bound on each sleep is a second line of defence, and
 * a sleep that it ended although work was there counts as a rescue.
 */
#include "plugin/wait.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/guard.h"
#include "plugin/note.h"
#include "plugin/progress.h"
#include "plugin/pull.h"
#include "plugin/refuse.h"
#include "shm/clock.h"
#include "shm/notifier.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <sched.h>

#define FIRST_SLEEP_NS UINT64_C(100000000)
#define LAST_SLEEP_NS  UINT64_C(60000000000)
/* Yields before sleeping: with several ranks on a CPU the one that is waited for runs within these. Where others
 * compute each yield costs a time slice of theirs, 64 of them a second and more, hence the bound. */
#define YIELDS   64u
#define YIELD_NS UINT64_C(2000000)
/* For as many yields, where each may cost a time slice, before a wake-up counts as lost. */
#define TURNS_NS UINT64_C(500000000)
/* Of half a MiB, before the clock is looked at. */
#define TURNS 8u
/* So many times as long as for anything else, a part of what is under way is waited for. */
#define PART 10u
/* For so long a thread that spins keeps the others out: that is what being woken takes. */
#define HELD_NS UINT64_C(20000)
/* Last looks that found work but nothing to poll, before the clock is looked at. */
#define LOOKS 16u

/* Something can be polled or probed, or a peer wants the host to look up. */
static bool is_over(const struct nigh_context *context)
{
    return nigh_cq_count(&context->cq) != 0 || context->nudged || nigh_is_unprobed(context);
}

/* A thread that is here has nothing else to do: it copies on, while what it copies from and to is in
 * its caches and others have the lock. Also where it is told of something that is no completion,
 * which may be there for long: one turn. */
static bool ready_of_several(struct nigh_context *context, bool *moved)
{
    for (uint32_t turns = 0; turns < TURNS; turns++) {
        context->apart = true;
        *moved |= nigh_progress(context);
        context->apart = false;
        if (nigh_cq_count(&context->cq) || !(context->pulls || context->copying) ||
            !nigh_pull_apart(context) || is_over(context))
            break;
        *moved = true;
    }
    return is_over(context);
}

/* *moved is set where something has, though nothing is there yet. */
static bool ready(struct nigh_context *context, bool *moved)
{
    if (context->guard & NIGH_GUARD_THREADS)
        return ready_of_several(context, moved);
    *moved |= nigh_progress(context);
    return is_over(context);
}

static int outcome(struct nigh_context *context)
{
    context->nudged = false;
    return nigh_cq_count(&context->cq) ? 0 : -EINTR;
}

static bool spins(const struct nigh_context *context)
{
    return context->config.spin_ns && !(context->config.spin_by_load && context->crowd.full);
}

static void give_way(struct nigh_context *context)
{
    nigh_guard_leave(context);
    sched_yield();
    nigh_guard_enter(context);
}

/* Behind each part of a long message or call its peer copies the next one, and is waited for longer: a sleep between any two
 * parts takes as long as the copies. docs/rationale/progress-thread.md. */
static bool spin(struct nigh_context *context, uint64_t now, uint64_t deadline, bool moved)
{
    uint64_t until = now + (moved ? PART : 1) * context->config.spin_ns, held_until = now + HELD_NS;

    /* The clock costs as much as three passes: look at it each eighth. */
    do {
        moved = false;
        for (uint32_t i = 0; i < 8; i++) {
            if (ready(context, &moved))
                return true;
            nigh_pause();
        }
        now = nigh_clock_ns();
        until = moved ? now + PART * context->config.spin_ns : until;
        if (context->guard & NIGH_GUARD_THREADS && now >= held_until) {
            give_way(context); /* it may be long, and others may want to post */
            held_until = now + HELD_NS;
        }
    } while (now < until && now < deadline);
    return false;
}

/* Not to sleep while a peer copies what was sent saves more than the wake-up: who falls asleep makes every CPU that
 * runs a rank fence (nigh_bell_fence), which took 20 us of what the receiver computed meanwhile. */
static bool yield(struct nigh_context *context, uint64_t deadline)
{
    uint64_t now = nigh_clock_ns(), until = now + YIELD_NS < deadline ? now + YIELD_NS : deadline;
    bool moved = false;

    for (uint32_t i = 0; (i < YIELDS || now < context->copied_by) && now < until; i++) {
        give_way(context);
        if (ready(context, &moved))
            return true;
        now = nigh_clock_ns();
    }
    return false;
}

/* The flag says that any thread of this context sleeps: one that wakes must not take it down for the others. */
static void show(struct nigh_context *context)
{
    /* Relaxed: where it is raised a fence orders it before the last look. */
    nigh_store_relaxed(&nigh_arena_state(&context->arena)->asleep,
                       context->sleepers || context->fd_armed ? NIGH_ASLEEP : NIGH_AWAKE);
}

/* The last look, with the flag up. True: nothing is there, sleep, for *bound at most if the fence was refused. */
static bool is_quiet(struct nigh_context *context, uint64_t *bound)
{
    if (!nigh_bell_fence(context->arena.layout.flags & NIGH_ARENA_FENCES) && *bound > NIGH_UNFENCED_NS)
        *bound = NIGH_UNFENCED_NS;
    /* Bounded: peers may keep us busy without end, with nothing to poll, and the time-out must be looked at. */
    for (uint32_t i = 0; i < LOOKS; i++) {
        bool moved = nigh_progress(context) || nigh_progress_sweep(context);

        if (nigh_is_restless(context))
            return false;
        if (!moved)
            return true;
    }
    return false;
}

/* The clock ended a sleep, nobody had rung, and work is there. Whoever has published it, or the thread of ours that has heard
 * of a death, sees the flag, which is still up, and rings next: only where nobody does in the time, and the turns, that others
 * may need our CPU for was a wake-up lost. */
static bool is_unrung(struct nigh_context *context, uint32_t seen)
{
    uint64_t begin = nigh_clock_ns(), now = begin;

    for (uint32_t turns = 0; now < begin + YIELD_NS || (turns < YIELDS && now < begin + TURNS_NS); turns++) {
        give_way(context);
        if (nigh_bell_read(&context->bell) != seen)
            return false;
        now = nigh_clock_ns();
    }
    return true;
}

/* Not where another thread is in the middle of a copy that this one may not go on with: it may need this CPU. `bounded`: by
 * the bound on each sleep and not by the host, whose short time-outs often end between a store and its ring. *moved: as of ready(). */
static int sleep_once(struct nigh_context *context, uint64_t limit_ns, bool bounded, bool *moved)
{
    uint32_t seen = nigh_bell_read(&context->bell);
    int rc = 0;

    context->sleepers++;
    show(context);
    if (is_quiet(context, &limit_ns)) {
        nigh_count(&context->counters->sleeps, 1);
        nigh_guard_leave(context);
        rc = nigh_bell_sleep(&context->bell, seen, limit_ns);
        nigh_guard_enter(context);
        /* A bell that has changed was rung for us, only too late for the clock. */
        if (rc == -ETIMEDOUT && bounded && nigh_bell_read(&context->bell) == seen && ready(context, moved) &&
            is_unrung(context, seen))
            nigh_count(&context->counters->rescues, 1);
    } else if (context->devices.copies || context->devices.scarce ||
               (context->pulls && context->guard & NIGH_GUARD_THREADS)) {
        give_way(context);
    }
    context->sleepers--;
    show(context);
    (void)ready(context, moved);
    return rc;
}

/* Where no descriptor tells of deaths they are found by looking. */
static uint64_t next_bound(const struct nigh_context *context, uint64_t bound)
{
    if (nigh_rendezvous_is_lost(context->rendezvous))
        return FIRST_SLEEP_NS;
    return bound * 2 < LAST_SLEEP_NS ? bound * 2 : LAST_SLEEP_NS;
}

int nigh_wait(struct nigh_context *context, uint64_t timeout_ns)
{
    uint64_t start, deadline, bound = FIRST_SLEEP_NS;
    bool moved = false;

    nigh_log_use(&context->log);
    context->nudged = false; /* it was answered in a poll: nobody waited for it */
    if (ready(context, &moved))
        return outcome(context);
    if (!timeout_ns)
        return -ETIMEDOUT;
    start = nigh_clock_ns();
    deadline = timeout_ns > UINT64_MAX - start ? UINT64_MAX : start + timeout_ns;
    if (spins(context) && spin(context, start, deadline, moved))
        return outcome(context);
    if (yield(context, deadline))
        return outcome(context);
    for (;;) {
        uint64_t now = nigh_clock_ns(), left = now < deadline ? deadline - now : 0;
        int rc;

        if (!left)
            return -ETIMEDOUT;
        moved = false;
        rc = sleep_once(context, left < bound ? left : bound, bound <= left, &moved);
        if (nigh_cq_count(&context->cq) || context->nudged || nigh_is_unprobed(context))
            return outcome(context);
        if (rc == -EINTR)
            return rc;
        if (moved && spins(context) && spin(context, nigh_clock_ns(), deadline, true))
            return outcome(context);
        bound = next_bound(context, bound);
    }
}

static void disarm(struct nigh_context *context)
{
    context->fd_armed = false;
    if (context->notifier)
        nigh_notifier_disarm(context->notifier);
    show(context);
}

int nigh_wait_fd(struct nigh_context *context, int *fd)
{
    uint64_t bound = UINT64_MAX;
    bool moved = false;
    uint32_t seen;
    int own, rc;

    nigh_log_use(&context->log);
    if (!context->config.wait_fd)
        return nigh_refuse(
            context, -ENOTSUP,
            "wait_fd: there is no descriptor: open with NIGH_OPEN_WAIT_FD (or NIGH_WAIT_FD=1)");
    context->nudged = false;
    disarm(context);
    if (!fd)
        return 0;
    if (ready(context, &moved))
        return -EAGAIN;
    rc = context->notifier ? 0 : nigh_notifier_start(&context->bell, &context->notifier);
    if (rc)
        return rc;
    own = nigh_notifier_clear(context->notifier);
    if (own < 0)
        return own;
    seen = nigh_bell_read(&context->bell);
    context->fd_armed = true;
    show(context);
    if (!is_quiet(context, &bound)) {
        disarm(context);
        return -EAGAIN;
    }
    nigh_notifier_arm(context->notifier, seen, bound);
    *fd = own;
    return 0;
}
