/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf: how fast nigh is on this machine, next to what the machine allows and what others reach. */
#include "tools/perf/beside.h"
#include "tools/perf/clock.h"
#include "tools/perf/cpus.h"
#include "tools/perf/cuda.h"
#include "tools/perf/device.h"
#include "tools/perf/options.h"
#include "tools/perf/plot.h"
#include "tools/perf/report.h"
#include "tools/perf/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "tools/standard.h"

/* `tune` is the last: "all" ends before it, because a benchmark does not change how the machine behaves afterwards. */
const struct perf_test nigh_perf_tests[] = {
    {"floors", "what the machine allows with no protocol at all", perf_test_floors, NULL},
    {"latency", "one way of a message, matched by tag", perf_test_latency, perf_device_latency},
    {"rate", "messages a second, window 64", perf_test_rate, NULL},
    {"bandwidth", "a window of messages from private memory", perf_test_bandwidth, perf_device_bandwidth},
    {"heap", "a window of messages from the heap", perf_test_heap, NULL},
    {"lend", "handing a heap block over without a copy", perf_test_lend, perf_device_lend},
    {"rma", "put, get and atomic", perf_test_rma, perf_device_rma},
    {"wake", "waking a rank that sleeps in a receive", perf_test_wake, NULL},
    {"idle", "CPU share and context switches of a rank that is blocked", perf_test_idle, NULL},
    {"death", "hearing of a killed process, by how much memory it had", perf_test_death, NULL},
    {"memory", "shared memory of a job", perf_test_memory, NULL},
    {"connect", "from open to all connected", perf_test_connect, NULL},
    {"match", "matching past many receives and messages", perf_test_match, NULL},
    {"overlap", "computing while a 4 MiB message goes", perf_test_overlap, NULL},
    {"deadlock", "naming ranks that wait for each other; false alarms", perf_test_deadlock, NULL},
    {"barrier", "all ranks wait for each other", perf_test_barrier, NULL},
    {"broadcast", "rank 0's block to all ranks", perf_test_broadcast, NULL},
    {"reduce", "the sum of all ranks' f32 to rank 0", perf_test_reduce, NULL},
    {"allreduce", "the sum of all ranks' f32 to all ranks", perf_test_allreduce, NULL},
    {"gather", "a block of each rank to rank 0", perf_test_gather, NULL},
    {"scatter", "a block of rank 0's to each rank", perf_test_scatter, NULL},
    {"allgather", "a block of each rank to all ranks", perf_test_allgather, NULL},
    {"alltoall", "a block of each rank to each other", perf_test_alltoall, NULL},
    {"reduce_scatter", "a block of the sum of f32 to each rank", perf_test_reduce_scatter, NULL},
    {"scan", "the sum of f32 up to each rank", perf_test_scan, NULL},
    {"exscan", "the sum of f32 up to the rank before", perf_test_exscan, NULL},
    {"collective", "an MPI's collectives over nigh beside its own, of the MPIs of --compare",
     perf_test_collective, NULL},
    {"tune", "races the ways to copy and writes the file that nigh reads", perf_test_tune, NULL},
    {NULL, NULL, NULL, NULL},
};

static int open_json(struct perf_run *run)
{
    const char *name = run->options->json;

    if (!name || !perf_job_reports())
        return 0;
    run->json = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    if (run->json)
        return 0;
    fprintf(stderr, "nigh-perf: --json=%s: %s\n", name, strerror(errno));
    return -errno;
}

static int default_cpus(struct perf_options *o)
{
    int n = o->cpu_count ? (int)o->cpu_count : perf_cpus(o->cpus, PERF_RANKS);

    if (o->cpu_count == 0 && perf_job_launched()) {
        /* One rank's own CPUs say nothing about the others': nigh-run has given each its own where there are enough. */
        o->keep_cpus = true;
        if (!o->ranks_given)
            o->ranks = perf_job_size();
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    }

    if (n < 1) {
        fprintf(stderr, "nigh-perf: which CPUs may be used: %s\n", strerror(-n));
        return n ? n : -ENODEV;
    }
    o->cpu_count = (uint32_t)n;
    return 0;
}

/* The table goes where it does not mix with JSON. */
static int finish(struct perf_run *run)
{
    const struct perf_options *o = run->options;
    int rc = 0;

    if (!perf_job_reports())
        return 0;
    if (run->json != stdout && run->count > 0)
        perf_report_write(stdout, run->rows, run->count);
    if (o->plot && run->count > 0) {
        rc = perf_plot_write(o->plot, run->rows, run->count);
        if (rc == -ENODATA)
            fprintf(stderr,
                    "nigh-perf: --plot=%s: nothing to draw over the message size: no test has figures at two "
                    "sizes (see --sizes)\n",
                    o->plot);
        else if (rc != 0)
            fprintf(stderr, "nigh-perf: --plot=%s: %s\n", o->plot, strerror(-rc));
    }
    if (run->json && run->json != stdout && fclose(run->json) != 0 && rc == 0) {
        rc = -errno;
        fprintf(stderr, "nigh-perf: --json=%s: %s\n", o->json, strerror(errno));
    }
    return rc;
}

int main(int argc, char **argv)
{
    static struct perf_command command = {.options = {.ranks = 2, .seconds = 5}};
    struct perf_run run = {.options = &command.options};
    int rc, wrote;

    if (!tool_fill_standard())
        return 1; /* nobody would read why */
    perf_options_parse(&command, argc, argv);
    rc = perf_job_check();
    if (rc == 0)
        rc = default_cpus(&command.options);
    if (rc == 0)
        rc = open_json(&run);
    if (rc == 0 && command.options.peer_count > 0 && perf_job_launched()) {
        fprintf(stderr, "nigh-perf: --compare starts its peers itself and does not work under nigh-run\n");
        rc = -EINVAL;
    }
    perf_clock_init();
    if (rc == 0 && perf_job_reports())
        rc = perf_beside_start(command.options.beside);
    if (rc == 0 && command.options.cuda.asked)
        rc = perf_cuda_probe(&command.options.cuda);
    for (size_t i = 0; rc == 0 && i < command.tests; i++)
        rc = command.options.cuda.asked ? command.test[i]->run_cuda(&run) : command.test[i]->run(&run);
    perf_beside_stop();
    wrote = finish(&run);
    free(run.rows);
    return rc == 0 && wrote == 0 ? 0 : 1;
}
