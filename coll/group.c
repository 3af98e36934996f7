/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/group.c - see group.h. */
#include "coll/group.h"
#include "coll/call.h"
#include "coll/form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* All tiles of a group. Memory of them that is not used is never touched. */
#define TILES_BYTES (1024u * 1024)
#define TILE_MOST   32768u
#define TILE_LEAST  4096u

struct nigh_coll *nigh_group_coll(const struct nigh_group *group)
{
    return group->coll;
}

void nigh_group_move(struct nigh_group *group)
{
    struct nigh_group **at = &group->coll->moving;

    if (group->moves)
        return;
    /* In the order of their making: form.c counts by it. */
    while (*at)
        at = &(*at)->next_moving;
    group->next_moving = NULL;
    group->moves = true;
    *at = group;
}

/* ---- create, free -------------------------------------------------------------------------------------- */

static void add_member(struct nigh_group *group, uint32_t i, const struct nigh_group_member *given)
{
    struct nigh_member *member = &group->members[i];

    member->handle = given->handle;
    member->source = given->source;
    member->self = given->self;
    if (given->self)
        group->me = i;
    else
        group->unmet++;
}

static int take_memory(struct nigh_group *group)
{
    struct nigh_coll *coll = group->coll;
    uint64_t bytes = NIGH_SLOTS_BYTES;
    void *memory;
    int rc;

    group->tile = TILES_BYTES / (group->count + 1) / TILE_LEAST * TILE_LEAST;
    group->tile = group->tile > TILE_MOST ? TILE_MOST : group->tile < TILE_LEAST ? TILE_LEAST : group->tile;
    group->tiles = malloc((group->count + 2) * group->tile);
    if (!group->tiles || nigh_form_prepare(group))
        return -ENOMEM;
    rc = nigh_heap_alloc(coll->heap, bytes, &memory);
    if (rc)
        return rc;
    group->slots = memory;
    memset(memory, 0, bytes);
    /* No call has this number soon: an empty slot is no call 0. */
    for (uint32_t i = 0; i < NIGH_CALL_SLOTS; i++)
        group->slots[i].head = UINT64_MAX;
    rc = nigh_boards_add(coll->arena, coll->heap, (uint64_t)((uint8_t *)memory - coll->arena->base),
                         &group->place);
    if (rc)
        return rc;
    group->board = (struct nigh_board *)(uintptr_t)group->place.board;
    group->members[group->me].where = nigh_group_where(coll, group->count);
    nigh_store_relaxed(&group->board->where, group->members[group->me].where);
    return 0;
}

static void give_private(struct nigh_group *group)
{
    free(group->tiles);
    free(group->tree);
    free(group->made);
    free(group->room);
    nigh_calls_free(group);
    free(group->window);
    free(group);
}

static void give_memory(struct nigh_group *group)
{
    struct nigh_coll *coll = group->coll;

    if (group->board)
        nigh_boards_remove(&group->place);
    nigh_stage_free(&group->stage, coll->heap);
    if (group->slots)
        nigh_heap_free(coll->heap, group->slots);
    if (group->domain_slots)
        nigh_heap_free(coll->heap, group->domain_slots);
    give_private(group);
}

int nigh_group_create(struct nigh_coll *coll, const struct nigh_group_member *members, uint32_t count,
                      uint64_t id, struct nigh_group **out)
{
    struct nigh_group *group = calloc(1, sizeof(*group) + count * sizeof(group->members[0]));
    int rc = -ENOMEM;

    if (!group)
        return rc;
    group->coll = coll;
    group->count = count;
    group->id = id;
    group->state = NIGH_GROUP_FORMING;
    for (uint32_t i = 0; i < count; i++)
        add_member(group, i, &members[i]);
    rc = take_memory(group);
    if (rc) {
        give_memory(group);
        return rc;
    }
    group->next = coll->groups;
    coll->groups = group;
    nigh_group_move(group);
    *out = group;
    return 0;
}

static bool is_found_or_ended(const struct nigh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const struct nigh_member *member = &group->members[i];

        if (!member->self && !member->ended && !nigh_member_is_found(member))
            return false;
    }
    return true;
}

/* Says that it has left once it has found the others' boards: these may be gone behind it. */
static void leave(struct nigh_group *group)
{
    if (group->left || group->state == NIGH_GROUP_FORMING)
        return;
    if (!group->formed && group->key)
        nigh_form_find(group);
    if (!is_found_or_ended(group))
        return;
    group->left = true;
    nigh_store_release(&group->board->left, UINT64_C(1), STEP_SET);
    nigh_group_tell(group);
}

int nigh_group_free(struct nigh_group *group)
{
    if (group->first)
        return -EBUSY;
    group->freed_by_host = true;
    leave(group);
    nigh_group_move(group);
    return 0;
}

/* All members have left, too: none looks at what this one has shown. A group that was never formed waits: the others count it. */
static bool is_over(struct nigh_group *group)
{
    if (group->state == NIGH_GROUP_FORMING)
        return false;
    if (!group->key) /* broken before anybody could find it */
        return true;
    for (uint32_t i = 0; i < group->count; i++) {
        struct nigh_member *member = &group->members[i];

        if (member->self || member->ended)
            continue;
        if (!nigh_member_is_found(member) || !nigh_member_left(member))
            return false;
    }
    return true;
}

static void let_go(struct nigh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        group->coll->host->let_go(group->members[i].handle, group->members[i].link.view != NULL);
}

static void unlink_group(struct nigh_group *group)
{
    struct nigh_group **at = &group->coll->groups;

    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    for (at = &group->coll->moving; group->moves && *at; at = &(*at)->next_moving) {
        if (*at != group)
            continue;
        *at = group->next_moving;
        break;
    }
}

