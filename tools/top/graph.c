/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wait-for graph. A rank whose wait has an end goes on by the clock. A rank that waits for any of several goes on when one of them does, so it is stuck only with all
 * of them; one that waits for all is stuck with the first. The stuck ones are what is left of the blocked when everyone
 * who can still go on has been taken out.
 */
#include "tools/top/graph.h"

bool top_waits_for_all(const struct top_rank *rank)
{
    uint32_t op = rank->now.note.op;

    return op == NIGH_NOTE_OP_WAITALL || op == NIGH_NOTE_OP_FENCE ||
           (op >= NIGH_NOTE_OP_BARRIER && op <= NIGH_NOTE_OP_CLOSE);
}

bool top_waits_for(const struct top_rank *rank, uint32_t other)
{
    const struct nigh_note *note = &rank->now.note;

    if (rank->state != TOP_BLOCKED)
        return false;
    if (note->peer != NIGH_RANK_NONE)
        return note->peer == other;
    /* Among several it does not wait for itself. */
    return other != rank->found.arena.rank &&
           (note->members == UINT64_MAX || (other < 64 && note->members >> other & 1));
}

/* Does it wait for a rank that is not here: in another namespace, or not started yet? That one may do anything. */
static bool waits_for_strangers(const struct top_job *job, const struct top_rank *rank)
{
    const struct nigh_note *note = &rank->now.note;

    if (note->peer != NIGH_RANK_NONE)
        return top_job_at(job, note->peer) == job->count;
    if (note->members == UINT64_MAX)
        return job->count < job->ranks;
    for (uint32_t other = 0; other < 64; other++)
        if (top_waits_for(rank, other) && top_job_at(job, other) == job->count)
            return true;
    return false;
}

static bool may_go_on(const struct top_job *job, const struct top_rank *rank)
{
    bool all = top_waits_for_all(rank), any = waits_for_strangers(job, rank);

    if (rank->now.note.until_ns || (any && !all))
        return true;
    for (size_t i = 0; i < job->count; i++) {
        if (!top_waits_for(rank, job->rank[i].found.arena.rank))
            continue;
        any = true;
        if (job->rank[i].stuck == all)
            return !all;
    }
    return all || !any;
}

/* Takes out of the stuck whoever may go on, until all that are left cannot. */
static void thin_out(struct top_job *job)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (size_t i = 0; i < job->count; i++)
            if (job->rank[i].stuck && may_go_on(job, &job->rank[i])) {
                job->rank[i].stuck = false;
                changed = true;
            }
    }
}

/* The note says since when, in its rank's own words; what proves it is that it was the same at two readings. */
static bool has_stood(const struct top_rank *rank)
{
    const struct top_reading *now = &rank->now, *before = &rank->before;

    return rank->state == TOP_BLOCKED && before->at_ns && before->noted &&
           before->note.serial == now->note.serial && now->at_ns > now->note.since_ns &&
           now->at_ns - now->note.since_ns >= TOP_STUCK_NS;
}

void top_graph_judge(struct top_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        job->rank[i].stuck = has_stood(&job->rank[i]);
    thin_out(job);
    for (size_t i = 0; i < job->count; i++) {
        job->rank[i].proven = job->rank[i].stuck;
        job->rank[i].stuck = job->rank[i].state == TOP_BLOCKED;
    }
    thin_out(job);
}

static size_t next_stuck(const struct top_job *job, size_t from)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->rank[i].stuck && top_waits_for(&job->rank[from], job->rank[i].found.arena.rank))
            return i;
    return job->count;
}

size_t top_graph_circle(const struct top_job *job, size_t from, size_t *at)
{
    size_t count = 0, slow = from, start;

    if (!job->rank[from].stuck)
        return 0;
    /* Whoever is stuck has a next one that is, so after so many steps one is in the circle. */
    for (size_t i = 0; i < job->count && slow < job->count; i++)
        slow = next_stuck(job, slow);
    if (slow == job->count)
        return 0;
    /* The lowest rank of it first, so that a circle looks the same whoever has led to it. */
    start = slow;
    for (size_t at_now = next_stuck(job, slow), i = 0; at_now != slow && i < job->count; i++) {
        start = at_now < start ? at_now : start;
        at_now = next_stuck(job, at_now);
    }
    slow = start;
    do {
        at[count++] = slow;
        slow = next_stuck(job, slow);
    } while (slow != start && slow < job->count && count < job->count);
    return count;
}
