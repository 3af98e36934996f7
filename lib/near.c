/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/near.c - the queue of messages that nobody has received, searched for what a receive may have meant. */
#include "lib/near.h"
#include "lib/comm.h"
#include "lib/error.h"
#include "lib/line_ops.h"
#include "lib/progress.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ROWS = 1024, /* messages that are looked at, oldest first */
    SHOWN = 3,
    LONG = 30, /* stalls */
};

struct wanted {
    const struct nigh_comm *comm;
    int source, tag; /* as in the call */
};

static bool is_source(const struct wanted *wanted, const struct nigh_query_message *message)
{
    return wanted->source == NIGH_ANY_SOURCE
               ? nigh_comm_rank_of(wanted->comm, message->source) >= 0
               : message->source == (uint64_t)nigh_comm_to_world(wanted->comm, wanted->source);
}

/* How a message differs from what is wanted: one difference is near, none is no miss. */
static int differences(const struct wanted *wanted, const struct nigh_query_message *message)
{
    bool comm = (uint32_t)(message->tag >> 32) == wanted->comm->id;
    bool tag = wanted->tag == NIGH_ANY_TAG || (uint32_t)message->tag == (uint32_t)wanted->tag;

    return !comm + !tag + !is_source(wanted, message);
}

static size_t put(char *text, size_t room, const struct wanted *wanted,
                  const struct nigh_query_message *message)
{
    const struct nigh_comm *comm = nigh_comm_by_id((uint32_t)(message->tag >> 32));
    bool same = comm == wanted->comm;
    int rank = comm && comm->endpoints ? nigh_comm_rank_of(comm, message->source) : (int)message->source,
        bytes;

    bytes = snprintf(text, room, "rank %d has sent tag %d, %llu bytes%s%s", rank, (int)(uint32_t)message->tag,
                     (unsigned long long)message->bytes, same ? "" : ", in ",
                     same   ? ""
                     : comm ? nigh_comm_text(comm).text
                            : "a communicator that this rank does not have");
    return (size_t)bytes < room ? (size_t)bytes : room - 1;
}

static uint64_t read_queue(uint32_t what, struct nigh_query_message *rows)
{
    uint64_t bytes = ROWS * sizeof(*rows);

    if (nigh_core.ops->query(nigh_core.context, NULL, what, rows, &bytes))
        return 0;
    return bytes / sizeof(*rows) < ROWS ? bytes / sizeof(*rows) : ROWS;
}

/* Has it got, from anyone or with any tag, what somebody else waits for, and nobody has looked yet? */
static bool has_taken(const struct nigh_operation *operation, const struct wanted *wanted)
{
    return operation->phase == NIGH_PHASE_DONE &&
           (operation->kind == NIGH_KIND_RECV || operation->kind == NIGH_KIND_RECV_IN_PLACE) &&
           !(operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW | NIGH_OP_NOBODY)) && !operation->error &&
           (operation->peer == NIGH_ANY_SOURCE || operation->tag == NIGH_ANY_TAG) &&
           operation->comm == wanted->comm &&
           (wanted->source == NIGH_ANY_SOURCE || operation->source == wanted->source) &&
           (wanted->tag == NIGH_ANY_TAG || operation->done_tag == wanted->tag);
}

static void put_taken(char *text, size_t room, const struct wanted *wanted)
{
    for (uint32_t i = 0; i < nigh_core.operations_used; i++) {
        const struct nigh_operation *operation = &nigh_core.operations[i];

        if (!has_taken(operation, wanted))
            continue;
        snprintf(text, room, "; rank %d has sent tag %d, %llu bytes, taken by the receive from %s, %s%s%s",
                 operation->source, operation->done_tag, (unsigned long long)operation->done_bytes,
                 operation->peer == NIGH_ANY_SOURCE ? "any rank" : "that rank",
                 operation->tag == NIGH_ANY_TAG ? "any tag" : "that tag", operation->site ? "," : "",
                 nigh_where(operation->site).text);
        return;
    }
}

/* `strict`: only what the rank that is waited for has sent; otherwise all that is near, nearest first. */
static struct nigh_sentence describe(const struct wanted *wanted, bool strict)
{
    struct nigh_query_message *rows = calloc(ROWS, sizeof(*rows));
    uint64_t count = rows ? read_queue(NIGH_QUERY_UNEXPECTED, rows) : 0;
    struct nigh_sentence sentence = {""};
    size_t used = 0;
    int shown = 0;

