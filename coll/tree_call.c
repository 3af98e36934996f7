/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tree_call.c - a small call by domains: representatives take the input of their domains, show it to each other, make the
 * result out of all of it, and show that to their domains. nigh_tree_next() says which steps a member makes.
 */
#include "coll/call.h"
#include "coll/put.h"

#include <errno.h>
#include <string.h>

static bool has_root(const struct nigh_call *call)
{
    return call->what.op == NIGH_BROADCAST || call->what.op == NIGH_REDUCE;
}

static uint32_t root_of(const struct nigh_call *call)
{
    return has_root(call) ? call->what.root : NIGH_TREE_NO_ROOT;
}

static uint32_t representative(const struct nigh_call *call, uint32_t domain)
{
    return nigh_tree_representative(call->group->tree, domain, root_of(call));
}

static uint32_t home_of(const struct nigh_call *call)
{
    return call->group->tree->domain[call->shape.me];
}

/* Bytes of one vector: of what is reduced, or broadcast; of all blocks that are gathered. */
static uint64_t vector_of(const struct nigh_call *call)
{
    if (call->what.op == NIGH_ALLGATHER)
        return nigh_shape_all_blocks(&call->what, &call->shape);
    return call->what.op == NIGH_BROADCAST ? call->what.count * call->shape.width : call->shape.vector;
}

static enum nigh_tree_step next_step(const struct nigh_call *call, enum nigh_tree_step before)
{
    return nigh_tree_next(call->group->tree, call->what.op, root_of(call), call->shape.me, before);
}

static const uint8_t *domain_list(const struct nigh_call *call, uint32_t domain, uint32_t *count)
{
    const struct nigh_tree *tree = call->group->tree;

    *count = nigh_tree_size(tree, domain);
    return tree->order + tree->start[domain];
}

/* ---- begin --------------------------------------------------------------------------------------------- */

/* Its input, if it gives it to its representative; a representative keeps its own, and a root that broadcasts gives it to many. */
static void shape_for_begin(struct nigh_call *call)
{
    struct nigh_shape *shape = &call->shape;
    uint32_t whose = representative(call, home_of(call));

    shape->takes = shape->takes_out = shape->out_by = NIGH_WHOM_NONE;
    if (call->what.op == NIGH_BROADCAST)
        return;
    shape->root = whose;
    shape->taken_by = whose == shape->me ? NIGH_WHOM_NONE : NIGH_WHOM_ROOT;
}

void nigh_tree_choose(struct nigh_call *call)
{
    const struct nigh_tree *tree = call->group->tree;

    call->kind = nigh_tree_kind_of(tree, &call->what, vector_of(call));
    if (call->kind == NIGH_TREE_RELAY) {
        nigh_shape_relay(&call->shape, tree, call->what.op == NIGH_BROADCAST, vector_of(call));
        return;
    }
    if (call->kind == NIGH_TREE_NOT)
        return;
    shape_for_begin(call);
}

/* Of a domain, as its representative shows it. Behind the vectors: their factors. */
static uint64_t up_bytes(const struct nigh_call *call, uint32_t domain)
{
    uint64_t vectors = nigh_tree_size(call->group->tree, domain), each = vector_of(call);

    if (call->kind == NIGH_TREE_PARTIAL || !each)
        return each;
    return vectors * (each + (call->what.reduction == NIGH_PREMUL ? NIGH_FACTOR_BYTES : 0));
}

static struct nigh_domain_slot *own_slot(const struct nigh_call *call)
{
    struct nigh_domain_slot *slots = call->group->domain_slots;

    return slots ? &slots[call->number % NIGH_CALL_SLOTS] : NULL;
}

