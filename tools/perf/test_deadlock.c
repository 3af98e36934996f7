/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How soon libnigh names a deadlock, and whether it ever names one that is none. A figure is the time from the call
 * that closes a circle of ranks to the return of the last of their calls, so NIGH_STALL is a part of it; the second row
 * counts verdicts on ranks that exchange messages in all ways and look for deadlocks after half a millisecond.
 */
#include "tools/perf/clock.h"
#include "tools/perf/lib.h"
#include "tools/perf/rounds.h"
#include "tools/perf/run.h"

#include "nigh/nigh.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 61, RANKS = 8, BATCH = 50, LARGE = 200000, BUFFERS = 2 };

/* How soon a call looks where it is not to be right to look: much sooner than anybody would ask for. */
#define HASTY_STALL "0.0005"
/* libnigh's own, where NIGH_STALL does not say otherwise. */
#define USUAL_STALL "0.3"

struct deadlock {
    const char *plugin, *path;
    double seconds;
    uint64_t circles;
};

/* ---- circles ----------------------------------------------------------------------------------------------------- */

/* What all of them are told is not news here. Returns what is to be passed to speak(). */
static int hush(void)
{
    int before = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    fflush(stderr);
    if (before >= 0 && null >= 0)
        dup2(null, STDERR_FILENO);
    if (null >= 0)
        close(null);
    return before;
}

static void speak(int before)
{
    fflush(stderr);
    if (before < 0)
        return;
    dup2(before, STDERR_FILENO);
    close(before);
}

static const char *stall_text(void)
{
    const char *text = getenv("NIGH_STALL");

    return text && *text ? text : USUAL_STALL;
}

/* Everybody receives from the next one. Who closes the circle is another rank each time, and comes when the others have
 * slept and looked in vain: before that they find it the sooner for having begun to wait earlier. */
static double circle(struct perf_rank *me, void *arg, uint32_t count)
{
    struct deadlock *d = arg;
    double(*when)[4] = me->shared->figure, closed = 0, told = 0;
    uint64_t closer = d->circles++ % me->ranks, word;
    int rc, before;

    (void)count;
    if (me->rank == closer)
        usleep((useconds_t)(1.2e6 * strtod(stall_text(), NULL)));
    before = hush();
    when[me->rank][0] = (double)perf_clock_system();
    rc = nigh_recv(&word, sizeof(word), (int)((me->rank + 1) % me->ranks), TAG, nigh_world(), NULL);
    when[me->rank][1] = (double)perf_clock_system();
    speak(before);
    if (rc != -EDEADLK)
        perf_fail(me, "deadlock: a receive in a circle ended with %d: %s", rc, nigh_error_text());
    perf_barrier(me);
    for (uint32_t rank = 0; rank < me->ranks; rank++) {
        closed = when[rank][0] > closed ? when[rank][0] : closed;
        told = when[rank][1] > told ? when[rank][1] : told;
    }
    return told - closed;
}

static int circle_rank(struct perf_rank *me, void *arg)
{
    struct deadlock *d = arg;
    struct perf_piece piece = {"deadlock", circle, d, 1, 0};
    struct perf_plan plan = {.piece = &piece,
                             .pieces = 1,
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = d->seconds,
                             .no_handoff = true,
                             .least_rounds = 5};

    perf_lib_open(me, d->plugin, d->path);
    perf_rounds_run(me, &plan);
    perf_lib_close(me);
    return 0;
}

static int circles_of(struct perf_run *run, struct deadlock *d, uint32_t ranks)
{
    struct perf_result like;
    struct perf_job job;
    double most = 0;
    int rc;

    perf_run_job(run, &job, ranks, 0, "deadlock");
    rc = perf_job_run(&job, circle_rank, d);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < job.shared->table.rounds; i++)
        if (job.shared->table.value[0][i] > most)
            most = job.shared->table.value[0][i];
    perf_result_init(&like, "deadlock", "", "ns");
    like.ranks = ranks;
    snprintf(like.note, sizeof(like.note),
             "to the last verdict, NIGH_STALL (%s s) included; %" PRIu32 " circles, at most %.1f ms",
             stall_text(), job.shared->table.rounds, most / 1e6);
    rc = perf_run_rows(run, &job, 0, NULL, 0, &like);
    perf_job_end(&job);
    return rc;
}

/* ---- where there is none ----------------------------------------------------------------------------------------- */

struct busy {
    struct perf_rank *me;
    struct nigh_comm *world;
    uint64_t seed, calls;
    uint8_t *out, *in;
};

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 33;
}

/* In figure[]: calls that waited, verdicts. In line[0]: somebody has had one, and all stop. */
static int judged(struct busy *b, int rc)
{
    struct perf_shared *shared = b->me->shared;

    b->calls++;
    if (rc == 0)
        return 0;
    if (rc == -EDEADLK) {
        shared->figure[b->me->rank][1]++;
        perf_line_give(&shared->line[0], 1);
        fprintf(stderr, "nigh-perf: rank %" PRIu32 ": a false alarm: %s\n", b->me->rank, nigh_error_text());
    } else if (perf_line_take(&shared->line[0]) == 0) {
        perf_fail(b->me, "deadlock: %s", nigh_error_text());
    }
    return rc;
}

static int relay(struct busy *b, uint64_t bytes)
{
    int rank = (int)b->me->rank, last = (int)b->me->ranks - 1, rc = 0;

    if (rank > 0)
        rc = judged(b, nigh_recv(b->in, LARGE, rank - 1, TAG, b->world, NULL));
    return rc || rank == last ? rc : judged(b, nigh_ssend(b->out, bytes, rank + 1, TAG, b->world));
}

