/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory that a job takes. The kernel is asked, not nigh: the blocks of every memfd that a rank holds. */
#include "tools/perf/floors.h"
#include "tools/perf/node.h"
#include "tools/perf/pattern.h"
#include "tools/perf/pipe.h"
#include "tools/perf/run.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAG = 41, SMALL = 64, LARGE = 4 << 20, LARGE_MESSAGES = 16, SMALL_MESSAGES = 1000 };

/* What is measured when, in the order of time. */
enum moment { OPENED, CONNECTED, TALKED, LOADED, MOMENTS };

struct memory {
    const struct nigh_ops *ops;
    const char *path;
    uint8_t *buffer; /* LARGE bytes */
};

/* Every memfd that some rank holds, once, with the memory that the kernel has given it. */
struct file {
    uint64_t inode;
    uint64_t bytes;
};

/* Of one rank: arena, doorbell and a ring to each peer; what an attach has not closed yet. */
static uint32_t files_max(uint32_t ranks)
{
    return ranks + 16;
}

static struct file *files_of(const struct perf_rank *me, uint32_t rank)
{
    return (struct file *)me->scratch + (size_t)rank * files_max(me->ranks);
}

/* Writes this rank's memfds. Rank 0's list is joined by the others' later. */
static void list_files(const struct perf_rank *me)
{
    struct file *file = files_of(me, me->rank);
    char name[64], target[64];
    struct dirent *entry;
    DIR *fds = opendir("/proc/self/fd");
    uint32_t n = 0, most = files_max(me->ranks);
    struct stat st;
    ssize_t length;

    memset(file, 0, most * sizeof(*file));
    while (fds && (entry = readdir(fds))) {
        snprintf(name, sizeof(name), "/proc/self/fd/%.20s", entry->d_name);
        length = readlink(name, target, sizeof(target));
        if (length < 7 || memcmp(target, "/memfd:", 7) != 0 || stat(name, &st) != 0)
            continue;
        if (n == most)
            perf_fail(me, "memory: more than %" PRIu32 " memfds", most);
        file[n++] = (struct file){st.st_ino, (uint64_t)st.st_blocks * 512};
    }
    if (!fds)
        perf_fail(me, "memory: /proc/self/fd cannot be read: %s", strerror(errno));
    closedir(fds);
}

static int by_inode(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Ranks of one job may hold the same one. */
static double sum_of_files(const struct perf_rank *me)
{
    struct file *all = files_of(me, 0);
    size_t count = (size_t)me->ranks * files_max(me->ranks);
    double sum = 0;

    qsort(all, count, sizeof(*all), by_inode);
    for (size_t i = 0; i < count; i++)
        if (all[i].inode && (i == 0 || all[i].inode != all[i - 1].inode))
            sum += (double)all[i].bytes;
    return sum;
}

/* All ranks stand still while the files are looked at. */
static void look(struct perf_node *node, enum moment moment)
{
    struct perf_rank *me = node->me;

    perf_node_barrier(node);
    list_files(me);
    perf_barrier(me);
    if (me->rank == 0)
        me->shared->figure[0][moment] = sum_of_files(me);
    perf_barrier(me);
}

static void talk(struct perf_node *node, struct memory *m, size_t bytes, uint32_t messages)
{
    struct perf_rank *me = node->me;

    node->expect = bytes;
    for (uint32_t i = 0; i < messages; i++) {
        if (me->rank == 0) {
            perf_fill(m->buffer, bytes, perf_seed(0, i));
            perf_node_send(node, 1, m->buffer, bytes, TAG);
        } else if (me->rank == 1) {
            perf_node_recv(node, 0, m->buffer, bytes, TAG);
            if (perf_check(m->buffer, bytes, perf_seed(0, i)) != bytes)
                perf_fail(me, "memory: message %" PRIu32 " of %zu bytes is wrong", i, bytes);
        }
    }
}

static int memory_rank(struct perf_rank *me, void *arg)
{
    struct memory *m = arg;
    struct perf_node node;

    m->buffer = calloc(1, LARGE);
    if (!m->buffer)
        return -ENOMEM;
    perf_node_open(&node, me, m->ops, me->shared->job, m->path);
    look(&node, OPENED);
    perf_node_connect_all(&node);
    look(&node, CONNECTED);
    talk(&node, m, SMALL, SMALL_MESSAGES);
    look(&node, TALKED);
    talk(&node, m, LARGE, LARGE_MESSAGES);
    look(&node, LOADED);
    perf_node_close(&node);
    free(m->buffer);
    return 0;
}

static int emit(struct perf_run *run, const struct perf_job *job, const char *test, double value,
                const char *note)
{
    struct perf_result row;

    if (!perf_job_reports())
        return 0;
    perf_result_init(&row, test, "", "bytes");
    row.ranks = job->ranks;
    row.rounds = 1;
    row.value = value;
    snprintf(row.note, sizeof(row.note), "%s", note);
    return perf_run_emit(run, &row);
}

static int emit_all(struct perf_run *run, const struct perf_job *job)
{
    double pairs = (double)job->ranks * (job->ranks - 1) / 2;
    const double *total = job->shared->figure[0];
    int rc;

    if (total[LOADED] == 0)
        return emit(run, job, "memory-job", NAN,
                    "no rank holds a memfd: the transport's memory cannot be seen");
    rc = emit(run, job, "memory-idle-pair", (total[CONNECTED] - total[OPENED]) / pairs,
              "more by connecting every pair, per pair; nothing was sent; memory comes in whole pages");
    if (rc == 0)
        rc = emit(run, job, "memory-connected", total[CONNECTED],
                  "all ranks together, every pair connected, nothing sent");
    if (rc == 0)
        rc = emit(run, job, "memory-rank", total[CONNECTED] / job->ranks, "the same, of one rank");
    if (rc == 0)
        rc = emit(run, job, "memory-talked", total[TALKED],
                  "all ranks together, ranks 0 and 1 have exchanged 64-byte messages");
    if (rc == 0)
        rc = emit(run, job, "memory-loaded", total[LOADED],
                  "the same after 16 messages of 4 MiB from private memory");
    return rc;
}

static int one_job(struct perf_run *run, uint32_t ranks)
{
    struct memory m = {.path = run->options->path};
    struct perf_job job;
    int rc = perf_run_transport(run, &m.ops);

    if (rc != 0)
        return rc;
    perf_run_job(run, &job, ranks, (size_t)ranks * files_max(ranks) * sizeof(struct file), "memory");
    rc = perf_job_run(&job, memory_rank, &m);
    if (rc != 0)
        return rc;
    rc = emit_all(run, &job);
    perf_job_end(&job);
    return rc;
}

int perf_test_memory(struct perf_run *run)
{
    int rc = one_job(run, run->options->ranks);

    /* An average over many pairs is what tells the cost of one; two ranks have one pair. */
    if (rc == 0 && !run->options->ranks_given && !perf_job_launched())
        rc = one_job(run, 16);
    return rc;
}
