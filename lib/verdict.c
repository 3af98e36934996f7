/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/verdict.c - a verdict is one message of the library's own, short enough to be copied out at once. It is no
 * receive that waits for it: a nudge makes the member look into the queue.
 */
#include "lib/verdict.h"
#include "lib/control.h"
#include "lib/error.h"
#include "lib/line_ops.h"
#include "lib/near.h"
#include "lib/peer.h"
#include "lib/post.h"
#include "lib/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEARD_NS UINT64_C(250000000) /* how long the members get to hear it: one may be stopped */

enum { TOLD = 8 }; /* members that are named */

struct member {
    int32_t rank;
    uint32_t op, group, peer, requests;
    uint32_t reserved0;
    uint64_t members, tag, bytes, since_ns;
    char site[40];
};

struct verdict {
    uint64_t since_ns; /* of the wait that it is about, from the receiver's line; 0: "look" */
    uint32_t count, total;
    struct member member[TOLD];
};

_Static_assert(sizeof(struct verdict) <= NIGH_INJECT_BYTES, "copied out at once");

static uint64_t verdict_tag(void)
{
    return nigh_comm_tag(nigh_core.world, nigh_control_tag(NIGH_CONTROL_VERDICT, 0));
}

/* The nudge comes behind the message, so that whoever follows it finds it. */
static void send_to(int rank, const struct verdict *verdict)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .buffer = verdict,
        .bytes = sizeof(*verdict),
        .tag = verdict_tag(),
        .tclass = NIGH_CLASS_CONTROL,
    };
    struct nigh_endpoint *endpoint = nigh_core.endpoints[rank];
    uint64_t number;

    if (endpoint && nigh_core.ops->post_send(endpoint, &send) == 0)
        (void)nigh_core.ops->nudge(endpoint, &number);
}

static void add_member(struct verdict *verdict, const struct nigh_vertex *vertex)
{
    struct member *member = &verdict->member[verdict->count];

    if (verdict->count == TOLD)
        return;
    verdict->count++;
    *member = (struct member){
        .rank = vertex->rank,
        .op = vertex->note.op,
        .group = vertex->note.group,
        .peer = vertex->note.peer,
        .requests = vertex->note.requests,
        .members = vertex->note.members,
        .tag = vertex->note.tag,
        .bytes = vertex->note.bytes,
        .since_ns = vertex->note.since_ns,
    };
    memcpy(member->site, vertex->note.site, sizeof(member->site));
}

/* Does it still wait as it did when it was judged? A rank that was not met before may. */
static bool still_waits(const struct nigh_vertex *vertex)
{
    struct nigh_note now;
    enum nigh_doing doing = nigh_line_doing(vertex->rank, &now);

    return doing == NIGH_DOING_UNKNOWN ||
           (doing == NIGH_DOING_WAITS && now.since_ns == vertex->note.since_ns);
}

static bool is_other(const struct nigh_vertex *vertex)
{
    return vertex->reaches && vertex->rank != nigh_core.rank;
}

/* A member that polls, because it is looking itself, does not notice a nudge: it gets another. */
static void wait_until_heard(const struct nigh_vertex *vertices, int count)
{
    uint64_t until = nigh_now_ns() + HEARD_NS, number;

    for (int i = 0; i < count; i++)
        while (is_other(&vertices[i]) && still_waits(&vertices[i]) && nigh_now_ns() < until &&
               nigh_core.endpoints[vertices[i].rank]) {
            (void)nigh_core.ops->nudge(nigh_core.endpoints[vertices[i].rank], &number);
            (void)nigh_progress_sleep(500000);
        }
}

void nigh_verdict_pass(const struct nigh_graph *graph)
{
    struct verdict verdict = {0};

    for (int i = 0; i < graph->count; i++)
        if (graph->vertices[i].reaches) {
            verdict.total++;
            add_member(&verdict, &graph->vertices[i]);
        }
    for (int i = 0; i < graph->count; i++)
        if (is_other(&graph->vertices[i])) {
            verdict.since_ns = graph->vertices[i].note.since_ns;
            send_to(graph->vertices[i].rank, &verdict);
        }
    wait_until_heard(graph->vertices, graph->count);
}

