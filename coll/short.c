/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/short.c - short calls: the input of each member rides in its slot, in a form that all know from their own arguments. So a
 * member looks for two words in the others' slots and takes what lies behind them. A slot that says anything else makes the call
 * an ordinary one. */
#include "coll/short.h"
#include "coll/fold.h"

#include <errno.h>

/* Slots that are asked for together: each look goes on by what it finds. */
#define ASKED 8u

/* ---- what follows from the arguments ------------------------------------------------------------------- */

/* Bytes that each member gives whose input this one takes. */
static uint64_t given_bytes(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t bytes = nigh_shape_part_of(&call->what, shape, shape->me).bytes;

    return shape->by_parts ? shape->members * bytes : bytes;
}

static bool is_short(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;

    if (call->kind != NIGH_TREE_NOT)
        return false;
    if (shape->folds && (call->what.reduction == NIGH_FUNCTION || call->what.reduction == NIGH_PREMUL))
        return false;
    return call->is_kept && shape->members > 1 && shape->in_bytes <= NIGH_CALL_INLINE &&
           given_bytes(call) <= NIGH_CALL_INLINE && !shape->shared_out && !shape->moves_down;
}

/* The members whose input this one takes, without itself. */
static void set_members(const struct nigh_shape *shape, struct nigh_short *out)
{
    switch (shape->takes) {
    case NIGH_WHOM_ROOT:
        out->begin = shape->root;
        out->end = shape->root + 1;
        break;
    case NIGH_WHOM_ALL:
        out->end = shape->members;
        break;
    case NIGH_WHOM_BEFORE:
        out->end = shape->me;
        break;
    default:
        break;
    }
}

void nigh_short_form(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    uint64_t given, first_line = NIGH_LINE - offsetof(struct nigh_call_slot, payload);
    struct nigh_short out = {.is = is_short(call)};

    if (out.is) {
        given = given_bytes(call);
        set_members(shape, &out);
        out.word = given << 8 | (given ? NIGH_LIES_INLINE : NIGH_LIES_NOWHERE);
        if (given > first_line)
            out.lines = (uint32_t)((given - first_line + NIGH_LINE - 1) / NIGH_LINE);
    }
    if (out.is && shape->folds && shape->keeps)
        out.kernel = nigh_fold_select(call->what.type, call->what.reduction);
    if (out.is && !shape->folds && shape->result) {
        out.part = nigh_shape_part_of(&call->what, shape, 0).bytes;
        out.stride = nigh_shape_part_of(&call->what, shape, 1).offset;
        out.at = shape->by_parts ? shape->me * out.part : 0;
    }
    call->brief = out;
}

/* ---- the call ------------------------------------------------------------------------------------------ */

void nigh_short_show(const struct nigh_call *call, struct nigh_call_slot *slot)
{
    const struct nigh_shape *shape = &call->shape;

    if (call->lies == NIGH_LIES_INLINE)
        nigh_copy_small(slot->payload, shape->in, shape->in_bytes);
    nigh_store_relaxed(&slot->bytes, shape->in_bytes << 8 | call->lies);
}

static inline void own_line(void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0"
                     :
                     : "m"(*(uint8_t *)line)); /* compilers make it a read without -mprfchw */
#else
    __builtin_prefetch(line, 1);
#endif
}

void nigh_short_own_next(const struct nigh_call *call)
{
    uint8_t *next = (uint8_t *)nigh_group_slot(call->group, call->number + 1);

    own_line(next);
    for (uint32_t i = 1; call->lies == NIGH_LIES_INLINE && i <= call->brief.lines; i++)
        own_line(next + i * NIGH_LINE);
}

void nigh_short_copy_own(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    const struct nigh_short *brief = &call->brief;

    if (brief->part && shape->in_bytes && !shape->in_place)
        nigh_copy_small(shape->result + shape->me * brief->stride, shape->in + brief->at, brief->part);
}

static void ask_for(const struct nigh_call *call, uint32_t member)
{
    const uint8_t *slot = (const void *)nigh_call_of(call, member);

    for (uint32_t i = 0; i <= call->brief.lines; i++)
        __builtin_prefetch(slot + i * NIGH_LINE);
}

/* In the order of the members. */
static void reduce(const struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    const struct nigh_fold_more more = {.ranks = shape->members};
    const void *sources[NIGH_GROUP_MAX];
    uint32_t count = 0, end = call->brief.end > shape->me ? call->brief.end : shape->me + 1;

    for (uint32_t i = call->brief.begin; i < end; i++)
        if (i != shape->me)
            sources[count++] = nigh_call_of(call, i)->payload + shape->from;
        else if (shape->folds_own)
            sources[count++] = shape->in + shape->from;
    call->brief.kernel(shape->result, sources, count, (shape->to - shape->from) / shape->width, &more);
}

/* The member has not come. Or it is another call's slot, gives something else, or has ended: the ordinary way says so. */
static void wait_for(struct nigh_call *call, uint32_t member, uint64_t head)
{
    call->next_member = member;
    if ((uint32_t)(head >> 32) == (uint32_t)call->number || call->group->members[member].ended)
        nigh_call_widen(call);
    else if (call->brief.lines)
        ask_for(call, member);
}

bool nigh_short_take(struct nigh_call *call)
{
    const struct nigh_shape *shape = &call->shape;
    const struct nigh_short *brief = &call->brief;
    uint64_t wanted = call->number << 32 | call->print;
    uint32_t asked = 0;

    for (uint32_t i = call->next_member; i < brief->end; i++) {
        const struct nigh_call_slot *slot;
        uint64_t head;

        if (i == shape->me)
            continue;
        slot = nigh_call_of(call, i);
        head = nigh_load_acquire(&slot->head, CALL_PEEK);
        if (head != wanted || nigh_load_relaxed(&slot->bytes) != brief->word) {
            wait_for(call, i, head);
            return false;
        }
        /* Not before one has come: lines that are asked for too early come twice, and their writers wait for them. */
        for (asked = asked > i ? asked : i + 1; asked < brief->end && asked <= i + ASKED; asked++)
            if (asked != shape->me)
                ask_for(call, asked);
        if (brief->part)
            nigh_copy_small(shape->result + i * brief->stride, slot->payload + brief->at, brief->part);
    }
    if (brief->kernel)
        reduce(call);
    return true;
}
