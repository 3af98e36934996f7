/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/line.c - this rank's status line: written 20 us after a call has begun to wait, never on the short way. */
#include "lib/line.h"
#include "lib/collective.h"
#include "lib/comm.h"
#include "lib/line_ops.h"
#include "lib/peer.h"

#include <errno.h>
#include <string.h>

enum { WINDOW = 64 }; /* requests of nigh_waitall that the line is made of */

/* Who may end the wait, as a line has it: one rank, or a set. */
struct who {
    int count; /* 0, 1, or 2 for several */
    uint32_t one;
    uint64_t members;
    bool wide; /* some do not fit the set */
};

static void add(struct who *who, uint32_t world_rank)
{
    if (who->count == 0)
        who->one = world_rank;
    if (who->count == 0 || world_rank != who->one)
        who->count++;
    if (world_rank < 64)
        who->members |= UINT64_C(1) << world_rank;
    else
        who->wide = true;
}

/* This rank cannot send to itself while it waits, so of "any" it is left out. */
static void add_peer(struct who *who, const struct nigh_comm *comm, int peer)
{
    if (peer != NIGH_ANY_SOURCE) {
        add(who, (uint32_t)nigh_comm_to_world(comm, peer));
        return;
    }
    for (int rank = 0; rank < (int)comm->size; rank++)
        if (rank != comm->rank || comm->size == 1)
            add(who, (uint32_t)nigh_comm_to_world(comm, rank));
}

/* A set that does not fit becomes every rank where any of them would do, and one of them where all are needed: both say
 * less than is true, so that nobody is called stuck who is not. */
static void set_peers(struct nigh_note *note, const struct who *who, bool all)
{
    note->peer = NIGH_RANK_NONE;
    if (who->count == 1 || (all && who->wide))
        note->peer = who->one;
    else
        note->members = who->wide ? UINT64_MAX : who->members;
}

/* Of a collective all are needed: ranks that were never met are left out where others are named, see is_met(). Nobody is named
 * where all have come: no blocking call of theirs keeps them from going on with it. */
static void add_collective(struct who *who, const struct nigh_operation *operation)
{
    const struct nigh_comm *comm = operation->comm;
    uint64_t set[NIGH_SET_WORDS];
    struct who unmet = {0};

    if (!nigh_coll_waits_for(operation, set))
        return;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        uint32_t world = (uint32_t)nigh_comm_to_world(comm, (int)rank);

        if (set[rank / 64] >> rank % 64 & 1)
            add(nigh_peer_state((int)world) == NIGH_READY ? who : &unmet, world);
    }
    if (who->count == 0)
        *who = unmet;
}

static void set_message(struct nigh_note *note, const struct nigh_comm *comm, int tag, uint64_t bytes)
{
    note->group = comm->id;
    note->tag = tag == NIGH_ANY_TAG ? NIGH_LINE_ANY_TAG : (uint32_t)tag;
    note->bytes = bytes;
}

static bool is_send(const struct nigh_operation *operation)
{
    return operation->kind <= NIGH_KIND_LEND;
}

static const struct nigh_operation *unfinished(const struct nigh_block *block, int index)
{
    const struct nigh_operation *operation =
        block->requests[index].id ? nigh_operation_find(block->requests[index].id) : NULL;

    return operation && operation->phase == NIGH_PHASE_ACTIVE ? operation : NULL;
}

/* A rank that was never met may be behind everything, and while it is waited for no proof is possible (nudge() of
 * transport.h). Where all of several are waited for it can be left out. */
static bool is_met(const struct nigh_operation *operation)
{
    return nigh_peer_state(nigh_comm_to_world(operation->comm, operation->peer)) == NIGH_READY;
}

/* Of all that are waited for those at the beginning are enough, whoever they are: none of the later
 * ones ends the call. */
static int last_of(struct nigh_block *block)
{
    if (block->kind != NIGH_BLOCK_ALL)
        return block->count;
    while (block->ended < block->count && !unfinished(block, block->ended))
        block->ended++;
    return block->count - block->ended > WINDOW ? block->ended + WINDOW : block->count;
}

