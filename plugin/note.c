/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/note.c - the status line and what a detector of deadlocks needs beside it: asking a peer that waits to look
 * once more at everything, and answering such a request. docs/memory-model.md says what follows from an answer.
 */
#include "plugin/note.h"
#include "plugin/context.h"
#include "plugin/field.h"
#include "plugin/progress.h"
#include "plugin/refuse.h"
#include "shm/note.h"
#include <errno.h>

int nigh_note_set(struct nigh_context *context, const struct nigh_note *note)
{
    int rc = nigh_check_struct(context, "note", note, NIGH_FIELD(note->size), sizeof(*note));

    if (rc)
        return rc;
    if (note->reserved[0] || note->reserved[1])
        return nigh_refuse_reserved(context, "note");
    if (note->state < NIGH_NOTE_RUNNING || note->state > NIGH_NOTE_LEFT)
        return nigh_refuse(context, -EINVAL, "note: state %u: %u to %u", note->state, NIGH_NOTE_RUNNING,
                           NIGH_NOTE_LEFT);
    nigh_note_write(nigh_arena_note(&context->arena), note);
    context->blocked = note->state == NIGH_NOTE_BLOCKED;
    nigh_context_settle(context);
    context->probing =
        context->blocked && (note->op == NIGH_NOTE_OP_PROBE || note->op == NIGH_NOTE_OP_MPROBE);
    context->waits_for = (struct nigh_waits_for){.peer = note->peer, .members = note->members};
    return 0;
}

int nigh_endpoint_nudge(struct nigh_endpoint *endpoint, uint64_t *number)
{
    if (endpoint->state == NIGH_CONNECTING)
        return -EAGAIN;
    if (endpoint->state != NIGH_READY)
        return endpoint->state == NIGH_BROKEN ? -EPROTO : -ECONNRESET;
    *number = nigh_bell_nudge(&endpoint->bell, endpoint->their_index);
    nigh_fence_full(SLEEP_CHECK);
    /* Relaxed: it steers only whether to wake; the fence has put it behind the nudge. */
    nigh_bell_ring(&endpoint->bell, nigh_load_relaxed(endpoint->peer_asleep));
    return 0;
}

static bool is_waited_for(const struct nigh_context *context, const struct nigh_endpoint *endpoint)
{
    uint32_t rank = endpoint->rank;

    if (context->waits_for.peer != NIGH_RANK_NONE)
        return rank == context->waits_for.peer;
    return context->waits_for.members == UINT64_MAX || (rank < 64 && context->waits_for.members >> rank & 1);
}

/* Something that was posted, or may have been sent to us, waits for a connection, which nobody's nudge speeds up. */
static bool is_connecting(const struct nigh_context *context)
{
    for (const struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (endpoint->state == NIGH_CONNECTING && !endpoint->gone &&
            (endpoint->queue.head || is_waited_for(context, endpoint)))
            return true;
    return false;
}

/* Its peer has room for it, but chunks are with peers that have yet to read them, or there is no memory: others than
 * those that the note names may change that. */
static bool is_starved(const struct nigh_context *context)
{
    for (const struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        if (endpoint->starved && endpoint->state == NIGH_READY && !endpoint->gone)
            return true;
    return false;
}

static void forget_starved(struct nigh_context *context)
{
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all)
        endpoint->starved = false;
}

bool nigh_note_is_asked(struct nigh_context *context)
{
    uint64_t nudges = nigh_bell_nudges(&context->bell);

    if (nudges == context->nudges_seen)
        return false;
    context->nudges_seen = nudges;
    context->nudged = true;
    return true;
}

/*
 * What moves is shown in the line before the count goes up, so whoever sees the count sees that, too. A host that has
 * completions to take, or an unexpected message to look at that it may wait for, or is being handed some by this very
 * poll (then something has moved, or had before the pass), is not blocked, whatever its note still says.
 */
bool nigh_note_answer(struct nigh_context *context, bool moved)
{
    bool more;

    forget_starved(context);
    more = nigh_progress_all(context);
    if (more && context->blocked)
        nigh_note_moved(nigh_arena_note(&context->arena));
    if (!moved && !more && context->blocked && !context->hands && !nigh_cq_count(&context->cq) &&
        !nigh_is_unprobed(context) && !is_connecting(context) && !is_starved(context) &&
        !nigh_coll_is_starved(&context->coll))
        nigh_note_checked(nigh_arena_note(&context->arena), context->nudges_seen);
    return more;
}
