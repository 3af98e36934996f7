/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/shape.c - see shape.h. */
#include "coll/shape.h"

#include "coll/fold.h"

#define STREAM_LEAST 65536u
#define STREAM_MOST  262144u
/* Up to so many bytes, and in groups of fewer, each member that wants the result reduces the whole vector: one step. Else it is
 * shared out: two steps, and less to read. */
#define ALONE_BYTES   4096u
#define ALONE_MEMBERS 4u

/* Which members take whose bytes, for the root and for others. */
struct form {
    enum nigh_whom root_takes, takes, root_taken_by, taken_by;
    bool by_parts, folds;
};

static const struct form forms[] = {
    [NIGH_BARRIER] = {NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, false, false},
    [NIGH_BROADCAST] = {NIGH_WHOM_NONE, NIGH_WHOM_ROOT, NIGH_WHOM_ALL, NIGH_WHOM_NONE, false, false},
    [NIGH_REDUCE] = {NIGH_WHOM_ALL, NIGH_WHOM_NONE, NIGH_WHOM_NONE, NIGH_WHOM_ROOT, false, true},
    [NIGH_ALLREDUCE] = {NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, false, true},
    [NIGH_GATHER] = {NIGH_WHOM_ALL, NIGH_WHOM_NONE, NIGH_WHOM_NONE, NIGH_WHOM_ROOT, false, false},
    [NIGH_SCATTER] = {NIGH_WHOM_NONE, NIGH_WHOM_ROOT, NIGH_WHOM_ALL, NIGH_WHOM_NONE, true, false},
    [NIGH_ALLGATHER] = {NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, false, false},
    [NIGH_ALLTOALL] = {NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, true, false},
    [NIGH_REDUCE_SCATTER] = {NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, NIGH_WHOM_ALL, false, true},
    [NIGH_SCAN] = {NIGH_WHOM_BEFORE, NIGH_WHOM_BEFORE, NIGH_WHOM_BEHIND, NIGH_WHOM_BEHIND, false, true},
    [NIGH_EXSCAN] = {NIGH_WHOM_BEFORE, NIGH_WHOM_BEFORE, NIGH_WHOM_BEHIND, NIGH_WHOM_BEHIND, false, true},
};

/* Entry `at` of blocks that are described so, in elements of `width`. */
static struct nigh_part block(uint64_t count, const uint64_t *counts, const uint64_t *offsets, uint64_t width,
                              uint32_t at)
{
    uint64_t offset = 0;

    if (!counts)
        return (struct nigh_part){.offset = at * count * width, .bytes = count * width};
    if (offsets)
        return (struct nigh_part){.offset = offsets[at] * width, .bytes = counts[at] * width};
    for (uint32_t i = 0; i < at; i++)
        offset += counts[i];
    return (struct nigh_part){.offset = offset * width, .bytes = counts[at] * width};
}

static uint64_t blocks_bytes(uint64_t count, const uint64_t *counts, uint32_t members, uint64_t width)
{
    uint64_t sum = 0;

    if (!counts)
        return count * members * width;
    for (uint32_t i = 0; i < members; i++)
        sum += counts[i];
    return sum * width;
}

static bool sends_as_it_receives(const struct nigh_collective *call)
{
    return call->op == NIGH_ALLTOALL && call->flags & NIGH_COLLECTIVE_IN_PLACE;
}

struct nigh_part nigh_shape_part_for(const struct nigh_collective *call, const struct nigh_shape *shape,
                                     uint32_t member)
{
    if (!shape->by_parts)
        return (struct nigh_part){.bytes = shape->in_bytes};
    if (sends_as_it_receives(call))
        return block(call->count, call->recv_counts, call->recv_offsets, shape->width, member);
    return block(call->count, call->send_counts, call->send_offsets, shape->width, member);
}

struct nigh_part nigh_shape_part_of(const struct nigh_collective *call, const struct nigh_shape *shape,
                                    uint32_t member)
{
    switch (call->op) {
    case NIGH_BARRIER:
        return (struct nigh_part){.bytes = 0};
    case NIGH_BROADCAST:
    case NIGH_SCATTER:
        return (struct nigh_part){.bytes = call->count * shape->width};
    case NIGH_GATHER:
    case NIGH_ALLGATHER:
    case NIGH_ALLTOALL:
        return block(call->count, call->recv_counts, call->recv_offsets, shape->width, member);
    default:
        return (struct nigh_part){.bytes = shape->vector};
    }
}

uint64_t nigh_shape_stream(uint32_t members)
{
    uint64_t bytes = (uint64_t)members * 32768;

    return bytes < STREAM_LEAST ? STREAM_LEAST : bytes > STREAM_MOST ? STREAM_MOST : bytes;
}