/* All of several: those from anyone need not be named as long as others are, because one that never ends is enough. */
static void set_requests(struct nigh_note *note, struct nigh_block *block)
{
    int last = last_of(block);
    const struct nigh_operation *first = NULL, *from_anyone = NULL, *unmet = NULL, *operation;
    struct who who = {0};

    for (int i = block->ended; i < last; i++) {
        operation = unfinished(block, i);
        if (!operation)
            continue;
        note->requests++;
        if (!first)
            first = operation;
        if (operation->kind == NIGH_KIND_COLLECTIVE)
            add_collective(&who, operation);
        else if (block->kind == NIGH_BLOCK_ALL && operation->peer == NIGH_ANY_SOURCE)
            from_anyone = from_anyone ? from_anyone : operation;
        else if (block->kind != NIGH_BLOCK_ALL || is_met(operation))
            add_peer(&who, operation->comm, operation->peer);
        else
            unmet = operation;
    }
    note->requests += (uint32_t)(block->count - last);
    if (who.count == 0 && unmet && !from_anyone)
        add_peer(&who, unmet->comm, unmet->peer);
    if (who.count == 0 && from_anyone) {
        add_peer(&who, from_anyone->comm, NIGH_ANY_SOURCE);
        note->op = NIGH_NOTE_OP_WAIT_RECV;
        first = from_anyone;
    }
    if (!first)
        return;
    set_message(note, first->comm, first->tag, first->bytes);
    set_peers(note, &who, note->op == NIGH_NOTE_OP_WAITALL);
}

static void set_one(struct nigh_note *note, const struct nigh_block *block)
{
    const struct nigh_operation *operation = block->operation;
    struct who who = {0};

    if (operation->kind == NIGH_KIND_COLLECTIVE) {
        const struct nigh_coll_call *it = operation->owner;

        if (note->op == NIGH_NOTE_OP_WAIT || note->op == NIGH_NOTE_OP_HOST)
            note->op = NIGH_NOTE_OP_BARRIER + (it->what.op - NIGH_BARRIER);
        note->requests = 1;
        set_message(note, operation->comm, NIGH_ANY_TAG, 0);
        add_collective(&who, operation);
        set_peers(note, &who, true);
        return;
    }
    if (note->op == NIGH_NOTE_OP_WAIT && operation->kind != NIGH_KIND_OTHER)
        note->op = is_send(operation) ? NIGH_NOTE_OP_WAIT_SEND : NIGH_NOTE_OP_WAIT_RECV;
    note->requests = 1;
    set_message(note, operation->comm, operation->flags & NIGH_OP_INTERNAL ? 0 : operation->tag,
                operation->flags & NIGH_OP_INTERNAL ? 0 : operation->bytes);
    add_peer(&who, operation->comm, operation->peer);
    set_peers(note, &who, false);
}

static void set_site(struct nigh_note *note, const char *site)
{
    const char *slash = site ? strrchr(site, '/') : NULL;

    if (slash)
        site = slash + 1;
    if (site && strlen(site) >= sizeof(note->site))
        site += strlen(site) - sizeof(note->site) + 1;
    if (site)
        strcpy(note->site, site);
}

/* nigh_finalize without a time-out begins its waits anew for ranks that live: the clock does not end it. */
static uint64_t end_of(const struct nigh_block *block, uint32_t op)
{
    if (!block->timeout_ns || (op == NIGH_NOTE_OP_CLOSE && !nigh_core.world->timeout_ns))
        return 0;
    return block->since_ns + block->timeout_ns;
}

static struct nigh_note note_of(struct nigh_block *block)
{
    struct nigh_note note = {
        .size = sizeof(note),
        .op = nigh_line_op(block->call.name),
        .peer = NIGH_RANK_NONE,
        .since_ns = block->since_ns,
    };
    struct who who = {0};

    note.until_ns = end_of(block, note.op);
    set_site(&note, block->call.site);
    if (block->kind == NIGH_BLOCK_ALL || block->kind == NIGH_BLOCK_ANY) {
        set_requests(&note, block);
    } else if (block->kind == NIGH_BLOCK_PROBE) {
        set_message(&note, block->comm, block->tag, 0);
        add_peer(&who, block->comm, block->peer);
        set_peers(&note, &who, false);
    } else {
        set_one(&note, block);
    }
    return note;
}

static void write(const struct nigh_note *note)
{
    (void)nigh_core.ops->note(nigh_core.context, note);
}

/* With threads the rank is not blocked when one of them is: no reader may conclude anything. */
static void show(struct nigh_block *block, struct nigh_note *note)
{
    note->state = nigh_core.guard & NIGH_GUARD_THREADS ? NIGH_NOTE_RUNNING : NIGH_NOTE_BLOCKED;
    block->shown[0] = note->peer;
    block->shown[1] = note->members;
    block->shown[2] = note->requests;
    write(note);
}