    for (int allowed = 1; allowed <= (strict ? 1 : 2); allowed++)
        for (uint64_t i = 0; i < count && shown < SHOWN; i++) {
            if (rows[i].tclass != NIGH_CLASS_USER || differences(wanted, &rows[i]) != allowed ||
                (strict && !is_source(wanted, &rows[i])))
                continue;
            used += (size_t)snprintf(sentence.text + used, sizeof(sentence.text) - used, "%s",
                                     shown++ ? "; " : "; not received so far: ");
            used += put(sentence.text + used, sizeof(sentence.text) - used, wanted, &rows[i]);
        }
    if (!strict)
        put_taken(sentence.text + used, sizeof(sentence.text) - used, wanted);
    free(rows);
    return sentence;
}

/* A receive that has its message, and waits for the rest of it, misses nothing. */
static bool is_unmatched(const struct nigh_operation *operation)
{
    struct nigh_query_message *rows = calloc(ROWS, sizeof(*rows));
    uint64_t count = rows ? read_queue(NIGH_QUERY_POSTED, rows) : 0;
    bool found = count == ROWS;

    for (uint64_t i = 0; i < count && !found; i++)
        found = rows[i].context == (uintptr_t)operation;
    free(rows);
    return found;
}

static bool want(const struct nigh_operation *operation, struct wanted *out)
{
    if (operation->flags & (NIGH_OP_INTERNAL | NIGH_OP_WINDOW) ||
        (operation->kind != NIGH_KIND_RECV && operation->kind != NIGH_KIND_RECV_IN_PLACE) ||
        (operation->phase == NIGH_PHASE_ACTIVE && !is_unmatched(operation)))
        return false;
    *out = (struct wanted){operation->comm, operation->peer, operation->tag};
    return true;
}

/* The first receive that `block` waits for. */
static bool wanted_by(const struct nigh_block *block, struct wanted *out)
{
    if (block->kind == NIGH_BLOCK_PROBE) {
        *out = (struct wanted){block->comm, block->peer, block->tag};
        return true;
    }
    if (block->kind == NIGH_BLOCK_ONE)
        return block->operation->phase == NIGH_PHASE_ACTIVE && want(block->operation, out);
    for (int i = 0; i < block->count; i++) {
        const struct nigh_operation *operation =
            block->requests[i].id ? nigh_operation_find(block->requests[i].id) : NULL;

        if (operation && operation->phase == NIGH_PHASE_ACTIVE && want(operation, out))
            return true;
    }
    return false;
}

struct nigh_sentence nigh_near_operation(const struct nigh_operation *operation)
{
    struct wanted wanted;

    return want(operation, &wanted) ? describe(&wanted, false) : (struct nigh_sentence){""};
}

struct nigh_sentence nigh_near_receive(const struct nigh_comm *comm, int source, int tag)
{
    return describe(&(struct wanted){comm, source, tag}, false);
}

struct nigh_sentence nigh_near_text(const struct nigh_block *block)
{
    struct wanted wanted;

    return wanted_by(block, &wanted) ? describe(&wanted, false) : (struct nigh_sentence){""};
}

/* The ranks that are waited for may be about to send it: those that are not are found by lib/stall.c. */
static bool is_time(const struct nigh_block *block)
{
    return nigh_now_ns() - block->since_ns > LONG * nigh_core.stall_ns;
}

bool nigh_near_warn(const struct nigh_block *block)
{
    struct nigh_sentence near;
    struct wanted wanted;
    char source[32], tag[32];

    if (!wanted_by(block, &wanted) || !is_time(block))
        return false;
    near = describe(&wanted, true);
    if (!near.text[0])
        return false;
    snprintf(source, sizeof(source), wanted.source < 0 ? "any rank" : "rank %d", wanted.source);
    snprintf(tag, sizeof(tag), wanted.tag < 0 ? "any tag" : "tag %d", wanted.tag);
    nigh_say(NIGH_LOG_WARN, "%s%s: has waited %.1f s for a message from %s, %s, in %s; %s%s",
             block->call.name, nigh_where(block->call.site).text,
             (double)(nigh_now_ns() - block->since_ns) / 1e9, source, tag, nigh_comm_text(wanted.comm).text,
             nigh_missing_text(wanted.comm, wanted.source).text, near.text);
    return true;
}
