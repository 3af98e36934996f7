/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/tree_source.c - what a member reads of another one in a small call by domains: its input, or what a representative shows. */
#include "coll/call.h"

#include <errno.h>

/* `word` says that the member has come so far in this call. */
static bool has_come(struct nigh_call *call, uint32_t member, const uint64_t *word)
{
    bool ended = call->group->members[member].ended; /* before the look */
    uint64_t head = nigh_load_acquire(word, CALL_PEEK);

    if ((uint32_t)(head >> 32) != (uint32_t)call->number) {
        if (ended)
            nigh_call_lost(call, member);
        return false;
    }
    if ((uint32_t)head == call->print)
        return true;
    nigh_call_mismatch(call, member);
    return false;
}

/* A representative that has called something else never comes so far. */
static void compare_heads(struct nigh_call *call, uint32_t member)
{
    uint64_t head = nigh_load_acquire(&nigh_call_of(call, member)->head, CALL_PEEK);

    if ((uint32_t)(head >> 32) == (uint32_t)call->number && (uint32_t)head != call->print)
        nigh_call_mismatch(call, member);
}

static const struct nigh_domain_slot *domain_slot(struct nigh_call *call, uint32_t member)
{
    struct nigh_member *of = &call->group->members[member];
    const uint64_t bytes = NIGH_CALL_SLOTS * sizeof(struct nigh_domain_slot);
    uint64_t offset;

    if (!of->domain_slots) {
        offset = nigh_load_acquire(&of->place.board->domain_slots, BOARD_FIND);
        if (!offset)
            return NULL;
        of->domain_slots = offset % NIGH_LINE ? NULL : nigh_member_at(of, offset, bytes);
        if (!of->domain_slots) {
            nigh_call_impossible(call, member);
            return NULL;
        }
    }
    return &of->domain_slots[call->number % NIGH_CALL_SLOTS];
}

const uint8_t *nigh_tree_shown_by(struct nigh_call *call, uint32_t member, bool up, uint64_t bytes)
{
    const struct nigh_member *of = &call->group->members[member];
    const struct nigh_domain_slot *slot = domain_slot(call, member);
    const uint8_t *payload;
    uint64_t where;

    if (call->group->state != NIGH_GROUP_READY)
        return NULL;
    if (!slot && of->ended)
        nigh_call_lost(call, member);
    if (!slot || !has_come(call, member, up ? &slot->up : &slot->down)) {
        if (call->group->state == NIGH_GROUP_READY)
            compare_heads(call, member);
        return NULL;
    }
    payload = up ? slot->up_payload : slot->down_payload;
    where = nigh_load_relaxed(up ? &slot->up_where : &slot->down_where);
    if (where)
        payload = nigh_member_at(of, where, bytes);
    else if (bytes > (up ? NIGH_UP_INLINE : NIGH_DOWN_INLINE))
        payload = NULL;
    if (!payload)
        nigh_call_impossible(call, member);
    return payload;
}

const uint8_t *nigh_tree_input_of(struct nigh_call *call, uint32_t member, uint64_t bytes)
{
    const struct nigh_call_slot *slot = nigh_call_of(call, member);
    const struct nigh_member *of = &call->group->members[member];
    uint64_t given = 0;
    struct nigh_source source;
    int rc;

    if (!has_come(call, member, &slot->head))
        return NULL;
    rc = nigh_source_open(of, slot, &call->shape, false, bytes, &source, &given);
    if (rc == -EMSGSIZE) {
        nigh_call_wrong_bytes(call, member, bytes, given);
        return NULL;
    }
    if (rc || source.lies > NIGH_LIES_WHOLE) {
        nigh_call_impossible(call, member);
        return NULL;
    }
    return bytes ? nigh_source_at(&source, of, 0, &bytes) : slot->payload;
}
