/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/line_text.c - status lines in words. What a peer has written is printed, never trusted to be
 * more than numbers. */
#include "lib/comm.h"
#include "lib/line.h"
#include "lib/line_ops.h"
#include "lib/peer.h"
#include "lib/post.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    NAMED = 8,   /* ranks of a set that are listed */
    MISSING = 3, /* ranks whose state is told */
};

struct text {
    struct nigh_sentence *sentence;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    size_t room = sizeof(text->sentence->text) - text->used;
    va_list arguments;
    int bytes;

    va_start(arguments, format);
    bytes = vsnprintf(text->sentence->text + text->used, room, format, arguments);
    va_end(arguments);
    text->used += (size_t)bytes < room ? (size_t)bytes : room - 1;
}

static void put_set(struct text *text, int rank, const struct nigh_note *note)
{
    int named = 0;

    if (note->members == UINT64_MAX) {
        put(text, "any rank");
        return;
    }
    for (int other = 0; other < nigh_core.ranks && named <= NAMED; other++)
        if (nigh_line_names(rank, note, other)) {
            if (named == NAMED)
                put(text, " and more");
            else
                put(text, "%s%d", named == 0 ? (nigh_line_is_all(note) ? "ranks " : "any of ranks ") : ", ",
                    other);
            named++;
        }
    if (named == 0)
        put(text, "the others");
}

static void put_peers(struct text *text, int rank, const struct nigh_note *note)
{
    if (note->peer == NIGH_RANK_NONE)
        put_set(text, rank, note);
    else if (note->peer == (uint32_t)rank)
        put(text, "itself");
    else
        put(text, "rank %u", note->peer);
}

static void put_comm(struct text *text, uint32_t id)
{
    const struct nigh_comm *comm = nigh_comm_by_id(id);

    if (comm)
        put(text, ", in %s", nigh_comm_text(comm).text);
    else
        put(text, ", in communicator %u, of which this rank is not", id);
}

static void put_tag(struct text *text, uint64_t tag)
{
    if (tag == NIGH_LINE_ANY_TAG)
        put(text, ", any tag");
    else
        put(text, ", tag %d", (int)(uint32_t)tag);
}

static void put_message(struct text *text, const struct nigh_note *note)
{
    bool probes = note->op == NIGH_NOTE_OP_PROBE || note->op == NIGH_NOTE_OP_MPROBE;

    if (nigh_line_is_collective(note->op) || note->op == NIGH_NOTE_OP_CLOSE || note->op >= NIGH_NOTE_OP_HOST)
        return;
    if (note->requests > 1) {
        put(text, ": %u requests, the first has", note->requests);
        put(text, " %llu bytes", (unsigned long long)note->bytes);
    } else if (!probes) {
        put(text, ", %s%llu bytes", nigh_line_receives(note->op) ? "at most " : "",
            (unsigned long long)note->bytes);
    }
    put_tag(text, note->tag);
}

static void put_end(struct text *text, uint64_t until_ns)
{
    uint64_t now = nigh_now_ns();

    if (until_ns)
        put(text, ", for %.1f s more at most", until_ns > now ? (double)(until_ns - now) / 1e9 : 0.0);
}

struct nigh_sentence nigh_line_text(int rank, const struct nigh_note *note)
{
    struct nigh_sentence sentence = {""};
    struct text text = {.sentence = &sentence};

    put(&text, "rank %d waits in %s ", rank, nigh_line_call(note->op));
    if (note->op == NIGH_NOTE_OP_WAIT_SEND)
        put(&text, "for its send ");
    if (note->op == NIGH_NOTE_OP_WAIT_RECV)
        put(&text, "for its receive ");
    put(&text, "%s ", nigh_line_sends(note->op) ? "to" : nigh_line_receives(note->op) ? "from" : "for");
    put_peers(&text, rank, note);
    put_message(&text, note);
    if (note->op != NIGH_NOTE_OP_CLOSE)
        put_comm(&text, note->group);
    put_end(&text, note->until_ns);
    if (note->site[0])
        put(&text, " (%s)", note->site);
    return sentence;
}

