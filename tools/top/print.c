/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of a job. */
#include "tools/top/print.h"
#include "tools/top/graph.h"
#include "tools/top/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void top_print_jobs(FILE *out, const struct top_crop *crop)
{
    fprintf(out, "%-16s %8s %8s  %s\n", "job", "ranks", "here", "program");
    for (size_t i = 0, end; i < crop->count; i = end) {
        const struct nigh_observed *arena = &crop->all[i].arena;

        for (end = i; end < crop->count && crop->all[end].arena.job == arena->job;)
            end++;
        fprintf(out, "%016" PRIx64 " %8" PRIu32 " %8zu  %s\n", arena->job, arena->ranks, end - i,
                crop->all[i].process.name);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------------------- */

static double sent_rate(const struct top_rank *rank, const uint64_t counters[NIGH_COUNTED_PATHS])
{
    double rate = 0;

    for (unsigned path = 0; path < NIGH_COUNTED_PATHS; path++)
        rate += top_rate(rank, &counters[path]);
    return rate;
}

static void print_wait(FILE *out, const struct top_rank *rank)
{
    const struct top_reading *now = &rank->now;
    char words[TOP_WORDS], since[16], left[16];

    if (rank->state != TOP_BLOCKED && rank->state != TOP_STOPPED)
        return;
    if (!now->noted || now->note.state != NIGH_NOTE_BLOCKED)
        return;
    fprintf(out, "  %s", top_wait_words(rank, words));
    if (now->at_ns > now->note.since_ns)
        fprintf(out, ", %s", top_duration(now->at_ns - now->note.since_ns, since));
    if (now->note.until_ns)
        fprintf(out, ", until %s from now",
                top_duration(now->note.until_ns > now->at_ns ? now->note.until_ns - now->at_ns : 0, left));
    if (now->note.site[0])
        fprintf(out, ", %s", now->note.site);
}

static void print_rank(FILE *out, const struct top_rank *rank)
{
    const struct nigh_arena_counters *counts = &rank->now.counts;
    char room[8][16];

    fprintf(out, "%5" PRIu32 " %8d %-15s %-9s %7s %8s %7s %8s %6" PRIu64 " %6" PRIu64 " %6" PRIu64 " %7s",
            rank->found.arena.rank, (int)rank->found.pid, rank->found.process.name,
            top_state_word(rank->state), top_amount(sent_rate(rank, counts->sent), room[0]),
            top_amount(sent_rate(rank, counts->sent_bytes), room[1]),
            top_amount(top_rate(rank, &counts->received), room[2]),
            top_amount(top_rate(rank, &counts->received_bytes), room[3]), counts->posted, counts->arrived,
            counts->queued, top_amount((double)counts->sleeps, room[4]));
    print_wait(out, rank);
    fputc('\n', out);
}

/* ---- paths ----------------------------------------------------------------------------------------------- */

static void print_paths(FILE *out, const struct top_job *job)
{
    char room[4][16];

    fprintf(out, "\n%5s %-8s %9s %9s %9s %9s\n", "rank", "path", "sent/s", "B/s", "sent", "B");
    for (size_t i = 0; i < job->count; i++)
        for (unsigned path = 0; path < NIGH_COUNTED_PATHS; path++) {
            const struct top_rank *rank = &job->rank[i];
            const struct nigh_arena_counters *counts = &rank->now.counts;

            if (!counts->sent[path])
                continue;
            fprintf(out, "%5" PRIu32 " %-8s %9s %9s %9s %9s\n", rank->found.arena.rank, top_path_word(path),
                    top_amount(top_rate(rank, &counts->sent[path]), room[0]),
                    top_amount(top_rate(rank, &counts->sent_bytes[path]), room[1]),
                    top_amount((double)counts->sent[path], room[2]),
                    top_amount((double)counts->sent_bytes[path], room[3]));
        }
}

/* ---- who is stuck ---------------------------------------------------------------------------------------- */

static void print_circle(FILE *out, const struct top_job *job, const size_t *at, size_t count)
{
    char words[TOP_WORDS], since[16];
    bool proven = true;

    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        proven = proven && job->rank[at[i]].proven;
        fprintf(out, "%" PRIu32 " -> ", job->rank[at[i]].found.arena.rank);
    }
    fprintf(out, "%" PRIu32 ": %s\n", job->rank[at[0]].found.arena.rank,
            proven ? "deadlock" : "a circle, for less than a second so far");
    for (size_t i = 0; i < count; i++) {
        const struct top_rank *rank = &job->rank[at[i]];

        fprintf(out, "  rank %" PRIu32 ": %s for %s%s%s\n", rank->found.arena.rank,
                top_wait_words(rank, words),
                top_duration(
                    rank->now.at_ns > rank->now.note.since_ns ? rank->now.at_ns - rank->now.note.since_ns : 0,
                    since),
                rank->now.note.site[0] ? ", " : "", rank->now.note.site);
    }
}

/* Each circle once; whoever waits for one without being in it is named behind. */
static void print_stuck(FILE *out, const struct top_job *job)
{
    size_t *at = calloc(job->count + 1, sizeof(*at));
    bool *told = calloc(job->count + 1, sizeof(*told));
    const char *before = "\nalso stuck: rank ";

    for (size_t i = 0; at && told && i < job->count; i++) {
        size_t count = top_graph_circle(job, i, at);

        if (!count || told[at[0]])
            continue;
        print_circle(out, job, at, count);
        while (count)
            told[at[--count]] = true;
    }
    for (size_t i = 0; told && i < job->count; i++)
        if (job->rank[i].stuck && !told[i]) {
            fprintf(out, "%s%" PRIu32, before, job->rank[i].found.arena.rank);
            before = ", ";
        }
    if (before[0] == ',')
        fputc('\n', out);
    free(at);
    free(told);
}

/* Ranks that will never do what somebody waits for, or not before they are let go on. */
static void print_in_vain(FILE *out, const struct top_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->count; k++) {
            const struct top_rank *rank = &job->rank[i], *other = &job->rank[k];

            if (rank->now.note.peer == other->found.arena.rank && top_waits_for(rank, rank->now.note.peer) &&
                (other->state == TOP_DEAD || other->state == TOP_STOPPED || other->state == TOP_LEFT))
                fprintf(out, "\nrank %" PRIu32 " waits for rank %" PRIu32 ", which %s\n",
                        rank->found.arena.rank, other->found.arena.rank,
                        other->state == TOP_DEAD      ? "is dead"
                        : other->state == TOP_STOPPED ? "is stopped"
                                                      : "has left");
        }
}

void top_print(FILE *out, const struct top_job *job)
{
    fprintf(out, "job %016" PRIx64 ": %" PRIu32 " ranks, %zu here%s\n", job->id, job->ranks, job->count,
            top_job_is_over(job) ? "; it has ended" : "");
    fprintf(out, "%5s %8s %-15s %-9s %7s %8s %7s %8s %6s %6s %6s %7s  %s\n", "rank", "pid", "program",
            "state", "sent/s", "B/s", "recv/s", "B/s", "posted", "unexp", "queued", "sleeps",
            "waits for, since, until, at");
    for (size_t i = 0; i < job->count; i++)
        print_rank(out, &job->rank[i]);
    print_stuck(out, job);
    print_in_vain(out, job);
    print_paths(out, job);
}
