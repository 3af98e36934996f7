/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting, watching and ending the measured processes. */
#include "tools/perf/job.h"

#include "tools/perf/clock.h"
#include "tools/perf/meet.h"
#include "tools/perf/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static size_t shared_bytes(void)
{
    return (sizeof(struct perf_shared) + PAGE - 1) / PAGE * PAGE;
}

/* A whole number of digits alone below 2^32, as the plugin reads it; -1: none. */
static long environment_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long value;

    if (!text || *text < '0' || *text > '9')
        return -1;
    value = strtol(text, &end, 10);
    return *end == '\0' && value < UINT32_MAX ? value : -1;
}

/* The number that NIGH_JOB says, whatever its text: ranks meet by it here as they do in the plugin. 0: none. */
static uint64_t environment_job(void)
{
    const char *text = getenv("NIGH_JOB");
    size_t digits;

    if (!text)
        return 0;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    digits = strspn(text, "0123456789abcdefABCDEF");
    return digits > 0 && digits <= 16 && !text[digits] ? strtoull(text, NULL, 16) : 0;
}

bool perf_job_launched(void)
{
    return environment_job() && environment_number("NIGH_RANK") >= 0 && environment_number("NIGH_SIZE") > 0;
}

int perf_job_check(void)
{
    static const char *const names[] = {"NIGH_RANK", "NIGH_SIZE"};
    const char *job = getenv("NIGH_JOB"), *text[2];

    for (int i = 0; i < 2; i++)
        text[i] = getenv(names[i]) ? getenv(names[i]) : "";
    if (!job && !*text[0] && !*text[1])
        return 0;
    if (perf_job_launched() && environment_number("NIGH_RANK") < environment_number("NIGH_SIZE"))
        return 0;
    if (job && !environment_job())
        fprintf(stderr,
                "nigh-perf: NIGH_JOB is \"%.60s\": expected 1 to 16 hexadecimal digits, not all zero, as "
                "nigh-run "
                "sets it; unset it, NIGH_RANK and NIGH_SIZE to measure without a launcher\n",
                job);
    else
        fprintf(
            stderr,
            "nigh-perf: NIGH_JOB is \"%.60s\", but NIGH_RANK is \"%.60s\" and NIGH_SIZE \"%.60s\": expected "
            "a rank below the number of ranks, as nigh-run sets them; unset all three to measure without a "
            "launcher\n",
            job ? job : "", text[0], text[1]);
    return -EINVAL;
}

/* The list of CPUs may be longer than there are ranks: those behind are nobody's. */
void perf_job_spare(const struct perf_rank *me, const cpu_set_t *usable, char *list, size_t room)
{
    cpu_set_t spare = *usable;
    size_t used = 0;

    list[0] = '\0';
    for (uint32_t i = 0; i < me->cpu_count && i < me->ranks; i++)
        CPU_CLR((size_t)me->cpus[i], &spare);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && used < room; cpu++)
        if (CPU_ISSET(cpu, &spare))
            used += (size_t)snprintf(list + used, room - used, "%s%zu", used ? "," : "", cpu);
    if (used >= room)
        list[0] = '\0';
}

uint32_t perf_job_size(void)
{
    return perf_job_launched() ? (uint32_t)environment_number("NIGH_SIZE") : 0;
}

bool perf_job_reports(void)
{
    return !perf_job_launched() || environment_number("NIGH_RANK") == 0;
}

static int map(struct perf_job *job, int fd)
{
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *at;

    job->mapped = shared_bytes() + job->scratch_bytes;
    at = mmap(NULL, job->mapped, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "nigh-perf: %zu bytes of shared memory for %s: %s\n", job->mapped, job->what,
                strerror(errno));
        return -ENOMEM;
    }
    job->shared = at;
    return 0;
}

void perf_job_end(struct perf_job *job)
{
    munmap(job->shared, job->mapped);
    job->shared = NULL;
}