uint64_t nigh_shape_unit(const struct nigh_shape *shape)
{
    uint64_t bytes = nigh_shape_stream(shape->members);

    if (shape->relays)
        return NIGH_RELAY_BYTES;
    /* In a call that only moves blocks, members may have other types, so the unit is in bytes. */
    if (!shape->folds)
        return bytes;
    return shape->width > bytes ? shape->width : bytes - bytes % shape->width;
}

/* In whole lines where elements are no longer, so that no line has two writers. */
static struct nigh_part share_of(const struct nigh_shape *shape, uint64_t begin, uint64_t end,
                                 uint32_t member)
{
    uint64_t grain = NIGH_LINE % shape->width ? shape->width : NIGH_LINE;
    uint64_t grains = (end - begin + grain - 1) / grain;
    uint64_t first = begin + grains * member / shape->members * grain;
    uint64_t last = begin + grains * (member + 1) / shape->members * grain;

    last = last < end ? last : end;
    return (struct nigh_part){.offset = first < last ? first : last,
                              .bytes = first < last ? last - first : 0};
}

struct nigh_part nigh_shape_share(const struct nigh_shape *shape, uint64_t unit, uint32_t member)
{
    uint64_t length = nigh_shape_unit(shape), begin = unit * length;
    uint64_t end = begin + length < shape->vector ? begin + length : shape->vector;

    return share_of(shape, begin, end, member);
}

static uint64_t in_bytes_of(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    switch (call->op) {
    case NIGH_BARRIER:
        return 0;
    case NIGH_REDUCE_SCATTER:
        return blocks_bytes(call->count, call->recv_counts, shape->members, shape->width);
    case NIGH_SCATTER:
    case NIGH_ALLTOALL:
        return sends_as_it_receives(call)
                   ? blocks_bytes(call->count, call->recv_counts, shape->members, shape->width)
                   : blocks_bytes(call->count, call->send_counts, shape->members, shape->width);
    default:
        return call->count * shape->width;
    }
}

/* Where this member's `in` lies, in place or not. */
static const uint8_t *in_of(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    bool rooted = call->op == NIGH_REDUCE || call->op == NIGH_GATHER;

    if (!(call->flags & NIGH_COLLECTIVE_IN_PLACE) || call->op == NIGH_SCATTER ||
        (rooted && shape->me != shape->root))
        return call->send;
    if (call->op == NIGH_GATHER || call->op == NIGH_ALLGATHER)
        return call->recv ? (const uint8_t *)call->recv + nigh_shape_part_of(call, shape, shape->me).offset
                          : NULL;
    return call->recv;
}

static bool has_result(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    if (call->op == NIGH_BARRIER || (call->op == NIGH_EXSCAN && shape->me == 0))
        return false;
    if (call->op == NIGH_SCATTER && shape->me == shape->root)
        return !shape->in_place;
    if (call->op == NIGH_BROADCAST && shape->me == shape->root)
        return !shape->in_place && call->recv;
    return (call->op != NIGH_REDUCE && call->op != NIGH_GATHER) || shape->me == shape->root;
}

static void shape_reduction(const struct nigh_collective *call, struct nigh_shape *shape)
{
    bool rooted = call->op == NIGH_REDUCE, all = call->op == NIGH_ALLREDUCE;

    shape->folds = true;
    shape->folds_own = call->op != NIGH_EXSCAN;
    shape->vector = shape->in_bytes;
    shape->to = shape->vector;
    if (call->op == NIGH_REDUCE_SCATTER) {
        struct nigh_part own = block(call->count, call->recv_counts, NULL, shape->width, shape->me);

        shape->from = own.offset;
        shape->to = own.offset + own.bytes;
    }
    if ((!rooted && !all) || shape->vector <= ALONE_BYTES || shape->members < ALONE_MEMBERS)
        return;
    shape->shared_out = true;
    shape->takes = shape->taken_by = NIGH_WHOM_ALL;
    shape->takes_out = all || shape->me == shape->root ? NIGH_WHOM_ALL : NIGH_WHOM_NONE;
    shape->out_by = all ? NIGH_WHOM_ALL : NIGH_WHOM_ROOT;
}

/* Is recv read by others while the result is made? */
static bool is_read_meanwhile(const struct nigh_shape *shape)
{
    return shape->in_place && shape->keeps && shape->taken_by != NIGH_WHOM_NONE &&
           shape->in_bytes > NIGH_CALL_COPIED;
}

static bool takes_in_order(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    return (call->op == NIGH_ALLREDUCE && !shape->shared_out) || call->op == NIGH_SCAN ||
           call->op == NIGH_EXSCAN;
}

