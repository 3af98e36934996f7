/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank uses of its CPU while it is blocked in a receive. Rank 0 reads it from the kernel's accounts of the
 * others: one that is blocked cannot look at itself, and the time that it takes to fall asleep is not what is asked. */
#include "tools/perf/clock.h"
#include "tools/perf/node.h"
#include "tools/perf/run.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 32, FALL_ASLEEP_US = 300000 };

struct idle {
    const struct nigh_ops *ops;
    const char *path;
    double seconds;
};

/* Of all threads of one process. */
struct account {
    double cpu_ns;
    double switches;
};

/* The number behind `prefix` at the beginning of a line; 0 when no line has it, NAN without the file. */
static double number_in(const char *file, const char *prefix)
{
    FILE *f = fopen(file, "re");
    char line[256];
    double found = 0;

    if (!f)
        return NAN;
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, prefix, strlen(prefix)) == 0) {
            found = strtod(line + strlen(prefix), NULL);
            break;
        }
    fclose(f);
    return found;
}

/* NAN where the kernel does not tell. */
static struct account read_account(uint32_t pid)
{
    struct account all = {0, 0};
    char name[512];
    struct dirent *task;
    DIR *tasks;

    snprintf(name, sizeof(name), "/proc/%" PRIu32 "/task", pid);
    tasks = opendir(name);
    if (!tasks)
        return (struct account){NAN, NAN};
    while ((task = readdir(tasks))) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "/proc/%" PRIu32 "/task/%s/schedstat", pid, task->d_name);
        all.cpu_ns += number_in(name, "");
        snprintf(name, sizeof(name), "/proc/%" PRIu32 "/task/%s/status", pid, task->d_name);
        all.switches += number_in(name, "voluntary_ctxt_switches:");
        all.switches += number_in(name, "nonvoluntary_ctxt_switches:");
    }
    closedir(tasks);
    return all;
}

static void watch(struct perf_node *node, double seconds)
{
    struct perf_rank *me = node->me;
    struct account *before = calloc(me->ranks, sizeof(*before)), after;
    uint64_t start, word = 42;
    double ns;

    if (!before)
        perf_fail(me, "idle: no memory");
    usleep(FALL_ASLEEP_US);
    for (uint32_t rank = 1; rank < me->ranks; rank++)
        before[rank] = read_account(me->shared->pid[rank]);
    start = perf_clock_system();
    usleep((useconds_t)(seconds * 1e6));
    for (uint32_t rank = 1; rank < me->ranks; rank++) {
        after = read_account(me->shared->pid[rank]);
        ns = (double)(perf_clock_system() - start);
        me->shared->figure[rank][0] = 100 * (after.cpu_ns - before[rank].cpu_ns) / ns;
        me->shared->figure[rank][1] = after.switches - before[rank].switches;
        me->shared->figure[rank][2] = ns / 1e9;
    }
    free(before);
    for (uint32_t rank = 1; rank < me->ranks; rank++)
        perf_node_send(node, rank, &word, sizeof(word), TAG);
}

static void sleep_in_receive(struct perf_node *node)
{
    uint64_t word = 0;
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = &word, .bytes = sizeof(word), .tag = TAG};

    perf_node_post_recv(node, 0, &recv);
    while (node->received == 0) {
        int rc = node->ops->wait(node->context, UINT64_MAX);

        if (rc != 0 && rc != -EINTR)
            perf_node_fail(node, "wait", rc);
        perf_node_progress(node);
    }
    if (word != 42)
        perf_fail(node->me, "idle: the message said %" PRIu64, word);
}

static int idle_rank(struct perf_rank *me, void *arg)
{
    struct idle *idle = arg;
    struct perf_node node;

    perf_node_open(&node, me, idle->ops, me->shared->job, idle->path);
    node.expect = sizeof(uint64_t);
    perf_node_connect_all(&node);
    perf_node_barrier(&node);
    if (me->rank == 0)
        watch(&node, idle->seconds);
    else
        sleep_in_receive(&node);
    perf_node_barrier(&node);
    perf_node_close(&node);
    return 0;
}

/* The worst of all ranks but 0. */
static int emit(struct perf_run *run, const struct perf_job *job, const char *test, const char *unit,
                uint32_t what)
{
    struct perf_result row;

    if (!perf_job_reports())
        return 0;
    perf_result_init(&row, test, "", unit);
    row.ranks = job->ranks;
    row.rounds = 1;
    row.value = job->shared->figure[1][what];
    for (uint32_t rank = 2; rank < job->ranks; rank++)
        if (!(job->shared->figure[rank][what] <= row.value))
            row.value = job->shared->figure[rank][what];
    if (isnan(row.value))
        snprintf(row.note, sizeof(row.note),
                 "no figure: /proc does not show what the ranks' threads have used: is it mounted?");
    else
        snprintf(row.note, sizeof(row.note), "in %.2f s of a rank blocked in a receive, all its threads",
                 job->shared->figure[1][2]);
    return perf_run_emit(run, &row);
}

int perf_test_idle(struct perf_run *run)
{
    struct idle idle = {.path = run->options->path, .seconds = run->options->seconds};
    struct perf_job job;
    int rc = perf_run_transport(run, &idle.ops);

    if (rc != 0)
        return rc;
    perf_run_job(run, &job, run->options->ranks, 0, "idle");
    rc = perf_job_run(&job, idle_rank, &idle);
    if (rc != 0)
        return rc;
    rc = emit(run, &job, "idle-cpu", "%", 0);
    if (rc == 0)
        rc = emit(run, &job, "idle-switches", "times", 1);
    perf_job_end(&job);
    return rc;
}
