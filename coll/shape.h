/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/shape.h - what a call means for one member: whose bytes it takes, who takes its own, where they lie, what is reduced.
 * Pure functions of the call, the size of the group and the member's place. All that moves data follows the shape and
 * knows no operation by name.
 */
#ifndef NIGH_COLL_SHAPE_H
#define NIGH_COLL_SHAPE_H

#include "coll/board.h"
#include "coll/tree.h"
#include "nigh/transport.h"
#include <stdbool.h>

/* Up to so many bytes `in` is always copied. */
#define NIGH_CALL_COPIED 8192u
/* Bytes that a member that relays shows at a time. */
#define NIGH_RELAY_BYTES 32768u

/* Members, as seen by one. */
enum nigh_whom {
    NIGH_WHOM_NONE = 0,
    NIGH_WHOM_ROOT,   /* unless it is the root itself */
    NIGH_WHOM_ALL,    /* all others */
    NIGH_WHOM_BEFORE, /* all with a lower place */
    NIGH_WHOM_BEHIND, /* all with a higher place */
    /* Of a call that relays: */
    NIGH_WHOM_TAKERS,   /* its domain, and those of other domains that take its bytes for theirs */
    NIGH_WHOM_SOURCES,  /* its domain, and those of other domains whose bytes it takes for its own */
    NIGH_WHOM_DOMAIN,   /* all others of its domain */
    NIGH_WHOM_RELAYERS, /* those of its domain that show what they take of others */
};

struct nigh_shape {
    uint32_t members, me, root;
    enum nigh_whom takes;     /* whose `in` this member takes */
    enum nigh_whom taken_by;  /* who takes its `in`; NONE: it gives nothing */
    enum nigh_whom takes_out; /* whose part of the result it takes: reductions that are shared out */
    enum nigh_whom out_by;    /* who takes its part of the result */
    bool by_parts;            /* its `in` has a part for each member */
    bool parts_differ;        /* of different lengths, or not behind each other */
    bool folds;               /* what it takes is reduced */
    bool folds_own;           /* its own `in`, too */
    bool shared_out;          /* each member reduces a part of each unit */
    bool relays; /* what comes from another domain comes to one member of this, which shows it to the rest */
    bool broadcasts; /* it comes from the root alone */
    bool keeps;      /* it has a place for the result */
    bool in_place;
    /* What it writes may be what others still read of its `in`: */
    bool collides;     /* anywhere, so that it comes to recv when they are done */
    bool returns;      /* at the same place, so that it comes there unit by unit */
    bool moves_down;   /* its result goes to recv below its own `in`, which a kernel may not overlap */
    uint64_t width;    /* of an element */
    uint64_t in_bytes; /* of its `in`, all parts */
    uint64_t vector;   /* bytes of what is reduced */
    uint64_t from, to; /* of that, in bytes: what this member reduces, where it is not shared out */
    const struct nigh_tree *tree; /* of a call that relays */
    const uint8_t *in;            /* NULL: it has none */
    uint8_t *result;              /* recv; NULL: it has none */
};

/* `call` has passed nigh_call_check(). */
void nigh_shape_make(const struct nigh_collective *call, uint32_t members, uint32_t me,
                     struct nigh_shape *out);

/* Of a broadcast or an allgather in a group with domains; `bytes` of all blocks together. */
void nigh_shape_relay(struct nigh_shape *shape, const struct nigh_tree *tree, bool broadcasts,
                      uint64_t bytes);
/* Does `member` take the bytes of `source` for its domain? */
bool nigh_shape_relays(const struct nigh_shape *shape, uint32_t member, uint32_t source);
/* Bytes of all blocks that come to recv. */
uint64_t nigh_shape_all_blocks(const struct nigh_collective *call, const struct nigh_shape *shape);
/* The block of `member` where all blocks lie behind each other. */
struct nigh_part nigh_shape_packed(const struct nigh_collective *call, const struct nigh_shape *shape,
                                   uint32_t member);
/* As nigh_shape_has(), of the members that a tree says. */
bool nigh_shape_has_by_tree(const struct nigh_shape *shape, enum nigh_whom whom, uint32_t member);

/* Is `member` among them? */
static inline bool nigh_shape_has(const struct nigh_shape *shape, enum nigh_whom whom, uint32_t member)
{
    switch (whom) {
    case NIGH_WHOM_ROOT:
        return member == shape->root && member != shape->me;
    case NIGH_WHOM_ALL:
        return member != shape->me;
    case NIGH_WHOM_BEFORE:
        return member < shape->me;
    case NIGH_WHOM_BEHIND:
        return member > shape->me;
    case NIGH_WHOM_NONE:
        return false;
    default:
        return nigh_shape_has_by_tree(shape, whom, member);
    }
}

/* The part of this member's `in` for `member`; where in `recv` the bytes of `member` go, and how many are expected. */
struct nigh_part nigh_shape_part_for(const struct nigh_collective *call, const struct nigh_shape *shape,
                                     uint32_t member);
struct nigh_part nigh_shape_part_of(const struct nigh_collective *call, const struct nigh_shape *shape,
                                    uint32_t member);

/* How long bytes are cut, in a group of so many: a unit of a stream that has parts, */
uint64_t nigh_shape_stream(uint32_t members);
/* how much of each part it has; */
static inline uint64_t nigh_shape_piece(uint32_t members)
{
    return nigh_shape_stream(members) / members / NIGH_LINE * NIGH_LINE;
}
/* and a unit of all others, in whole elements where they are reduced. */
uint64_t nigh_shape_unit(const struct nigh_shape *shape);

/* Which bytes of unit `unit` of a vector `member` reduces. */
struct nigh_part nigh_shape_share(const struct nigh_shape *shape, uint64_t unit, uint32_t member);

#endif