void nigh_shape_make(const struct nigh_collective *call, uint32_t members, uint32_t me,
                     struct nigh_shape *out)
{
    const struct form *form = &forms[call->op];
    bool is_root = me == call->root;
    struct nigh_shape shape = {
        .members = members,
        .me = me,
        .root = call->root,
        .takes = is_root ? form->root_takes : form->takes,
        .taken_by = is_root ? form->root_taken_by : form->taken_by,
        .by_parts = form->by_parts,
        .in_place = call->flags & NIGH_COLLECTIVE_IN_PLACE,
        .width = call->type == NIGH_OPAQUE ? call->width : nigh_type_bytes(call->type),
    };

    if (!shape.width) /* a barrier has no type */
        shape.width = 1;
    if (shape.taken_by != NIGH_WHOM_NONE || form->folds || call->op == NIGH_GATHER)
        shape.in_bytes = in_bytes_of(call, &shape);
    shape.parts_differ =
        shape.by_parts && (sends_as_it_receives(call) ? call->recv_counts : call->send_counts);
    shape.in = in_of(call, &shape);
    shape.keeps = has_result(call, &shape);
    shape.result = shape.keeps ? call->recv : NULL;
    if (form->folds)
        shape_reduction(call, &shape);
    shape.moves_down = call->op == NIGH_REDUCE_SCATTER && shape.in_place && shape.from != 0;
    shape.collides =
        is_read_meanwhile(&shape) && (call->op == NIGH_ALLTOALL || call->op == NIGH_REDUCE_SCATTER);
    shape.returns = is_read_meanwhile(&shape) && takes_in_order(call, &shape);
    *out = shape;
}

/* ---- by domains ---------------------------------------------------------------------------------------- */

/* The member of a domain that takes the bytes of `source`, a member of another domain, for all of its own. */
static uint32_t relayer(const struct nigh_shape *shape, uint32_t domain, uint32_t source)
{
    const struct nigh_tree *tree = shape->tree;

    if (shape->broadcasts)
        return nigh_tree_representative(tree, domain, shape->root);
    return tree->order[tree->start[domain] + source % nigh_tree_size(tree, domain)];
}

bool nigh_shape_relays(const struct nigh_shape *shape, uint32_t member, uint32_t source)
{
    uint32_t domain = shape->tree->domain[member];

    return shape->tree->domain[source] != domain && (!shape->broadcasts || source == shape->root) &&
           relayer(shape, domain, source) == member;
}

void nigh_shape_relay(struct nigh_shape *shape, const struct nigh_tree *tree, bool broadcasts, uint64_t bytes)
{
    uint32_t home = tree->domain[shape->me];
    bool several = nigh_tree_size(tree, home) > 1, near;

    shape->tree = tree;
    shape->relays = shape->shared_out = true;
    shape->broadcasts = broadcasts;
    shape->vector = bytes;
    shape->takes = shape->taken_by = shape->takes_out = shape->out_by = NIGH_WHOM_NONE;
    near = broadcasts && tree->domain[shape->root] == home;
    if (!broadcasts || shape->me == shape->root)
        shape->taken_by = NIGH_WHOM_TAKERS;
    if (!broadcasts || (shape->me != shape->root && (near || relayer(shape, home, shape->root) == shape->me)))
        shape->takes = NIGH_WHOM_SOURCES;
    if (several && !near && (!broadcasts || relayer(shape, home, shape->root) == shape->me))
        shape->out_by = NIGH_WHOM_DOMAIN;
    if (several && !near && (!broadcasts || relayer(shape, home, shape->root) != shape->me))
        shape->takes_out = NIGH_WHOM_RELAYERS;
}

static bool takes_of(const struct nigh_shape *shape, uint32_t member, uint32_t source)
{
    if (shape->tree->domain[member] == shape->tree->domain[source])
        return !shape->broadcasts || source == shape->root;
    return nigh_shape_relays(shape, member, source);
}

bool nigh_shape_has_by_tree(const struct nigh_shape *shape, enum nigh_whom whom, uint32_t member)
{
    bool near = shape->tree->domain[member] == shape->tree->domain[shape->me];

    if (member == shape->me)
        return false;
    if (whom == NIGH_WHOM_TAKERS)
        return takes_of(shape, member, shape->me);
    if (whom == NIGH_WHOM_SOURCES)
        return takes_of(shape, shape->me, member);
    return near &&
           (whom == NIGH_WHOM_DOMAIN || !shape->broadcasts || nigh_shape_relays(shape, member, shape->root));
}

struct nigh_part nigh_shape_packed(const struct nigh_collective *call, const struct nigh_shape *shape,
                                   uint32_t member)
{
    if (shape->broadcasts)
        return (struct nigh_part){.bytes = shape->vector};
    return block(call->count, call->recv_counts, NULL, shape->width, member);
}

uint64_t nigh_shape_all_blocks(const struct nigh_collective *call, const struct nigh_shape *shape)
{
    return blocks_bytes(call->count, call->recv_counts, shape->members, shape->width);
}
