/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/state.c - what a host can ask of a group: whom its oldest call waits for, why all fail. */
#include "coll/call.h"

#include <string.h>

static bool is_missing(const struct nigh_call *call, uint32_t member)
{
    const struct nigh_shape *shape = &call->shape;
    const struct nigh_call_peer *peer = &call->peers[member];

    if (nigh_call_is_short(call))
        return nigh_shape_has(shape, shape->takes, member) &&
               nigh_load_acquire(&nigh_call_of(call, member)->head, CALL_PEEK) >> 32 !=
                   (uint32_t)call->number;
    if (nigh_shape_has(shape, shape->takes, member) &&
        (!peer->seen || (!shape->folds && peer->got < peer->in.bytes)))
        return true;
    if (shape->relays)
        return nigh_shape_has(shape, shape->takes_out, member) && peer->relayed < shape->members;
    return nigh_shape_has(shape, shape->takes_out, member) && peer->got_out < call->units;
}

/* Asks anew: calls look no further than at the first member that they wait for. */
static bool is_waited_for(struct nigh_group *group, const struct nigh_call *call, uint32_t i)
{
    struct nigh_member *member = &group->members[i];

    if (member->self || group->state == NIGH_GROUP_BROKEN)
        return false;
    /* Members that we have met show their boards when they have met all members, too. */
    if (group->state == NIGH_GROUP_FORMING)
        return group->unmet ? !member->link.view : !nigh_member_is_found(member);
    if (!call || member->ended)
        return false;
    if (call->state == NIGH_CALL_TAKING)
        return nigh_tree_is_small(call->kind) ? nigh_tree_waits_for(call, i) : is_missing(call, i);
    if (call->state == NIGH_CALL_LEAVING)
        return nigh_member_done(member) <= call->number &&
               (nigh_shape_has(&call->shape, call->shape.taken_by, i) ||
                nigh_shape_has(&call->shape, call->shape.out_by, i));
    return call->number >= NIGH_CALL_SLOTS && nigh_member_done(member) <= call->number - NIGH_CALL_SLOTS;
}

/* Has the member begun the call, or the one whose slot that waits for? */
static bool has_come(const struct nigh_group *group, const struct nigh_call *call, uint32_t i)
{
    uint64_t number = call->state == NIGH_CALL_WAITING ? call->number - NIGH_CALL_SLOTS : call->number;
    const struct nigh_call_slot *slot = &group->members[i].slots[number % NIGH_CALL_SLOTS];

    return nigh_load_acquire(&slot->head, CALL_PEEK) >> 32 == (uint32_t)number;
}

/* Those that have not come, before all others: whoever has come moves the call whenever it calls nigh. */
static void say_waits(struct nigh_group *group, const struct nigh_call *call, struct nigh_query_group *out)
{
    uint64_t lack[NIGH_GROUP_MAX / 64] = {0};
    bool any = false, absent = false;

    for (uint32_t i = 0; i < group->count; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;

        if (!is_waited_for(group, call, i))
            continue;
        any = true;
        if (group->state == NIGH_GROUP_READY && has_come(group, call, i)) {
            lack[i / 64] |= bit;
            continue;
        }
        absent = true;
        out->waits_for[i / 64] |= bit;
    }
    out->come = any && !absent;
    if (out->come)
        memcpy(out->waits_for, lack, sizeof(lack));
}

static uint32_t count_calls(const struct nigh_group *group)
{
    uint32_t count = 0;

    for (const struct nigh_call *call = group->first; call; call = call->next)
        count++;
    return count;
}

static void say_domains(const struct nigh_group *group, struct nigh_query_group *out)
{
    const struct nigh_tree *tree = group->tree;

    if (!group->formed)
        return;
    out->domains = tree ? tree->domains : 1;
    out->level = tree ? tree->level : NIGH_LEVEL_FLAT;
    out->domain = tree ? tree->domain[group->me] : 0;
    out->representative = tree ? nigh_tree_representative(tree, out->domain, NIGH_TREE_NO_ROOT) : 0;
}

void nigh_group_query(struct nigh_group *group, struct nigh_query_group *out)
{
    const struct nigh_call *oldest = group->first;
    bool broken;

    if (!oldest && group->state == NIGH_GROUP_READY) {
        nigh_group_look(group);
        if (group->ends_word && nigh_group_must_end(group))
            nigh_group_follow_end(group);
    }
    broken = group->state == NIGH_GROUP_BROKEN || group->given_up;

    *out = (struct nigh_query_group){
        .size = sizeof(*out),
        .members = group->count,
        .formed = group->formed,
        .status = broken ? group->error : 0,
        .about = broken ? group->about : 0,
        .under_way = count_calls(group),
        .posted = group->posted,
        .oldest = oldest ? oldest->number : group->posted,
        .ended_in = broken ? group->ended_in : 0,
        .by_host = broken && group->by_host,
    };
    say_domains(group, out);
    say_waits(group, oldest, out);
    memcpy(out->text, group->text, sizeof(out->text));
}
