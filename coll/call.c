/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/call.c - see call.h. */
#include "coll/call.h"
#include "coll/check.h"
#include "coll/short.h"
#include "shm/clock.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- end ----------------------------------------------------------------------------------------------- */

void nigh_call_direct(struct nigh_call *call)
{
    struct nigh_group *group = call->group;

    free(call->scratch);
    if (group->window || call->shape.width > nigh_shape_stream(group->count))
        free(call->window);
    else
        group->window = call->window;
    call->scratch = call->window = NULL;
    call->to = call->shape.result;
}

void nigh_call_give(struct nigh_call *call)
{
    if (call->scratch || call->window)
        nigh_call_direct(call);
    call->next = call->group->spare;
    call->group->spare = call;
}

static void unlink_call(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    struct nigh_call *before = NULL;

    for (struct nigh_call *at = group->first; at != call; at = at->next)
        before = at;
    if (before)
        before->next = call->next;
    else
        group->first = call->next;
    if (group->last == call)
        group->last = before;
    if (group->waiting == call)
        group->waiting = call->next;
}

static void complete(struct nigh_call *call, int status)
{
    struct nigh_group *group = call->group;
    struct nigh_call_result result = {
        .context = call->what.context,
        .number = call->number,
        .bytes = !status && call->shape.keeps ? call->bytes : 0,
        .status = status,
        .about = status ? group->members[group->about].handle : NULL,
        .group = group,
    };

    unlink_call(call);
    nigh_call_give(call);
    group->coll->host->complete(group->coll->user, &result);
}

bool nigh_calls_fail(struct nigh_group *group)
{
    bool any = group->first != NULL;

    while (group->first)
        complete(group->first, group->error);
    return any;
}

void nigh_calls_free(struct nigh_group *group)
{
    struct nigh_call *next;

    for (struct nigh_call *call = group->first; call; call = next) {
        next = call->next;
        nigh_call_give(call);
    }
    for (struct nigh_call *call = group->spare; call; call = next) {
        next = call->next;
        free(call);
    }
    group->first = group->last = group->waiting = group->spare = NULL;
    group->calls = 0;
}

/* ---- who has come -------------------------------------------------------------------------------------- */

static void accept(struct nigh_call *call, uint32_t member, const struct nigh_call_slot *slot)
{
    struct nigh_call_peer *peer = &call->peers[member];
    struct nigh_part part = nigh_shape_part_of(&call->what, &call->shape, member);
    uint64_t given = 0;
    int rc = nigh_source_open(&call->group->members[member], slot, &call->shape, call->shape.by_parts,
                              part.bytes, &peer->in, &given);

    if (rc == -EMSGSIZE) {
        nigh_call_wrong_bytes(call, member, part.bytes, given);
        return;
    }
    if (rc) {
        nigh_call_impossible(call, member);
        return;
    }
    peer->seen = true;
    peer->to = part.offset;
    call->unseen--;
    if (!part.bytes && !call->shape.folds)
        call->open--;
    if (nigh_source_is_direct(&peer->in))
        call->took_direct = true;
}

static bool look_for(struct nigh_call *call, uint32_t member)
{
    const struct nigh_call_slot *slot = nigh_call_of(call, member);
    bool ended = call->group->members[member].ended; /* before the look */
    uint64_t head = nigh_load_acquire(&slot->head, CALL_PEEK);

    if ((uint32_t)(head >> 32) != (uint32_t)call->number) {
        if (ended)
            nigh_call_lost(call, member);
        return false;
    }
    if ((uint32_t)head != call->print)
        nigh_call_mismatch(call, member);
    else
        accept(call, member, slot);
    return true;
}

static bool look_for_all(struct nigh_call *call)
{
    bool moved = false;

    /* Each look goes on by what it finds: lines of several members are asked for together. */
    for (uint32_t i = 0; i < call->shape.members && call->unseen > 1; i++)
        if (!call->peers[i].seen && nigh_shape_has(&call->shape, call->shape.takes, i))
            __builtin_prefetch(nigh_call_of(call, i));
    for (uint32_t i = 0; i < call->shape.members && call->group->state == NIGH_GROUP_READY; i++)
        if (!call->peers[i].seen && nigh_shape_has(&call->shape, call->shape.takes, i))
            moved |= look_for(call, i);
    return moved;
}

/* ---- progress ------------------------------------------------------------------------------------------ */

/* Others' buffers were read in place: were they the call's to the end? */
static bool is_sound(struct nigh_call *call)
{
    if (!call->took_direct)
        return true;
    nigh_fence_full(LEAVE_HEAR);
    for (uint32_t i = 0; i < call->shape.members; i++) {
        const struct nigh_call_peer *peer = &call->peers[i];
        bool direct =
            nigh_source_is_direct(&peer->in) || (peer->has_out && nigh_source_is_direct(&peer->out));
        bool by_kernel =
            peer->in.lies == NIGH_LIES_PROCESS || (peer->has_out && peer->out.lies == NIGH_LIES_PROCESS);

        if (!direct || nigh_group_is_sound(call->group, i, by_kernel))
            continue;
        nigh_call_lost(call, i);
        return false;
    }
    return true;
}

/* Up to which call we take nothing any more. */
static void count_done(struct nigh_group *group)
{
    uint64_t done = group->posted;

    for (const struct nigh_call *call = group->first; call; call = call->next) {
        if (call->state == NIGH_CALL_LEAVING)
            continue;
        done = call->number;
        break;
    }
    group->done = done;
}

bool nigh_group_show_done(struct nigh_group *group)
{
    if (group->shown == group->done)
        return false;
    group->shown = group->done;
    nigh_store_release(&group->board->done, group->done, STEP_SET);
    nigh_group_tell(group);
    return true;
}