static double seconds_since(uint64_t ns)
{
    uint64_t now = nigh_now_ns();

    return ns < now ? (double)(now - ns) / 1e9 : 0;
}

static void put_running(struct text *text, int rank, const struct nigh_note *note)
{
    const char *call = nigh_line_call(note->op);

    if (note->op == NIGH_NOTE_OP_NONE)
        put(text, "rank %d runs the program and has not waited in nigh for long", rank);
    else
        put(text, "rank %d runs the program; %s%s%s was the last call that it waited in, %.1f s ago", rank,
            call, note->site[0] ? " at " : "", note->site, seconds_since(note->since_ns));
}

struct nigh_sentence nigh_doing_text(int world_rank)
{
    struct nigh_sentence sentence = {""};
    struct text text = {.sentence = &sentence};
    struct nigh_query_end end;
    struct nigh_note note;

    switch (nigh_line_doing(world_rank, &note)) {
    case NIGH_DOING_WAITS:
        return nigh_line_text(world_rank, &note);
    case NIGH_DOING_LEAVING:
        put(&text, "rank %d is in nigh_finalize%s%s", world_rank, note.site[0] ? " at " : "", note.site);
        break;
    case NIGH_DOING_RUNS:
        put_running(&text, world_rank, &note);
        break;
    case NIGH_DOING_GONE:
        return nigh_peer_refused(world_rank, &end)
                   ? nigh_loss_text(nigh_core.world, world_rank)
                   : nigh_loss_words(world_rank, nigh_loss_state(nigh_core.world, world_rank), 0);
    case NIGH_DOING_UNKNOWN:
        put(&text, "rank %d has not been met: %s", world_rank,
            nigh_peer_end(world_rank, &end) ? end.text
                                            : "it has not called nigh_init yet, or had ended before");
        break;
    }
    return sentence;
}

struct nigh_sentence nigh_unmet_text(const struct nigh_comm *comm, int rank)
{
    struct nigh_sentence sentence = {""};
    struct text text = {.sentence = &sentence};
    struct nigh_query_end end;

    switch (nigh_peer_end(nigh_comm_to_world(comm, rank), &end)) {
    case NIGH_REASON_ABSENT:
    case NIGH_REASON_REACHED:
        put(&text, ": %s", end.text);
        break;
    default:
        break;
    }
    return sentence;
}

struct nigh_sentence nigh_missing_text(const struct nigh_comm *comm, int peer)
{
    struct nigh_sentence sentence = {""};
    struct text text = {.sentence = &sentence};
    int named = 0;

    if (peer >= 0)
        return nigh_doing_text(nigh_comm_to_world(comm, peer));
    for (int rank = 0; rank < (int)comm->size; rank++) {
        if (rank == comm->rank)
            continue;
        if (named++ == MISSING)
            break;
        put(&text, "%s%s", named > 1 ? "; " : "", nigh_doing_text(nigh_comm_to_world(comm, rank)).text);
    }
    if (named > MISSING)
        put(&text, "; and %u more", comm->size - 1 - MISSING);
    return sentence;
}

static bool has_come(const struct nigh_comm *comm, int rank, uint32_t op)
{
    struct nigh_note note;
    enum nigh_doing doing = nigh_line_doing(nigh_comm_to_world(comm, rank), &note);

    if (op == NIGH_NOTE_OP_CLOSE)
        return doing == NIGH_DOING_GONE || (doing != NIGH_DOING_UNKNOWN && note.op == op);
    return doing == NIGH_DOING_WAITS && note.op == op && note.group == comm->id;
}

struct nigh_sentence nigh_absent_text(const struct nigh_comm *comm, uint32_t op)
{
    struct nigh_sentence sentence = {""};
    struct text text = {.sentence = &sentence};
    int found = 0;

    for (int rank = 0; rank < (int)comm->size; rank++) {
        if (rank == comm->rank || has_come(comm, rank, op) || found++ >= MISSING)
            continue;
        put(&text, "%s%s", found > 1 ? "; " : "", nigh_doing_text(nigh_comm_to_world(comm, rank)).text);
    }
    if (found > MISSING)
        put(&text, "; and %d more", found - MISSING);
    return sentence;
}