/* The rank's view of the job; pins it. */
static int enter(const struct perf_job *job, uint32_t rank, struct perf_rank *me)
{
    int rc;

    memset(me, 0, sizeof(*me));
    me->rank = rank;
    me->ranks = job->ranks;
    me->shared = job->shared;
    me->scratch = (uint8_t *)job->shared + shared_bytes();
    me->scratch_bytes = job->scratch_bytes;
    me->crowded = job->ranks > job->cpu_count;
    me->cpu = job->cpus[rank % job->cpu_count];
    me->cpus = job->cpus;
    me->cpu_count = job->cpu_count;
    me->shared->pid[rank] = (uint32_t)getpid();
    if (job->keep_cpus) {
        me->cpu = -1;
        return 0;
    }
    rc = perf_pin(me->cpu);
    if (rc != 0)
        fprintf(stderr, "nigh-perf: rank %" PRIu32 " cannot run on CPU %d: %s (see --cpus)\n", rank, me->cpu,
                strerror(-rc));
    return rc;
}

static void child(const struct perf_job *job, uint32_t rank, pid_t parent, const sigset_t *mask,
                  perf_rank_fn fn, void *arg)
{
    struct perf_rank me;
    int rc;

    sigprocmask(SIG_SETMASK, mask, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    rc = enter(job, rank, &me);
    if (rc == 0)
        rc = fn(&me, arg);
    fflush(NULL);
    _exit(rc == 0 ? 0 : 1);
}

struct pack {
    pid_t *pid; /* 0: not running */
    uint32_t running;
    int failed; /* a rank failed; the others are being ended */
};

static void end_all(struct pack *pack, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++)
        if (pack->pid[i] > 0)
            kill(pack->pid[i], SIGKILL);
}

static void tell_of_death(const struct perf_job *job, uint32_t rank, int status)
{
    perf_progress_clear();
    if (WIFSIGNALED(status))
        fprintf(stderr, "nigh-perf: rank %" PRIu32 " of %s was ended by signal %d (%s)\n", rank, job->what,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "nigh-perf: rank %" PRIu32 " of %s failed\n", rank, job->what);
}

/* Collects the ranks that have ended. The first that failed is named and takes the others with it. */
static void reap(const struct perf_job *job, struct pack *pack)
{
    for (uint32_t i = 0; i < job->ranks; i++) {
        int status;

        if (pack->pid[i] <= 0 || waitpid(pack->pid[i], &status, WNOHANG) != pack->pid[i])
            continue;
        pack->pid[i] = 0;
        pack->running--;
        if (status != 0 && !pack->failed) {
            pack->failed = 1;
            tell_of_death(job, i, status);
            end_all(pack, job->ranks);
        }
    }
}

static void show(const struct perf_job *job)
{
    const struct perf_table *t = &job->shared->table;

    if (t->rounds > 0)
        perf_progress("%s: %" PRIu32 " rounds, L %.0f ns", job->what, t->rounds, t->handoff[t->rounds]);
    else
        perf_progress("%s", job->what);
}

/* Whose work it is that does not end: a peer's, or one of the pieces that nigh's own ranks run. */
static void tell_of_delay(const struct perf_job *job)
{
    const struct perf_table *t = &job->shared->table;
    uint32_t turn = perf_take(&job->shared->turn);
    char whose[PERF_PEER_BYTES + 64] = "nigh";

    if (turn > 0 && turn <= t->columns && turn > t->columns - t->peers)
        snprintf(whose, sizeof(whose), "%s, in round %" PRIu32, t->name[turn - 1], t->rounds + 1);
    else if (turn > 0 && turn <= t->columns)
        snprintf(whose, sizeof(whose), "nigh (\"%s\"), in round %" PRIu32, t->name[turn - 1], t->rounds + 1);
    fprintf(stderr,
            "nigh-perf: %s has not ended after %.1f s: it waits for the ranks of %s; ending all ranks\n",
            job->what, job->limit_seconds, whose);
}

