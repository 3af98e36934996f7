/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/collective_text.c - collectives in words: calls, whom they wait for, why they have failed. */
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/line.h"
#include "lib/type.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 3 }; /* ranks whose state is told */

__attribute__((format(printf, 3, 4))) static void put(char *out, size_t room, const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(out + used, room - used, format, arguments);
    va_end(arguments);
}

/* ---- a call ---- */

static const char *counts_of(const struct nigh_coll_args *args)
{
    if (args->has & NIGH_COLL_SEND_COUNTS)
        return args->has & NIGH_COLL_RECV_COUNTS ? "counts of what is sent and received"
                                                 : "counts of what is sent";
    return "counts of what is received";
}

struct nigh_sentence nigh_coll_arguments(const struct nigh_coll_args *args)
{
    struct nigh_sentence text = {"("};
    size_t room = sizeof(text.text);
    bool counts = args->has & (NIGH_COLL_SEND_COUNTS | NIGH_COLL_RECV_COUNTS);

    if (counts)
        put(text.text, room, "%s, %s", counts_of(args), nigh_type_name(args->type).text);
    else if (args->has & NIGH_COLL_COUNT)
        put(text.text, room, "count %llu, %s", (unsigned long long)args->count,
            nigh_type_name(args->type).text);
    if (args->has & NIGH_COLL_OP)
        put(text.text, room, ", %s", nigh_reduction_name(args->op).text);
    if (args->has & NIGH_COLL_ROOT)
        put(text.text, room, ", root %d", args->root);
    put(text.text, room, ")");
    return text;
}

struct nigh_sentence nigh_coll_request_text(const struct nigh_operation *operation)
{
    const struct nigh_coll_call *it = operation->owner;
    struct nigh_sentence text = {""};

    put(text.text, sizeof(text.text), "%s", it->name);
    if (it->what.type)
        put(text.text, sizeof(text.text), " of %s", nigh_type_name(it->what.type).text);
    if (it->what.reduction)
        put(text.text, sizeof(text.text), ", %s", nigh_reduction_name(it->what.reduction).text);
    put(text.text, sizeof(text.text), ", in %s%s%s", nigh_comm_text(operation->comm).text,
        operation->site ? ", posted" : "", nigh_where(operation->site).text);
    return text;
}

/* ---- why it has failed ---- */

/* The next place in `text` where `word` stands, which is skipped; NULL. */
static const char *skip(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : NULL;
}

/* The engine's text speaks of members, and numbers calls of the group; calls about communicators and windows are an allgather
 * to it (lib/meet.h). */
static void translate(const char *text, char *out, size_t room)
{
    const char *rest = skip(text, "call ");

    if (rest) {
        rest += strspn(rest, "0123456789");
        text = rest[0] && rest[1] ? rest + 2 : text;
    }
    while (*text && strlen(out) + 48 < room) {
        if ((rest = skip(text, ", member ")))
            put(out, room, "; rank ");
        else if ((rest = skip(text, "member ")))
            put(out, room, "rank ");
        else if ((rest = skip(text, "allgather of 1 opaque")))
            put(out, room, "one of nigh_comm_dup, nigh_comm_split and nigh_win_*");
        else
            put(out, room, "%c", *text), rest = text + 1;
        text = rest;
    }
}

void nigh_coll_end_text(const struct nigh_comm *comm, const char *text, int status, bool by_host, char *out,
                        size_t room)
{
    out[0] = '\0';
    if (by_host) {
        put(out, room, "%s", text);
        return;
    }
    if (status == -EPROTO)
        put(out, room, "the ranks of %.60s do not call the same: ", nigh_comm_text(comm).text);
    translate(text, out, room);
    if (!out[0])
        put(out, room, "%s", strerror(-status));
}

static const char *why_refused(struct nigh_call call, int error)
{
    size_t head = strlen(call.name) + strlen(nigh_where(call.site).text) + 2;
    const char *text = nigh_error_text();

    return strlen(text) > head ? text + head : strerror(-error);
}

int nigh_coll_error_for_others(int refused)
{
    return refused == -ENOMEM || refused == -ECONNRESET || refused == -ETIMEDOUT || refused == -EDEADLK
               ? refused
               : -EPROTO;
}

void nigh_coll_say_refused(struct nigh_call call, struct nigh_comm *comm, const char *arguments, int error)
{
    char text[NIGH_GROUP_TEXT_BYTES];

    snprintf(text, sizeof(text), "rank %d calls %s%s%s (refused there: %s)", comm->rank, call.name, arguments,
             nigh_where(call.site).text, why_refused(call, error));
    nigh_coll_refuse(call, comm, nigh_coll_error_for_others(error), text);
}

/* ---- whom it waits for ---- */

static bool has(const uint64_t *set, uint32_t rank)
{
    return set[rank / 64] >> rank % 64 & 1;
}

const char *nigh_coll_waited_for(const struct nigh_operation *operation, char *out, size_t room)
{
    uint64_t set[NIGH_SET_WORDS];
    uint32_t count = 0, named = 0;

    (void)nigh_coll_waits_for(operation, set);
    for (uint32_t rank = 0; rank < operation->comm->size; rank++)
        count += has(set, rank);
    snprintf(out, room, count == 0 ? "the others" : count == 1 ? "rank " : "ranks ");
    for (uint32_t rank = 0; rank < operation->comm->size && named < NAMED; rank++)
        if (has(set, rank))
            put(out, room, named++ ? ", %u" : "%u", rank);
    if (count > NAMED)
        put(out, room, " and %u more", count - NAMED);
    return out;
}

struct nigh_sentence nigh_coll_missing_text(const struct nigh_operation *operation)
{
    const struct nigh_comm *comm = operation->comm;
    struct nigh_sentence text = {""};
    uint64_t set[NIGH_SET_WORDS];
    uint32_t found = 0;

    (void)nigh_coll_waits_for(operation, set);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!has(set, rank) || found++ >= NAMED)
            continue;
        put(text.text, sizeof(text.text), "%s%s%s", found > 1 ? "; " : "",
            nigh_doing_text(nigh_comm_to_world(comm, (int)rank)).text, nigh_unmet_text(comm, (int)rank).text);
    }
    if (found > NAMED)
        put(text.text, sizeof(text.text), "; and %u more", found - NAMED);
    return text;
}
