/* SPDX-License-Identifier: BSD-3-Clause */
/* Collecting rows: from a job's table to what is reported, with the peers that are to be compared with. */
#include "tools/perf/run.h"

#include "tools/perf/json.h"
#include "tools/perf/progress.h"
#include "tools/perf/rounds.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int keep(struct perf_run *run, const struct perf_result *row)
{
    if (run->count == run->room) {
        size_t room = run->room ? 2 * run->room : 64;
        struct perf_result *rows = realloc(run->rows, room * sizeof(*rows));

        if (!rows) {
            fprintf(stderr, "nigh-perf: no memory for %zu rows\n", room);
            return -ENOMEM;
        }
        run->rows = rows;
        run->room = room;
    }
    run->rows[run->count++] = *row;
    return 0;
}

int perf_run_emit(struct perf_run *run, const struct perf_result *row)
{
    int rc = perf_job_reports() ? keep(run, row) : 0;

    if (rc == 0 && run->json) {
        rc = perf_json_write(run->json, row, run->options->peer_count > 0 || row->peer_count > 0);
        if (rc != 0)
            fprintf(stderr, "nigh-perf: writing %s: %s\n", run->options->json, strerror(-rc));
    }
    return rc;
}

int perf_run_restless(struct perf_run *run, const struct perf_table *t, const struct perf_result *like)
{
    struct perf_result row = *like;

    row.dropped = t->rounds;
    snprintf(row.note, sizeof(row.note),
             "no figure: L moved in nearly all of %" PRIu32
             " rounds; a quieter machine, other --cpus or more --seconds may help",
             t->rounds);
    return perf_run_emit(run, &row);
}

int perf_run_race(struct perf_run *run, const struct perf_job *job, const struct perf_race *race,
                  const struct perf_result *like)
{
    struct perf_result rows[4];
    int n, rc = 0;

    if (!perf_job_reports())
        return 0;
    n = perf_table_rows(&job->shared->table, race, like, rows, 4);
    if (n < 0)
        return n;
    if (n == 0)
        return perf_run_restless(run, &job->shared->table, like);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = perf_run_emit(run, &rows[i]);
    return rc;
}

int perf_run_rows(struct perf_run *run, const struct perf_job *job, uint32_t work, const uint32_t *floors,
                  uint32_t floor_count, const struct perf_result *like)
{
    struct perf_race race = {&work, 1, floors, floor_count};

    return perf_run_race(run, job, &race, like);
}

void perf_run_job(const struct perf_run *run, struct perf_job *job, uint32_t ranks, size_t scratch_bytes,
                  const char *what)
{
    memset(job, 0, sizeof(*job));
    job->ranks = ranks;
    job->cpus = run->options->cpus;
    job->cpu_count = run->options->cpu_count;
    job->keep_cpus = run->options->keep_cpus;
    job->scratch_bytes = (scratch_bytes + 4095) / 4096 * 4096;
    job->limit_seconds = run->options->seconds * (PERF_PATIENCE + 4) + 60;
    job->what = what;
}

const struct perf_sizes *perf_run_sizes(const struct perf_run *run, const char *otherwise,
                                        struct perf_sizes *room)
{
    if (run->options->sizes.count > 0)
        return &run->options->sizes;
    if (perf_sizes_parse(otherwise, room) != 0)
        abort(); /* a list in this program's text */
    return room;
}

int perf_run_transport(struct perf_run *run, const struct nigh_ops **ops)
{
    int rc = run->plugin.ops ? 0 : perf_plugin_load(&run->plugin);

    if (rc == 0)
        *ops = run->plugin.ops;
    return rc;
}

int perf_run_need_cpus(const struct perf_run *run, const char *test, uint32_t cpus)
{
    if (run->options->cpu_count >= cpus)
        return 0;
    fprintf(stderr, "nigh-perf: %s needs %" PRIu32 " CPUs; this process may use %" PRIu32 " (see --cpus)\n",
            test, cpus, run->options->cpu_count);
    return -ENODEV;
}
