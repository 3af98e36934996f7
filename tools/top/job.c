/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts a job together, reads its ranks, and judges from two readings what each does. */
#include "tools/top/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t top_now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* ---- who belongs to it ----------------------------------------------------------------------------------- */

static bool has(const struct top_job *job, const struct top_found *found)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->rank[i].found.arena.incarnation == found->arena.incarnation)
            return true;
    return false;
}

/* One that has taken the place of a rank that is gone, or a new rank: in the order of ranks. */
static int take(struct top_job *job, struct top_found *found)
{
    size_t at = 0;
    struct top_rank *all;

    while (at < job->count && job->rank[at].found.arena.rank < found->arena.rank)
        at++;
    if (at < job->count && job->rank[at].found.arena.rank == found->arena.rank) {
        nigh_observe_close(&job->rank[at].found.arena);
    } else {
        all = realloc(job->rank, (job->count + 1) * sizeof(*all));
        if (!all)
            return -ENOMEM;
        job->rank = all;
        memmove(&all[at + 1], &all[at], (job->count - at) * sizeof(*all));
        job->count++;
    }
    job->rank[at] = (struct top_rank){.found = *found};
    if (found->arena.ranks > job->ranks)
        job->ranks = found->arena.ranks;
    found->arena.page = NULL; /* ours now */
    return 0;
}

int top_job_join(struct top_job *job, struct top_crop *crop)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < crop->count; i++)
        if (crop->all[i].arena.page && crop->all[i].arena.job == job->id && !has(job, &crop->all[i]))
            rc = take(job, &crop->all[i]);
    job->looked_ns = top_now_ns();
    return rc;
}

void top_job_free(struct top_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        nigh_observe_close(&job->rank[i].found.arena);
    free(job->rank);
    *job = (struct top_job){0};
}

size_t top_job_at(const struct top_job *job, uint32_t rank)
{
    size_t at = 0;

    while (at < job->count && job->rank[at].found.arena.rank != rank)
        at++;
    return at;
}

bool top_job_is_over(const struct top_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->rank[i].state != TOP_DEAD && job->rank[i].state != TOP_LEFT)
            return false;
    return true;
}

/* ---- what they do ---------------------------------------------------------------------------------------- */

static void read_rank(struct top_rank *rank)
{
    const struct top_found *found = &rank->found;
    struct top_reading *now = &rank->now;

    rank->before = *now;
    now->at_ns = top_now_ns();
    now->there = top_process_read(found->pid, &now->process) &&
                 now->process.started == found->process.started && now->process.state != 'Z' &&
                 now->process.state != 'X';
    now->holds = now->there && top_still_there(found->pid, found->fd, found->arena.file);
    now->noted = nigh_observe_note(&found->arena, &now->note) == 0;
    nigh_observe_counters(&found->arena, &now->counts);
    now->asleep = nigh_observe_sleeps(&found->arena);
}

static bool has_moved(const struct top_rank *rank)
{
    const struct nigh_arena_counters *now = &rank->now.counts, *before = &rank->before.counts;

    return now->received != before->received || now->put != before->put || now->get != before->get ||
           now->atomic != before->atomic || memcmp(now->sent, before->sent, sizeof(now->sent)) != 0;
}

/* A tenth of the time on a CPU is more than a rank that sleeps needs to look up now and then. */
static bool has_computed(const struct top_rank *rank)
{
    const struct top_reading *now = &rank->now, *before = &rank->before;

    if (!before->at_ns)
        return now->process.state == 'R';
    return now->process.state == 'R' ||
           now->process.cpu_ns - before->process.cpu_ns > (now->at_ns - before->at_ns) / 10;
}

static enum top_state judge(const struct top_rank *rank)
{
    const struct top_reading *now = &rank->now;

    if (!now->there)
        return TOP_DEAD;
    if (!now->holds || (now->noted && now->note.state == NIGH_NOTE_LEFT))
        return TOP_LEFT;
    if (now->process.state == 'T' || now->process.state == 't')
        return TOP_STOPPED;
    if (now->noted && now->note.state == NIGH_NOTE_BLOCKED)
        return TOP_BLOCKED;
    if (rank->before.at_ns && has_moved(rank))
        return TOP_RUNNING;
    if (now->asleep)
        return TOP_WAITING;
    return has_computed(rank) ? TOP_COMPUTING : TOP_IDLE;
}

void top_job_read(struct top_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        read_rank(&job->rank[i]);
        job->rank[i].state = judge(&job->rank[i]);
    }
}

double top_rate(const struct top_rank *rank, const uint64_t *now)
{
    size_t offset = (size_t)((const char *)now - (const char *)&rank->now.counts);
    uint64_t before;

    memcpy(&before, (const char *)&rank->before.counts + offset, sizeof(before));
    /* A hostile rank counts as it likes: no figure below zero. */
    if (!rank->before.at_ns || rank->now.at_ns <= rank->before.at_ns || *now < before)
        return 0;
    return (double)(*now - before) * 1e9 / (double)(rank->now.at_ns - rank->before.at_ns);
}
