/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/call.c - see call.h. */
#include "coll/call.h"
#include "coll/check.h"
#include "coll/fold.h"
#include "shm/clock.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- post ---------------------------------------------------------------------------------------------- */

static struct nigh_call *new_call(struct nigh_group *group)
{
    struct nigh_call *call = group->spare;

    if (call)
        group->spare = call->next;
    else
        call = malloc(sizeof(*call) + group->count * sizeof(call->peers[0]));
    return call;
}

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

static void give(struct nigh_call *call)
{
    nigh_call_direct(call);
    call->next = call->group->spare;
    call->group->spare = call;
}

static void reset(struct nigh_call *call, struct nigh_group *group, const struct nigh_collective *what)
{
    memset(call, 0, sizeof(*call));
    call->group = group;
    call->what = *what;
    nigh_shape_make(what, group->count, group->me, &call->shape);
    call->print = nigh_call_print(what, &call->shape, group->print);
    if (group->tree)
        nigh_tree_choose(call);
    if (call->shape.takes != NIGH_WHOM_NONE || call->shape.takes_out != NIGH_WHOM_NONE)
        memset(call->peers, 0, group->count * sizeof(call->peers[0]));
    call->to = call->shape.result;
    if (what->reduction == NIGH_PREMUL)
        memcpy(call->factor, what->factor, call->shape.width);
}

/* Bytes of recv that the call may write, from its beginning. */
static uint64_t extent(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t end = 0;

    if (shape->folds)
        return shape->to - shape->from;
    for (uint32_t i = 0; i < shape->members; i++) {
        struct nigh_part part = nigh_shape_part_of(&call->what, shape, i);

        end = part.offset + part.bytes > end ? part.offset + part.bytes : end;
    }
    return end;
}

/* The group keeps one for its calls, as long as any unit is but those of elements that are longer. */
static int take_window(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    uint64_t unit = nigh_shape_stream(group->count);

    if (call->shape.width > unit) {
        call->window = malloc(NIGH_STREAM_UNITS * call->shape.width);
    } else {
        call->window = group->window ? group->window : malloc(NIGH_STREAM_UNITS * unit);
        group->window = NULL;
    }
    return call->window ? 0 : -ENOMEM;
}

/* All memory that it needs of its own, before it has a number. */
static int take_memory(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    uint64_t bytes;

    if (call->shape.folds && call->shape.width > group->tile) {
        uint8_t *tiles = realloc(group->tiles, (group->count + 2) * call->shape.width);

        if (!tiles)
            return -ENOMEM;
        group->tiles = tiles;
        group->tile = call->shape.width;
    }
    if (call->shape.returns)
        return take_window(call);
    if (!call->shape.collides && !call->shape.moves_down)
        return 0;
    bytes = extent(call);
    if (!bytes)
        return 0;
    call->scratch = malloc(bytes);
    call->to = call->scratch;
    return call->scratch ? 0 : -ENOMEM;
}

static int refuse(const struct nigh_group *group, const struct nigh_collective *what, int error,
                  const char *why)
{
    char text[NIGH_CALL_TEXT];

    nigh_call_text(nigh_call_word(what), what->count, text);
    nigh_log(NIGH_LOG_ERROR, "rank %u: post_collective: %s: %s", group->coll->rank, text, why);
    return error;
}

/* One that has ended makes no more calls: those that it has made still have all that it gave to them. */
static void look_for_lost(struct nigh_group *group)
{
    uint64_t number = group->posted;

    /* It may have said before why. */
    nigh_group_look(group);
    if (group->ends_word && nigh_group_must_end(group))
        nigh_group_follow_end(group);
    for (uint32_t i = 0; i < group->count && group->state == NIGH_GROUP_READY; i++) {
        const struct nigh_member *member = &group->members[i];
        const struct nigh_call_slot *slot;

        if (!member->ended)
            continue;
        slot = &member->slots[number % NIGH_CALL_SLOTS];
        if ((uint32_t)(nigh_load_acquire(&slot->head, CALL_PEEK) >> 32) == (uint32_t)number)
            continue;
        nigh_group_say(group, NIGH_LOG_INFO, "member %" PRIu32 " has left or died", i);
        nigh_group_revoke(group, NIGH_REVOKED_LOST, number, i, -ECONNRESET);
    }
}

