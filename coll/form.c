/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/form.c - see form.h. */
#include "coll/form.h"
#include "shm/log.h"

#include <errno.h>
#include <stdlib.h>

#define KEY_BIT (UINT64_C(1) << 63)

struct nigh_made {
    struct nigh_made *next;
    uint64_t of, count;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 31;
}

int nigh_form_prepare(struct nigh_group *group)
{
    group->made = calloc(1, sizeof(*group->made));
    group->room = malloc(sizeof(*group->room));
    return group->made && group->room ? 0 : -ENOMEM;
}

/* The how manyth group of these members it is. */
static uint64_t count_made(struct nigh_group *group, uint64_t of)
{
    struct nigh_coll *coll = group->coll;
    struct nigh_made *made = coll->made;

    while (made && made->of != of)
        made = made->next;
    if (!made) {
        made = group->made;
        group->made = NULL;
        *made = (struct nigh_made){.next = coll->made, .of = of};
        coll->made = made;
    }
    return made->count++;
}

void nigh_form_forget(struct nigh_coll *coll)
{
    for (struct nigh_made *made = coll->made, *next; made; made = next) {
        next = made->next;
        free(made);
    }
    coll->made = NULL;
}

bool nigh_form_meet(struct nigh_group *group, uint32_t i)
{
    struct nigh_member *member = &group->members[i];

    if (member->self || member->link.view || !group->coll->host->meet(member->handle, &member->link))
        return false;
    member->asleep = member->link.asleep;
    group->unmet--;
    return true;
}

static bool meet(struct nigh_group *group)
{
    bool moved = false;

    for (uint32_t i = 0; i < group->count; i++)
        moved |= nigh_form_meet(group, i);
    return moved;
}

/* Random numbers of all members' contexts: no other group of this machine has the same. */
static void make_key(struct nigh_group *group)
{
    uint64_t hash = mix(group->id, group->count);

    for (uint32_t i = 0; i < group->count; i++)
        hash = mix(hash, group->members[i].self ? group->coll->arena->layout.incarnation
                                                : group->members[i].link.view->layout.incarnation);
    group->key = mix(hash, count_made(group, hash)) | KEY_BIT;
    group->light = true;
    for (uint32_t i = 0; i < group->count; i++)
        group->light &= group->members[i].self || group->members[i].link.light;
    nigh_boards_show(&group->place, group->key);
    nigh_group_tell(group);
}

static int find(struct nigh_member *member, uint64_t key)
{
    const struct nigh_view *view = member->link.view;
    struct nigh_board_place place;
    uint64_t offset;
    int rc = nigh_boards_find(view, key, &place);

    if (rc)
        return rc;
    /* Relaxed: the key was stored behind it. */
    offset = nigh_load_relaxed(&place.board->slots);
    if (offset < view->layout.heap_off || offset % NIGH_LINE)
        return -EPROTO;
    member->slots = nigh_view_at(view, offset, NIGH_SLOTS_BYTES);
    if (!member->slots)
        return -EPROTO;
    /* Once: it may say something else later. */
    member->where = nigh_load_relaxed(&place.board->where);
    if (!nigh_tree_is_word(member->where))
        return -EPROTO;
    member->key = key;
    member->place = place;
    return 0;
}

/* Of a member that had ended before the look: the look finds what that member, and all whom it had seen, had shown. */
static uint32_t ended_one(const struct nigh_group *group)
{
    uint32_t i = 0;

    while (i < group->count && !group->members[i].ended)
        i++;
    return i;
}

bool nigh_form_find(struct nigh_group *group)
{
    bool all = true;

    for (uint32_t i = 0; i < group->count; i++) {
        struct nigh_member *member = &group->members[i];
        int rc;

        if (member->self || nigh_member_is_found(member))
            continue;
        rc = find(member, group->key);
        all &= rc == 0;
        if (rc == -EPROTO) {
            nigh_group_say(group, NIGH_LOG_ERROR,
                           "member %u shows a board that cannot be: is it of another build?", i);
            nigh_group_revoke(group, NIGH_REVOKED_FAILED, 0, i, -EIO);
        }
    }
    return all;
}

static void lose(struct nigh_group *group, uint32_t member)
{
    nigh_group_say(group, NIGH_LOG_INFO, "member %u has left or died before the group was formed", member);
    nigh_group_revoke(group, NIGH_REVOKED_LOST, 0, member, -ECONNRESET);
}

/* A member that ends before the others meet it has no part in the group. */
static void look_for_ends(struct nigh_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->members[i].ended && !group->members[i].link.view)
            lose(group, i);
}

bool nigh_form_progress(struct nigh_group *group)
{
    bool moved = false, all;
    uint32_t ended;
    int rc;

    if (group->unmet)
        moved = meet(group);
    look_for_ends(group);
    if (group->state != NIGH_GROUP_FORMING)
        return true;
    if (group->unmet)
        return moved;
    if (!group->key) {
        make_key(group);
        moved = true;
    }
    ended = ended_one(group);
    all = nigh_form_find(group);
    /* A member that has ended cannot have begun a call without all boards, so there is nothing of it to be had. */
    if (!all && ended < group->count)
        lose(group, ended);
    if (!all || group->state != NIGH_GROUP_FORMING)
        return moved;
    rc = nigh_group_make_tree(group);
    if (rc) {
        nigh_group_say(group, NIGH_LOG_ERROR, "member %u has no memory for its domain's slots", group->me);
        nigh_group_revoke(group, NIGH_REVOKED_FAILED, 0, group->me, rc);
        return true;
    }
    group->formed = true;
    group->state = NIGH_GROUP_READY;
    return true;
}