static int crosswise(struct busy *b, uint64_t bytes, int to, int from, bool synchronous)
{
    nigh_request request[2];
    int rc = nigh_irecv(b->in, LARGE, from, TAG, b->world, &request[0]);

    if (rc == 0 && synchronous)
        rc = nigh_issend(b->out, bytes, to, TAG, b->world, &request[1]);
    else if (rc == 0)
        rc = nigh_isend(b->out, bytes, to, TAG, b->world, &request[1]);
    return judged(b, rc ? rc : nigh_waitall(2, request, NIGH_STATUSES_IGNORE));
}

/* All ranks know from the seed what all do, so that whatever they do fits. */
static int exchange(struct busy *b)
{
    uint64_t bytes = next(&b->seed) % 8 == 0 ? next(&b->seed) % LARGE : next(&b->seed) % 2000;
    uint64_t how = next(&b->seed) % 8, ranks = b->me->ranks, step = 1 + next(&b->seed) % (ranks - 1);
    int to = (int)((b->me->rank + step) % ranks), from = (int)((b->me->rank + ranks - step) % ranks);

    switch (how) {
    case 0:
        return judged(b, nigh_barrier(b->world));
    case 1:
        return relay(b, bytes);
    case 2:
        return crosswise(b, bytes, to, from, true);
    case 3:
        return crosswise(b, bytes, to, from, false);
    default:
        return judged(b, nigh_sendrecv(b->out, bytes, to, TAG, b->in, LARGE, from, TAG, b->world, NULL));
    }
}

/* Under nigh-run other tests follow in this process. */
static void open_hasty(struct perf_rank *me, const struct deadlock *d)
{
    const char *stall = getenv("NIGH_STALL");
    char *before = stall ? strdup(stall) : NULL;

    if ((stall && !before) || setenv("NIGH_STALL", HASTY_STALL, 1) != 0)
        perf_fail(me, "deadlock: no memory");
    perf_lib_open(me, d->plugin, d->path);
    if (before ? setenv("NIGH_STALL", before, 1) : unsetenv("NIGH_STALL"))
        perf_fail(me, "deadlock: no memory");
    free(before);
}

static int busy_rank(struct perf_rank *me, void *arg)
{
    struct deadlock *d = arg;
    struct busy b = {.me = me, .seed = 7, .out = calloc(BUFFERS, LARGE)};
    uint64_t start = perf_clock_system(), go_on = 1;
    int rc = 0;

    if (!b.out)
        perf_fail(me, "deadlock: no memory");
    b.in = b.out + LARGE;
    open_hasty(me, d);
    b.world = nigh_world();
    while (rc == 0 && go_on) {
        for (int i = 0; rc == 0 && i < BATCH; i++)
            rc = exchange(&b);
        go_on = (double)(perf_clock_system() - start) < d->seconds * 1e9;
        if (rc == 0)
            rc = judged(&b, nigh_bcast(&go_on, 1, NIGH_U64, 0, b.world));
    }
    me->shared->figure[me->rank][0] = (double)b.calls;
    /* Behind a false alarm nobody knows what is still under way: the others learn from our leaving that it is over. */
    if (rc == 0)
        perf_lib_close(me);
    free(b.out);
    return 0;
}

static int alarms(struct perf_run *run, struct deadlock *d, uint32_t ranks)
{
    struct perf_result row;
    struct perf_job job;
    double calls = 0;
    int rc;

    perf_run_job(run, &job, ranks, 0, "deadlock: false alarms");
    rc = perf_job_run(&job, busy_rank, d);
    if (rc != 0)
        return rc;
    perf_result_init(&row, "deadlock-false", "", "times");
    row.ranks = ranks;
    row.rounds = 1;
    row.value = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        calls += job.shared->figure[rank][0];
        row.value += job.shared->figure[rank][1];
    }
    snprintf(row.note, sizeof(row.note),
             "verdicts in %.0f calls that waited rightly, NIGH_STALL=" HASTY_STALL, calls);
    rc = perf_job_reports() ? perf_run_emit(run, &row) : 0;
    perf_job_end(&job);
    return rc;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* Where libnigh looks for no deadlocks a circle would never end. */
static int refuse(void)
{
    const char *progress = getenv("NIGH_PROGRESS"), *threads = getenv("NIGH_THREADS"), *what = NULL;

    if (strtod(stall_text(), NULL) <= 0)
        what = "NIGH_STALL";
    else if (progress && strcmp(progress, "thread") == 0)
        what = "NIGH_PROGRESS";
    else if (threads && strcmp(threads, "multiple") == 0)
        what = "NIGH_THREADS";
    if (what)
        fprintf(stderr, "nigh-perf: deadlock: with %s=%s libnigh looks for none: unset it\n", what,
                getenv(what));
    return what ? -EINVAL : 0;
}

int perf_test_deadlock(struct perf_run *run)
{
    struct deadlock d = {.path = run->options->path};
    uint32_t most = run->options->ranks_given || perf_job_launched() ? run->options->ranks : RANKS;
    uint32_t first = perf_job_launched() ? most : 2, sizes = 1;
    const struct nigh_ops *ops;
    int rc = refuse();

    if (rc == 0)
        rc = perf_run_transport(run, &ops);
    d.plugin = run->plugin.file;
    for (uint32_t ranks = first; ranks < most; ranks *= 2)
        sizes++;
    d.seconds = run->options->seconds / (sizes + 1);
    for (uint32_t ranks = first; rc == 0 && ranks < most; ranks *= 2)
        rc = circles_of(run, &d, ranks);
    if (rc == 0)
        rc = circles_of(run, &d, most);
    return rc ? rc : alarms(run, &d, most);
}
