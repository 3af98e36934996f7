/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/post.c - a call is posted: it is checked, and gets its shape, memory and a number. Programs repeat few calls, so the
 * memory of a call that has ended keeps what follows from its arguments, for the next call of the group with the same ones. */
#include "coll/call.h"
#include "coll/check.h"
#include "coll/short.h"
#include "shm/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* So many calls of a group have memory that is kept, and are compared with a new one. */
#define KEPT 4u

/* ---- memory of calls ----------------------------------------------------------------------------------- */

/* The same but for `context` and `place`. Of one with counts or offsets nothing is kept: they may change where they lie. */
static inline bool is_same(const struct nigh_call *call, const struct nigh_collective *what)
{
    return call->is_kept && memcmp(&call->what, what, offsetof(struct nigh_collective, context)) == 0;
}

/* Does the group keep an equal call? *at: where that call stands, or the last one that was compared. */
static bool find(struct nigh_group *group, const struct nigh_collective *what, struct nigh_call ***at)
{
    *at = &group->spare;
    for (uint32_t i = 1; **at; i++) {
        if (is_same(**at, what))
            return true;
        if (i == KEPT || !(**at)->next)
            return false;
        *at = &(**at)->next;
    }
    return false;
}

static struct nigh_call *new_call(struct nigh_group *group)
{
    struct nigh_call *call = calloc(1, sizeof(*call) + group->count * sizeof(call->peers[0]));

    if (!call)
        return NULL;
    call->group = group;
    group->calls++;
    return call;
}

/* Bytes of recv that the call may write, from its beginning. */
static uint64_t result_bytes(const struct nigh_call *call)
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

/* Which way it goes. */
static void choose(struct nigh_call *call)
{
    call->kind = NIGH_TREE_NOT;
    if (call->group->tree)
        nigh_tree_choose(call);
    nigh_short_form(call);
}

/* All that follows from the arguments, and the group's tree. */
static void form(struct nigh_call *call, const struct nigh_collective *what)
{
    struct nigh_group *group = call->group;

    call->what = *what;
    nigh_shape_make(what, group->count, group->me, &call->shape);
    call->bytes = result_bytes(call);
    call->agreed = nigh_call_agreed(what, &call->shape);
    call->is_kept = !what->send_counts && !what->recv_counts;
    choose(call);
}

/* All that does not. */
static void renew(struct nigh_call *call, const struct nigh_collective *what)
{
    call->next = NULL;
    call->what.context = what->context;
    call->what.place = what->place;
    call->print = nigh_call_print(call->agreed, call->group->print);
    call->state = NIGH_CALL_WAITING;
    call->next_member = call->brief.begin;
    call->told = call->wide = false;
    if (call->brief.is)
        return;
    nigh_call_clear(call);
    if (what->reduction == NIGH_PREMUL)
        memcpy(call->factor, what->factor, call->shape.width);
}

void nigh_calls_choose(struct nigh_group *group)
{
    for (struct nigh_call *call = group->first; call; call = call->next) {
        bool was_short = call->brief.is;

        choose(call);
        if (call->kind == NIGH_TREE_NOT)
            continue;
        if (was_short)
            nigh_call_clear(call);
        memset(call->peers, 0, group->count * sizeof(call->peers[0]));
    }
    for (struct nigh_call *call = group->spare; call; call = call->next)
        call->is_kept = false;
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

    if (call->shape.folds && call->shape.width > group->tile) {
        uint8_t *tiles = realloc(group->tiles, (group->count + 2) * call->shape.width);

        if (!tiles)
            return -ENOMEM;
        group->tiles = tiles;
        group->tile = call->shape.width;
    }
    if (call->shape.returns)
        return take_window(call);
    if ((!call->shape.collides && !call->shape.moves_down) || !call->bytes)
        return 0;
    call->scratch = malloc(call->bytes);
    call->to = call->scratch;
    return call->scratch ? 0 : -ENOMEM;
}

/* ---- post ---------------------------------------------------------------------------------------------- */

static int check(const struct nigh_group *group, const struct nigh_collective *what)
{
    char why[NIGH_WHY_BYTES], text[NIGH_CALL_TEXT];
    int rc = nigh_call_check(what, group->count, group->me, why);

    if (!rc)
        return 0;
    nigh_call_text(nigh_call_word(what), what->count, text);
    nigh_log(NIGH_LOG_ERROR, "rank %u: post_collective: %s: %s", group->coll->rank, text, why);
    return rc;
}

/* A member that has ended makes no more calls; the calls that it has made still have all that it gave to them. */
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

/* May the group make calls? 0, or what they fail with. */
static int check_group(struct nigh_group *group)
{
    if (__builtin_expect(group->lost, 0) && group->state == NIGH_GROUP_READY)
        look_for_lost(group);
    if (__builtin_expect(group->state == NIGH_GROUP_BROKEN, 0))
        nigh_calls_fail(group);
    return group->state == NIGH_GROUP_BROKEN || group->given_up ? group->error : 0;
}

static void add(struct nigh_group *group, struct nigh_call *call)
{
    call->number = group->posted++;
    group->print = call->print;
    if (group->last)
        group->last->next = call;
    else
        group->first = call;
    group->last = call;
    if (!group->waiting)
        group->waiting = call;
}

int nigh_group_post(struct nigh_group *group, const struct nigh_collective *what)
{
    struct nigh_call **at, *call;
    bool same = find(group, what, &at);
    int rc = same ? 0 : check(group, what);

    if (!rc)
        rc = check_group(group);
    if (rc)
        return rc;
    call = same || group->calls >= KEPT ? *at : NULL;
    if (call)
        *at = call->next;
    else
        call = new_call(group);
    if (!call)
        return -ENOMEM;
    if (!same)
        form(call, what);
    renew(call, what);
    rc = call->brief.is ? 0 : take_memory(call);
    if (rc) {
        nigh_call_give(call);
        return rc;
    }
    add(group, call);
    nigh_group_move(group);
    if (group->state == NIGH_GROUP_READY)
        nigh_calls_progress(group);
    return 0;
}