void nigh_verdict_ask(int world_rank)
{
    send_to(world_rank, &(struct verdict){0});
}

/* ---- the sentence ---------------------------------------------------------------------------------------- */

static const char *advice(const struct nigh_vertex *members, int count)
{
    bool sends = false, receives = false, together = false, alone = count == 1;

    for (int i = 0; i < count; i++) {
        uint32_t op = members[i].note.op;

        sends |= nigh_line_sends(op) || op == NIGH_NOTE_OP_SENDRECV || op == NIGH_NOTE_OP_WAITALL;
        receives |= nigh_line_receives(op);
        together |= nigh_line_is_collective(op);
    }
    if (together)
        return "all ranks of a communicator must call its collectives in the same order, and none may wait "
               "for "
               "a message from a rank that is in one";
    if (alone)
        return "a message to oneself needs a receive that is posted before: nigh_irecv, then the send, then "
               "nigh_wait; of another thread of this rank, NIGH_THREADS=multiple";
    if (sends && receives)
        return "let the receiver's tag, source and communicator be those of the send, or change the order; "
               "nigh_isend and nigh_irecv start a message without waiting for it";
    if (sends)
        return "use nigh_sendrecv, start the sends with nigh_isend and wait for them after the receives, or "
               "let "
               "one rank receive first";
    return "let one rank send before it receives, or post the receives with nigh_irecv, send, then wait";
}

static int by_rank(const struct nigh_vertex *members, int count, int above)
{
    int best = -1;

    for (int i = 0; i < count; i++)
        if (members[i].rank > above && (best < 0 || members[i].rank < members[best].rank))
            best = i;
    return best;
}

/* What each of them does, and how many are not named. */
static void put_members(char *text, size_t room, const struct nigh_vertex *members, int count, int total)
{
    size_t used = 0;
    int named = 0;

    for (int i = by_rank(members, count, -1); i >= 0 && named < TOLD && used < room - 1;
         i = by_rank(members, count, members[i].rank), named++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? "; " : "",
                                 members[i].doing > NIGH_DOING_WAITS
                                     ? nigh_doing_text(members[i].rank).text
                                     : nigh_line_text(members[i].rank, &members[i].note).text);
    if (total > named && used < room)
        snprintf(text + used, room - used, "; and %d more", total - named);
}

static bool is_named(const struct nigh_vertex *members, int count)
{
    for (int i = 0; i < count; i++)
        if (members[i].rank == nigh_core.rank)
            return true;
    return false;
}

/* The same list for each of hundreds would be all that can be seen. */
static void say_briefly(const struct nigh_block *block, const struct nigh_vertex *members, int count,
                        int total)
{
    nigh_say(NIGH_LOG_ERROR,
             "%s%s: deadlock: this is one of %d ranks that wait for each other; rank %d names some",
             block->call.name, nigh_where(block->call.site).text, total,
             members[by_rank(members, count, -1)].rank);
}

int nigh_verdict_say(const struct nigh_block *block, const struct nigh_vertex *members, int count, int total)
{
    struct nigh_sentence near = nigh_near_text(block);
    char text[1400] = "";

    put_members(text, sizeof(text), members, count, total);
    if (!is_named(members, count) && count > 0) {
        say_briefly(block, members, count, total);
        return nigh_fail_quietly(block->call, -EDEADLK,
                                 "deadlock: %d ranks wait for each other: %s. To mend it: %s%s", total, text,
                                 advice(members, count), near.text);
    }
    if (total == 1)
        return nigh_fail(block->call, -EDEADLK, "deadlock: this rank waits for itself: %s. To mend it: %s%s",
                         text, advice(members, count), near.text);
    return nigh_fail(block->call, -EDEADLK, "deadlock: %d ranks wait for each other: %s. To mend it: %s%s",
                     total, text, advice(members, count), near.text);
}