int nigh_group_post(struct nigh_group *group, const struct nigh_collective *what)
{
    char why[NIGH_WHY_BYTES];
    struct nigh_call *call;
    int rc = nigh_call_check(what, group->count, group->me, why);

    if (rc)
        return refuse(group, what, rc, why);
    if (__builtin_expect(group->lost, 0) && group->state == NIGH_GROUP_READY)
        look_for_lost(group);
    if (group->state == NIGH_GROUP_BROKEN || group->given_up)
        return group->error;
    call = new_call(group);
    if (!call)
        return -ENOMEM;
    reset(call, group, what);
    rc = take_memory(call);
    if (rc) {
        give(call);
        return rc;
    }
    call->number = group->posted++;
    group->print = call->print;
    if (group->last)
        group->last->next = call;
    else
        group->first = call;
    group->last = call;
    if (!group->waiting)
        group->waiting = call;
    nigh_group_move(group);
    if (group->state == NIGH_GROUP_READY)
        nigh_calls_progress(group);
    return 0;
}

/* ---- end ----------------------------------------------------------------------------------------------- */

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
        .bytes = !status && call->shape.keeps ? extent(call) : 0,
        .status = status,
        .about = status ? group->members[group->about].handle : NULL,
        .group = group,
    };

    unlink_call(call);
    give(call);
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
        give(call);
    }
    for (struct nigh_call *call = group->spare; call; call = next) {
        next = call->next;
        free(call);
    }
    group->first = group->last = group->waiting = group->spare = NULL;
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

/* Our board says up to which call we take nothing any more. */
static void set_done(struct nigh_group *group)
{
    uint64_t done = group->posted;

    for (const struct nigh_call *call = group->first; call; call = call->next) {
        if (call->state == NIGH_CALL_LEAVING)
            continue;
        done = call->number;
        break;
    }
    if (done == group->done)
        return;
    group->done = done;
    nigh_store_release(&group->board->done, done, STEP_SET);
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

/* Does nobody look at our buffers any more? */
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
    set_done(call->group);
    nigh_group_tell(call->group);
    return true;
}

static bool take_by_domains(struct nigh_call *call)
{
    bool moved = nigh_tree_take(call);

    if (call->group->state != NIGH_GROUP_READY || call->step != NIGH_TREE_DONE)
        return moved;
    call->state = NIGH_CALL_LEAVING;
    set_done(call->group);
    nigh_group_tell(call->group);
    return true;
}

static bool advance(struct nigh_call *call)
{
    bool moved = call->staged < call->stages && nigh_call_stage(call);

    if (call->state == NIGH_CALL_TAKING)
        moved |= nigh_tree_is_small(call->kind) ? take_by_domains(call) : take(call);
    if (call->state != NIGH_CALL_LEAVING || !is_left(call) || call->group->state != NIGH_GROUP_READY)
        return moved;
    copy_result(call);
    complete(call, 0);
    return true;
}

static int begin(struct nigh_call *call)
{
    return call->group->tree ? nigh_tree_begin(call) : nigh_call_begin(call);
}

/* Calls begin in their order. */
static bool begin_next(struct nigh_group *group)
{
    struct nigh_call *call = group->waiting;
    int rc;

    if (!call || !nigh_group_has_slot(group, call->number) ||
        (group->first != call && group->first->number + NIGH_CALL_SLOTS <= call->number))
        return false;
    rc = begin(call);
    if (rc == -EAGAIN) {
        nigh_group_reclaim(group);
        rc = begin(call);
    }
    if (rc == -EAGAIN)
        return false;
    if (rc) {
        nigh_group_say(group, NIGH_LOG_ERROR, "call %" PRIu64 ": no memory for data on its way: %s",
                       call->number, strerror(-rc));
        nigh_group_revoke(group, NIGH_REVOKED_FAILED, call->number, group->me, rc);
        return false;
    }
    if (call->shape.relays)
        nigh_relay_count(call);
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