/* Where it puts what it shows: in its slot, or in a block. */
static int take_block(struct nigh_call *call)
{
    struct nigh_group *group = call->group;
    struct nigh_domain_slot *slot = own_slot(call);
    bool represents = representative(call, home_of(call)) == call->shape.me;
    uint64_t up = represents && call->what.op != NIGH_BROADCAST ? up_bytes(call, home_of(call)) : 0;
    uint64_t down = represents && call->what.op != NIGH_REDUCE ? vector_of(call) : 0, bytes;
    void *block;
    int rc;

    call->up = slot ? slot->up_payload : NULL;
    call->down = slot ? slot->down_payload : NULL;
    up = slot && up <= NIGH_UP_INLINE ? 0 : (up + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE;
    down = call->shape.me == root_of(call) || !slot || down <= NIGH_DOWN_INLINE ? 0 : down;
    bytes = up + down;
    if (!bytes)
        return 0;
    rc = nigh_stage_take(&group->stage, group->coll->heap, bytes, &block,
                         &group->mark[call->number % NIGH_CALL_SLOTS]);
    if (rc)
        return rc;
    if (up)
        call->up = block;
    if (down)
        call->down = (uint8_t *)block + up;
    return 0;
}

int nigh_tree_begin(struct nigh_call *call)
{
    if (call->kind == NIGH_TREE_RELAY) {
        nigh_relay_say_blocks(call);
        return 0;
    }
    call->step = next_step(call, NIGH_TREE_DONE);
    for (uint32_t i = 0; i < call->shape.members; i++)
        call->peers[i].seen = false;
    return take_block(call);
}

/* ---- up ------------------------------------------------------------------------------------------------ */

static const uint8_t *factor_of(const struct nigh_call *call, uint32_t member)
{
    return member == call->shape.me ? call->factor : nigh_call_of(call, member)->factor;
}

/* Into what its domain has given, in the order of the domain's members. */
static void keep_vector(struct nigh_call *call, uint32_t member, const uint8_t *from)
{
    const struct nigh_tree *tree = call->group->tree;
    uint64_t each = vector_of(call), size = nigh_tree_size(tree, home_of(call)), at = tree->position[member];

    call->peers[member].shown = from;
    if (!each || call->kind == NIGH_TREE_PARTIAL)
        return;
    memcpy(call->up + at * each, from, each);
    if (call->what.reduction == NIGH_PREMUL)
        memcpy(call->up + size * each + at * NIGH_FACTOR_BYTES, factor_of(call, member), call->shape.width);
}

/* The division, or the factors, are for one of two reductions. */
static void reduce_domain(struct nigh_call *call)
{
    const void *sources[NIGH_GROUP_MAX], *factors[NIGH_GROUP_MAX];
    enum nigh_atomic_op op = (enum nigh_atomic_op)call->what.reduction;
    uint32_t count;
    const uint8_t *members = domain_list(call, home_of(call), &count);

    for (uint32_t i = 0; i < count; i++) {
        sources[i] = call->peers[members[i]].shown;
        factors[i] = factor_of(call, members[i]);
    }
    nigh_call_fold(call, op == NIGH_AVG ? NIGH_SUM : op, sources, factors, count, vector_of(call), call->up);
}

static bool collect(struct nigh_call *call)
{
    uint32_t count, missing = 0;
    const uint8_t *members = domain_list(call, home_of(call), &count);

    for (uint32_t i = 0; i < count; i++)
        if (members[i] != call->shape.me && !call->peers[members[i]].seen)
            __builtin_prefetch(nigh_call_of(call, members[i]));
    for (uint32_t i = 0; i < count && call->group->state == NIGH_GROUP_READY; i++) {
        uint32_t member = members[i];
        const uint8_t *from;

        if (call->peers[member].seen)
            continue;
        from = member == call->shape.me ? call->shape.in : nigh_tree_input_of(call, member, vector_of(call));
        if (!from && member != call->shape.me) {
            missing++;
            continue;
        }
        keep_vector(call, member, from);
        call->peers[member].seen = true;
    }
    if (missing || call->group->state != NIGH_GROUP_READY)
        return false;
    if (call->kind == NIGH_TREE_PARTIAL && vector_of(call))
        reduce_domain(call);
    return true;
}

static uint64_t offset_of(const struct nigh_call *call, const uint8_t *block, const uint8_t *payload)
{
    return block == payload ? 0 : (uint64_t)(block - call->group->coll->arena->base);
}

static void tell_representatives(struct nigh_call *call)
{
    uint8_t list[NIGH_GROUP_MAX];
    uint32_t domains = call->group->tree->domains;

    for (uint32_t i = 0; i < domains; i++)
        list[i] = (uint8_t)representative(call, i);
    nigh_group_tell_these(call->group, list, domains);
}

static bool show_up(struct nigh_call *call)
{
    struct nigh_domain_slot *slot = own_slot(call);

    nigh_store_relaxed(&slot->up_where, offset_of(call, call->up, slot->up_payload));
    nigh_store_release(&slot->up, call->number << 32 | call->print, CALL_PUBLISH);
    if (call->what.op == NIGH_REDUCE)
        nigh_group_tell_some(call->group, call->what.root, call->what.root + 1);
    else
        tell_representatives(call);
    return true;
}

/* ---- across -------------------------------------------------------------------------------------------- */

static bool exchange(struct nigh_call *call)
{
    const struct nigh_tree *tree = call->group->tree;
    uint32_t home = home_of(call), missing = 0;

    for (uint32_t i = 0; i < tree->domains; i++) {
        const struct nigh_member *of = &call->group->members[representative(call, i)];

        if (i != home && of->domain_slots)
            __builtin_prefetch(&of->domain_slots[call->number % NIGH_CALL_SLOTS]);
    }
    for (uint32_t i = 0; i < tree->domains && call->group->state == NIGH_GROUP_READY; i++) {
        uint32_t member = representative(call, i);
        struct nigh_call_peer *peer = &call->peers[member];

        if (i == home || peer->seen)
            continue;
        peer->shown = nigh_tree_shown_by(call, member, true, up_bytes(call, i));
        peer->seen = peer->shown != NULL;
        missing += !peer->seen;
    }
    return !missing && call->group->state == NIGH_GROUP_READY;
}

/* The input of a domain, as its representative shows it. */
static const uint8_t *given_by(const struct nigh_call *call, uint32_t domain)
{
    return domain == home_of(call) ? call->up : call->peers[representative(call, domain)].shown;
}

static bool finish(struct nigh_call *call)
{
    const void *sources[NIGH_GROUP_MAX], *factors[NIGH_GROUP_MAX];
    const struct nigh_tree *tree = call->group->tree;
    enum nigh_atomic_op op = (enum nigh_atomic_op)call->what.reduction;
    uint64_t each = vector_of(call);
    uint32_t count = call->kind == NIGH_TREE_PARTIAL ? tree->domains : tree->members;

    if (!each)
        return true;
    if (call->kind == NIGH_TREE_PARTIAL && op == NIGH_PREMUL)
        op = NIGH_SUM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t domain = call->kind == NIGH_TREE_PARTIAL ? i : tree->domain[i];
        const uint8_t *from = given_by(call, domain);

        sources[i] = call->kind == NIGH_TREE_PARTIAL ? from : from + tree->position[i] * each;
        factors[i] = from + nigh_tree_size(tree, domain) * each + tree->position[i] * NIGH_FACTOR_BYTES;
    }
    nigh_call_fold(call, op, sources, factors, count, each, call->to);
    return true;
}

