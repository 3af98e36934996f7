/* SPDX-License-Identifier: BSD-3-Clause */
/* A job as one JSON object. Numbers of 64 bits that are names (job, tag, members) are strings: JSON's are doubles. */
#include "tools/top/json.h"
#include "tools/top/graph.h"
#include "tools/top/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *hex(uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%016" PRIx64, value);
    return json_string(text);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value));
}

/* Seconds that are left; a rank that is stopped may be late. */
static json_t *until(const struct top_reading *now)
{
    uint64_t until_ns = now->note.until_ns;

    if (!until_ns)
        return json_null();
    return json_real(until_ns > now->at_ns ? (double)(until_ns - now->at_ns) / 1e9 : 0.0);
}

static json_t *note_of(const struct top_rank *rank)
{
    const struct top_reading *now = &rank->now;
    const struct nigh_note *note = &now->note;
    char op[TOP_WORDS];

    if (!now->noted || note->state != NIGH_NOTE_BLOCKED)
        return json_null();
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:f, s:o, s:s, s:o}", "op",
                     top_op_word(note->op, op), "group", (json_int_t)note->group, "peer",
                     note->peer == NIGH_RANK_NONE ? json_null() : json_integer(note->peer), "members",
                     note->peer == NIGH_RANK_NONE ? hex(note->members) : json_null(), "tag", hex(note->tag),
                     "bytes", number(note->bytes), "requests", (json_int_t)note->requests, "seconds",
                     now->at_ns > note->since_ns ? (double)(now->at_ns - note->since_ns) / 1e9 : 0.0, "until",
                     until(now), "site", note->site, "serial", number(note->serial));
}

static json_t *paths_of(const struct top_rank *rank)
{
    const struct nigh_arena_counters *counts = &rank->now.counts;
    json_t *paths = json_object();

    for (unsigned path = 0; path < NIGH_COUNTED_PATHS; path++)
        json_object_set_new(paths, top_path_word(path),
                            json_pack("{s:o, s:o, s:f, s:f}", "sent", number(counts->sent[path]), "bytes",
                                      number(counts->sent_bytes[path]), "per_second",
                                      top_rate(rank, &counts->sent[path]), "bytes_per_second",
                                      top_rate(rank, &counts->sent_bytes[path])));
    return paths;
}

static void set(json_t *object, const char *name, json_t *value)
{
    json_object_set_new(object, name, value);
}

static json_t *rank_of(const struct top_rank *rank)
{
    const struct nigh_arena_counters *counts = &rank->now.counts;
    json_t *object = json_object();

    set(object, "rank", json_integer(rank->found.arena.rank));
    set(object, "pid", json_integer(rank->found.pid));
    set(object, "program", json_string(rank->found.process.name));
    set(object, "state", json_string(top_state_word(rank->state)));
    set(object, "asleep", json_boolean(rank->now.asleep));
    set(object, "stuck", json_boolean(rank->stuck));
    set(object, "note", note_of(rank));
    set(object, "posted", number(counts->posted));
    set(object, "unexpected", number(counts->arrived));
    set(object, "queued", number(counts->queued));
    set(object, "peers", number(counts->peers));
    set(object, "received", number(counts->received));
    set(object, "received_bytes", number(counts->received_bytes));
    set(object, "received_per_second", json_real(top_rate(rank, &counts->received)));
    set(object, "received_bytes_per_second", json_real(top_rate(rank, &counts->received_bytes)));
    set(object, "put", number(counts->put));
    set(object, "get", number(counts->get));
    set(object, "atomic", number(counts->atomic));
    set(object, "sleeps", number(counts->sleeps));
    set(object, "wakes", number(counts->wakes));
    set(object, "rescues", number(counts->rescues));
    set(object, "paths", paths_of(rank));
    return object;
}

static json_t *circles_of(const struct top_job *job)
{
    json_t *circles = json_array();
    size_t *at = calloc(job->count + 1, sizeof(*at));
    bool *told = calloc(job->count + 1, sizeof(*told));

    for (size_t i = 0; at && told && i < job->count; i++) {
        size_t count = top_graph_circle(job, i, at);
        bool proven = count > 0;
        json_t *ranks;

        if (!count || told[at[0]])
            continue;
        ranks = json_array();
        for (size_t k = 0; k < count; k++) {
            told[at[k]] = true;
            proven = proven && job->rank[at[k]].proven;
            json_array_append_new(ranks, json_integer(job->rank[at[k]].found.arena.rank));
        }
        json_array_append_new(circles, json_pack("{s:o, s:b}", "ranks", ranks, "deadlock", (int)proven));
    }
    free(at);
    free(told);
    return circles;
}

json_t *top_json(const struct top_job *job)
{
    json_t *object = json_object(), *ranks = json_array();

    for (size_t i = 0; i < job->count; i++)
        json_array_append_new(ranks, rank_of(&job->rank[i]));
    set(object, "job", hex(job->id));
    set(object, "ranks", json_integer(job->ranks));
    set(object, "over", json_boolean(top_job_is_over(job)));
    set(object, "here", ranks);
    set(object, "circles", circles_of(job));
    return object;
}

json_t *top_json_jobs(const struct top_crop *crop)
{
    json_t *jobs = json_array();

    for (size_t i = 0, end; i < crop->count; i = end) {
        const struct nigh_observed *arena = &crop->all[i].arena;

        for (end = i; end < crop->count && crop->all[end].arena.job == arena->job;)
            end++;
        json_array_append_new(jobs, json_pack("{s:o, s:I, s:I, s:s}", "job", hex(arena->job), "ranks",
                                              (json_int_t)arena->ranks, "here", (json_int_t)(end - i),
                                              "program", crop->all[i].process.name));
    }
    return json_pack("{s:o}", "jobs", jobs);
}
