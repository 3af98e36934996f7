/* SPDX-License-Identifier: BSD-3-Clause */
/* S and W: what it costs to let another process run on this core, and to wake one that sleeps on another core. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"
#include "tools/perf/tally.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Both ranks are pinned to one core: who waits gives it away. */
static void await_yielding(const struct perf_line *line, uint64_t word)
{
    while (perf_line_take(line) != word)
        sched_yield();
}

double perf_yield_switch(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_line *line = &me->shared->line[PERF_LINE_YIELD];
    uint64_t turn = me->turns, start;

    (void)arg;
    me->turns += 2 * (uint64_t)count;
    if (me->rank > 1)
        return 0;
    start = perf_ticks();
    for (uint32_t i = 0; i < count; i++, turn += 2) {
        if (me->rank == 0) {
            perf_line_give(line, turn + 1);
            await_yielding(line, turn + 2);
        } else {
            await_yielding(line, turn + 1);
            perf_line_give(line, turn + 2);
        }
    }
    return perf_ns(start, perf_ticks()) / (2.0 * count);
}

static uint32_t *futex_word(struct perf_line *line)
{
    return (uint32_t *)&line->word;
}

static long futex(uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* Longer than nigh's spinning before it sleeps, so that the floor and nigh's wake are taken from equally deep sleep. */
void perf_let_sleep(void)
{
    uint64_t start = perf_ticks();

    while (perf_ns(start, perf_ticks()) < PERF_SLEEP_NS)
        ;
}

/* Rank 1 sleeps, rank 0 wakes it and spins for its answer, which takes one L back; that L is subtracted, so that one
 * clock, and not two of two cores, does the timing. A wake that found nobody asleep is not counted. */
static double wake_once(struct perf_rank *me, struct perf_line *bell, struct perf_line *answer, uint64_t turn,
                        double back_ns)
{
    uint64_t start;
    long woken;

    perf_let_sleep();
    start = perf_ticks();
    perf_give(futex_word(bell), (uint32_t)turn);
    woken = futex(futex_word(bell), FUTEX_WAKE, 1);
    perf_line_await(answer, turn);
    if (woken < 0)
        perf_fail(me, "futex wake failed (error %d)", errno);
    return woken == 1 ? perf_ns_net(start, perf_ticks()) - back_ns : -1;
}

static void sleep_once(struct perf_line *bell, struct perf_line *answer, uint64_t turn)
{
    while (perf_take(futex_word(bell)) != (uint32_t)turn)
        futex(futex_word(bell), FUTEX_WAIT, (uint32_t)(turn - 1));
    perf_line_give(answer, turn);
}

double perf_futex_wake(struct perf_rank *me, void *arg, uint32_t count)
{
    struct perf_line *bell = &me->shared->line[PERF_LINE_WAKE], *answer = bell + 1;
    double back = perf_handoff_probe(me, 40);
    struct perf_tally tally;

    (void)arg;
    perf_tally_start(&tally);
    for (uint32_t i = 0; me->rank < 2 && i < count; i++) {
        uint64_t turn = ++me->wakes;
        double ns;

        perf_pair_sync(me);
        if (me->rank == 1) {
            sleep_once(bell, answer, turn);
            continue;
        }
        ns = wake_once(me, bell, answer, turn, back);
        if (ns > 0)
            perf_tally_add(&tally, ns);
    }
    return perf_tally_middle(&tally);
}