/* ---- down ---------------------------------------------------------------------------------------------- */

static bool take_result(struct nigh_call *call, const uint8_t *from)
{
    if (from && vector_of(call))
        memcpy(call->to, from, vector_of(call));
    return from != NULL;
}

static bool from_root(struct nigh_call *call)
{
    return take_result(call, nigh_tree_input_of(call, call->what.root, vector_of(call)));
}

static bool from_representative(struct nigh_call *call)
{
    return take_result(call,
                       nigh_tree_shown_by(call, representative(call, home_of(call)), false, vector_of(call)));
}

static bool show_down(struct nigh_call *call)
{
    struct nigh_domain_slot *slot = own_slot(call);
    uint32_t count;
    const uint8_t *members = domain_list(call, home_of(call), &count);

    if (vector_of(call))
        nigh_put(call->group->coll, call->down, call->to, vector_of(call));
    nigh_store_relaxed(&slot->down_where, offset_of(call, call->down, slot->down_payload));
    nigh_store_release(&slot->down, call->number << 32 | call->print, CALL_PUBLISH);
    nigh_group_tell_these(call->group, members, count);
    return true;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* False: not yet. */
static bool make_step(struct nigh_call *call)
{
    switch (call->step) {
    case NIGH_TREE_COLLECT:
        return collect(call);
    case NIGH_TREE_SHOW_UP:
        return show_up(call);
    case NIGH_TREE_EXCHANGE:
        return exchange(call);
    case NIGH_TREE_FINISH:
        return finish(call);
    case NIGH_TREE_FROM_ROOT:
        return from_root(call);
    case NIGH_TREE_SHOW_DOWN:
        return show_down(call);
    default:
        return from_representative(call);
    }
}

bool nigh_tree_take(struct nigh_call *call)
{
    bool moved = false;

    while (call->step != NIGH_TREE_DONE && make_step(call)) {
        call->step = next_step(call, call->step);
        moved = true;
    }
    return moved || call->group->state != NIGH_GROUP_READY;
}

bool nigh_tree_waits_for(const struct nigh_call *call, uint32_t member)
{
    const struct nigh_tree *tree = call->group->tree;
    uint32_t domain = tree->domain[member], home = home_of(call);

    switch (call->step) {
    case NIGH_TREE_COLLECT:
        return domain == home && !call->peers[member].seen;
    case NIGH_TREE_EXCHANGE:
        return domain != home && representative(call, domain) == member && !call->peers[member].seen;
    case NIGH_TREE_FROM_ROOT:
        return member == call->what.root;
    case NIGH_TREE_FROM_REPRESENTATIVE:
        return member == representative(call, home);
    default:
        return false;
    }
}