void nigh_verdict_warn(const struct nigh_block *block, const struct nigh_vertex *members, int count)
{
    char text[1400] = "";

    put_members(text, sizeof(text), members, count, count);
    nigh_say(NIGH_LOG_WARN, "%s%s: nothing but a time-out will end this: %s%s", block->call.name,
             nigh_where(block->call.site).text, text, nigh_near_text(block).text);
}

/* ---- hearing --------------------------------------------------------------------------------------------- */

/* What a peer has written: a name ends, a rank is one. */
static int read_members(struct verdict *verdict, struct nigh_vertex *members)
{
    int count = 0;

    for (uint32_t i = 0; i < verdict->count && i < TOLD; i++) {
        struct member *member = &verdict->member[i];
        struct nigh_vertex *vertex = &members[count];

        if (member->rank < 0 || member->rank >= nigh_core.ranks)
            continue;
        *vertex = (struct nigh_vertex){.rank = member->rank, .reaches = true};
        vertex->note = (struct nigh_note){
            .op = member->op,
            .group = member->group,
            .peer = member->peer,
            .requests = member->requests,
            .members = member->members,
            .tag = member->tag,
            .bytes = member->bytes,
            .since_ns = member->since_ns,
        };
        member->site[sizeof(member->site) - 1] = '\0';
        for (char *at = member->site; *at; at++)
            *at = *at < ' ' || *at > '~' ? '?' : *at;
        strcpy(vertex->note.site, member->site);
        count++;
    }
    return count;
}

/* A receive for what a probe has found, which is nobody else's. NULL: it could not be posted, and the message stays
 * where it is; one that was claimed would be lost then. */
static struct nigh_operation *receive(int source, struct verdict *verdict)
{
    struct nigh_call none = {"nigh", NULL};
    struct nigh_operation *operation = nigh_operation_new(none, NIGH_KIND_RECV, nigh_core.world, source,
                                                          nigh_control_tag(NIGH_CONTROL_VERDICT, 0), verdict,
                                                          sizeof(*verdict), NIGH_OP_INTERNAL);

    if (operation && nigh_operation_post(none, operation)) {
        nigh_operation_give(operation);
        return NULL;
    }
    return operation;
}

/* It lies in the ring or beside it, so it is received by the next polls. Is it what it should be? */
static bool take(struct nigh_block *block, struct nigh_operation *operation)
{
    bool good;

    for (int i = 0; i < 1000 && operation->phase != NIGH_PHASE_DONE; i++) {
        (void)nigh_poll();
        nigh_line_refresh(block);
    }
    good = operation->phase == NIGH_PHASE_DONE && !operation->error &&
           operation->done_bytes == sizeof(struct verdict);
    nigh_operation_take_back(operation);
    return good;
}

int nigh_verdict_hear(struct nigh_block *block, bool *asked)
{
    static struct verdict verdict; /* a message that is not taken back in time may still be written here */
    struct nigh_vertex members[TOLD];
    struct nigh_operation *operation;
    struct nigh_completion found;

    while (nigh_core.ops->probe(nigh_core.context, NULL, verdict_tag(), 0, NIGH_CLASS_CONTROL, &found,
                                NULL) == 0) {
        operation = receive((int)found.source, &verdict);
        if (!operation)
            break; /* whoever sent it nudges again */
        if (!take(block, operation))
            continue;
        if (verdict.since_ns == 0) {
            *asked = true;
        } else if (verdict.since_ns == block->since_ns && !block->timeout_ns) {
            int count = read_members(&verdict, members);

            /* Whoever goes on first may free another that has not heard. */
            nigh_line_run(block);
            wait_until_heard(members, count);
            return nigh_verdict_say(block, members, count,
                                    (int)(verdict.total < (uint32_t)count ? (uint32_t)count : verdict.total));
        }
    }
    return 0;
}
