/* SPDX-License-Identifier: BSD-3-Clause */
/* How long after a kill -9 a survivor hears of it, by how much memory the killed process had: blocked in a receive, polling, and
 * asleep in poll() on the context's descriptor. */
#include "tools/mpi/find.h"
#include "tools/perf/clock.h"
#include "tools/perf/death.h"
#include "tools/perf/run.h"
#include "tools/perf/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITS = 3, LAYERS = 3, WAYS = WAITS * LAYERS, ROUNDS_LEAST = 3, ROUNDS_MOST = 200 };

/* Where the kernel's log of memory says less: a tenth of a second for a GiB. */
#define TOUCH_S_PER_GIB 4.0

static const struct perf_death_layer *const layers[LAYERS] = {&perf_death_table, &perf_death_lib,
                                                              &perf_death_fabric};
static const char *const waits[WAITS] = {"blocked", "polling", "asleep"};

struct deaths {
    struct perf_death death; /* what victims and survivors see, too */
    uint32_t rounds;
    double nigh[WAYS][ROUNDS_MOST], word[WAYS][ROUNDS_MOST], pidfd[WAYS][ROUNDS_MOST];
};

struct plan {
    const struct nigh_ops *ops;
    const char *plugin, *providers; /* NULL: libfabric is left out */
    uint64_t bytes;
    double seconds;
};

static bool is_measured(const struct plan *plan, unsigned way)
{
    const struct perf_death_layer *layer = layers[way / WAITS];

    return layer->waits[way % WAITS] && (layer != &perf_death_fabric || plan->providers);
}

static void one_round(struct perf_rank *me, const struct plan *plan, struct deaths *deaths)
{
    struct perf_death *death = &deaths->death;

    for (unsigned way = 0; way < WAYS; way++) {
        if (!is_measured(plan, way))
            continue;
        perf_death_once(me, death, layers[way / WAITS], (enum perf_death_wait)(way % WAITS));
        deaths->nigh[way][deaths->rounds] = (double)(int64_t)(death->told_ns - death->killed);
        deaths->word[way][deaths->rounds] = (double)(int64_t)(death->word_ns - death->killed);
        deaths->pidfd[way][deaths->rounds] = (double)(int64_t)(death->pidfd_ns - death->killed);
    }
    deaths->rounds++;
}

static int death_rank(struct perf_rank *me, void *arg)
{
    const struct plan *plan = arg;
    struct deaths *deaths = (void *)me->scratch;
    uint64_t until = perf_clock_system() + (uint64_t)(plan->seconds * 1e9);

    deaths->death.job = me->shared->job;
    deaths->death.bytes = plan->bytes;
    deaths->death.ops = plan->ops;
    deaths->death.plugin = plan->plugin;
    deaths->death.providers = plan->providers;
    while (deaths->rounds < ROUNDS_LEAST || (perf_clock_system() < until && deaths->rounds < ROUNDS_MOST))
        one_round(me, plan, deaths);
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static void name_row(struct perf_result *row, unsigned way, uint64_t bytes)
{
    char path[PERF_NAME_BYTES];

    snprintf(path, sizeof(path), "%s, %s", layers[way / WAITS]->name, waits[way % WAITS]);
    perf_result_init(row, "death", path, "ns");
    row->bytes = bytes;
    row->ranks = 2;
}

static void fill_row(struct perf_result *row, struct deaths *deaths, unsigned way)
{
    double *nigh = deaths->nigh[way], *word = deaths->word[way], ratio[ROUNDS_MOST];
    uint32_t rounds = deaths->rounds;
    struct perf_interval interval;

    for (uint32_t i = 0; i < rounds; i++)
        ratio[i] = nigh[i] / word[i];
    row->rounds = rounds;
    row->value = perf_median(nigh, rounds);
    interval = perf_median_interval(nigh, rounds);
    row->low = interval.low;
    row->high = interval.high;
    row->p99 = perf_quantile(nigh, rounds, 0.99);
    row->floor = perf_median(word, rounds);
    row->ratio = perf_median(ratio, rounds);
    row->peer_count = 1;
    snprintf(row->peers[0].name, sizeof(row->peers[0].name), "pidfd");
    row->peers[0].value = perf_median(deaths->pidfd[way], rounds);
}

static int emit(struct perf_run *run, const struct plan *plan, struct deaths *deaths)
{
    struct perf_result row;
    int rc = 0;

    for (unsigned way = 0; way < WAYS && rc == 0; way++) {
        if (!is_measured(plan, way))
            continue;
        name_row(&row, way, plan->bytes);
        fill_row(&row, deaths, way);
        rc = perf_run_emit(run, &row);
    }
    return rc;
}

static int emit_none(struct perf_run *run, unsigned way, uint64_t bytes, const char *why)
{
    struct perf_result row;

    name_row(&row, way, bytes);
    snprintf(row.note, sizeof(row.note), "no figure: %s", why);
    return perf_run_emit(run, &row);
}

/* ---- the test ---------------------------------------------------------------------------------------------- */

static uint64_t available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %llu", &kib) != 1)
        continue;
    if (file)
        fclose(file);
    else /* without /proc: what is free, which is less */
        kib =
            (unsigned long long)sysconf(_SC_AVPHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024;
    return (uint64_t)kib * 1024;
}

static int of_size(struct perf_run *run, const struct plan *plan)
{
    struct perf_job job;
    int rc;

    if (plan->bytes > available() / 2)
        return emit_none(run, 0, plan->bytes, "the machine has less than twice that memory available");
    perf_run_job(run, &job, 1, sizeof(struct deaths), "death");
    job.keep_cpus = true; /* the processes are two and a half, wherever they may run */
    job.limit_seconds += (double)(plan->bytes >> 20) / 1024 * TOUCH_S_PER_GIB * WAYS * ROUNDS_LEAST;
    rc = perf_job_run(&job, death_rank, (void *)(uintptr_t)plan);
    if (rc != 0)
        return rc;
    rc = emit(run, plan, (void *)((uint8_t *)job.shared + job.mapped - job.scratch_bytes));
    perf_job_end(&job);
    return rc;
}

int perf_test_death(struct perf_run *run)
{
    static const struct perf_sizes usual = {3, {0, UINT64_C(1) << 30, UINT64_C(4) << 30}};
    const struct perf_sizes *sizes = run->options->sizes.count ? &run->options->sizes : &usual;
    struct plan plan = {.seconds = run->options->seconds / (double)sizes->count};
    char providers[MPI_PATH_BYTES], why[256];
    int rc;

    if (perf_job_launched()) {
        fprintf(stderr,
                "nigh-perf: death starts and kills its processes itself and does not work under nigh-run\n");
        return -EINVAL;
    }
    rc = perf_run_transport(run, &plan.ops);
    if (rc != 0)
        return rc;
    plan.plugin = run->plugin.file;
    if (perf_death_has_fabric(why, sizeof(why), providers, sizeof(providers)))
        plan.providers = providers;
    else
        rc = emit_none(run, WAITS * (LAYERS - 1), 0, why);
    for (size_t i = 0; i < sizes->count && rc == 0; i++) {
        plan.bytes = sizes->bytes[i];
        rc = of_size(run, &plan);
    }
    return rc;
}