static bool is_taken_by(const struct nigh_call *call, enum nigh_whom whom)
{
    struct nigh_group *group = call->group;

    for (uint32_t i = 0; i < call->shape.members; i++) {
        struct nigh_member *member = &group->members[i];

        if (nigh_shape_has(&call->shape, whom, i) && member->done <= call->number &&
            nigh_member_done(member) <= call->number)
            return false;
    }
    return true;
}

/* Has every other member looked at our buffers for the last time? */
static bool is_left(const struct nigh_call *call)
{
    bool direct = call->lies == NIGH_LIES_HEAP || call->lies == NIGH_LIES_PROCESS;
    bool out_direct = call->out_lies == NIGH_LIES_HEAP || call->out_lies == NIGH_LIES_PROCESS;

    if (call->staged < call->stages)
        return false;
    return (!direct || is_taken_by(call, call->shape.taken_by)) &&
           (!out_direct || is_taken_by(call, call->shape.out_by));
}

static void copy_result(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;

    if (!call->scratch)
        return;
    if (shape->folds) {
        memcpy(shape->result, call->scratch, shape->to - shape->from);
        return;
    }
    for (uint32_t i = 0; i < shape->members; i++) {
        struct nigh_part part = nigh_shape_part_of(&call->what, shape, i);

        memcpy(shape->result + part.offset, call->scratch + part.offset, part.bytes);
    }
}

static bool has_taken(const struct nigh_call *call)
{
    bool relayed =
        !call->shape.relays || call->shape.out_by == NIGH_WHOM_NONE || call->reduced == call->units;

    return !call->unseen && !call->open && !call->open_out && relayed;
}

static bool take(struct nigh_call *call)
{
    bool moved = call->unseen && look_for_all(call);

    if (call->group->state != NIGH_GROUP_READY)
        return true;
    moved |= call->shape.folds ? nigh_call_combine(call) : nigh_call_move(call);
    if (call->open_out && call->group->state == NIGH_GROUP_READY)
        moved |= call->shape.relays ? nigh_call_take_relayed(call) : nigh_call_take_results(call);
    if (call->group->state != NIGH_GROUP_READY || !has_taken(call))
        return moved;
    if (!is_sound(call))
        return true;
    call->state = NIGH_CALL_LEAVING;
    if (call->shape.takes != NIGH_WHOM_NONE) {
        struct nigh_call_slot *own = nigh_call_own(call);

        nigh_call_step(&own->taken, NIGH_CALL_ALL);
        nigh_call_step(&own->taken_out, NIGH_CALL_ALL);
    }
    count_done(call->group);
    if (!nigh_group_show_done(call->group))
        nigh_group_tell(call->group); /* of `taken` */
    return true;
}

/* Others look at `done` when they are a whole round of slots ahead, so a line that they hold is not stored to by each call. */
static bool advance_short(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    bool begins = !call->told;

    call->told = true;
    if (!nigh_short_take(call)) {
        if (begins)
            nigh_call_tell(call, call->shape.taken_by);
        return false;
    }
    call->state = NIGH_CALL_LEAVING;
    count_done(group);
    if (group->done - group->shown >= NIGH_DONE_EVERY)
        nigh_group_show_done(group);
    else if (begins)
        nigh_call_tell(call, call->shape.taken_by);
    complete(call, 0);
    return true;
}

static bool take_by_domains(struct nigh_call *call)
{
    bool moved = nigh_tree_take(call);

    if (call->group->state != NIGH_GROUP_READY || call->step != NIGH_TREE_DONE)
        return moved;
    call->state = NIGH_CALL_LEAVING;
    count_done(call->group);
    nigh_group_show_done(call->group);
    return true;
}

static bool advance(struct nigh_call *call)
{
    bool moved;

    if (nigh_call_is_short(call) && advance_short(call))
        return true;
    if (nigh_call_is_short(call))
        return false;
    moved = call->staged < call->stages && nigh_call_stage(call);
    if (call->state == NIGH_CALL_TAKING)
        moved |= nigh_tree_is_small(call->kind) ? take_by_domains(call) : take(call);
    if (call->state != NIGH_CALL_LEAVING || !is_left(call) || call->group->state != NIGH_GROUP_READY)
        return moved;
    copy_result(call);
    complete(call, 0);
    return true;
}

/* Calls begin in their order. */
static bool begin_next(struct nigh_group *group)
{
    struct nigh_call *call = group->waiting;
    int rc;

    if (!call || !nigh_group_has_slot(group, call->number) ||
        (group->first != call && group->first->number + NIGH_CALL_SLOTS <= call->number))
        return false;
    rc = nigh_call_begin(call);
    if (rc == -EAGAIN) {
        nigh_group_reclaim(group);
        rc = nigh_call_begin(call);
    }
    group->starved = rc == -EAGAIN;
    if (group->starved)
        return false;
    if (rc) {
        nigh_group_say(group, NIGH_LOG_ERROR, "call %" PRIu64 ": no memory for data on its way: %s",
                       call->number, strerror(-rc));
        nigh_group_revoke(group, NIGH_REVOKED_FAILED, call->number, group->me, rc);
        return false;
    }
    call->state = NIGH_CALL_TAKING;
    group->waiting = call->next;
    return true;
}

bool nigh_calls_progress(struct nigh_group *group)
{
    bool moved = false;

    while (begin_next(group))
        moved = true;
    for (struct nigh_call *call = group->first, *next; call && call != group->waiting; call = next) {
        next = call->next;
        moved |= advance(call);
        if (group->state != NIGH_GROUP_READY) {
            nigh_calls_fail(group);
            return true;
        }
    }
    return moved;
}
