/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a copy another core hides behind computing, with no protocol at all: rank 0 computes, a second thread of
 * its copies what rank 1 has just written into memory that rank 0 has just read. */
#include "tools/perf/floors.h"

#include "tools/perf/clock.h"
#include "tools/perf/compute.h"
#include "tools/perf/pattern.h"
#include "tools/perf/tally.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE    (UINT64_C(64) << 10) /* that both take in turn */
#define QUIET_NS 25000000 /* libnigh's thread looks for 20 ms for messages, on the CPU that is used here */
#define NEWS_NS  1e6      /* a kind that follows another one finds it asleep */

/* What the two threads of rank 0 share. */
struct hidden {
    struct perf_line go, taken,
        done; /* number of the copy, UINT64_MAX: no more; slices taken; number of the copy */
    const struct perf_hidden_kind *kind;
    uint8_t *from; /* shared: rank 1 writes it */
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory");
#endif
}

/* Slices that nobody has taken yet, the first ones first: the last ones are in the cache of the core that computes. */
static void copy_slices(struct hidden *h, nigh_copy_fn copy)
{
    size_t bytes = h->kind->bytes;

    for (;;) {
        uint64_t at = perf_add(&h->taken.word, SLICE);

        if (at >= bytes)
            return;
        copy(h->kind->to + at, h->from + at, bytes - at < SLICE ? bytes - at : SLICE);
    }
}

static void *helper(void *arg)
{
    struct hidden *h = arg;
    uint64_t number;

    for (uint64_t last = 0;; last = number) {
        while ((number = perf_line_take(&h->go)) == last)
            pause_briefly();
        if (number == UINT64_MAX)
            return NULL;
        if (h->kind->both)
            copy_slices(h, h->kind->copy);
        else
            h->kind->copy(h->kind->to, h->from, h->kind->bytes);
        perf_line_give(&h->done, number);
    }
}

static double alone(struct hidden *h)
{
    nigh_copy_fn volatile copy = nigh_copy_select(NIGH_COPY_PLAIN);
    uint64_t start = perf_ticks();

    copy(h->kind->to, h->from, h->kind->bytes);
    return perf_ns(start, perf_ticks());
}

static double together(struct hidden *h, uint64_t steps)
{
    uint64_t number = perf_line_take(&h->go) + 1, start;

    perf_line_give(&h->taken, 0);
    start = perf_ticks();
    perf_line_give(&h->go, number);
    perf_compute(steps);
    if (h->kind->both)
        copy_slices(h, nigh_copy_select(NIGH_COPY_PLAIN));
    while (perf_line_take(&h->done) != number)
        pause_briefly();
    return perf_ns(start, perf_ticks());
}

/* One message: rank 1 writes it, rank 0 gets it. steps 0: by itself. */
static double one(struct perf_rank *me, struct hidden *h, uint64_t steps)
{
    uint64_t number = ++me->messages, seed = perf_seed(1, number);
    double ns = 0;

    if (me->rank == 1)
        perf_fill(h->from, h->kind->bytes, seed);
    perf_pair_sync(me);
    if (me->rank == 0) {
        size_t wrong;

        ns = steps ? together(h, steps) : alone(h);
        wrong = perf_check(h->kind->to, h->kind->bytes, seed);
        if (wrong != h->kind->bytes)
            perf_fail(me, "copy by another core, %s: byte %zu of %zu is wrong", h->kind->name, wrong,
                      h->kind->bytes);
    }
    perf_pair_sync(me); /* rank 0 has read before rank 1 writes again */
    return ns;
}

/* The second of two: test_overlap.c says why. */
static double steady(struct perf_rank *me, struct hidden *h, uint64_t steps)
{
    one(me, h, steps);
    return one(me, h, steps);
}

static double hide(struct perf_rank *me, struct hidden *h)
{
    double copied = steady(me, h, 0), work;
    uint64_t steps = me->rank == 0 ? perf_compute_steps(h->kind->work * copied) + 1 : 1;

    work = me->rank == 0 ? perf_compute_ns(steps) : 0;
    return perf_hidden_share(copied, work, steady(me, h, steps));
}

static void start(struct perf_rank *me, struct hidden *h, pthread_t *thread)
{
    pthread_attr_t attributes;
    cpu_set_t cpu;

    CPU_ZERO(&cpu);
    CPU_SET((size_t)h->kind->cpu, &cpu);
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setaffinity_np(&attributes, sizeof(cpu), &cpu) != 0 ||
        pthread_create(thread, &attributes, helper, h) != 0)
        perf_fail(me, "no thread on CPU %d, which copies while this rank computes", h->kind->cpu);
    pthread_attr_destroy(&attributes);
}

static void let_threads_sleep(uint64_t last)
{
    const struct timespec time = {0, QUIET_NS};
    const char *progress = getenv("NIGH_PROGRESS");

    if (progress && strcmp(progress, "thread") == 0 && (!last || perf_ns(last, perf_ticks()) > NEWS_NS))
        nanosleep(&time, NULL);
}

double perf_hidden(struct perf_rank *me, void *arg, uint32_t count)
{
    static uint64_t last;
    static struct hidden h; /* not on the stack: its lines are alone */
    struct perf_tally tally;
    pthread_t thread;

    if (me->rank > 1)
        return 0;
    h = (struct hidden){.kind = arg, .from = me->scratch + PERF_SCRATCH_RING + 2 * PERF_SCRATCH_ARENA};
    let_threads_sleep(last);
    if (me->rank == 0)
        start(me, &h, &thread);
    perf_tally_start(&tally);
    for (uint32_t i = 0; i < count; i++)
        perf_tally_add(&tally, hide(me, &h));
    if (me->rank == 0) {
        perf_line_give(&h.go, UINT64_MAX);
        pthread_join(thread, NULL);
    }
    last = perf_ticks();
    return perf_tally_middle(&tally);
}

/* The first CPU of a list as of NIGH_PROGRESS_CPUS, -1: it is empty. */
static int first_of(const char *list)
{
    char *end;
    long cpu = strtol(list, &end, 10);

    return end == list || cpu < 0 || cpu >= CPU_SETSIZE ? -1 : (int)cpu;
}

int perf_hidden_cpu(const struct perf_rank *me)
{
    const char *given = getenv("NIGH_PROGRESS_CPUS");
    char list[CPU_SETSIZE * 5];
    cpu_set_t usable;

    if (given && *given)
        return first_of(given);
    if (me->cpu < 0 || sched_getaffinity(getppid(), sizeof(usable), &usable) != 0)
        return -1;
    perf_job_spare(me, &usable, list, sizeof(list));
    return first_of(list);
}

uint32_t perf_hidden_kinds(const struct perf_hidden_kind *like,
                           struct perf_hidden_kind out[PERF_HIDDEN_KINDS])
{
    static const struct {
        const char *name;
        enum nigh_copy_kernel kernel;
        bool both;
    } kinds[PERF_HIDDEN_KINDS] = {{"other core", NIGH_COPY_PLAIN, false},
                                  {"other core, past its cache", NIGH_COPY_NT, false},
                                  {"other core, then both", NIGH_COPY_PLAIN, true},
                                  {"other core, past its cache, then both", NIGH_COPY_NT, true}};
    uint32_t n = 0;

    for (uint32_t i = 0; i < PERF_HIDDEN_KINDS; i++) {
        nigh_copy_fn copy = nigh_copy_select(kinds[i].kernel);

        if (!copy)
            continue;
        out[n] = *like;
        out[n].name = kinds[i].name;
        out[n].copy = copy;
        out[n++].both = kinds[i].both;
    }
    return n;
}