void nigh_coll_close(struct nigh_coll *coll)
{
    /* A member that is reading our buffers sees by it that they are not the call's any more. */
    for (struct nigh_group *group = coll->groups; group; group = group->next)
        if (!nigh_load_relaxed(&group->board->revoked))
            nigh_store_relaxed(&group->board->revoked, NIGH_REVOKED(NIGH_REVOKED_LEFT, 0, group->me));
    nigh_fence_full(LEAVE_SAY);
    for (struct nigh_group *group = coll->groups, *next; group; group = next) {
        next = group->next;
        nigh_group_tell(group);
        let_go(group);
        give_private(group); /* the others look at what it has shown when we are gone */
    }
    coll->groups = coll->moving = NULL;
    nigh_form_forget(coll);
}

/* ---- what others are told ------------------------------------------------------------------------------ */

static inline void wake(const struct nigh_member *member)
{
    /* Relaxed: it steers only whether to wake. */
    uint32_t asleep = member->asleep ? nigh_load_relaxed(member->asleep) : 0;

    if (__builtin_expect(asleep, 0))
        nigh_bell_ring(member->link.bell, asleep);
}

void nigh_group_tell_some(struct nigh_group *group, uint32_t first, uint32_t end)
{
    if (group->light)
        nigh_fence_light(SLEEP_CHECK);
    else
        nigh_fence_full(SLEEP_CHECK);
    for (uint32_t i = first; i < end; i++)
        wake(&group->members[i]);
}

void nigh_group_tell_these(struct nigh_group *group, const uint8_t *members, uint32_t count)
{
    if (group->light)
        nigh_fence_light(SLEEP_CHECK);
    else
        nigh_fence_full(SLEEP_CHECK);
    for (uint32_t i = 0; i < count; i++)
        wake(&group->members[members[i]]);
}

void nigh_group_tell(struct nigh_group *group)
{
    nigh_group_tell_some(group, 0, group->count);
}

/* Calls below this number no other member needs. */
static uint64_t done_by_all(struct nigh_group *group)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < group->count; i++) {
        uint64_t done = nigh_member_done(&group->members[i]);

        least = done < least ? done : least;
    }
    return least;
}

void nigh_group_reclaim(struct nigh_group *group)
{
    uint64_t freed = done_by_all(group);

    /* A member that finds a slot in use again finds in `done` that its call is over. */
    nigh_group_show_done(group);
    freed = freed < group->done ? freed : group->done;
    for (; group->freed < freed; group->freed++) {
        uint64_t *mark = &group->mark[group->freed % NIGH_CALL_SLOTS];

        if (*mark)
            nigh_stage_give(&group->stage, *mark);
        *mark = 0;
    }
}

bool nigh_group_has_slot(struct nigh_group *group, uint64_t number)
{
    if (number < group->freed + NIGH_CALL_SLOTS)
        return true;
    nigh_group_reclaim(group);
    return number < group->freed + NIGH_CALL_SLOTS;
}

/* ---- progress ------------------------------------------------------------------------------------------ */

/* Passes without a change from one look at whether others have ended the group to the next. */
#define QUIET_PASSES 32u

static bool progress(struct nigh_group *group)
{
    uint64_t shown = group->shown;
    bool moved = false;

    if (group->state == NIGH_GROUP_FORMING) {
        moved = nigh_form_progress(group);
        /* A member may have ended it before: its bell rang for the board, and does not ring again. */
        if (group->state == NIGH_GROUP_READY)
            nigh_group_look(group);
    }
    if (group->state == NIGH_GROUP_READY && group->given_up)
        group->state = NIGH_GROUP_BROKEN;
    if (group->state == NIGH_GROUP_READY)
        moved |= nigh_calls_progress(group);
    if (group->state == NIGH_GROUP_READY && group->ends_word) {
        nigh_calls_progress(group);
        if (group->state == NIGH_GROUP_READY && nigh_group_must_end(group))
            nigh_group_follow_end(group);
    }
    if (group->state == NIGH_GROUP_BROKEN)
        moved |= nigh_calls_fail(group);
    if (!moved || !group->first || !nigh_call_is_short(group->first))
        nigh_group_show_done(group);
    /* Others wait for that, so it is a move to whoever looks for deadlocks. */
    moved |= shown != group->shown;
    if (moved)
        group->quiet = 0;
    else if (++group->quiet % QUIET_PASSES == 0 && group->state == NIGH_GROUP_READY)
        nigh_group_look(group);
    return moved;
}

bool nigh_coll_progress(struct nigh_coll *coll)
{
    struct nigh_group **at = &coll->moving, *group;
    bool moved = false;

    while ((group = *at)) {
        moved |= progress(group);
        if (group->first || group->state == NIGH_GROUP_FORMING) {
            at = &group->next_moving;
            continue;
        }
        group->moves = false;
        *at = group->next_moving;
    }
    return moved;
}

bool nigh_coll_is_starved(const struct nigh_coll *coll)
{
    for (const struct nigh_group *group = coll->moving; group; group = group->next_moving)
        if (group->waiting && group->starved)
            return true;
    return false;
}

static void bury(struct nigh_coll *coll)
{
    for (struct nigh_group *group = coll->groups, *next; group; group = next) {
        next = group->next;
        if (!group->freed_by_host)
            continue;
        leave(group);
        if (!is_over(group))
            continue;
        unlink_group(group);
        let_go(group);
        give_memory(group);
    }
}

bool nigh_coll_sweep(struct nigh_coll *coll)
{
    for (struct nigh_group *group = coll->moving; group; group = group->next_moving)
        if (group->state == NIGH_GROUP_READY)
            nigh_group_look(group);
    bury(coll);
    return !nigh_coll_is_idle(coll) && nigh_coll_progress(coll);
}