static int watch(const struct perf_job *job, struct pack *pack, const sigset_t *child_ended)
{
    uint64_t end = perf_clock_system() + (uint64_t)(job->limit_seconds * 1e9);
    struct timespec tick = {0, 200000000};
    int late = 0;

    reap(job, pack);
    while (pack->running > 0) {
        sigtimedwait(child_ended, NULL, &tick);
        reap(job, pack);
        show(job);
        if (!late && !pack->failed && perf_clock_system() > end) {
            late = 1;
            perf_progress_clear();
            tell_of_delay(job);
            pack->failed = 1;
            end_all(pack, job->ranks);
        }
    }
    perf_progress_clear();
    return late ? -ETIMEDOUT : pack->failed ? -EIO : 0;
}

static int start(const struct perf_job *job, struct pack *pack, const sigset_t *mask, perf_rank_fn fn,
                 void *arg)
{
    pid_t parent = getpid();

    fflush(NULL);
    for (uint32_t i = 0; i < job->ranks; i++) {
        pid_t pid = fork();

        if (pid == 0)
            child(job, i, parent, mask, fn, arg);
        if (pid < 0) {
            fprintf(stderr, "nigh-perf: process %" PRIu32 " of %" PRIu32 ": %s\n", i, job->ranks,
                    strerror(errno));
            return -EAGAIN;
        }
        pack->pid[i] = pid;
        pack->running++;
    }
    return 0;
}

static int run_forked(struct perf_job *job, perf_rank_fn fn, void *arg)
{
    struct pack pack = {0};
    sigset_t child_ended, before;
    int rc, ended;

    pack.pid = calloc(job->ranks, sizeof(*pack.pid));
    if (!pack.pid)
        return -ENOMEM;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, &before);
    rc = start(job, &pack, &before, fn, arg);
    if (rc != 0) {
        pack.failed = 1;
        end_all(&pack, job->ranks);
    }
    ended = watch(job, &pack, &child_ended);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(pack.pid);
    return rc ? rc : ended;
}

/* One rank of a job that nigh-run started: runs fn here. Its failure is nigh-run's to pass on, so
 * it ends the process. */
static int run_launched(struct perf_job *job, uint32_t rank, perf_rank_fn fn, void *arg)
{
    struct perf_rank me;
    int rc = enter(job, rank, &me);

    if (rc == 0) {
        perf_barrier(&me); /* rank 0 has named the job */
        rc = fn(&me, arg);
    }
    if (rc != 0)
        _exit(1);
    perf_barrier(&me); /* nobody leaves before all figures are written */
    return 0;
}

static uint64_t random_id(void)
{
    uint64_t id;

    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        id = perf_clock_system() ^ (uint64_t)getpid() << 40;
    return id | 1;
}

static int meet_and_run(struct perf_job *job, perf_rank_fn fn, void *arg)
{
    static uint32_t number;
    uint32_t rank = (uint32_t)environment_number("NIGH_RANK");
    uint32_t ranks = (uint32_t)environment_number("NIGH_SIZE");
    int fd, rc;

    if (job->ranks != ranks) {
        if (rank == 0)
            fprintf(stderr, "nigh-perf: %s takes %" PRIu32 " ranks, nigh-run started %" PRIu32 "\n",
                    job->what, job->ranks, ranks);
        return -EIO;
    }
    fd = perf_meet(environment_job(), number++, rank, ranks, shared_bytes() + job->scratch_bytes,
                   job->limit_seconds);
    if (fd < 0) {
        fprintf(stderr, "nigh-perf: rank %" PRIu32 " has not met the others: %s\n", rank, strerror(-fd));
        return -EIO;
    }
    rc = map(job, fd);
    close(fd);
    if (rc != 0)
        return rc;
    if (rank == 0)
        job->shared->job = random_id();
    return run_launched(job, rank, fn, arg);
}

int perf_job_run(struct perf_job *job, perf_rank_fn fn, void *arg)
{
    int rc;

    if (perf_job_launched())
        return meet_and_run(job, fn, arg);
    rc = map(job, -1);
    if (rc != 0)
        return rc;
    job->shared->job = random_id();
    rc = run_forked(job, fn, arg);
    if (rc != 0)
        perf_job_end(job);
    return rc;
}
