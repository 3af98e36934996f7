/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/tree_form.c - the tree of a group that has formed, and what its member shows because of it. */
#include "coll/call.h"
#include "shm/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t nigh_group_where(const struct nigh_coll *coll, uint32_t members)
{
    struct nigh_where where = coll->where;

    if (coll->level == NIGH_LEVEL_FLAT || (coll->level == NIGH_LEVEL_AUTO && members < NIGH_TREE_LEAST))
        where = (struct nigh_where){.l3 = 0};
    else if (!coll->is_placed)
        nigh_where_look(&where);
    return nigh_tree_word(&where, coll->level);
}

/* The others find the slots when they need them: as long as they are not shown no call of this member's has begun. */
static int show_slots(struct nigh_group *group)
{
    struct nigh_coll *coll = group->coll;
    void *memory;
    int rc = nigh_heap_alloc(coll->heap, NIGH_CALL_SLOTS * sizeof(struct nigh_domain_slot), &memory);

    if (rc)
        return rc;
    memset(memory, 0, NIGH_CALL_SLOTS * sizeof(struct nigh_domain_slot));
    group->domain_slots = memory;
    /* As the slots of calls: an empty one is no call 0. */
    for (uint32_t i = 0; i < NIGH_CALL_SLOTS; i++)
        group->domain_slots[i].up = group->domain_slots[i].down = UINT64_MAX;
    nigh_store_release(&group->board->domain_slots, (uint64_t)((uint8_t *)memory - coll->arena->base),
                       BOARD_SHOW);
    return 0;
}

static bool represents(const struct nigh_tree *tree, uint32_t me)
{
    return nigh_tree_representative(tree, tree->domain[me], NIGH_TREE_NO_ROOT) == me;
}

int nigh_group_make_tree(struct nigh_group *group)
{
    uint64_t words[NIGH_GROUP_MAX];
    struct nigh_tree *tree = group->room;
    uint32_t print;
    int rc = 0;

    group->room = NULL;
    for (uint32_t i = 0; i < group->count; i++)
        words[i] = group->members[i].where;
    nigh_tree_make(words, group->count, tree);
    print = tree->print;
    if (tree->level == NIGH_LEVEL_FLAT) {
        free(tree);
    } else {
        group->tree = tree;
        nigh_calls_choose(group);
        if (represents(tree, group->me))
            rc = show_slots(group);
    }
    if (!rc)
        nigh_store_release(&group->board->tree, NIGH_TREE_SHOWN | print, BOARD_SHOW);
    group->tree_print = print;
    return rc;
}

void nigh_group_compare_tree(struct nigh_group *group, uint32_t member)
{
    uint64_t word = nigh_load_acquire(&group->members[member].place.board->tree, BOARD_FIND);

    if (!group->formed || !word || word == (NIGH_TREE_SHOWN | group->tree_print) ||
        group->state != NIGH_GROUP_READY || nigh_member_left(&group->members[member]))
        return;
    nigh_group_say(group, NIGH_LOG_ERROR,
                   "member %u finds other domains than member %u: is it of another build?", member,
                   group->me);
    nigh_group_revoke(group, NIGH_REVOKED_FAILED, group->first ? group->first->number : group->posted, member,
                      -EIO);
}