void nigh_line_block(struct nigh_block *block)
{
    struct nigh_note note = note_of(block);

    show(block, &note);
}

static bool any_has_ended(const struct nigh_block *block)
{
    for (int i = 0; i < block->count; i++) {
        const struct nigh_operation *operation =
            block->requests[i].id ? nigh_operation_find(block->requests[i].id) : NULL;

        if (operation && operation->phase == NIGH_PHASE_DONE)
            return true;
    }
    return false;
}

/* A collective waits for ever fewer. */
static bool is_collective(const struct nigh_block *block)
{
    return block->kind == NIGH_BLOCK_ONE && block->operation->kind == NIGH_KIND_COLLECTIVE &&
           block->operation->phase == NIGH_PHASE_ACTIVE;
}

/* Not if nothing has changed: whoever proves a deadlock must find the line as it was. What a probe waits for the plugin
 * knows by itself, and a send for which there was no room is no member of a circle before it has been tried again. */
void nigh_line_refresh(struct nigh_block *block)
{
    struct nigh_note note;

    if (block->kind == NIGH_BLOCK_ONE ? block->operation->phase == NIGH_PHASE_DONE
                                      : block->kind == NIGH_BLOCK_ANY && any_has_ended(block))
        nigh_line_run(block);
    if (block->kind != NIGH_BLOCK_ALL && !is_collective(block))
        return;
    note = note_of(block);
    if (block->shown[0] != note.peer || block->shown[1] != note.members || block->shown[2] != note.requests)
        show(block, &note);
}

void nigh_line_run(const struct nigh_block *block)
{
    struct nigh_note note = {
        .size = sizeof(note),
        .state = NIGH_NOTE_RUNNING,
        .op = nigh_line_op(block->call.name),
        .peer = NIGH_RANK_NONE,
        .since_ns = nigh_now_ns(),
    };

    set_site(&note, block->call.site);
    write(&note);
}

static void write_state(uint32_t state)
{
    struct nigh_note note = {
        .size = sizeof(note), .state = state, .peer = NIGH_RANK_NONE, .since_ns = nigh_now_ns()};

    write(&note);
}

void nigh_line_begin(void)
{
    write_state(NIGH_NOTE_RUNNING);
}

void nigh_line_leave(void)
{
    write_state(NIGH_NOTE_LEFT);
}

int nigh_line_read(int world_rank, struct nigh_note *out)
{
    struct nigh_call none = {"nigh", NULL};
    struct nigh_endpoint *endpoint = NULL;
    uint64_t bytes = sizeof(*out);
    int rc = 0;

    if (world_rank != nigh_core.rank)
        rc = nigh_peer_connect(none, world_rank, &endpoint);
    return rc ? rc : nigh_core.ops->query(nigh_core.context, endpoint, NIGH_QUERY_NOTE, out, &bytes);
}

bool nigh_line_has_left(int world_rank)
{
    struct nigh_note note;

    return nigh_core.endpoints[world_rank] && nigh_line_read(world_rank, &note) == 0 &&
           note.state == NIGH_NOTE_LEFT;
}

enum nigh_doing nigh_line_doing(int world_rank, struct nigh_note *out)
{
    int rc = nigh_line_read(world_rank, out);
    uint32_t state = nigh_peer_state(world_rank);

    if (state == NIGH_PEER_CLOSED || state == NIGH_PEER_DEAD || state == NIGH_BROKEN ||
        (!rc && out->state == NIGH_NOTE_LEFT))
        return NIGH_DOING_GONE;
    if (rc)
        return NIGH_DOING_UNKNOWN;
    if (out->state != NIGH_NOTE_BLOCKED)
        return NIGH_DOING_RUNS;
    return out->op == NIGH_NOTE_OP_CLOSE ? NIGH_DOING_LEAVING : NIGH_DOING_WAITS;
}

bool nigh_line_is_all(const struct nigh_note *note)
{
    return (note->op == NIGH_NOTE_OP_WAITALL || nigh_line_is_collective(note->op)) &&
           note->peer == NIGH_RANK_NONE;
}

bool nigh_line_names(int rank, const struct nigh_note *note, int other)
{
    if (note->peer != NIGH_RANK_NONE)
        return note->peer == (uint32_t)other;
    if (note->members == UINT64_MAX)
        return rank != other;
    return other < 64 && note->members >> other & 1;
}
